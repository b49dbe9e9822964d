"""AdamOptimizer: steps of the first moment of the gradients, scaled by the root of the second.

Called by: programs.  Threads: as graph.
Source: Kingma and Ba, 2014; TF 1.15 python/training/adam.py, for names and the sparse update
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with, control_dependencies
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.ops.flow import group
from headrace.ops.state import is_resource_variable
from headrace.training.optimizer import Optimizer, cast_like

__all__ = ["AdamOptimizer"]


class _Tensors(NamedTuple):
    rate: Tensor
    beta1: Tensor
    beta2: Tensor
    epsilon: Tensor


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
        self._hyper = learning_rate, beta1, beta2, epsilon
        self._tensors: _Tensors | None = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda var: str(var.name))
        _, beta1, beta2, _ = self._hyper
        self._create_non_slot_variable(beta1, "beta1_power", first)
        self._create_non_slot_variable(beta2, "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _powers(self) -> tuple[Any, Any]:
        graph = scopes.get_default_graph()
        return (
            self._get_non_slot_variable("beta1_power", graph),
            self._get_non_slot_variable("beta2_power", graph),
        )

    def _prepare(self) -> None:
        names = "learning_rate", "beta1", "beta2", "epsilon"
        values = [self._call_if_callable(value) for value in self._hyper]
        self._tensors = _Tensors(
            *[convert(value, None, name) for value, name in zip(values, names, strict=True)]
        )

    def _cast(self, var: Any) -> tuple[Tensor, Tensor, _Tensors]:
        """beta1_power, beta2_power and the hyperparameters in the variable's type."""
        assert self._tensors is not None
        first, second = (cast_like(power, var) for power in self._powers())
        return first, second, _Tensors(*[cast_like(value, var) for value in self._tensors])

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        assert self._tensors is not None
        beta1_power, beta2_power = self._powers()
        rate, beta1, beta2, epsilon = self._tensors
        scalars = {
            "beta1_power": beta1_power, "beta2_power": beta2_power, "lr": rate, "beta1": beta1,
            "beta2": beta2, "epsilon": epsilon,
        }  # fmt: skip
        return self._apply_rule("Adam", grad, var, ["m", "v"], scalars)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        beta1_power, beta2_power, hyper = self._cast(var)
        sqrt = get("Sqrt")
        rate = hyper.rate * sqrt(1 - beta2_power) / (1 - beta1_power)
        m = self._moved(var, "m", hyper.beta1, grad.values * (1 - hyper.beta1), grad.indices)
        squares = grad.values * grad.values
        v = self._moved(var, "v", hyper.beta2, squares * (1 - hyper.beta2), grad.indices)
        root = sqrt(v)
        step = rate * m / (root + hyper.epsilon)
        update = var.assign_sub(step, use_locking=self._use_locking)
        return group(update, m, v)

    def _moved(self, var: Any, slot_name: str, beta: Tensor, rows: Tensor, indices: Tensor) -> Any:
        """The slot, once it has faded by `beta` and `rows` were added at `indices`."""
        slot = self.get_slot(var, slot_name)
        faded = slot.assign(slot * beta, use_locking=self._use_locking)
        with control_dependencies([faded]):
            if is_resource_variable(slot):
                added = get("ResourceScatterAdd")(slot.handle, indices, rows)
                with control_dependencies([added]):
                    return slot.value()
            return get("ScatterAdd")(slot._ref(), indices, rows, use_locking=self._use_locking)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        assert self._tensors is not None
        beta1_power, beta2_power = self._powers()
        with control_dependencies(update_ops), colocate_with(beta1_power):
            moved = [
                power.assign(power * beta, use_locking=self._use_locking)
                for power, beta in (
                    (beta1_power, self._tensors.beta1), (beta2_power, self._tensors.beta2),
                )
            ]  # fmt: skip
        return group(*update_ops, *moved, name=name_scope)
