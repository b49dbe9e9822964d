"""RMSPropOptimizer: gradients over the root of their mean square, with momentum.

Called by: programs.  Threads: as graph.
Source: Hinton, Neural Networks for Machine Learning, lecture 6e; TF 1.15 python/training/rmsprop.py, for names
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.library.variables.initializers import ones_initializer
from headrace.ops.array.constants import ones_like
from headrace.training.optimizer import Optimizer

__all__ = ["RMSPropOptimizer"]


class RMSPropOptimizer(Optimizer):
    """step = momentum * step + learning_rate * gradient / sqrt(mean square + epsilon); var -= step."""

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        """Numbers, tensors, or functions that give one of them.

        decay: what the averages keep of themselves in a step.  centered: over the root of the variance instead of the
        mean square.
        """
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._decay = decay
        self._momentum = momentum
        self._epsilon = epsilon
        self._centered = centered
        self._learning_rate_tensor: Any = None  # tensors, from `_prepare` on
        self._decay_tensor: Any = None
        self._momentum_tensor: Any = None
        self._epsilon_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            shape, kind = var.get_shape(), var.dtype.base_dtype
            if shape.is_fully_defined():
                self._get_or_make_slot_with_initializer(
                    var, ones_initializer(dtype=kind), shape, kind, "rms", self._name
                )
            else:
                self._get_or_make_slot(var, ones_like(var), "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        made = self._as_tensors(
            learning_rate=self._learning_rate,
            decay=self._decay,
            momentum=self._momentum,
            epsilon=self._epsilon,
        )
        self._learning_rate_tensor = made["learning_rate"]
        self._decay_tensor = made["decay"]
        self._momentum_tensor = made["momentum"]
        self._epsilon_tensor = made["epsilon"]

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        rule, slots = "RMSProp", ["rms", "momentum"]
        if self._centered:
            rule, slots = "CenteredRMSProp", ["mg", *slots]
        scalars = {
            "lr": self._learning_rate_tensor,
            "rho": self._decay_tensor,
            "momentum": self._momentum_tensor,
            "epsilon": self._epsilon_tensor,
        }
        return self._apply_rule(rule, grad, var, slots, scalars)

    _apply_sparse = _apply_dense
