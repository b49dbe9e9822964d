"""CrossShardOptimizer: averages gradients over shards, of which there is one without TPUs.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour
"""

from __future__ import annotations

from typing import Any

from headrace.library.nn.losses import Reduction
from headrace.training.optimizer import Optimizer

__all__ = ["CrossShardOptimizer"]


class CrossShardOptimizer(Optimizer):
    """Does what the optimizer does that it is given: the sum and the mean over one shard are what there is."""

    def __init__(
        self,
        opt: Any,
        reduction: str = Reduction.MEAN,
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:
        """reduction: of tf.losses, SUM or MEAN.  group_assignment: has no effect.  Raises ValueError, TypeError."""
        if reduction not in (Reduction.SUM, Reduction.MEAN):
            raise ValueError(
                f"Argument `reduction` should be one of {(Reduction.SUM, Reduction.MEAN)}. Received: {reduction}"
            )
        if not isinstance(opt, Optimizer):
            raise TypeError(
                f"CrossShardOptimizer only works with optimizers of tf.train. Received: {opt}"
            )
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's."""
        return self._opt.compute_gradients(loss, *args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """As the optimizer's."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """As the optimizer's."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """As the optimizer's."""
        return self._opt.get_slot_names()

    def variables(self) -> list[Any]:
        """As the optimizer's."""
        return self._opt.variables()
