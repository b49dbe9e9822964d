"""Optimizers around others: averages of variables, norms of rows that stay small, tasks that take turns.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15's contrib/opt
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with, control_dependencies, name_scope
from headrace.library.variables.variable_lists import global_variables
from headrace.ops.array.gathering import gather
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import group, no_op
from headrace.ops.math.clipping import clip_by_global_norm, clip_by_norm
from headrace.ops.math.comparisons import equal
from headrace.ops.math.reductions import count_nonzero
from headrace.training.moving_averages import ExponentialMovingAverage
from headrace.training.optimizer import Optimizer
from headrace.training.saver.saver import Saver

__all__ = [
    "MovingAverageOptimizer",
    "MultitaskOptimizerWrapper",
    "VariableClippingOptimizer",
    "clip_gradients_by_global_norm",
]


class Around(Optimizer):
    """An optimizer that hands its work to another."""

    def __init__(self, opt: Optimizer, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._optimizer = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """See `Optimizer.compute_gradients`."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def get_slot(self, var: Any, name: str) -> Any:
        """The slot of the optimizer within."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Names of the slots of the optimizer within."""
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Any]:
        """Variables of the optimizer within."""
        return self._optimizer.variables()


class MovingAverageOptimizer(Around):
    """Updates averages of what another optimizer trains; `swapping_saver` saves them as the variables."""

    def __init__(
        self,
        opt: Optimizer,
        average_decay: Any = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        """average_decay, num_updates: as of tf.train.ExponentialMovingAverage.

        sequential_update: averages are of variables after the step; else they are updated beside it.
        """
        super().__init__(opt, False, "MovingAverageOptimizer")
        self._ema = ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential_update = sequential_update
        self._swapped: dict[str, Any] | None = None

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """See `Optimizer.apply_gradients`."""
        pairs = list(grads_and_vars)
        train_op = self._optimizer.apply_gradients(pairs, global_step=global_step)
        trained = [variable for grad, variable in pairs if grad is not None]
        with control_dependencies([train_op] if self._sequential_update else []):
            averaged = self._ema.apply(trained)
        self._swapped = {}
        for variable in trained:
            average = self._ema.average(variable)
            self._swapped |= {variable.op.name: average, average.op.name: variable}
        return group(train_op, averaged, name=name or "train_with_averages")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> Saver:
        """A saver that writes averages under the names of variables, and these under those of averages.

        var_list: variables, or a dict of them by name; all without it.  Raises RuntimeError before
        `apply_gradients`, ValueError: one of a pair is not in var_list.
        """
        if self._swapped is None:
            raise RuntimeError(
                "Must call apply_gradients or minimize before creating the swapping_saver"
            )
        return Saver(swapped_variables(self._swapped, var_list), name=name, **kwargs)


def swapped_variables(swaps: Mapping[str, Any], var_list: Any) -> dict[str, Any]:
    """Variables by the name that they are saved under.  swaps: by the name of one of a pair, the other.

    Raises ValueError: one of a pair is not in var_list.
    """
    if var_list is None:
        var_list = global_variables()
    given = var_list if isinstance(var_list, dict) else {each.op.name: each for each in var_list}
    names = {each.op.name: name for name, each in given.items()}
    found = {}
    for name, variable in given.items():
        other = swaps.get(variable.op.name)
        if other is not None and other.op.name not in names:
            raise ValueError(
                f"Variable to swap {variable.op.name} is saved, and {other.op.name} is not among the variables"
            )
        found[name] = variable if other is None else given[names[other.op.name]]
    return found


class VariableClippingOptimizer(Around):
    """After the update of another optimizer, rows or columns of some variables get a length of at most max_norm."""

    def __init__(
        self,
        opt: Optimizer,
        vars_to_clip_dims: Mapping[Any, Sequence[int]],
        max_norm: Any,
        use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False,
        name: str = "VariableClipping",
    ) -> None:
        """vars_to_clip_dims: by variable, the dimensions along which squares are added up.

        With a sparse gradient only the rows that it has are clipped, unless dimension 0 is among them.
        """
        super().__init__(opt, use_locking, name)
        self._dims = {var.op: list(dims) for var, dims in vars_to_clip_dims.items()}
        self._max_norm, self._colocate = max_norm, colocate_clip_ops_with_vars

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """See `Optimizer.apply_gradients`."""
        pairs = list(grads_and_vars)
        with name_scope(name, self._name) as scope:
            updated = self._optimizer.apply_gradients(pairs, global_step=global_step)
            clipped = []
            with control_dependencies([updated]):
                for grad, var in pairs:
                    if grad is not None and var.op in self._dims:
                        with name_scope(f"clip_{var.op.name}"):
                            clipped.append(self._clip(grad, var))
            return group(updated, *clipped, name=scope)

    def _clip(self, grad: Any, var: Any) -> Any:
        dims = self._dims[var.op]
        with ExitStack() as stack:
            if self._colocate:
                stack.enter_context(colocate_with(var))
            if not isinstance(grad, IndexedSlices) or 0 in dims:
                small = clip_by_norm(var.read_value(), self._max_norm, dims)
                return var.assign(small, use_locking=self._use_locking)
            rows = clip_by_norm(gather(var, grad.indices), self._max_norm, dims)
            return var.scatter_update(
                IndexedSlices(rows, grad.indices), use_locking=self._use_locking
            )


class MultitaskOptimizerWrapper:
    """An optimizer that leaves a variable, and its slots, as they are where its gradient is 0 everywhere.

    For several losses, of which each batch has one: without it momentum would move what the others train.
    """

    def __init__(self, opt: Optimizer) -> None:
        """Raises TypeError: opt is no Optimizer.  The optimizer itself is changed."""
        if not isinstance(opt, Optimizer):
            raise TypeError(
                f"Supplied optimizer must be an instance of tf.train.Optimizer: {opt!r}"
            )
        self._opt = opt
        for name in (
            "_apply_dense",
            "_resource_apply_dense",
            "_apply_sparse",
            "_resource_apply_sparse",
        ):
            setattr(opt, name, _unless_zero(getattr(opt, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opt, name)


def _unless_zero(apply: Callable[..., Any]) -> Callable[..., Any]:
    def applied(grad: Any, *args: Any, **kwargs: Any) -> Any:
        values = grad.values if isinstance(grad, IndexedSlices) else grad

        def update() -> Any:
            return group(apply(grad, *args, **kwargs))

        return cond(equal(count_nonzero(values), 0), no_op, update)

    return applied


def clip_gradients_by_global_norm(
    gradients_variables: Iterable[tuple[Any, Any]], clip_norm: Any = 20.0
) -> list[tuple[Any, Any]]:
    """Gradients, all together of a length of at most clip_norm, with their variables."""
    grads, variables = zip(*gradients_variables, strict=True)
    clipped, _ = clip_by_global_norm(list(grads), clip_norm)
    return list(zip(clipped, variables, strict=True))
