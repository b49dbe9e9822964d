"""AdadeltaOptimizer: steps whose size follows from the steps and the gradients so far.

Called by: programs.  Threads: as graph.
Source: Zeiler, 2012; TF 1.15 python/training/adadelta.py, for names
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.training.optimizer import Optimizer

__all__ = ["AdadeltaOptimizer"]


class AdadeltaOptimizer(Optimizer):
    """var -= learning_rate * gradient * rms(steps) / rms(gradients), the averages fading by rho."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        """Each: a number, a tensor, or a function that gives one of them; epsilon is added to both averages."""
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._rho = rho
        self._epsilon = epsilon
        self._lr_t: Any = None  # tensors, from `_prepare` on
        self._rho_t: Any = None
        self._epsilon_t: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _prepare(self) -> None:
        made = self._as_tensors(lr=self._lr, rho=self._rho, epsilon=self._epsilon)
        self._lr_t, self._rho_t, self._epsilon_t = made["lr"], made["rho"], made["epsilon"]

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        scalars = {"lr": self._lr_t, "rho": self._rho_t, "epsilon": self._epsilon_t}
        return self._apply_rule("Adadelta", grad, var, ["accum", "accum_update"], scalars)

    _apply_sparse = _apply_dense
