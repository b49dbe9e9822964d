"""MomentumOptimizer: gradient descent whose steps add up, fading.

Called by: programs.  Threads: as graph.
Source: TF 1.15 python/training/momentum.py, for names
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.training.optimizer import Optimizer

__all__ = ["MomentumOptimizer"]


class MomentumOptimizer(Optimizer):
    """accumulation = momentum * accumulation + gradient; var -= learning_rate * accumulation."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        """Both: a number, a tensor, or a function that gives one of them."""
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        rate = self._call_if_callable(self._learning_rate)
        self._learning_rate_tensor = convert(rate, None, "learning_rate")
        self._momentum_tensor = convert(self._call_if_callable(self._momentum), None, "momentum")

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        scalars = {"lr": self._learning_rate_tensor, "momentum": self._momentum_tensor}
        return self._apply_rule(
            "Momentum", grad, var, ["momentum"], scalars, use_nesterov=self._use_nesterov
        )

    _apply_sparse = _apply_dense
