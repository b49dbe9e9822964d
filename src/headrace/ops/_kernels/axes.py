"""Axes: counted from either end, checked at run time and while the graph is built.

Called by: op families.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import text


def checked_scalar(value: Any, what: str) -> int:
    """A run-time integer.  Raises InvalidArgument if it is no scalar."""
    if isinstance(value, np.ndarray) and value.ndim:
        raise errors.invalid_argument(f"{what} must be a scalar, but got shape {text(value.shape)}")
    return int(value)


def checked_axis(axis: Any, rank: int, what: str = "axis", says: str = "") -> int:
    """A run-time axis counted from the front.  Raises InvalidArgument outside [-rank, rank), or if it is no scalar.

    says: how the message begins, of `axis`, `rank`, `least` (axis + 1) and `below` (rank - 1), where TensorFlow's
    is not the usual one.
    """
    found = checked_scalar(axis, what)
    if not -rank <= found < rank:
        text = (says or "Expected {what} in the range [-{rank}, {rank}), but got {axis}").format(
            axis=found, rank=rank, what=what, least=found + 1, below=rank - 1
        )
        raise errors.invalid_argument(
            f"{text}: {what} must be in [-{rank}, {rank})" if says else text
        )
    return found % rank if rank else 0


def static_axis(axis: int, rank: int, what: str = "axis", says: str | None = None) -> int:
    """`checked_axis` for a graph under construction.  Raises ValueError that begins with `says`, if that is given.

    In `says` there may be {axis}, {rank} and {low}, the lowest axis.
    """
    if not -rank <= axis < rank:
        first = "" if says is None else says.format(axis=axis, rank=rank, low=-rank) + ": "
        raise ValueError(f"{first}{what} must be in [-{rank}, {rank}), but is {axis}")
    return axis % rank


def gathered_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`static_axis` where TensorFlow speaks of the rank that the axis asks for."""
    least = axis + 1 if axis >= 0 else -axis
    return static_axis(axis, rank, what, f"Shape must be at least rank {least} but is rank {rank}")
