"""`tf.contrib.data`: what `tf.data` and `tf.data.experimental` were called before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.data import (
    Dataset,
    FixedLengthRecordDataset,
    Iterator,
    TextLineDataset,
    TFRecordDataset,
)
from headrace.data.experimental import (
    AUTOTUNE,
    Counter,
    RandomDataset,
    SqlDataset,
    choose_from_datasets,
    dense_to_sparse_batch,
    enumerate_dataset,
    get_single_element,
    ignore_errors,
    shuffle_and_repeat,
    unbatch,
    unique,
)
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = [
    "AUTOTUNE",
    "Counter",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "RandomDataset",
    "SqlDataset",
    "TFRecordDataset",
    "TextLineDataset",
    "choose_from_datasets",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "get_single_element",
    "ignore_errors",
    "shuffle_and_repeat",
    "unbatch",
    "unique",
]
