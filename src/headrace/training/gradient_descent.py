"""GradientDescentOptimizer: steps against the gradient.

Called by: programs.  Threads: as graph.
Source: TF 1.15 python/training/gradient_descent.py, for names
"""

from __future__ import annotations

from typing import Any

from headrace.graph.convert import convert
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.training.optimizer import Optimizer, cast_like

__all__ = ["GradientDescentOptimizer"]


class GradientDescentOptimizer(Optimizer):
    """var -= learning_rate * gradient."""

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        """`learning_rate`: a number, a tensor, or a function that gives one of them."""
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._learning_rate_tensor: Tensor | None = None

    def _prepare(self) -> None:
        rate = self._call_if_callable(self._learning_rate)
        self._learning_rate_tensor = convert(rate, None, "learning_rate")

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        assert self._learning_rate_tensor is not None
        return self._apply_rule(
            "GradientDescent", grad, var, [], {"alpha": self._learning_rate_tensor}
        )

    def _rate(self, var: Any) -> Tensor:
        assert self._learning_rate_tensor is not None
        return cast_like(self._learning_rate_tensor, var)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        step = IndexedSlices(grad.values * self._rate(var), grad.indices, grad.dense_shape)
        return var.scatter_sub(step, use_locking=self._use_locking)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: Any, indices: Tensor
    ) -> Any:
        return get("ResourceScatterAdd")(handle.handle, indices, -grad * self._rate(handle))
