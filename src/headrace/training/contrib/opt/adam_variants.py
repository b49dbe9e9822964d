"""LazyAdamOptimizer, NadamOptimizer, AdaMaxOptimizer: Adam that leaves rows alone, that looks ahead, by the largest.

Called by: programs.  Threads: as graph.
Source: D. Kingma, J. Ba, Adam, 2014 (AdaMax is its section 7.1); T. Dozat, Incorporating Nesterov momentum into Adam,
2015; names and what happens to rows without a gradient: TF 1.15 contrib/opt
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with, control_dependencies
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.ops.array.gathering import gather
from headrace.ops.flow.identities import group
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.elementwise import sqrt
from headrace.ops.math.magnitudes import abs as abs_of
from headrace.ops.math.magnitudes import square
from headrace.training.adam import AdamOptimizer
from headrace.training.optimizer import cast_like

__all__ = ["AdaMaxOptimizer", "LazyAdamOptimizer", "NadamOptimizer"]


class LazyAdamOptimizer(AdamOptimizer):
    """Adam whose sparse gradients move nothing but their own rows: neither moments nor variable of the others."""

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        beta1_power, beta2_power = (cast_like(p, var) for p in self._get_beta_accumulators())
        rate, beta1 = cast_like(self._lr_t, var), cast_like(self._beta1_t, var)
        beta2, epsilon = cast_like(self._beta2_t, var), cast_like(self._epsilon_t, var)
        rate = rate * sqrt(1 - beta2_power) / (1 - beta1_power)
        rows, where = grad.values, grad.indices
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * gather(m, where) + (1 - beta1) * rows
        new_v = beta2 * gather(v, where) + (1 - beta2) * square(rows)
        return scattered(
            self, where, {m: new_m, v: new_v}, var, rate * new_m / (sqrt(new_v) + epsilon)
        )

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._apply_sparse(IndexedSlices(grad, indices), handle)


def scattered(optimizer: Any, where: Tensor, slots: dict[Any, Any], var: Any, step: Any) -> Any:
    """The op that gives rows `where` of the slots new values, and takes `step` from those of the variable."""
    locking = optimizer._use_locking
    updates = [
        slot.scatter_update(IndexedSlices(rows, where), use_locking=locking)
        for slot, rows in slots.items()
    ]
    with control_dependencies([step]):
        return group(var.scatter_sub(IndexedSlices(step, where), use_locking=locking), *updates)


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's momentum; sparse gradients move their own rows of the variable, and all of the moments."""

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        beta1_power, beta2_power = self._get_beta_accumulators()
        scalars = {
            "beta1_power": beta1_power,
            "beta2_power": beta2_power,
            "lr": self._lr_t,
            "beta1": self._beta1_t,
            "beta2": self._beta2_t,
            "epsilon": self._epsilon_t,
        }
        return self._apply_rule("Adam", grad, var, ["m", "v"], scalars, use_nesterov=True)

    def _apply_sparse_shared(
        self, grad: Tensor, var: Any, indices: Tensor, scatter_add: Callable[..., Any]
    ) -> Any:
        beta1_power, beta2_power = (cast_like(p, var) for p in self._get_beta_accumulators())
        rate, beta1 = cast_like(self._lr_t, var), cast_like(self._beta1_t, var)
        beta2, epsilon = cast_like(self._beta2_t, var), cast_like(self._epsilon_t, var)
        rate = rate * sqrt(1 - beta2_power) / (1 - beta1_power)
        added = grad * (1 - beta1)
        m = self._moved(var, "m", beta1, added, indices, scatter_add)
        v = self._moved(var, "v", beta2, square(grad) * (1 - beta2), indices, scatter_add)
        ahead = added + beta1 * gather(m, indices)
        step = rate * ahead / (sqrt(gather(v, indices)) + epsilon)
        update = var.scatter_sub(IndexedSlices(step, indices), use_locking=self._use_locking)
        return group(update, m, v)


class AdaMaxOptimizer(AdamOptimizer):
    """Adam by the largest gradient, which fades by beta2, in the place of the root of the second moment."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        """Each: a number, a tensor, or a function that gives one of them."""
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _get_beta_accumulators(self) -> Any:
        """The variable beta1_power of the default graph."""
        return self._get_non_slot_variable("beta1_power", get_default_graph())

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda var: str(var.name))
        self._create_non_slot_variable(self._beta1, "beta1_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _rate(self, var: Any) -> Tensor:
        power = cast_like(self._get_beta_accumulators(), var)
        return cast_like(self._lr_t, var) / (1 - power)

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        beta1, beta2, epsilon = self._scalars(var)
        new_m = m.assign(beta1 * m + (1 - beta1) * grad, use_locking=self._use_locking)
        new_v = v.assign(maximum(beta2 * v, abs_of(grad)), use_locking=self._use_locking)
        step = self._rate(var) * new_m / (new_v + epsilon)
        return group(var.assign_sub(step, use_locking=self._use_locking), new_m, new_v)

    def _scalars(self, var: Any) -> tuple[Tensor, Tensor, Tensor]:
        given = self._beta1_t, self._beta2_t, self._epsilon_t
        beta1, beta2, epsilon = (cast_like(each, var) for each in given)
        return beta1, beta2, epsilon

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        rows, where = grad.values, grad.indices
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        beta1, beta2, epsilon = self._scalars(var)
        new_m = beta1 * gather(m, where) + (1 - beta1) * rows
        new_v = maximum(beta2 * gather(v, where), abs_of(rows))
        return scattered(
            self, where, {m: new_m, v: new_v}, var, self._rate(var) * new_m / (new_v + epsilon)
        )

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._apply_sparse(IndexedSlices(grad, indices), handle)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        power = self._get_beta_accumulators()
        with control_dependencies(update_ops), colocate_with(power):
            moved = power.assign(power * self._beta1_t, use_locking=self._use_locking)
        return group(*update_ops, moved, name=name_scope)
