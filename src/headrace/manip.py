"""`tf.manip`: shapes and slices."""

from __future__ import annotations

from headrace.ops.gathering import gather_nd, scatter_nd
from headrace.ops.padding import reverse, tile

__all__ = [
    "gather_nd",
    "reverse",
    "scatter_nd",
    "tile",
]
