"""Axes: counted from either end, checked at run time and while the graph is built.

Called by: op families.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors


def checked_axis(axis: Any, rank: int, what: str = "axis") -> int:
    """A run-time axis counted from the front.  Raises InvalidArgument outside [-rank, rank)."""
    found = int(axis)
    if not -rank <= found < rank:
        raise errors.invalid_argument(f"{what} must be in [-{rank}, {rank}), but is {found}")
    return found % rank if rank else 0


def static_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`checked_axis` for a graph under construction.  Raises ValueError."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what} must be in [-{rank}, {rank}), but is {axis}")
    return axis % rank
