"""assert_shapes: sizes of tensors that have to be those that are said, or the same as those of others.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from headrace.base.shapes import Dimension
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.checks.ranks import (
    _dense,
    _name_of,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
)
from headrace.library.checks.types import prefixed
from headrace.ops.array import shapes
from headrace.ops.array.constants import constant
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import group
from headrace.ops.tables import make

__all__ = ["assert_shapes"]

_ANY_NUMBER = ("*", Ellipsis)
"""What stands first where there may be more dimensions."""


class _Said(NamedTuple):
    """A tensor, the entries for its last dimensions, whether there may be others before, and its sizes."""

    x: Any
    entries: list[Any]
    open: bool
    sizes: Any


class _Source(NamedTuple):
    """A size that a name stands for, and where it was seen first."""

    size: Any
    text: str


def assert_shapes(
    shapes: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """The tensors have these shapes.

    shapes: a mapping, or pairs, from tensors to entries for their dimensions: a number, a name (the same for
    sizes that must be the same), None or "." for any size; first may stand ... or "*", for any number of dimensions.
    A scalar is taken for a vector of one.  Raises ValueError for what is known to be otherwise.
    """
    pairs = list(shapes.items() if isinstance(shapes, Mapping) else shapes)
    with name_scope(name, "assert_shapes", [x for x, _ in pairs] + list(data or ())):
        tensors = [_dense(x) for x, _ in pairs]
        said = [_parsed(x, entry) for x, (_, entry) in zip(tensors, pairs, strict=True)]
        ranks = [
            check
            for each in said
            if (check := _rank_check(each, data, summarize, message, name)) is not None
        ]
        sizes = list(_size_checks(said, ranks, data, summarize, message))
    made: Operation = group(*ranks, *sizes)
    return made


def _parsed(x: Any, spec: Any) -> _Said:
    if not (hasattr(spec, "__iter__") or hasattr(spec, "__getitem__")):
        raise ValueError(
            f"Tensor {_name_of(x)}.  Specified shape must be an iterable.  An iterable has the attribute "
            f"`__iter__` or `__getitem__`.  Received specified shape: {spec}"
        )
    entries = [_entry(each) for each in spec]
    for at, each in enumerate(entries[1:], 1):
        if each in _ANY_NUMBER:
            raise ValueError(
                f"Tensor {_name_of(x)} specified shape index {at}.  Symbol `...` or `*` for a variable number of "
                "unspecified dimensions is only allowed as the first entry"
            )
    is_open = bool(entries) and entries[0] in _ANY_NUMBER
    if is_open:
        entries = entries[1:]
    return _Said(x, entries or [1], is_open, _sizes(x))


def _entry(value: Any) -> Any:
    """A number as an int, a name as it is, None for any size."""
    if isinstance(value, Dimension):
        value = value.value
    if value is None or value == ".":
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        return value


def _sizes(x: Any) -> Any:
    """The sizes of x, a list of numbers and scalars, or a vector; those of a scalar are [1]."""
    found = shapes.shape(x)
    static = None if isinstance(x, SparseTensor) else x.raw_shape
    if isinstance(x, SparseTensor):
        static = x.get_shape()._raw
    if static is None:
        is_scalar = make.Equal(shapes.rank(x), 0)
        return cond(is_scalar, lambda: constant([1]), lambda: found)
    if not static:
        return [1]
    return [found[at] if size is None else size for at, size in enumerate(static)]


def _rank_check(
    said: _Said, data: Any, summarize: int | None, message: str | None, name: str | None
) -> Operation | None:
    count = len(said.entries)
    if said.open:
        if count <= 1:
            return None
        return assert_rank_at_least(said.x, count, data, summarize, message, name)
    if count <= 1:
        return assert_rank_in(said.x, [0, 1], data, summarize, message, name)
    return assert_rank(said.x, count, data, summarize, message, name)


def _size_checks(
    said: Iterable[_Said],
    ranks: list[Operation],
    data: Any,
    summarize: int | None,
    message: str | None,
) -> Iterator[Operation]:
    names: dict[Any, _Source] = {}
    for each in said:
        count = len(each.entries)
        for at, entry in enumerate(each.entries):
            dim = at - count if each.open else at
            if entry is None:
                continue
            with control_dependencies(ranks):
                actual = each.sizes[dim]
            if isinstance(entry, int):
                wanted = _Source(entry, "Specified explicitly")
            elif entry in names:
                wanted = names[entry]
            else:
                text = f"Specified by tensor {_name_of(each.x)} dimension {dim}"
                names[entry] = _Source(actual, text)
                continue
            known, size = _known(actual), _known(wanted.size)
            if known is None or size is None:
                yield _check(each.x, dim, actual, wanted, data, summarize, message)
            elif known != size:
                raise ValueError(
                    f"{prefixed(message)}{wanted.text}.  Tensor {_name_of(each.x)} dimension {dim} must have size "
                    f"{size}.  Received size {known}, shape {each.x.get_shape()}"
                )


def _known(size: Any) -> int | None:
    value = constant_value(size) if isinstance(size, Tensor) else size
    return None if value is None else int(np.asarray(value))


def _check(
    x: Any,
    dim: int,
    actual: Any,
    wanted: _Source,
    data: Any,
    summarize: int | None,
    message: str | None,
) -> Operation:
    holds = make.Equal(convert(actual), convert(wanted.size))
    if data is None:
        data = [
            prefixed(message),
            wanted.text,
            f"Tensor {_name_of(x)} dimension",
            dim,
            "must have size",
            wanted.size,
            "Received shape: ",
            shapes.shape(x),
        ]
    return Assert(holds, data, summarize=summarize)
