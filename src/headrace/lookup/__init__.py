"""`tf.lookup`: tables of values by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.library.lookup import (
    KeyValueTensorInitializer,
    StaticHashTable,
    StaticVocabularyTable,
    TextFileIndex,
    TextFileInitializer,
)
from headrace.lookup import experimental

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]
