"""`tf.contrib.legacy_seq2seq`: sequences to sequences, every step in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.legacy_seq2seq import (
        attention_decoder,
        basic_rnn_seq2seq,
        embedding_attention_decoder,
        embedding_attention_seq2seq,
        embedding_rnn_decoder,
        embedding_rnn_seq2seq,
        embedding_tied_rnn_seq2seq,
        model_with_buckets,
        one2many_rnn_seq2seq,
        rnn_decoder,
        tied_rnn_seq2seq,
    )
    from headrace.library.contrib.sequence_losses import legacy_sequence_loss as sequence_loss
    from headrace.library.contrib.sequence_losses import sequence_loss_by_example
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.legacy_seq2seq": (
                "attention_decoder basic_rnn_seq2seq embedding_attention_decoder embedding_attention_seq2seq "
                "embedding_rnn_decoder embedding_rnn_seq2seq embedding_tied_rnn_seq2seq model_with_buckets "
                "one2many_rnn_seq2seq rnn_decoder tied_rnn_seq2seq"
            ),
            "headrace.library.contrib.sequence_losses": (
                "sequence_loss=legacy_sequence_loss sequence_loss_by_example"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "model_with_buckets",
    "one2many_rnn_seq2seq",
    "rnn_decoder",
    "sequence_loss",
    "sequence_loss_by_example",
    "tied_rnn_seq2seq",
]
