"""LARSOptimizer: momentum whose learning rate is the layer's own, for large batches.

Called by: programs.  Threads: as graph.
Source: Y. You, I. Gitman, B. Ginsburg, Large batch training of convolutional networks, 2017; names: TF 1.15 contrib/opt
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones_like
from headrace.ops.array.gathering import where
from headrace.ops.math.reductions import norm
from headrace.training.optimizer import Optimizer, cast_like

__all__ = ["LARSOptimizer"]


class LARSOptimizer(Optimizer):
    """The rate of a variable is learning_rate * eeta * |var| / (|g| + weight_decay * |var| + epsilon)."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        """skip_list: parts of names; variables that have one get plain momentum.  Sparse gradients always do.

        Raises ValueError: momentum is negative.
        """
        if not callable(momentum) and not isinstance(momentum, Tensor) and momentum < 0.0:
            raise ValueError(f"momentum should be positive: {momentum}")
        super().__init__(use_locking=False, name=name)
        self._learning_rate, self._momentum, self._weight_decay = (
            learning_rate,
            momentum,
            weight_decay,
        )
        self._eeta, self._epsilon = eeta, epsilon
        self._skip_list, self._use_nesterov = skip_list, use_nesterov

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        rate = self._call_if_callable(self._learning_rate)
        self._learning_rate_tensor = convert(rate, None, "learning_rate")
        self._momentum_tensor = convert(self._call_if_callable(self._momentum), None, "momentum")

    def compute_lr(self, grad: Tensor, var: Any) -> tuple[Tensor, Tensor]:
        """The learning rate of a variable, and its gradient with the decay of the weights."""
        rate = cast_like(self._learning_rate_tensor, var)
        if any(part in var.name for part in self._skip_list or ()):
            return rate, grad
        size, slope = norm(var, ord=2), norm(grad, ord=2)
        one = ones_like(size)
        trust = self._eeta * size / (slope + self._weight_decay * size + self._epsilon)
        trust = where(size > 0, where(slope > 0, trust, one), one)
        return rate * trust, grad + self._weight_decay * var

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        rate, grad = self.compute_lr(grad, var)
        return self._moved(grad, var, rate)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return self._moved(grad, var, self._learning_rate_tensor)

    def _moved(self, grad: Any, var: Any, rate: Any) -> Any:
        scalars = {"lr": rate, "momentum": self._momentum_tensor}
        return self._apply_rule(
            "Momentum", grad, var, ["momentum"], scalars, use_nesterov=self._use_nesterov
        )
