"""`tf.contrib.crf`: conditional random fields of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.crf import (
        CrfDecodeBackwardRnnCell,
        CrfDecodeForwardRnnCell,
        CrfForwardRnnCell,
        crf_binary_score,
        crf_decode,
        crf_log_likelihood,
        crf_log_norm,
        crf_multitag_sequence_score,
        crf_sequence_score,
        crf_unary_score,
        viterbi_decode,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.crf": (
                "CrfDecodeBackwardRnnCell CrfDecodeForwardRnnCell CrfForwardRnnCell crf_binary_score crf_decode "
                "crf_log_likelihood crf_log_norm crf_multitag_sequence_score crf_sequence_score crf_unary_score "
                "viterbi_decode"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "CrfDecodeBackwardRnnCell",
    "CrfDecodeForwardRnnCell",
    "CrfForwardRnnCell",
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]
