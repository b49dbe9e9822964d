"""`tf.contrib`: what 1.x programs use of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contrib import (
    cluster_resolver,
    crf,
    distributions,
    estimator,
    feature_column,
    framework,
    image,
    layers,
    learn,
    legacy_seq2seq,
    lookup,
    losses,
    metrics,
    nccl,
    nn,
    opt,
    rnn,
    seq2seq,
    slim,
    staging,
    summary,
    tpu,
    training,
)
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = [
    "cluster_resolver",
    "crf",
    "distributions",
    "estimator",
    "feature_column",
    "framework",
    "image",
    "layers",
    "learn",
    "legacy_seq2seq",
    "lookup",
    "losses",
    "metrics",
    "nccl",
    "nn",
    "opt",
    "rnn",
    "seq2seq",
    "slim",
    "staging",
    "summary",
    "tpu",
    "training",
]
