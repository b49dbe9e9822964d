"""AdagradOptimizer: each weight has a learning rate of its own, which falls as it is used.

Called by: programs.  Threads: as graph.
Source: TF 1.15 python/training/adagrad.py, for names
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.variables.initializers import constant_initializer
from headrace.ops.math.casting import cast
from headrace.training.optimizer import Optimizer

__all__ = ["AdagradOptimizer"]


class AdagradOptimizer(Optimizer):
    """accumulator += gradient^2; var -= learning_rate * gradient / sqrt(accumulator)."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        """Raises ValueError unless `initial_accumulator_value` is positive."""
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive, not {initial_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._learning_rate_tensor: Tensor | None = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            kind, shape = var.dtype.base_dtype, var.get_shape()
            initializer: Any = constant_initializer(self._initial_accumulator_value, dtype=kind)
            if not shape.is_fully_defined():
                initializer = self._init_constant_op(var, kind)
            self._get_or_make_slot_with_initializer(
                var, initializer, shape, kind, "accumulator", self._name
            )

    def _init_constant_op(self, v: Any, dtype: Any) -> Callable[[], Tensor]:
        """Gives the initial value, in the shape that `v` has when the accumulator is initialized."""

        def filled() -> Tensor:
            value: Tensor = get("Fill")(get("Shape")(v), self._initial_accumulator_value)
            same: Tensor = cast(value, dtype)
            return same

        return filled

    def _prepare(self) -> None:
        rate = self._call_if_callable(self._learning_rate)
        self._learning_rate_tensor = convert(rate, None, "learning_rate")

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        assert self._learning_rate_tensor is not None
        return self._apply_rule(
            "Adagrad", grad, var, ["accumulator"], {"lr": self._learning_rate_tensor}
        )

    _apply_sparse = _apply_dense
