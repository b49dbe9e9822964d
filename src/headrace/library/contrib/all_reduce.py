"""Sums of tensors of several devices, given to all of them: tf.contrib.nccl, by plain operations.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/nccl)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from headrace.base.arguments import several
from headrace.graph.convert import convert
from headrace.graph.names import device
from headrace.ops.flow.identities import identity
from headrace.ops.math.arithmetic import maximum, minimum, multiply
from headrace.ops.math.sums import add_n

__all__ = ["all_max", "all_min", "all_prod", "all_sum", "broadcast", "reduce_sum"]


def _given(tensors: Sequence[Any]) -> list[Any]:
    """Raises ValueError, TypeError."""
    listed = () if tensors is None else tensors
    found = [
        convert(each) for each in several("all reduce operations", "tensors", listed, "tensors")
    ]
    if not found:
        raise ValueError("Must pass >0 tensors to all reduce operations")
    kinds = {each.dtype.base_dtype for each in found}
    if len(kinds) > 1:
        raise ValueError(f"all tensors must be of one dtype, not {sorted(k.name for k in kinds)}")
    return found


def _all(tensors: Sequence[Any], reduce: Callable[[list[Any]], Any]) -> list[Any]:
    given = _given(tensors)
    with device(given[0].device):
        total = reduce(given)
    made = []
    for each in given:
        with device(each.device):
            made.append(identity(total))
    return made


def all_sum(tensors: Sequence[Any]) -> list[Any]:
    """The sum of all, on the device of each.  Raises ValueError."""
    return _all(tensors, add_n)


def all_prod(tensors: Sequence[Any]) -> list[Any]:
    """The product of all, on the device of each.  Raises ValueError."""
    return _all(tensors, lambda given: functools.reduce(multiply, given))


def all_min(tensors: Sequence[Any]) -> list[Any]:
    """The least of all, element by element, on the device of each.  Raises ValueError."""
    return _all(tensors, lambda given: functools.reduce(minimum, given))


def all_max(tensors: Sequence[Any]) -> list[Any]:
    """The largest of all, element by element, on the device of each.  Raises ValueError."""
    return _all(tensors, lambda given: functools.reduce(maximum, given))


def reduce_sum(tensors: Sequence[Any]) -> Any:
    """The sum of all, on the device in force.  Raises ValueError."""
    return add_n(_given(tensors))


def broadcast(tensor: Any) -> Any:
    """The tensor, for whoever reads it on whichever device."""
    return identity(convert(tensor))
