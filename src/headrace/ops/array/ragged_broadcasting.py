"""Two tensors, of which one at least is ragged, broadcast to one shape.

Their dimensions are compared from the last one on; what has fewer has dimensions of size 1 before its own.  Where all
rows have one length they are uniform, and of those that have one element it is repeated, as often as each row of the
other has elements.  Ragged rows are never repeated, even where each has one element: they need the other's lengths.
A tensor is seen as its number of rows and, for each further dimension, how its rows are cut into those of the next;
from the first dimension on each row of the result is told its row in either of the two.
Called by: ops.array.ragged_operators, ragged_dispatch, ragged_calls, ragged.  Threads: as graph.
Source: behaviour of TF 2.21 (python/ops/ragged/dynamic_ragged_shape.py)
"""

from __future__ import annotations

import operator
from functools import cached_property, reduce
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.graph.const_value import folded
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies
from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones_like, zeros
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, not_equal
from headrace.ops.math.reductions import reduce_all
from headrace.ops.math.scans import cumsum
from headrace.ops.math.segments import unsorted_segment_sum
from headrace.ops.tables import make

__all__: list[str] = []

Size = int | Tensor
"""An int where it is known, else a tensor []."""

_ONLY: Final = "only"
"""Instead of the row that each row of the result is: all of them are the only one that there is."""

_SAID: Final = "Unable to broadcast: dimension size mismatch in dimension"


class Partition(NamedTuple):
    """The rows of a dimension.  splits: where they begin; length: of each of them, None where they are ragged."""

    splits: Tensor
    length: Size | None


class _Cut(NamedTuple):
    """The rows of a dimension of one side; splits: None where their length tells them."""

    splits: Tensor | None
    length: Size | None


def broadcast(x: Any, y: Any) -> tuple[Tensor, Tensor, list[Partition]]:
    """The innermost values of both, as they broadcast to each other, and the rows of the result, from the outermost on.

    Raises ValueError for unknown ranks and row_splits of two dtypes, InvalidArgument for what does not fit together.
    """
    kind = dtype_of_splits(x, y)
    a, b = _Side(x, kind), _Side(y, kind)
    made: list[Partition] = []
    many = _same_rank(a, b)
    count = _rows(a, b)
    for at in range(many):
        part = _next(a, b, at, count)
        made.append(part)
        count = part.splits[-1]
    return a.values(many), b.values(many), made


def dtype_of_splits(*given: Any) -> DType:
    """That of the row_splits of what is ragged among them.  Raises ValueError if there are two."""
    kinds = {each.row_splits.dtype for each in given if isinstance(each, Ragged)}
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.name for kind in kinds))
        raise ValueError(
            f"Input RaggedTensors have mismatched row_splits dtypes, {names}: with_row_splits_dtype() makes them one"
        )
    found: DType = kinds.pop()
    return found


def same_rows(first: Any, other: Any) -> Tensor:
    """The innermost values of `other`, whose rows are those of `first`.  Raises ValueError, InvalidArgument."""
    if first.ragged_rank != other.ragged_rank:
        raise ValueError(
            "All ragged inputs must have the same ragged_rank, and two have "
            f"{first.ragged_rank} and {other.ragged_rank}: to_tensor() makes one dense"
        )
    dtype_of_splits(first, other)
    mine, its = (each.flat_values.raw_shape for each in (first, other))
    if mine and its and None not in (mine[0], its[0]) and mine[0] != its[0]:
        raise ValueError(
            "Input RaggedTensors' flat_values must all have the same outer-dimension size, and two have "
            f"{mine[0]} and {its[0]}: their rows are not the same"
        )
    checks: list[Operation] = []
    pairs = zip(first.nested_row_splits, other.nested_row_splits, strict=True)
    for at, (splits, others) in enumerate(pairs):
        checks += _checks_of_splits(splits, others, at + 1)
    flat: Tensor = _after(checks, other.flat_values)
    return flat


def rows_of(splits: Tensor, count: Tensor) -> Tensor:
    """The row of each of `count` values."""
    inner = splits[1:-1]
    made: Tensor = cumsum(unsorted_segment_sum(ones_like(inner), inner, count + 1))[:-1]
    return made


class _Places:
    """Rows cut into what the next dimension has: of each of those its row, and its place there, computed once."""

    def __init__(self, splits: Tensor) -> None:
        self.splits = splits

    @cached_property
    def rows(self) -> Tensor:
        return rows_of(self.splits, self.splits[-1])

    @cached_property
    def within(self) -> Tensor:
        total = self.splits[-1]
        found: Tensor = range_of(total) - gather(self.splits, self.rows)
        return found


