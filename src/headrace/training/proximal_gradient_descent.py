"""ProximalGradientDescentOptimizer: gradient descent that also pulls weights to zero.

Called by: programs.  Threads: as graph.
Source: Duchi and Singer, 2009; TF 1.15 python/training/proximal_gradient_descent.py, for names.  A variable that is not
float32 is trained too; TensorFlow refuses it if its gradient is dense.
"""

from __future__ import annotations

from typing import Any

from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.training.optimizer import Optimizer

__all__ = ["ProximalGradientDescentOptimizer"]


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent; then var is shrunk by learning_rate * l1 and divided by 1 + learning_rate * l2."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        """Each: a number, a tensor, or a function that gives one of them."""
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._learning_rate_tensor: Any = None  # tensors, from `_prepare` on
        self._l1_regularization_strength_tensor: Any = None
        self._l2_regularization_strength_tensor: Any = None

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
            "alpha": self._learning_rate_tensor,
            "l1": self._l1_regularization_strength_tensor,
            "l2": self._l2_regularization_strength_tensor,
        }
        return self._apply_rule("ProximalGradientDescent", grad, var, [], scalars)

    _apply_sparse = _apply_dense
