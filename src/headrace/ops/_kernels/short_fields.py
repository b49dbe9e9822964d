"""Fields of a text that are short, eight letters in a word: numbers of up to eight letters, and words that repeat.

What is done to a letter of a number is done to all eight at once, in the bits of one uint64 for each field: the point
is found, taken out, and the digits are joined in pairs, fours and eights.  The words of a feature are few, so nearly
all are found among those that came before, and need no objects of their own.
Called by: ops._kernels.csv_columns.  Threads: any; who remembers more words takes a lock, who looks for them none.
"""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

LETTERS: Final = 8  # of a word of memory


class Lines(NamedTuple):
    """Plain lines of a text, each of as many fields.

    text: with `LETTERS` zeros at its end.  letters: of the lines.  words: the eight letters from each place on, the
    first one lowest.  starts, ends: of fields, column by column.
    """

    text: bytes
    letters: Array
    words: Array
    starts: Array
    ends: Array


def words_of(text: bytes) -> Array:
    """The eight letters from each place on, but for the last seven."""
    return np.ndarray((len(text) - LETTERS + 1,), "<u8", text, 0, (1,)).astype(np.uint64)


def _each(letter: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([letter]) * LETTERS, "little"))


_POINT = np.uint64(ord(".") ^ ord("0"))
_ZEROS, _POINTS = _each(ord("0")), _each(int(_POINT))
_ONES, _HIGHEST, _ABOVE_NINE = _each(1), _each(0x80), _each(0x76)
_ONE, _SEVEN, _EIGHT, _60 = map(np.uint64, (1, 7, 8, 60))
_SHIFTS: Final = np.array([64 - 8 * n for n in range(LETTERS + 1)], np.uint64) % np.uint64(64)
"""By how many bits the letters of a field of so many are moved to the end."""
_LOW: Final = np.array(
    [int.from_bytes(b"\xff" * n, "little") for n in range(LETTERS + 1)], np.uint64
)
"""The bits of the first so many letters."""
_PLACES: Final = np.uint64(sum(p + 1 << 53 - 8 * p for p in range(LETTERS - 1)) | 1)
"""What makes, of the highest bit of the letter at a place, a number that begins with that of the place from 1 on."""
_SCALES: Final = np.array([1.0, *(10.0 ** (LETTERS + 1 - p) for p in range(1, LETTERS + 1))])
"""What to divide by where the point is the so-many-th letter, after which comes a 0 more; where there is none, by 1."""
_JOINS: Final = tuple(
    (np.uint64(mask), np.uint64(factor), np.uint64(bits))
    for mask, factor, bits in (
        (0x0F0F0F0F0F0F0F0F, 2561, 8),
        (0x00FF00FF00FF00FF, 6553601, 16),
        (0x0000FFFF0000FFFF, 42949672960001, 32),
    )
)


def short_numbers(lines: Lines, columns: Array, pointed: bool) -> tuple[Array, Array | None] | None:
    """The numbers of these columns [columns, lines], float64, and whether each has a point (None: none has).

    None where one is no plain decimal, without a sign, of up to eight letters.  There is a line at least.
    """
    starts, ends = lines.starts.take(columns, axis=0), lines.ends.take(columns, axis=0)
    widths = ends - starts
    least = int(widths.min())
    if least < 1 or widths.max() > LETTERS:
        return None
    found = lines.words.take(starts)
    found ^= _ZEROS
    found <<= _SHIFTS.take(widths)  # the digits before are 0
    point = None
    if pointed:
        point = found ^ _POINTS
        free = ~point
        point -= _ONES
        point &= free
        point &= _HIGHEST
        point &= -point  # the first one; another one is no digit
        if least < 2 and (widths[point != 0] < 2).any():  # a point without a digit
            return None
        lowest = point >> _SEVEN
        found ^= lowest * _POINT
        lowest -= _ONE
        before = found & lowest  # all of it where there is no point
        found ^= before
        found >>= _EIGHT  # so that the number ends with a 0 more
        found |= before
    checked = found + _ABOVE_NINE
    checked |= found
    if int(np.bitwise_or.reduce(checked, axis=None)) & int(_HIGHEST):
        return None
    for mask, factor, bits in _JOINS:
        found &= mask
        found *= factor
        found >>= bits
    numbers = found.astype(np.float64)
    if point is None:
        return numbers, None
    point *= _PLACES
    point >>= _60
    numbers /= _SCALES.take(point.view(np.int64))
    return numbers, point != 0


