"""`tf.manip`: shapes and slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.ops.array.gathering import gather_nd, scatter_nd
from headrace.ops.array.padding import reverse, tile

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "gather_nd",
    "reverse",
    "scatter_nd",
    "tile",
]
