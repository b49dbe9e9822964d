"""Examples that are laid out alike, parsed all at once.

Whoever writes Examples writes most of them alike, byte for byte but for the values of features, which stand at the same
places.  A layout is what such ones have in common.  It is learnt from one of them; whether others have it is one
comparison of arrays, and their values are gathered by slices.  How long an integer is its bytes say themselves, so that
is part of the layout, too.  What has no layout is left to `codec.examples`, and so are all if one of them is wrong.
Called by: ops.io.examples, ops.data.dataset_examples.  Threads: any; what two learn at once is learnt once more.
Source: the encoding of protocol buffers
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec.examples import Batch, DenseSpec, dense, examples
from headrace.codec.varints import MOST_BYTES, unpacked

Array = np.ndarray[Any, Any]

_FIRST, _SECOND = 0x0A, 0x12  # fields 1 and 2, with a length
_KINDS: Final = {0x0A: dtypes.string, 0x12: dtypes.float32, 0x1A: dtypes.int64}
"""Of the field that a feature has."""
_CONTINUES: Final = 0x80  # the bit of an integer's byte that another one follows
_ALL: Final = 0xFF
_EACH: Final = 8  # so many Examples of a layout pay for looking for it
_ODD: Final = 4  # of so many one may have no layout
_MOST: Final = 32  # layouts of the same features
_LONGEST: Final = 1 << 14  # bytes: of longer ones parsing is copying
_PATIENCE: Final = 1 << 10  # batches after which what failed is tried again


# -- values -----------------------------------------------------------------------------------


class _Values(Protocol):
    """Where one feature's values stand in Examples of a layout."""

    def of(self, rows: Array, contents: Sequence[bytes]) -> Array:
        """[n, values].  rows: uint8 [n, length], the bytes of the contents."""


class _Floats(NamedTuple):
    begin: int
    end: int

    def of(self, rows: Array, contents: Sequence[bytes]) -> Array:
        found: Array = rows[:, self.begin : self.end].copy().view("<f4")
        return found


class _Integers(NamedTuple):
    """parts: which integers have a byte of these seven bits (all: None), where it is, and how far they are shifted."""

    parts: tuple[tuple[Array | None, Array, int], ...]

    def of(self, rows: Array, contents: Sequence[bytes]) -> Array:
        (_, places, _), *more = self.parts
        found = rows.take(places, axis=1).astype(np.uint64)
        if more:
            found &= np.uint64(~_CONTINUES & _ALL)
        for which, places, shift in more:
            bits = (rows.take(places, axis=1) & (~_CONTINUES & _ALL)).astype(np.uint64)
            bits <<= np.uint64(shift)
            if which is None:
                found |= bits
            else:
                found[:, which] |= bits
        return found.view(np.int64)


class _Strings(NamedTuple):
    spans: tuple[tuple[int, int], ...]

    def of(self, rows: Array, contents: Sequence[bytes]) -> Array:
        found = np.empty(len(contents) * len(self.spans), object)
        found[:] = [content[begin:end] for content in contents for begin, end in self.spans]
        return found.reshape(len(contents), len(self.spans))


class _Default(NamedTuple):
    values: Array

    def of(self, rows: Array, contents: Sequence[bytes]) -> Array:
        return np.repeat(self.values.reshape(1, -1), len(rows), axis=0)


class _Layout(NamedTuple):
    """places: of the bytes that all have in common; of each, which bits, and what they are."""

    places: Array
    bits: Array
    wanted: Array
    values: tuple[_Values, ...]

    def fits(self, rows: Array) -> Array:
        """bool [n].  rows: uint8 [n, length]."""
        found: Array = ((rows.take(self.places, axis=1) & self.bits) == self.wanted).all(axis=1)
        return found


# -- learning one -----------------------------------------------------------------------------


def _inside(content: bytes, at: int, tag: int, limit: int) -> tuple[int, int]:
    """Where what the field at `at` holds begins and ends.  Raises ValueError, IndexError (another field, or beyond)."""
    size, begin = unpacked(content, at + 1)
    if content[at] != tag or begin + size > limit:
        raise ValueError(f"no field with tag {tag} at byte {at}")
    return begin, begin + size


