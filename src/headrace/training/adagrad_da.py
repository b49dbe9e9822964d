"""AdagradDAOptimizer: Adagrad with dual averaging, for linear models with many weights at zero.

Called by: programs.  Threads: as graph.
Source: Duchi, Hazan and Singer, 2011; TF 1.15 python/training/adagrad_da.py, for names
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.flow.identities import identity
from headrace.training.optimizer import Optimizer

__all__ = ["AdagradDAOptimizer"]

_SLOTS = ["gradient_accumulator", "gradient_squared_accumulator"]


class AdagradDAOptimizer(Optimizer):
    """Weights are computed anew in every step, from the sums of gradients and of their squares so far."""

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        """`global_step`: int64, how many steps were made; the strengths of the regularizations grow with it.

        Raises ValueError unless `initial_gradient_squared_accumulator_value` is positive.
        """
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive, not "
                f"{initial_gradient_squared_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._global_step = global_step
        self._initial_gradient_squared_accumulator_value = (
            initial_gradient_squared_accumulator_value
        )
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._learning_rate_tensor: Any = None  # tensors, from `_prepare` on
        self._global_step_on_worker: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            with colocate_with(var):
                values = [
                    constant(value, var.dtype.base_dtype, var.get_shape())
                    for value in (0.0, self._initial_gradient_squared_accumulator_value)
                ]
            for slot, value in zip(_SLOTS, values, strict=True):
                self._get_or_make_slot(var, value, slot, self._name)

    def _prepare(self) -> None:
        rate = self._as_tensors(learning_rate=self._learning_rate)["learning_rate"]
        self._learning_rate_tensor = rate
        with colocate_with(rate):
            self._global_step_on_worker = identity(self._global_step) + 1

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        scalars = {
            "lr": self._learning_rate_tensor,
            "l1": self._l1_regularization_strength,
            "l2": self._l2_regularization_strength,
            "global_step": identity(self._global_step_on_worker),
        }
        return self._apply_rule("AdagradDA", grad, var, _SLOTS, scalars)

    _apply_sparse = _apply_dense
