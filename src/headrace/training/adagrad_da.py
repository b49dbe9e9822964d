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
from headrace.ops.constants import constant
from headrace.ops.flow import identity
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
        self._initial_value = initial_gradient_squared_accumulator_value
        self._strengths = l1_regularization_strength, l2_regularization_strength
        self._made: tuple[Tensor, Tensor] | None = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            with colocate_with(var):
                values = [
                    constant(value, var.dtype.base_dtype, var.get_shape())
                    for value in (0.0, self._initial_value)
                ]
            for slot, value in zip(_SLOTS, values, strict=True):
                self._get_or_make_slot(var, value, slot, self._name)

    def _prepare(self) -> None:
        rate = self._as_tensors(learning_rate=self._learning_rate)["learning_rate"]
        with colocate_with(rate):
            self._made = rate, identity(self._global_step) + 1

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        assert self._made is not None
        rate, step = self._made
        l1, l2 = self._strengths
        scalars = {"lr": rate, "l1": l1, "l2": l2, "global_step": identity(step)}
        return self._apply_rule("AdagradDA", grad, var, _SLOTS, scalars)

    _apply_sparse = _apply_dense
