"""`tf.lookup.experimental`: a mutable table of open addressing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.training.tables import DenseHashTable

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = ["DenseHashTable"]
