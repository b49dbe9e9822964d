"""AddSignOptimizer, PowerSignOptimizer, and how their interest in signs fades.

Called by: programs.  Threads: as graph.
Source: I. Bello et al., Neural optimizer search with reinforcement learning, 2017; names: TF 1.15 contrib/opt
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.gathering import gather, scatter_nd, where
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.identities import group
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import greater_equal
from headrace.ops.math.elementwise import cos, exp
from headrace.ops.math.magnitudes import sign
from headrace.training.optimizer import Optimizer, cast_like

__all__ = [
    "AddSignOptimizer",
    "PowerSignOptimizer",
    "get_cosine_decay_fn",
    "get_linear_decay_fn",
    "get_restart_decay_fn",
]

Decay = Callable[[Any], Tensor]
"""From the global step to a factor."""


def _step(global_step: Any) -> Any:
    if global_step is None:
        raise ValueError("global_step is required: give it to minimize or apply_gradients")
    return cast(global_step, dtypes.float32)


def get_linear_decay_fn(decay_steps: Any) -> Decay:
    """1 at first, 0 from decay_steps on, and a line between them."""

    def decay(global_step: Any) -> Tensor:
        found: Tensor = maximum(0.0, 1.0 - _step(global_step) / cast(decay_steps, dtypes.float32))
        return found

    return decay


def _cosine(share: Any, faded: Any, zero_after: float | None) -> Tensor:
    found: Tensor = 0.5 * (1.0 + cos(math.pi * share))
    if zero_after is None:
        return found
    kept: Tensor = where(greater_equal(faded, zero_after), zeros_like(found), found)
    return kept


def get_cosine_decay_fn(
    decay_steps: Any, num_periods: float = 0.5, zero_after: float | None = None
) -> Decay:
    """(1 + cos) / 2, num_periods of it in decay_steps; 0 after zero_after periods."""

    def decay(global_step: Any) -> Tensor:
        periods = num_periods * _step(global_step) / cast(decay_steps, dtypes.float32)
        return _cosine(2.0 * periods, periods, zero_after)

    return decay


def get_restart_decay_fn(
    decay_steps: Any, num_periods: float = 1, zero_after: float | None = None
) -> Decay:
    """Half a period of (1 + cos) / 2, begun anew num_periods times in decay_steps; 0 after zero_after of them."""

    def decay(global_step: Any) -> Tensor:
        periods = num_periods * _step(global_step) / cast(decay_steps, dtypes.float32)
        return _cosine(periods % 1.0, periods, zero_after)

    return decay


class _SignOptimizer(Optimizer):
    """Gradients times a factor, which depends on whether their mean so far has their sign."""

    def __init__(
        self,
        learning_rate: Any,
        beta: Any,
        sign_decay_fn: Decay | None,
        use_locking: bool,
        name: str,
    ) -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta, self._sign_decay_fn = learning_rate, beta, sign_decay_fn
        self._sign_decay: Any = 1.0

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """See `Optimizer.apply_gradients`.  Raises ValueError: signs fade, and there is no global_step."""
        if self._sign_decay_fn is not None:
            self._sign_decay = self._sign_decay_fn(global_step)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _prepare(self) -> None:
        self._lr_t = convert(self._call_if_callable(self._lr), None, "learning_rate")
        self._beta_t = convert(self._call_if_callable(self._beta), None, "beta")

    def _factor(self, agrees: Tensor, var: Any) -> Tensor:
        """By what gradients are multiplied; agrees: 1, -1 or 0, times what the decay says."""
        raise NotImplementedError

    def _moved(self, grad: Any, var: Any) -> Any:
        m, beta = self.get_slot(var, "m"), cast_like(self._beta_t, var)
        return m.assign(m * beta + (1 - beta) * convert(grad), use_locking=self._use_locking)

    def _step_by(self, rows: Tensor, means: Any, var: Any) -> Tensor:
        agrees = cast_like(self._sign_decay, var) * sign(rows) * sign(means)
        return cast_like(self._lr_t, var) * self._factor(agrees, var) * rows

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        m = self._moved(grad, var)
        step = self._step_by(grad, m, var)
        return group(var.assign_sub(step, use_locking=self._use_locking), m)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        dense = scatter_nd(
            expand_dims(grad.indices, 1), grad.values, shape_of(var, out_type=grad.indices.dtype)
        )
        m = self._moved(dense, var)
        step = self._step_by(grad.values, gather(convert(m), grad.indices), var)
        moved = var.scatter_sub(IndexedSlices(step, grad.indices), use_locking=self._use_locking)
        return group(moved, m)


class AddSignOptimizer(_SignOptimizer):
    """var -= learning_rate * (alpha + sign_decay * sign(g) * sign(m)) * g, where m is the mean of gradients so far."""

    def __init__(
        self,
        learning_rate: Any = 0.1,
        alpha: Any = 1.0,
        beta: Any = 0.9,
        sign_decay_fn: Decay | None = None,
        use_locking: bool = False,
        name: str = "AddSignOptimizer",
    ) -> None:
        """beta: how slowly m moves.  sign_decay_fn: from the global step to sign_decay, which is 1 without it."""
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._alpha = alpha

    def _prepare(self) -> None:
        super()._prepare()
        self._alpha_t = convert(self._call_if_callable(self._alpha), None, "alpha")

    def _factor(self, agrees: Tensor, var: Any) -> Tensor:
        return cast_like(self._alpha_t, var) + agrees


class PowerSignOptimizer(_SignOptimizer):
    """var -= learning_rate * base ** (sign_decay * sign(g) * sign(m)) * g, where m is the mean of gradients so far."""

    def __init__(
        self,
        learning_rate: Any = 0.1,
        base: Any = math.e,
        beta: Any = 0.9,
        sign_decay_fn: Decay | None = None,
        use_locking: bool = False,
        name: str = "PowerSignOptimizer",
    ) -> None:
        """beta: how slowly m moves.  sign_decay_fn: from the global step to sign_decay, which is 1 without it."""
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._logbase = math.log(base)

    def _prepare(self) -> None:
        super()._prepare()
        self._logbase_t = convert(self._logbase, None, "logbase")

    def _factor(self, agrees: Tensor, var: Any) -> Tensor:
        found: Tensor = exp(cast_like(self._logbase_t, var) * agrees)
        return found
