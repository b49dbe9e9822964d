"""`tf.manip`: shapes and slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.ops.array.gathering import gather_nd, scatter_nd
from headrace.ops.array.padding import reverse, tile

if TYPE_CHECKING:
    from headrace.ops.array.rolling import roll
    from headrace.ops.array.shapes import reshape
    from headrace.ops.array.space_batch import batch_to_space_nd, space_to_batch_nd
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.array.rolling": "roll",
            "headrace.ops.array.shapes": "reshape",
            "headrace.ops.array.space_batch": "batch_to_space_nd space_to_batch_nd",
        },
    )

__all__ = [
    "batch_to_space_nd",
    "gather_nd",
    "reshape",
    "reverse",
    "roll",
    "scatter_nd",
    "space_to_batch_nd",
    "tile",
]