class _Side:
    """One of the two.  at: of each row of the result its own row; None: they are the same; or `_ONLY`."""

    def __init__(self, given: Any, kind: DType) -> None:
        cuts, level = [], given
        while isinstance(level, Ragged):
            length = level.uniform_row_length
            known = length if length is None or isinstance(length, int) else cast(length, kind)
            cuts.append(_Cut(cast(level.row_splits, kind), known))
            level = level.values
        self.flat: Tensor = level
        self.ragged = len(cuts)
        self.lead = 0  # dimensions of size 1 before its own
        self.at: Any = None
        self.checks: list[Operation] = []
        raw = level.raw_shape
        self.inner: list[Size] = [] if raw is None else _sizes(level, raw, kind)
        self.rank = None if raw is None else self.ragged + len(raw)
        self.cuts = [*cuts, *(_Cut(None, size) for size in self.inner[1:])]
        self.rows: Size = _number_of_rows(given, kind) if cuts else next(iter(self.inner), 1)

    def grow(self, rank: int) -> None:
        """Dimensions of size 1 before its own, up to that rank."""
        assert self.rank is not None
        self.lead = rank - self.rank
        if self.lead:
            ones = [_Cut(None, 1)] * (self.lead - 1)
            self.cuts = [*ones, _Cut(None, self.rows), *self.cuts]
            self.rows = 1

    def lengths(self, cut: _Cut) -> Tensor:
        """Of each row of the result, the length of its ragged row."""
        assert cut.splits is not None
        own = cut.splits[1:] - cut.splits[:-1]
        if self.at is _ONLY:
            return own  # one, which broadcasts
        found: Tensor = own if self.at is None else gather(own, self.at)
        return found

    def splits(self, cut: _Cut, count: Size) -> Tensor:
        """Where the rows of the result begin, if they have the lengths of its ragged ones."""
        assert cut.splits is not None
        if self.at is None:
            return cut.splits
        if self.at is _ONLY:
            return range_of(_tensor(count, cut.splits) + 1) * cut.splits[-1]
        return _begins(self.lengths(cut))

    def descend(self, cut: _Cut, places: _Places, length: Size | None) -> None:
        """Go on to the next dimension.  length: of the rows of the result, None where they are ragged."""
        own = cut.length
        fixed = isinstance(own, int)
        whole = own is None or own is length or (fixed and own != 1) or (fixed and own == length)
        if (self.at is None and whole) or (self.at is _ONLY and _is(own, 1)):
            return
        parts: list[Tensor] = []
        if self.at is not _ONLY:
            above = places.rows if self.at is None else gather(self.at, places.rows)
            if own is None:
                parts.append(gather(cut.splits, above))
            else:
                parts.append(above if _is(own, 1) else above * own)
        if whole:
            parts.append(places.within)
        elif not fixed:  # one element, which is repeated, or as many as there are
            parts.append(places.within * cast(not_equal(own, 1), places.within.dtype))
        self.at = reduce(operator.add, parts)

    def values(self, many: int) -> Tensor:
        """The innermost values, as those of a result whose first `many` dimensions after the rows are cut."""
        flat = _after(self.checks, self.flat)
        merged = many - self.lead - self.ragged
        if merged:
            sizes = [reduce(operator.mul, self.inner[: merged + 1]), *self.inner[merged + 1 :]]
            known = all(isinstance(size, int) for size in sizes)
            flat = reshape(flat, sizes if known else stack(sizes))
        if self.at is None or self.at is _ONLY:
            return flat
        found: Tensor = gather(flat, self.at)
        return found


def _number_of_rows(given: Any, kind: DType) -> Size:
    raw = given.row_splits.raw_shape
    if raw is not None and raw[0] is not None:
        known: int = raw[0] - 1
        return known
    found: Tensor = given.nrows(kind)
    return found


def _sizes(flat: Tensor, raw: Any, kind: DType) -> list[Size]:
    if None not in raw:
        return list(raw)
    sizes = shape_of(flat, out_type=kind)
    return [sizes[at] if size is None else size for at, size in enumerate(raw)]


def _same_rank(a: _Side, b: _Side) -> int:
    """How many dimensions of the result are cut, once both have one rank.  Raises ValueError."""
    if a.rank is None or b.rank is None:
        if a.ragged != b.ragged:
            raise ValueError(
                "Unable to broadcast: unknown rank: set_shape says what is known of a dense tensor, or of the values "
                "of a ragged one"
            )
        return a.ragged
    rank = max(a.rank, b.rank)
    many = max(each.ragged + rank - each.rank for each in (a, b) if each.rank and each.ragged)
    a.grow(rank)
    b.grow(rank)
    return many


def _is(size: Size | None, number: int) -> bool:
    return isinstance(size, int) and size == number


def _tensor(size: Size, like: Tensor) -> Tensor:
    """A size as a tensor of the dtype of another."""
    found: Tensor = cast(size, like.dtype)
    return found


def _after(checks: list[Operation], value: Tensor) -> Tensor:
    """The value, once it was checked."""
    if not checks:
        return value
    with control_dependencies(checks):
        found: Tensor = identity(value)
        return found


def _begins(lengths: Tensor) -> Tensor:
    found: Tensor = concat([zeros([1], lengths.dtype), cumsum(lengths)], 0)
    return found


