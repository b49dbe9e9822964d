"""ProximalAdagradOptimizer: Adagrad that also pulls weights to zero.

Called by: programs.  Threads: as graph.
Source: Duchi and Singer, 2009; TF 1.15 python/training/proximal_adagrad.py, for names.  A variable that is not float32
is trained too; TensorFlow refuses it if its gradient is dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.training.optimizer import Optimizer

__all__ = ["ProximalAdagradOptimizer"]


class ProximalAdagradOptimizer(Optimizer):
    """Proximal gradient descent in which each weight has the rate learning_rate / sqrt(accumulator) of its own."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        """Raises ValueError unless `initial_accumulator_value` is positive."""
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive, not {initial_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._initial_accumulator_value = initial_accumulator_value
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._learning_rate_tensor: Any = None  # tensors, from `_prepare` on
        self._l1_regularization_strength_tensor: Any = None
        self._l2_regularization_strength_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            with colocate_with(var):
                value = constant(
                    self._initial_accumulator_value, var.dtype.base_dtype, var.get_shape()
                )
            self._get_or_make_slot(var, value, "accumulator", self._name)

    def _prepare(self) -> None:
        made = self._as_tensors(
            learning_rate=self._learning_rate,
            l1_regularization_strength=self._l1_regularization_strength,
            l2_regularization_strength=self._l2_regularization_strength,
        )
        self._learning_rate_tensor = made["learning_rate"]
        self._l1_regularization_strength_tensor = made["l1_regularization_strength"]
        self._l2_regularization_strength_tensor = made["l2_regularization_strength"]

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        scalars = {
            "lr": self._learning_rate_tensor,
            "l1": self._l1_regularization_strength_tensor,
            "l2": self._l2_regularization_strength_tensor,
        }
        return self._apply_rule("ProximalAdagrad", grad, var, ["accumulator"], scalars)

    _apply_sparse = _apply_dense
