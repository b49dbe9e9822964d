"""ExternalOptimizerInterface, ScipyOptimizerInterface: a loss minimized outside of the graph, by a function of vectors.

Each evaluation is a step: the vector is put into the variables, the loss and its gradient come back.
Called by: programs.  Threads: the caller's.
Source: behaviour of TF 1.15's contrib/opt
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.graph.convert import convert
from headrace.graph.gradients import gradients
from headrace.graph.scopes import get_default_session
from headrace.graph.tensor import Tensor
from headrace.library.variables.variable_lists import trainable_variables
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.placeholders import placeholder
from headrace.ops.array.shapes import reshape
from headrace.ops.flow.identities import group
from headrace.training import logging

__all__ = ["ExternalOptimizerInterface", "ScipyOptimizerInterface"]

Array = np.ndarray[Any, Any]


class ExternalOptimizerInterface:
    """Base of optimizers outside of the graph; a subclass has `_minimize`."""

    def __init__(
        self,
        loss: Any,
        var_list: Sequence[Any] | None = None,
        equalities: Sequence[Any] | None = None,
        inequalities: Sequence[Any] | None = None,
        var_to_bounds: Mapping[Any, tuple[Any, Any]] | None = None,
        **optimizer_kwargs: Any,
    ) -> None:
        """loss: a scalar.  var_list: what is changed, all trainable variables without it.

        equalities, inequalities: tensors that are to be 0, or not negative.  var_to_bounds: (lowest, highest), numbers
        or arrays that broadcast to the variable.  optimizer_kwargs: for `_minimize`.
        """
        self._loss = loss
        self._equalities = list(equalities or [])
        self._inequalities = list(inequalities or [])
        self._vars = list(trainable_variables() if var_list is None else var_list)
        self._feeds = [placeholder(v.dtype.base_dtype, v.shape) for v in self._vars]
        self._assign = group(
            *[v.assign(fed) for v, fed in zip(self._vars, self._feeds, strict=True)]
        )
        sizes = [int(np.prod(v.shape.as_list())) for v in self._vars]
        ends = np.cumsum(sizes).tolist()
        self._slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._bounds = None if var_to_bounds is None else self._spread(var_to_bounds)
        self._gradient = self._packed(loss)
        self._equality_gradients = [self._packed(each) for each in self._equalities]
        self._inequality_gradients = [self._packed(each) for each in self._inequalities]
        self.optimizer_kwargs = optimizer_kwargs

    def _packed(self, value: Any) -> Tensor:
        found = [
            zeros_like(v) if grad is None else convert(grad)
            for grad, v in zip(gradients(value, self._vars), self._vars, strict=True)
        ]
        return concat([reshape(each, [-1]) for each in found], 0)

    def _spread(self, given: Mapping[Any, tuple[Any, Any]]) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        by_op = {var.op: bounds for var, bounds in given.items()}
        for var in self._vars:
            pair = by_op.get(var.op, (-np.inf, np.inf))
            low, high = (np.broadcast_to(each, var.shape.as_list()).ravel() for each in pair)
            found += zip(low.tolist(), high.tolist(), strict=True)
        return found

    def minimize(
        self,
        session: Any = None,
        feed_dict: Mapping[Any, Any] | None = None,
        fetches: Sequence[Any] | None = None,
        step_callback: Callable[[Array], None] | None = None,
        loss_callback: Callable[..., None] | None = None,
        **run_kwargs: Any,
    ) -> None:
        """Change the variables until the optimizer is content.  Blocks.

        feed_dict: of all steps.  fetches: given to loss_callback, at each evaluation.  step_callback: gets the vector
        after each iteration.  run_kwargs: of session.run.
        """
        session = session or get_default_session()
        fed = dict(feed_dict or {})
        more = list(fetches or [])

        def at(fetched: list[Any], callback: Any) -> Callable[[Array], list[Array]]:
            def evaluate(x: Array) -> list[Array]:
                session.run(self._assign, self._unpacked(x))
                found = session.run([*fetched, *more], fed, **run_kwargs)
                if callback is not None:
                    callback(*found[len(fetched) :])
                return [np.asarray(each, np.float64) for each in found[: len(fetched)]]

            return evaluate

        start = session.run(self._vars)
        packed = np.concatenate([np.asarray(each, np.float64).ravel() for each in start])
        ends = self._minimize(
            initial_val=packed,
            loss_grad_func=at([self._loss, self._gradient], loss_callback),
            equality_funcs=[at([each], None) for each in self._equalities],
            equality_grad_funcs=[at([each], None) for each in self._equality_gradients],
            inequality_funcs=[at([each], None) for each in self._inequalities],
            inequality_grad_funcs=[at([each], None) for each in self._inequality_gradients],
            packed_bounds=self._bounds,
            step_callback=step_callback,
            optimizer_kwargs=self.optimizer_kwargs,
        )
        session.run(self._assign, self._unpacked(ends))

    def _unpacked(self, x: Array) -> dict[Any, Array]:
        pieces = zip(self._feeds, self._slices, self._vars, strict=True)
        return {
            fed: x[part].reshape(v.shape.as_list()).astype(v.dtype.base_dtype.as_numpy_dtype)
            for fed, part, v in pieces
        }

    def _minimize(
        self,
        initial_val: Array,
        loss_grad_func: Callable[[Array], list[Array]],
        equality_funcs: Sequence[Callable[[Array], list[Array]]],
        equality_grad_funcs: Sequence[Callable[[Array], list[Array]]],
        inequality_funcs: Sequence[Callable[[Array], list[Array]]],
        inequality_grad_funcs: Sequence[Callable[[Array], list[Array]]],
        packed_bounds: Sequence[tuple[float, float]] | None,
        step_callback: Callable[[Array], None] | None,
        optimizer_kwargs: Mapping[str, Any],
    ) -> Array:
        """The vector at the minimum, from initial_val on.  Functions give lists: [loss, gradient], or of one array."""
        raise NotImplementedError(
            "To use ExternalOptimizerInterface, subclass from it and implement the _minimize() method."
        )


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """By scipy.optimize.minimize, with L-BFGS-B, or SLSQP where there are constraints.

    SciPy is not installed with headrace: without it `minimize` raises an ImportError.
    """

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(
        self,
        initial_val: Array,
        loss_grad_func: Callable[[Array], list[Array]],
        equality_funcs: Sequence[Callable[[Array], list[Array]]],
        equality_grad_funcs: Sequence[Callable[[Array], list[Array]]],
        inequality_funcs: Sequence[Callable[[Array], list[Array]]],
        inequality_grad_funcs: Sequence[Callable[[Array], list[Array]]],
        packed_bounds: Sequence[tuple[float, float]] | None,
        step_callback: Callable[[Array], None] | None,
        optimizer_kwargs: Mapping[str, Any],
    ) -> Array:
        try:
            optimize = importlib.import_module("scipy.optimize")
        except ImportError:
            raise ImportError(
                "ScipyOptimizerInterface minimizes by SciPy, which is not installed: pip install scipy"
            ) from None
        constraints = []
        for kind, functions, slopes in (
            ("eq", equality_funcs, equality_grad_funcs),
            ("ineq", inequality_funcs, inequality_grad_funcs),
        ):
            for function, slope in zip(functions, slopes, strict=True):
                constraints.append({"type": kind, "fun": _first(function), "jac": _first(slope)})
        given: dict[str, Any] = {"method": "SLSQP" if constraints else self._DEFAULT_METHOD}
        given |= {"bounds": packed_bounds, "callback": step_callback, **optimizer_kwargs}
        if constraints:
            given["constraints"] = constraints

        def loss_and_gradient(x: Array) -> tuple[float, Array]:
            loss, gradient = loss_grad_func(x)
            return float(loss), gradient

        result = optimize.minimize(loss_and_gradient, initial_val, jac=True, **given)
        logging.info(
            f"Optimization terminated with:\n  Message: {result.message}\n  Objective function value: {result.fun}\n"
            f"  Number of functions evaluations: {result.nfev}"
        )
        found: Array = result.x
        return found


def _first(function: Callable[[Array], list[Array]]) -> Callable[[Array], Array]:
    return lambda x: function(x)[0]
