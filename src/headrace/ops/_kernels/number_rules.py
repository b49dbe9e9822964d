"""What ops make of numbers that follow from shapes whose sizes nobody knows yet, by op.

Of small vectors and scalars of integers, as arrays of `Size`.  What only moves elements is asked of its own kernel,
with marks in their place.  None stands for what is not known.
Called by: plan.sizes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from typing import Any, Final

import numpy as np

from headrace.graph.const_value import KERNEL_FAILURES
from headrace.ops._kernels import symbolic_sizes as sizes
from headrace.ops._kernels.size_rules import MOST, Node, Numbers, array
from headrace.ops._kernels.symbolic_sizes import Size

NumbersRule = Callable[[Node], "Sequence[Numbers | None]"]


def numbers_of(node: Node) -> list[Numbers | None]:
    """Of the outputs, as far as the inputs tell."""
    rule = _NUMBERS.get(node.op.type)
    unknown: list[Numbers | None] = [None] * len(node.op.outputs)
    if rule is None or not all(each._dtype.name in ("int32", "int64") for each in node.op.outputs):
        return unknown
    found = list(rule(node)) or unknown
    return [each if each is None or each.size <= MOST else None for each in found]


def _shape_numbers(node: Node) -> Sequence[Numbers | None]:
    return [None if shape is None else array(shape, (len(shape),)) for shape in node.shapes]


def _count(node: Node) -> Sequence[Numbers | None]:
    shape = node.shapes[0]
    return [None if shape is None else array([sizes.product_of(shape)], ())]


def _rank(node: Node) -> Sequence[Numbers | None]:
    shape = node.shapes[0]
    return [None if shape is None else array([len(shape)], ())]


def _moving(*data: int) -> NumbersRule:
    """Elements of some inputs only change their places, as others say.

    The kernel moves their numbers in a list of them.
    """

    def rule(node: Node) -> Sequence[Numbers | None]:
        count = len(node.numbers)
        moved = _places(data, count)
        elements: list[Size] = []
        given: list[Any] = []
        for place, numbers in enumerate(node.numbers):
            if place not in moved:
                known = node.known(place)
                if known is None:
                    return ()
                given.append(known)
                continue
            if numbers is None:
                return ()
            marks = np.arange(len(elements), len(elements) + numbers.size, dtype=np.int64)
            given.append(marks.reshape(numbers.shape))
            elements += numbers.reshape(-1).tolist()
        try:
            made = node.made_of(*given)
        except KERNEL_FAILURES:
            return ()
        several = isinstance(made, (list, tuple))
        return [_marked(each, elements) for each in (made if several else [made])]

    return rule


def _places(data: Sequence[int], count: int) -> set[int]:
    if data == (_ALL_BUT_LAST,):
        return set(range(count - 1))
    return set(range(count)) if data == (_ALL,) else {each % count for each in data}


_ALL: Final = 98
_ALL_BUT_LAST: Final = 99


def _marked(made: Any, elements: Sequence[Size]) -> Numbers | None:
    marks = np.asarray(made)
    if marks.size > MOST:
        return None
    return array([elements[int(mark)] for mark in marks.reshape(-1)], marks.shape)


def _stitched(node: Node) -> Sequence[Numbers | None]:
    """The first half are indices; where all of a result is told."""
    half = len(node.numbers) // 2
    found = list(_moving(*range(half, 2 * half))(node))
    places = [node.known(place) for place in range(half)]
    named = {int(each) for known in places if known is not None for each in known.reshape(-1)}
    if not found or found[0] is None or named != set(range(len(found[0]))):
        return ()
    return found


def _each(function: Callable[[Size, Size], Size | None]) -> NumbersRule:
    """Element by element, of two that broadcast."""

    def rule(node: Node) -> Sequence[Numbers | None]:
        first, second = node.numbers
        if first is None or second is None:
            return ()
        try:
            one, other = np.broadcast_arrays(first, second)
        except ValueError:
            return ()
        pairs = zip(one.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True)
        made = [function(a, b) for a, b in pairs]
        return () if None in made else [array(made, one.shape)]

    return rule


def _along(function: Callable[[Size, Size], Size], start: Size) -> NumbersRule:
    """Of all elements of a vector."""

    def rule(node: Node) -> Sequence[Numbers | None]:
        numbers, axes = node.numbers[0], node.known(1)
        if numbers is None or numbers.ndim != 1 or axes is None or axes.size > 1:
            return ()
        if not axes.size:
            return [numbers]
        made = reduce(function, numbers.tolist(), start)
        return [array([made], (1,) if node.op.attrs["keep_dims"] else ())]

    return rule


def _counted(node: Node) -> Sequence[Numbers | None]:
    """A range."""
    known = [node.known(place) for place in range(3)]
    if any(each is None or each.ndim for each in known):
        return ()
    start, limit, step = [int(each) for each in known if each is not None]
    if not step or abs(limit - start) > MOST * abs(step):
        return ()
    made = list(range(start, limit, step))
    return [array(made, (len(made),))]


def _filled(node: Node) -> Sequence[Numbers | None]:
    wanted, value = node.known(0), node.numbers[1]
    if wanted is None or value is None or value.ndim or wanted.ndim != 1 or (wanted < 0).any():
        return ()
    count = int(np.prod(wanted))
    return () if count > MOST else [array([value.item()] * count, tuple(wanted.tolist()))]


def _axes_of_stretch(node: Node) -> Sequence[Numbers | None]:
    """Along which either of two shapes was stretched, or is 1 in both; none if they are equal."""
    one, other = node.vector(0), node.vector(1)
    if one is None or other is None:
        return ()
    if one == other:
        return [array([], (0,)), array([], (0,))]
    rank = max(len(one), len(other))
    pairs = list(zip(sizes.padded(one, rank), sizes.padded(other, rank), strict=True))
    apart = [pair for pair in pairs if all(isinstance(size, int) for size in pair)]
    if any(a != b and 1 not in (a, b) for a, b in apart):
        return ()
    if len(one) == len(other) and all(a == b for a, b in apart):
        return ()  # they may be equal
    found: list[Numbers | None] = []
    for side in (0, 1):
        if all(isinstance(pair[side], int) for pair in pairs):
            made = [axis for axis, pair in enumerate(pairs) if pair[side] == 1]
            found.append(array(made, (len(made),)))
        else:
            found.append(None)
    return found


def _offsets(node: Node) -> Sequence[Numbers | None]:
    """Where parts begin that are joined along an axis."""
    axis = node.known(0)
    parts = [node.vector(place) for place in range(1, len(node.numbers))]
    if axis is None or axis.ndim or not parts or not parts[0]:
        return ()
    at = int(axis) % len(parts[0])
    begin: Size = 0
    made: list[Numbers] = []
    for part in parts:
        if part is None or [*part[:at], *part[at + 1 :]] != [*parts[0][:at], *parts[0][at + 1 :]]:
            return ()
        made.append(array([begin if each == at else 0 for each in range(len(part))], (len(part),)))
        begin = sizes.total(begin, part[at])
    return made


def _common(node: Node) -> Sequence[Numbers | None]:
    one, other = node.vector(0), node.vector(1)
    if one is None or other is None:
        return ()
    made = sizes.broadcast(one, other)
    return [array(made, (len(made),))]


_FIRST: Final = _moving(0)

_NUMBERS: Final[dict[str, NumbersRule]] = {
    "Add": _each(sizes.total),
    "AddV2": _each(sizes.total),
    "BroadcastArgs": _common,
    "BroadcastGradientArgs": _axes_of_stretch,
    "Cast": lambda node: node.numbers[:1],
    "ConcatOffset": _offsets,
    "ConcatV2": _moving(_ALL_BUT_LAST),
    "DynamicStitch": _stitched,
    "ExpandDims": _FIRST,
    "Fill": _filled,
    "FloorDiv": _each(sizes.quotient),
    "FloorMod": _each(sizes.remainder),
    "Gather": _FIRST,
    "GatherV2": _FIRST,
    "Identity": _FIRST,
    "Maximum": _each(sizes.largest),
    "Minimum": _each(sizes.smallest),
    "Mul": _each(sizes.product),
    "Pack": _moving(_ALL),
    "Prod": _along(sizes.product, 1),
    "Range": _counted,
    "Rank": _rank,
    "Reshape": _FIRST,
    "Shape": _shape_numbers,
    "ShapeN": _shape_numbers,
    "Size": _count,
    "Slice": _FIRST,
    "Split": _moving(1),
    "Squeeze": _FIRST,
    "StopGradient": _FIRST,
    "StridedSlice": _FIRST,
    "Sub": _each(sizes.difference),
    "Sum": _along(sizes.total, 0),
    "Tile": _FIRST,
    "Unpack": _FIRST,
}
NAMES: Final[AbstractSet[str]] = _NUMBERS.keys()
"""Ops of whose numbers anything may be known."""
