"""Axes: counted from either end, checked at run time and while the graph is built.

Called by: op families.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors


def checked_scalar(value: Any, what: str) -> int:
    """A run-time integer.  Raises InvalidArgument if it is no scalar."""
    if isinstance(value, np.ndarray) and value.ndim:
        raise errors.invalid_argument(f"{what} must be a scalar, but has shape {list(value.shape)}")
    return int(value)


def checked_axis(axis: Any, rank: int, what: str = "axis") -> int:
    """A run-time axis counted from the front.  Raises InvalidArgument outside [-rank, rank), or if it is no scalar."""
    found = checked_scalar(axis, what)
    if not -rank <= found < rank:
        raise errors.invalid_argument(f"{what} must be in [-{rank}, {rank}), but is {found}")
    return found % rank if rank else 0


def static_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`checked_axis` for a graph under construction.  Raises ValueError."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what} must be in [-{rank}, {rank}), but is {axis}")
    return axis % rank