# -- words ------------------------------------------------------------------------------------

_WINDOWS: Final = 4  # of eight letters; longer words are made anew
_MOST: Final = 4096  # words that are remembered
_TRIED: Final = 2048  # words, after which it is known whether they repeat
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


class _Known(NamedTuple):
    """Words in the order of their keys.  windows: [letters in eights, words]."""

    keys: Array
    windows: Array
    words: Array


def _known(windows: Array, words: list[bytes]) -> _Known:
    keys = _keys(windows)
    order = np.argsort(keys, kind="stable")
    listed = np.empty(len(words), object)
    listed[:] = words
    return _Known(keys[order], windows[:, order], listed[order])


def _keys(windows: Array) -> Array:
    found: Array = windows[0]
    for more in windows[1:]:
        found = found * _MIX
        found ^= more
    return found


class Words:
    """The words of one column of text, in which are no zeros: the letters in eights tell words apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = _known(np.zeros((1, 0), np.uint64), [])
        self._found = self._missed = 0

    def of(self, lines: Lines, column: int) -> Array | None:
        """The fields of a column (of a line at least), bytes objects; None where they are to be made one by one."""
        if self._missed > _TRIED and self._missed > self._found:
            return None
        starts = lines.starts[column]
        widths = lines.ends[column] - starts
        longest = int(widths.max())
        if longest > _WINDOWS * LETTERS or widths.min() < 1:
            return None
        known, used = self._known, -(-longest // LETTERS)
        if used > len(known.windows):
            known = self._widen(used)
        windows = np.zeros((len(known.windows), len(starts)), np.uint64)
        if used == 1:
            np.bitwise_and(lines.words.take(starts), _LOW.take(widths), out=windows[0])
        else:
            for number in range(used):
                first = lines.words.take(starts + number * LETTERS, mode="clip")
                rest = np.clip(widths - number * LETTERS, 0, LETTERS)
                np.bitwise_and(first, _LOW.take(rest), out=windows[number])
        return self._of(known, windows, lines, column)

    def _of(self, known: _Known, windows: Array, lines: Lines, column: int) -> Array:
        keys = _keys(windows)
        if not len(known.keys):
            found, missed = np.empty(len(keys), object), list(range(len(keys)))
        else:
            at = known.keys.searchsorted(keys)
            same = known.windows[0].take(at, mode="clip") == windows[0]
            for theirs, ours in zip(known.windows[1:], windows[1:], strict=True):
                same &= theirs.take(at, mode="clip") == ours
            found = known.words.take(at, mode="clip")
            missed = [] if same.all() else np.flatnonzero(~same).tolist()
        self._found += len(keys) - len(missed)
        self._missed += len(missed)
        if missed:
            starts, ends = lines.starts[column], lines.ends[column]
            for each in missed:
                found[each] = lines.text[starts[each] : ends[each]]
            self._remember(windows, missed, found)
        return found

    def _widen(self, used: int) -> _Known:
        """Known words with room for longer ones."""
        with self._lock:
            known = self._known
            if used > len(known.windows):
                windows = np.zeros((used, len(known.words)), np.uint64)
                windows[: len(known.windows)] = known.windows
                known = self._known = _known(windows, known.words.tolist())
        return known

    def _remember(self, windows: Array, missed: list[int], found: Array) -> None:
        with self._lock:
            known = self._known
            if len(known.words) >= _MOST or len(known.windows) != len(windows):
                return
            there = set(known.words.tolist())
            new = {found[each]: each for each in missed if found[each] not in there}
            more = np.concatenate([known.windows, windows[:, list(new.values())]], axis=1)
            self._known = _known(more, [*known.words.tolist(), *new])
