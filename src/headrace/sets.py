"""`tf.sets`: sets that lie in the last dimension of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.ops.sparse.set_ops import set_difference, set_intersection, set_size, set_union
    from headrace.ops.sparse.set_ops import set_difference as difference
    from headrace.ops.sparse.set_ops import set_intersection as intersection
    from headrace.ops.sparse.set_ops import set_size as size
    from headrace.ops.sparse.set_ops import set_union as union
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.sparse.set_ops": (
                "difference=set_difference intersection=set_intersection set_difference "
                "set_intersection set_size set_union size=set_size union=set_union"
            ),
        },
    )

__all__ = [
    "difference",
    "intersection",
    "set_difference",
    "set_intersection",
    "set_size",
    "set_union",
    "size",
    "union",
]
