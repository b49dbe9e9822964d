"""Structures of datasets' elements: tuples, named tuples, dicts and attrs classes, down to leaves.

Unlike `tf.nest`'s, lists are no structures: they become tensors.
Called by: library.data, programs (tensorflow.python.data.util.nest).  Threads: any.
Source: TF 1.15 behaviour of python/data/util/nest.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.base.nest import leaves_of, packed, parts_of
from headrace.graph.ragged import RaggedTensorValue
from headrace.graph.sparse import SparseTensorValue

__all__ = [
    "assert_same_structure",
    "flatten",
    "is_nested",
    "is_sequence",
    "map_structure",
    "pack_sequence_as",
]


def is_nested(structure: Any) -> bool:
    """Whether it is a structure, and no leaf."""
    if isinstance(structure, (SparseTensorValue, RaggedTensorValue)):
        return False
    return isinstance(structure, (tuple, Mapping)) or hasattr(type(structure), "__attrs_attrs__")


is_sequence = is_nested


def flatten(structure: Any) -> list[Any]:
    """The leaves, dicts in the order of their sorted keys."""
    return list(leaves_of(structure, is_nested))


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """The structure with other leaves.  Raises TypeError (no list), ValueError (their number)."""
    if not isinstance(flat_sequence, (list, tuple)):
        raise TypeError(
            f"Argument `flat_sequence` must be a Python list or tuple but got {type(flat_sequence)}"
        )
    wanted = len(flatten(structure))
    if wanted != len(flat_sequence):
        raise ValueError(
            f"Could not pack sequence. Argument `structure` had {wanted} elements, but argument `flat_sequence` had "
            f"{len(flat_sequence)} elements: {structure!r:.100}"
        )
    return packed(structure, iter(flat_sequence), is_nested)


def map_structure(func: Callable[..., Any], *structure: Any) -> Any:
    """A structure like the first, of func(leaf of each).  Raises TypeError, ValueError where they differ."""
    for other in structure[1:]:
        assert_same_structure(structure[0], other)
    flat = zip(*map(flatten, structure), strict=True)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in flat])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raises ValueError where the nesting differs, TypeError where the containers' types do."""
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(
            "The two structures don't have the same nested structure. First structure: "
            f"{nest1!r:.200}, second structure: {nest2!r:.200}"
        )
    if not is_nested(nest1):
        return
    mappings = isinstance(nest1, Mapping) and isinstance(nest2, Mapping)
    if check_types and not mappings and type(nest1) is not type(nest2):
        raise TypeError(
            "The two structures don't have the same sequence type. First structure has type "
            f"{type(nest1)}, while second structure has type {type(nest2)}"
        )
    mine, theirs = parts_of(nest1), parts_of(nest2)
    if len(mine) != len(theirs) or (mappings and [k for k, _ in mine] != [k for k, _ in theirs]):
        raise ValueError(
            "The two structures don't have the same number of elements. First structure: "
            f"{nest1!r:.200}, second structure: {nest2!r:.200}"
        )
    for (_, part), (_, other) in zip(mine, theirs, strict=True):
        assert_same_structure(part, other, check_types)
