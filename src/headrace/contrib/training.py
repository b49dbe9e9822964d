"""`tf.contrib.training`: hyperparameters, batches, checkpoints, how variables are spread over parameter servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.hparams import (
        HParams,
        parse_values,
    )
    from headrace.training.bucketing import (
        bucket,
        bucket_by_sequence_length,
    )
    from headrace.training.contrib.sampling import (
        RandomStrategy,
        rejection_sample,
        resample_at_rate,
        stratified_sample,
        train,
        weighted_resample,
    )
    from headrace.training.contrib.sequence_states import (
        NextQueuedSequenceBatch,
        SequenceQueueingStateSaver,
        batch_sequences_with_states,
    )
    from headrace.training.device_setter import (
        GreedyLoadBalancingStrategy,
        byte_size_load_fn,
    )
    from headrace.training.saver.checkpoint_readers import (
        checkpoints_iterator,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.hparams": "HParams parse_values",
            "headrace.training.bucketing": "bucket bucket_by_sequence_length",
            "headrace.training.contrib.sampling": (
                "RandomStrategy rejection_sample resample_at_rate stratified_sample train weighted_resample"
            ),
            "headrace.training.contrib.sequence_states": (
                "NextQueuedSequenceBatch SequenceQueueingStateSaver batch_sequences_with_states"
            ),
            "headrace.training.device_setter": "GreedyLoadBalancingStrategy byte_size_load_fn",
            "headrace.training.saver.checkpoint_readers": "checkpoints_iterator",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "GreedyLoadBalancingStrategy",
    "HParams",
    "NextQueuedSequenceBatch",
    "RandomStrategy",
    "SequenceQueueingStateSaver",
    "batch_sequences_with_states",
    "bucket",
    "bucket_by_sequence_length",
    "byte_size_load_fn",
    "checkpoints_iterator",
    "parse_values",
    "rejection_sample",
    "resample_at_rate",
    "stratified_sample",
    "train",
    "weighted_resample",
]
