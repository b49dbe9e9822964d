"""`tf.data.experimental`: more transformations and datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.library.data.datasets import cardinality, get_single_element, get_structure
from headrace.library.data.experimental import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Counter,
    RandomDataset,
    choose_from_datasets,
    dense_to_sparse_batch,
    enumerate_dataset,
    ignore_errors,
    shuffle_and_repeat,
    unbatch,
    unique,
)
from headrace.library.data.readers import SqlDataset

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Counter",
    "RandomDataset",
    "SqlDataset",
    "cardinality",
    "choose_from_datasets",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "get_single_element",
    "get_structure",
    "ignore_errors",
    "shuffle_and_repeat",
    "unbatch",
    "unique",
]
