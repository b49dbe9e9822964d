"""`tf.distribute.InputContext`, and what programs ask of the strategy, of which there is none.

Called by: programs.  Threads: any; a context does not change.
Source: TF 1.15 python/distribute/distribute_lib.py, for behaviour
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["InputContext", "has_strategy", "in_cross_replica_context"]


@dataclass(frozen=True)
class InputContext:
    """Which of several input pipelines a function builds: number `input_pipeline_id` of `num_input_pipelines`.

    num_replicas_in_sync: replicas whose batches make one step together.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The part of a step's batch for one replica.  Raises ValueError where it is no whole number."""
        size, rest = divmod(global_batch_size, self.num_replicas_in_sync)
        if rest:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size!r} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync!r}"
            )
        return size


def has_strategy() -> bool:
    """Whether a `tf.distribute.Strategy` is in use: never."""
    return False


def in_cross_replica_context() -> bool:
    """Whether the code runs for all replicas of a strategy together: never."""
    return False