def _agreed(x: Size, y: Size, axis: int) -> tuple[Size, list[Operation]]:
    """The size that x and y broadcast to, and what checks that they do.  Raises InvalidArgument."""
    if x is y or (isinstance(x, int) and _is(y, x)) or _is(y, 1):
        return x, []
    if _is(x, 1):
        return y, []
    if isinstance(x, int) and isinstance(y, int):
        raise errors.invalid_argument(
            f"{_SAID} {axis}: {x} and {y}: sizes are equal, or one of them is 1"
        )
    known, other = (x, y) if isinstance(y, Tensor) else (y, x)
    assert isinstance(other, Tensor)
    fits = make.LogicalOr(equal(other, 1), equal(other, known))
    size = known
    if isinstance(known, Tensor):
        fits = make.LogicalOr(fits, equal(known, 1))
        size = make.SelectV2(equal(known, 1), other, known)
    check = Assert(fits, [f"{_SAID} {axis}: sizes are equal, or one of them is 1:", known, other])
    return size, [check]


def _rows(a: _Side, b: _Side) -> Size:
    """How many rows the result has.  Raises InvalidArgument."""
    mine, its = a.cuts[0].splits, b.cuts[0].splits
    if mine is not None and mine is its and a.lead == b.lead:
        return a.rows
    count, checks = _agreed(a.rows, b.rows, 0)
    for side in (a, b):
        if _is(side.rows, 1) and not _is(count, 1):
            side.at = _ONLY
        elif side.rows is not count and not isinstance(side.rows, int):
            numbers = range_of(_after(checks, cast(count, side.rows.dtype)))
            side.at = numbers * cast(not_equal(side.rows, 1), numbers.dtype)
    return count


def _next(a: _Side, b: _Side, at: int, count: Size) -> Partition:
    """How the rows of the result are cut in that dimension, and both sides' places in the next one."""
    p, q = a.cuts[at], b.cuts[at]
    if p.length is None and q.length is None:
        return _both_ragged(a, b, p, q, at + 1, count)
    if q.length is None:
        return _ragged_and_uniform(b, a, q, p, at + 1, count)
    if p.length is None:
        return _ragged_and_uniform(a, b, p, q, at + 1, count)
    length, checks = _agreed(p.length, q.length, at + 1)
    of = _reference(a, b)
    begins = range_of(_tensor(count, of) + 1) * _tensor(length, of)
    places = _Places(_after(checks, begins))
    a.descend(p, places, length)
    b.descend(q, places, length)
    return Partition(places.splits, length)


def _reference(a: _Side, b: _Side) -> Tensor:
    """row_splits of either."""
    return next(cut.splits for cut in (*a.cuts, *b.cuts) if cut.splits is not None)


def _both_ragged(a: _Side, b: _Side, p: _Cut, q: _Cut, axis: int, count: Size) -> Partition:
    assert p.splits is not None
    assert q.splits is not None
    if a.at is None and b.at is None:
        a.checks += _checks_of_splits(p.splits, q.splits, axis)
        return Partition(_after(a.checks, p.splits), None)
    mine, its = a.lengths(p), b.lengths(q)
    said = f"{_SAID} {axis}: both are ragged, and the lengths of their rows are not the same:"
    check = Assert(reduce_all(equal(mine, its)), [said, mine, its])
    whole, part = (a, p) if b.at is _ONLY or a.at is None else (b, q)
    places = _Places(_after([check], whole.splits(part, count)))
    a.descend(p, places, None)
    b.descend(q, places, None)
    return Partition(places.splits, None)


def _ragged_and_uniform(a: _Side, b: _Side, p: _Cut, q: _Cut, axis: int, count: Size) -> Partition:
    """p is ragged, q uniform."""
    splits, size = a.splits(p, count), q.length
    assert size is not None
    if not _is(size, 1):
        lengths = a.lengths(p)
        said = f"{_SAID} {axis}: one is ragged, and the other has not the lengths of its rows:"
        known = folded(lengths)
        if known is not None and isinstance(size, int) and (np.asarray(known) != size).any():
            raise errors.invalid_argument(f"{said} they are {np.asarray(known)[:20]} and {size}")
        fits = reduce_all(equal(lengths, size))
        if not isinstance(size, int):
            fits = make.LogicalOr(fits, equal(size, 1))
        splits = _after([Assert(fits, [said, lengths, size])], splits)
    places = _Places(splits)
    a.descend(p, places, None)
    b.descend(q, places, None)
    return Partition(splits, None)


def _checks_of_splits(mine: Tensor, its: Tensor, axis: int) -> list[Operation]:
    """What checks that two have the same rows.  Raises InvalidArgument if they are known not to."""
    if mine is its:
        return []
    known, other = folded(mine), folded(its)
    both = known is not None and other is not None
    same = both and np.array_equal(np.asarray(known), np.asarray(other))
    if not mine.shape.is_compatible_with(its.shape) or (both and not same):
        raise errors.invalid_argument(
            f"{_SAID} {axis}: both are ragged, and the rows are not the same: row_splits {mine.shape} and "
            f"{its.shape}: {known}, {other}"
        )
    if same:
        return []
    fits = reduce_all(equal(mine, cast(its, mine.dtype)))
    said = f"{_SAID} {axis}: both are ragged, and the rows are not the same: row_splits="
    return [Assert(fits, [said, mine, its])]