def _only(content: bytes, at: int, tag: int, limit: int) -> tuple[int, int]:
    """As `_inside`, and nothing may follow it."""
    begin, end = _inside(content, at, tag, limit)
    if end != limit:
        raise ValueError(f"more than one field at byte {at}")
    return begin, end


def _features(content: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Of each feature the key, and the tag, begin and end of its list of values.  Raises ValueError, IndexError."""
    at, end = _only(content, 0, _FIRST, len(content))
    while at < end:
        entry, at = _inside(content, at, _FIRST, end)
        key, value = _inside(content, entry, _FIRST, at)
        feature, _ = _only(content, value, _SECOND, at)
        if feature == at:  # has no kind
            yield content[key:value], 0, at, at
        else:
            yield (
                content[key:value],
                content[feature],
                *_only(content, feature, content[feature], at),
            )


def _varints(content: bytes, begin: int, end: int) -> list[tuple[int, int]]:
    """Where each begins and ends.  Raises ValueError."""
    found = []
    while begin < end:
        _, after = unpacked(content, begin)
        found.append((begin, after))
        begin = after
    if begin != end:
        raise ValueError("an integer goes on beyond its list")
    return found


class _Learning:
    """A layout in the making: all bytes are compared, but for values."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.bits = np.full(len(content), _ALL, np.uint8)

    def values(self, tag: int, begin: int, end: int) -> tuple[int, _Values]:
        """How many there are in a list of a feature, and where.  Raises ValueError, IndexError."""
        if _KINDS[tag] is dtypes.string:
            return self._strings(begin, end)
        if begin < end:
            begin, end = _only(self._content, begin, _FIRST, end)
        if _KINDS[tag] is dtypes.float32:
            if (end - begin) % 4:
                raise ValueError("part of a float")
            self.bits[begin:end] = 0
            return (end - begin) // 4, _Floats(begin, end)
        return self._integers(_varints(self._content, begin, end))

    def _strings(self, at: int, end: int) -> tuple[int, _Values]:
        spans = []
        while at < end:
            begin, at = _inside(self._content, at, _FIRST, end)
            self.bits[begin:at] = 0
            spans.append((begin, at))
        return len(spans), _Strings(tuple(spans))

    def _integers(self, spans: list[tuple[int, int]]) -> tuple[int, _Values]:
        for begin, end in spans:
            self.bits[begin : min(end, begin + MOST_BYTES - 1)] = _CONTINUES
        parts: list[tuple[Array | None, Array, int]] = []
        for at in range(max((end - begin for begin, end in spans), default=0)):
            which = np.array([n for n, (begin, end) in enumerate(spans) if begin + at < end])
            places = np.array([spans[n][0] + at for n in which])
            parts.append((None if len(which) == len(spans) else which, places, 7 * at))
        return len(spans), _Integers(tuple(parts))


def _layout(content: bytes, specs: Sequence[DenseSpec]) -> _Layout | None:
    """That of an Example, of which the features are asked for; None if it has not what it should.

    Raises ValueError, IndexError, KeyError if it is written in another way than by libraries of protocol buffers.
    """
    learning = _Learning(content)
    found: dict[bytes, tuple[int, int, _Values]] = {}
    for key, tag, begin, end in _features(content):
        if key in found:
            return None
        if tag:
            found[key] = (tag, *learning.values(tag, begin, end))
    values: list[_Values] = []
    for spec in specs:
        feature = found.get(spec.key.encode(errors="surrogateescape"))
        if feature is None:
            if not spec.default.size:
                return None
            values.append(_Default(spec.default))
            continue
        tag, count, taken = feature
        if _KINDS[tag] is not spec.dtype or count != math.prod(spec.shape):
            return None
        values.append(taken)
    places = np.flatnonzero(learning.bits)
    bits = learning.bits[places]
    wanted = np.frombuffer(content, np.uint8)[places] & bits
    return _Layout(places, bits, wanted, tuple(values))


# -- using them -------------------------------------------------------------------------------


class Layouts:
    """Those of the Examples from which these features are taken, as far as they have been seen."""

    def __init__(self, specs: Sequence[DenseSpec]) -> None:
        self._specs = specs
        self._sizes = [0 if spec.varies else math.prod(spec.shape) for spec in specs]
        self._known: dict[int, tuple[_Layout, ...]] = {}  # by length
        self._count = 0
        self._pause = 0  # batches that are not tried, and how many of them are left
        self._left = 0

    def columns(self, contents: Sequence[bytes]) -> list[Array] | None:
        """Of each feature [n, *shape]; None where `codec.examples` has to look, which may find something wrong."""
        if len(contents) < _EACH or not self._sizes or not all(self._sizes):
            return None
        if self._left:
            self._left -= 1
            return None
        found = self._columns(contents)
        if found is not None:
            self._pause = 0
            return found
        self._left = self._pause = min(2 * self._pause + 1, _PATIENCE)
        if self._count >= _MOST:
            self._known, self._count = {}, 0
        return None

    def _columns(self, contents: Sequence[bytes]) -> list[Array] | None:
        count = len(contents)
        pieces = self._pieces(contents)
        if pieces is None or len(pieces) > max(1, count // _EACH):
            return None
        if len(pieces) == 1:
            values = pieces[0][1]
            return None if values is None else self._shaped(values)
        if sum(len(which) for which, values in pieces if values is None) * _ODD > count:
            return None
        out = [
            np.empty((count, size), spec.dtype.np)
            for spec, size in zip(self._specs, self._sizes, strict=True)
        ]
        for which, values in pieces:
            if values is None:
                values = self._apart([contents[at] for at in which.tolist()])
            if values is None:
                return None
            for whole, part in zip(out, values, strict=True):
                whole[which] = part
        return self._shaped(out)

    def _shaped(self, values: Sequence[Array]) -> list[Array]:
        return [
            each.reshape(len(each), *spec.shape)
            for each, spec in zip(values, self._specs, strict=True)
        ]

    def _apart(self, contents: Sequence[bytes]) -> list[Array] | None:
        """Of those that have no layout; None if one is wrong."""
        batch = Batch(contents, ())
        try:
            features = examples(batch)
            return [dense(features, spec, batch).reshape(len(contents), -1) for spec in self._specs]
        except errors.OpError:
            return None

    def _pieces(self, contents: Sequence[bytes]) -> list[tuple[Array, list[Array] | None]] | None:
        """Which Examples, and their values if they have a layout.  None: they are too different, or too long."""
        lengths = list(map(len, contents))
        kinds = set(lengths)
        if max(kinds) > _LONGEST or not min(kinds) or len(kinds) > max(1, len(contents) // _EACH):
            return None
        if len(kinds) == 1:
            return list(self._alike(np.arange(len(contents)), contents))
        found: list[tuple[Array, list[Array] | None]] = []
        by_length = np.array(lengths)
        for length in kinds:
            which = np.flatnonzero(by_length == length)
            found += self._alike(which, [contents[at] for at in which.tolist()])
        return found

    def _alike(
        self, which: Array, contents: Sequence[bytes]
    ) -> Iterator[tuple[Array, list[Array] | None]]:
        """See `_pieces`; of one length."""
        rows = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), -1)
        known = iter(self._known.get(rows.shape[1], ()))
        room = max(1, len(contents) // _EACH)  # for layouts that are new
        while True:
            layout = next(known, None)
            if layout is None and room:
                layout, room = self._learnt(contents[0]), room - 1
            if layout is None:
                yield which, None
                return
            fits = layout.fits(rows)
            if fits.all():
                yield which, [each.of(rows, contents) for each in layout.values]
                return
            if fits.any():
                some, here = rows[fits], list(compress(contents, fits))
                yield which[fits], [each.of(some, here) for each in layout.values]
                rest = ~fits
                which, rows, contents = which[rest], rows[rest], list(compress(contents, rest))

    def _learnt(self, content: bytes) -> _Layout | None:
        """The layout of this Example; None if it has none, or there are too many."""
        if self._count >= _MOST:
            return None
        try:
            pb.Example.FromString(content)  # which looks at what is not compared: keys are text
            layout = _layout(content, self._specs)
        except (DecodeError, ValueError, IndexError, KeyError):
            return None
        if layout is not None:
            self._count += 1
            same = self._known.get(len(content), ())
            self._known[len(content)] = (*same, layout)
        return layout
