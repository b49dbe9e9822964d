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
        self._hyper = {
            "learning_rate": learning_rate,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
        }
        self._tensors: dict[str, Tensor] = {}

    def _prepare(self) -> None:
        names = "alpha", "l1", "l2"
        made = self._as_tensors(**self._hyper)
        self._tensors = dict(zip(names, made.values(), strict=True))

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        return self._apply_rule("ProximalGradientDescent", grad, var, [], self._tensors)

    _apply_sparse = _apply_dense
