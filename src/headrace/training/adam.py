"""AdamOptimizer: steps of the first moment of the gradients, scaled by the root of the second.

Called by: programs.  Threads: as graph.
Source: Kingma and Ba, 2014; TF 1.15 python/training/adam.py, for names and the sparse update
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with, control_dependencies
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.ops.flow.identities import group
from headrace.training.optimizer import Optimizer, cast_like

__all__ = ["AdamOptimizer"]

ScatterAdd = Callable[[Any, Tensor, Tensor], Any]


class AdamOptimizer(Optimizer):
    """Adam; a sparse gradient moves the moments of all rows, as a dense one with zeros would."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        """Each: a number, a tensor, or a function that gives one of them."""
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon
        self._lr_t: Any = None  # tensors, from `_prepare` on
        self._beta1_t: Any = None
        self._beta2_t: Any = None
        self._epsilon_t: Any = None

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        """The variables beta1_power and beta2_power of the default graph."""
        graph = scopes.get_default_graph()
        return (
            self._get_non_slot_variable("beta1_power", graph),
            self._get_non_slot_variable("beta2_power", graph),
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda var: str(var.name))
        self._create_non_slot_variable(self._beta1, "beta1_power", first)
        self._create_non_slot_variable(self._beta2, "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        values = self._lr, self._beta1, self._beta2, self._epsilon
        rate, beta1, beta2, epsilon = map(self._call_if_callable, values)
        self._lr_t = convert(rate, None, "learning_rate")
        self._beta1_t = convert(beta1, None, "beta1")
        self._beta2_t = convert(beta2, None, "beta2")
        self._epsilon_t = convert(epsilon, None, "epsilon")

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
        return self._apply_rule("Adam", grad, var, ["m", "v"], scalars)

    def _apply_sparse_shared(
        self, grad: Tensor, var: Any, indices: Tensor, scatter_add: ScatterAdd
    ) -> Any:
        """Move `var` by rows `grad` at `indices`; scatter_add(slot, indices, rows) gives the slot's new value."""
        beta1_power, beta2_power = [cast_like(p, var) for p in self._get_beta_accumulators()]
        rate, beta1 = cast_like(self._lr_t, var), cast_like(self._beta1_t, var)
        beta2, epsilon = cast_like(self._beta2_t, var), cast_like(self._epsilon_t, var)
        sqrt = get("Sqrt")
        rate = rate * sqrt(1 - beta2_power) / (1 - beta1_power)
        m = self._moved(var, "m", beta1, grad * (1 - beta1), indices, scatter_add)
        squares = grad * grad
        v = self._moved(var, "v", beta2, squares * (1 - beta2), indices, scatter_add)
        root = sqrt(v)
        step = rate * m / (root + epsilon)
        update = var.assign_sub(step, use_locking=self._use_locking)
        return group(update, m, v)

    def _moved(
        self,
        var: Any,
        slot_name: str,
        beta: Tensor,
        rows: Tensor,
        indices: Tensor,
        scatter_add: ScatterAdd,
    ) -> Any:
        """The slot, once it has faded by `beta` and `rows` were added at `indices`."""
        slot = self.get_slot(var, slot_name)
        faded = slot.assign(slot * beta, use_locking=self._use_locking)
        with control_dependencies([faded]):
            return scatter_add(slot, indices, rows)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return self._apply_sparse_shared(grad.values, var, grad.indices, self._scatter_add)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._apply_sparse_shared(grad, handle, indices, self._resource_scatter_add)

    def _scatter_add(self, slot: Any, indices: Tensor, rows: Tensor) -> Any:
        return get("ScatterAdd")(slot._ref(), indices, rows, use_locking=self._use_locking)

    def _resource_scatter_add(self, x: Any, i: Tensor, v: Tensor) -> Any:
        """The value of a resource variable once rows `v` were added at `i`."""
        with control_dependencies([get("ResourceScatterAdd")(x.handle, i, v)]):
            return x.value()

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        beta1_power, beta2_power = self._get_beta_accumulators()
        with control_dependencies(update_ops), colocate_with(beta1_power):
            moved = [
                power.assign(power * beta, use_locking=self._use_locking)
                for power, beta in ((beta1_power, self._beta1_t), (beta2_power, self._beta2_t))
            ]
        return group(*update_ops, *moved, name=name_scope)
