"""Random arrays: TensorFlow's numbers when seeded, NumPy's fastest generator when not.

A node's stream is a Philox generator whose position is its memory from run to run.  A run that makes
n numbers takes 256 n blocks of four words from it, however few it needs, as TensorFlow's CPU kernels
do; block k of a run makes elements 4k to 4k+3 (2k and 2k+1 for 64-bit types).
Logarithms and sines in single precision are the C library's, as in TensorFlow.
Called by: random_ops.  Threads: any; a stream hands out blocks under its lock.
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; Box and Muller 1958;
block counts and bit layouts found by comparing with the oracle
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import ml_dtypes
import numpy as np

from headrace.ops._kernels.libm_floats import logarithms, sines_and_cosines
from headrace.run.exec.worker_pool import parallel_for
from headrace.run.queues.philox import philox_halves, philox_words
from headrace.run.state.aligned import aligned
from headrace.run.uninterrupted import changes

Array = np.ndarray[Any, Any]
Draw = Callable[["Stream", Array, Array], None]
"""(stream, blocks [n], out [n, group]): puts the normal numbers of these blocks into out."""
BLOCKS_PER_NUMBER: Final = 256
_WORD: Final = 2**64 - 1
_CHUNK: Final = (
    1 << 17
)  # blocks made at once: with fewer, two threads wait for the interpreter as long as they work
_OUTPUTS: Final = 8192  # that are made at once of those that draw again until a number is accepted
_AHEAD: Final = (
    32  # short runs of words that are made at once; a call of NumPy takes longer than it computes
)
_RUNS: Final = 256  # of many at once, as long as they have few numbers
_NONE: Final = np.empty((0, 0))
_FEW: Final = 16  # blocks of such a run, whose words take 16 KB for all runs
_NARROW: Final = (
    1
    << 32  # whole numbers to choose among: of 53 bits that leaves the least likely all but as likely
)
_CUTOFF: Final = 2.0  # standard deviations, of the truncated normal
_SMALLEST: Final = 1e-7  # of the uniform number under the logarithm
_MANTISSA: Final = np.uint64(0x7FFFFF)  # the bits of a word that a float32 is made of
_OF_MANTISSA: Final = 2.0**-23


class Stream:
    """The numbers of one node: from two seeds, both zero for seeds nobody knows."""

    def __init__(self, seed: int, seed2: int, known: bool = False, first: int = 0) -> None:
        """known: two zeros are seeds, too.  first: the block that comes next."""
        self.seeded = known or bool(seed or seed2)
        if not self.seeded:
            seed, seed2 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))
        self._seeds = (seed & (2**64 - 1), seed2 & (2**64 - 1))
        self._next = first
        self._lock = threading.Lock()
        self._generator: np.random.Generator | None = None
        # Words by first block, their number, and what is made of them.
        self._ahead: dict[Any, Array] = {}
        # First block and number of blocks of the next run, if that is like the last one.
        self._expected: tuple[int, int] | None = None
        # By what makes them and how many they are the numbers [n, size] of runs, and the first one's first block.
        self._rows_ahead: dict[tuple[Any, int], tuple[int, Array]] = {}

    @classmethod
    def of_taken(cls, taken: Array) -> Stream:
        """What `taken` has set apart, and what follows."""
        seed, seed2, first = (int(each) for each in taken[:3])
        return cls(seed, seed2, True, first)

    @property
    def numpy(self) -> np.random.Generator:
        """For what has no fixed numbers."""
        if self._generator is None:
            with self._lock:  # two of them would give the same numbers
                if self._generator is None:
                    self._generator = np.random.Generator(np.random.SFC64(list(self._seeds)))
        return self._generator

    def taken(self, numbers: int, *more: int) -> Array:
        """uint64 [3 + …]: the seeds, and the first block of those that so many numbers take, which nobody else gets.

        `more` stands behind them: with that the numbers can be made anywhere (`ops._portable.drawing`).
        """
        first = self.reserve(numbers * BLOCKS_PER_NUMBER)
        return np.array([each & (2**64 - 1) for each in (*self._seeds, first, *more)], np.uint64)

    def now(self) -> Array:
        """uint64 [3]: the seeds and the block that comes next, which nobody takes by this.

        Of numbers that are not fixed, others each time.
        """
        if not self.seeded:
            fresh = int.from_bytes(os.urandom(16), "little")
            return np.array([fresh >> 64, fresh & _WORD, 0], np.uint64)
        return self.taken(0)

    def reserve(self, blocks: int) -> int:
        """The first of `blocks` blocks that nobody else gets."""
        with self._lock:
            first = self._next
            self._next += blocks
        return first

    @property
    def position(self) -> int:
        """The block that comes next."""
        return self._next

    def ahead(self, first: int) -> Stream:
        """The same numbers from block `first` on, without taking them."""
        made = Stream(*self._seeds, known=True, first=first)
        made._rows_ahead = self._rows_ahead
        return made

    def move(self, before: int, after: int) -> bool:
        """Have block `after` come next, where `before` would; False, and nothing, if another one would."""
        with self._lock:
            if self._next != before:
                return False
            self._next = after
        return True

    def words(self, first: int, count: int) -> Array:
        """uint64 [count, 4] of 32-bit numbers: blocks first, first + 1, …"""
        return self.words_at(_every(first, count))

    def words_of_steps(
        self, first: int, count: int, stride: int, make: Callable[[Array], Array] | None = None
    ) -> Array:
        """As `words`, of a kernel that takes `stride` blocks in each step and is likely to ask so in the next ones.

        make: of words [n, 4 * count] what is wanted in their place, for each of n steps; the same function each time.
        """
        found = self._ahead.pop((first, count, make), None)
        if found is None:
            steps = np.arange(first, first + _AHEAD * stride, stride, dtype=np.uint64)
            made = self.words_at((steps[:, None] + np.arange(count, dtype=np.uint64)).reshape(-1))
            each = made.reshape(_AHEAD, count, 4)
            if make is not None:
                each = make(made.reshape(_AHEAD, -1))
            self._ahead = {(first + n * stride, count, make): each[n] for n in range(1, _AHEAD)}
            found = each[0]
        return found

    def made_again(
        self, first: int, count: int, stride: int, make: Callable[[Array], Array] | None = None
    ) -> Array | None:
        """As `words_of_steps`; None if it has many blocks, or is not like the last one."""
        again = self._expected == (first, count)
        self._expected = first + stride, count
        if not again or not 0 < count <= _FEW:
            return None
        return self.words_of_steps(first, count, stride, make)

    def words_at(self, blocks: Array) -> Array:
        """uint64 [n, 4] of 32-bit numbers: these blocks."""
        return philox_words(*self._seeds, blocks)

    def fill(
        self, out: Array, per_block: int, numbers: Callable[[Array], Array], runs: int = 1
    ) -> None:
        """Put numbers(words) [n, per_block] into out [size], `per_block` elements from each block.

        runs: so many runs one after the other make equal parts of it.
        """
        size = out.size // runs
        stride, blocks = size * BLOCKS_PER_NUMBER, -(-size // per_block)

        def of_runs(first: int, count: int) -> Array:
            return numbers(self.words_at(_of_runs(first, count, stride, blocks)))

        if runs > 1:
            out[:] = self._rows(numbers, size, runs, of_runs)
            return
        first = self.reserve(stride)
        words = self.made_again(first, blocks, stride)
        if words is not None:
            out[:] = numbers(words).reshape(-1)[: out.size]
            return

        def chunk(at: int) -> None:
            some = out[at * per_block : (at + _CHUNK) * per_block]
            made = numbers(self.words(first + at, min(_CHUNK, blocks - at)))
            some[:] = made.reshape(-1)[: len(some)]

        parallel_for(chunk, range(0, blocks, _CHUNK))

    def floats(
        self, size: int, numbers: Callable[[Array, Array, Array], None], runs: int = 1
    ) -> Array:
        """float32 [runs * size], four to a block: numbers(even, odd, out) for some blocks at a time.

        out: [n, 4] to be filled; even, odd: words 0 and 2, words 1 and 3 of the blocks, uint64 [2, n], its own.
        """
        stride, blocks = size * BLOCKS_PER_NUMBER, -(-size // 4)

        def of_runs(first: int, count: int) -> Array:
            made = np.empty((count * blocks, 4), np.float32)
            numbers(*self.halves_at(_of_runs(first, count, stride, blocks)), made)
            return made

        if runs > 1:
            return self._rows(numbers, size, runs, of_runs)
        first, out = self.reserve(stride), aligned((blocks, 4), np.dtype(np.float32))
        made = self.made_again(first, blocks, stride, _of_steps(numbers))
        if made is not None:
            out[:] = made.reshape(-1, 4)
            return out.reshape(-1)[:size]

        def chunk(at: int) -> None:
            some = out[at : at + _CHUNK]
            numbers(*self.halves_at(_every(first + at, len(some))), some)

        parallel_for(chunk, range(0, len(out), _CHUNK))
        return out.reshape(-1)[:size]

    def _rows(
        self, numbers: Any, size: int, runs: int, of_runs: Callable[[int, int], Array]
    ) -> Array:
        """[runs * size]: the `numbers` of as many runs of `size`, and more for those that are likely to come next.

        of_runs(first, count): of so many runs from block `first` on, those that go beyond `size` too.
        """
        stride = size * BLOCKS_PER_NUMBER
        first = self.reserve(runs * stride)
        begins, rows = self._rows_ahead.get((numbers, size), (first, _NONE))
        at, beside = divmod(first - begins, stride)
        if beside or at < 0 or at + runs > len(rows):
            count = max(runs, min(_RUNS, _OUTPUTS // size))
            rows, at = of_runs(first, count).reshape(count, -1)[:, :size], 0
            self._rows_ahead.clear()
            self._rows_ahead[numbers, size] = first, rows
        return rows[at : at + runs].reshape(-1)

    def halves_at(self, blocks: Array) -> tuple[Array, Array]:
        """Words 0 and 2, and words 1 and 3, of these blocks [n]: each uint64 [2, n]."""
        return philox_halves(*self._seeds, blocks)


class Streams:
    """Those of some nodes, of which a program takes blocks by itself.  find: gives each, as its node finds it."""

    def __init__(self, find: Sequence[Callable[[], Stream]]) -> None:
        self._find = find

    def now(self) -> list[Array]:
        """As `Stream.now`, of each."""
        return [find().now() for find in self._find]

    @changes
    def advance(self, before: Sequence[Array], after: Sequence[Any]) -> bool:
        """Have what comes next be `after`, where it is `before` still; else False, and nothing."""
        found = [
            (find(), int(was[2]), int(now[2]))
            for find, was, now in zip(self._find, before, after, strict=True)
        ]
        taken = [each for each in found if each[0].seeded]
        with ExitStack() as held:
            for stream, _, _ in sorted(taken, key=lambda each: id(each[0])):
                held.enter_context(stream._lock)
            if any(stream._next & _WORD != was for stream, was, _ in taken):
                return False
            for stream, was, now in taken:
                stream._next += now - was & _WORD
        return True


@functools.cache
def _of_steps(numbers: Callable[[Array, Array, Array], None]) -> Callable[[Array], Array]:
    """float32 [n, 4 * count] from the words of as many steps, see `Stream.words_of_steps` and `Stream.floats`."""

    def make(words: Array) -> Array:
        blocks, out = words.reshape(-1, 4), np.empty((words.size // 4, 4), np.float32)
        numbers(blocks[:, ::2].T, blocks[:, 1::2].T, out)
        return out.reshape(words.shape)

    return make


def _every(first: int, count: int, stride: int = 1) -> Array:
    """uint64 [count]: first, first + stride, …"""
    few = _numbers()
    found: Array = few[:count] if count <= len(few) else np.arange(count, dtype=np.uint64)
    if stride != 1:
        found = found * np.uint64(stride)
    return found + np.uint64(first & (2**64 - 1))


def _of_runs(first: int, runs: int, stride: int, count: int, step: int = 1) -> Array:
    """uint64 [runs * count]: for each run, `stride` after the one before, `count` positions with `step` between."""
    starts = _every(first, runs, stride)
    return (starts[:, None] + _every(0, count, step)).reshape(-1)


@functools.cache
def _numbers() -> Array:
    """Which take NumPy longer to make than to add to."""
    return np.arange(_CHUNK, dtype=np.uint64)


def outputs_of(rows: Array, samples: int) -> Iterator[tuple[Array, Array]]:
    """Of draws [rows, samples] the positions of those in `rows`, and which row each is in; some at a time."""
    for at in range(0, len(rows) * samples, _OUTPUTS):
        row, sample = np.divmod(np.arange(at, min(at + _OUTPUTS, len(rows) * samples)), samples)
        yield rows[row] * samples + sample, rows[row]


# -- bits to numbers in [0, 1) ----------------------------------------------------------------


def _float64(high: Array, low: Array) -> Array:
    bits = ((high & np.uint64(0xFFFFF)) << np.uint64(32)) | low | np.uint64(1023 << 52)
    return bits.view(np.float64) - 1.0


def _float16(words: Array) -> Array:
    bits = (words.astype(np.uint16) & np.uint16(0x3FF)) | np.uint16(15 << 10)
    return bits.view(np.float16) - np.float16(1)


def _bfloat16(words: Array) -> Array:
    bits = (words.astype(np.uint16) & np.uint16(0x7F)) | np.uint16(127 << 7)
    made: Array = bits.view(ml_dtypes.bfloat16) - np.array(1, ml_dtypes.bfloat16)
    return made


_FROM_WORD: dict[Any, Callable[[Array], Array]] = {
    np.dtype(np.float16): _float16,
    np.dtype(ml_dtypes.bfloat16): _bfloat16,
}


def _uniforms(even: Array, odd: Array, out: Array) -> None:
    """See `Stream.floats`."""
    bits = out.view(np.uint32)
    bits[:, 0], bits[:, 1], bits[:, 2], bits[:, 3] = even[0], odd[0], even[1], odd[1]
    bits &= np.uint32(0x7FFFFF)
    bits |= np.uint32(127 << 23)
    out -= 1


def uniform(stream: Stream, size: int, dtype: np.dtype[Any], runs: int = 1) -> Array:
    """[runs * size] in [0, 1): what so many runs make, with seeds."""
    if not stream.seeded and dtype in (np.float32, np.float64):
        return stream.numpy.random(dtype=dtype, out=aligned((size,), dtype))
    if dtype == np.float32:
        return stream.floats(size, _uniforms, runs)
    out = np.empty(runs * size, dtype)
    if dtype == np.float64:
        stream.fill(out, 2, doubles_of, runs)
    else:
        stream.fill(out, 4, _FROM_WORD[dtype], runs)
    return out


def uniform_int(
    stream: Stream, size: int, low: Any, high: Any, dtype: np.dtype[Any], runs: int = 1
) -> Array:
    """[runs * size] in [low, high), low < high: integers, or, with seeds, int64 [runs]."""
    if not stream.seeded:
        drawn: Array
        if high - low > _NARROW:
            drawn = stream.numpy.integers(low, high, size, dtype)
            return drawn
        # A sixth of the time of `integers`, which asks much before it begins.
        drawn = (stream.numpy.random(size) * (high - low)).astype(np.int64)
        drawn += low
        return drawn.astype(dtype, copy=False)
    out = np.empty(runs * size, np.uint64)
    if dtype == np.int64:
        stream.fill(out, 2, _long_words, runs)
    else:
        stream.fill(out, 4, _words, runs)
    lows, highs = (np.asarray(limit, np.int64).view(np.uint64) for limit in (low, high))
    each = out.reshape(runs, size)
    each %= np.reshape(highs - lows, (-1, 1))
    each += np.reshape(lows, (-1, 1))
    return out.view(np.int64).astype(dtype)


def _words(words: Array) -> Array:
    return words


def _long_words(words: Array) -> Array:
    found: Array = words[:, 0::2] | words[:, 1::2] << np.uint64(32)
    return found


def doubles(stream: Stream, first: int, size: int) -> Array:
    """[size] float64 in [0, 1), two to a block, from block `first` on."""
    return doubles_of(stream.words(first, -(-size // 2))).ravel()[:size]


def doubles_of_run(stream: Stream, size: int, numbers: int) -> Array:
    """As `doubles`, of a run that takes the blocks of so many numbers."""
    if not stream.seeded:
        return stream.numpy.random(size)
    stride, blocks = numbers * BLOCKS_PER_NUMBER, -(-size // 2)
    first = stream.reserve(stride)
    made = stream.made_again(first, blocks, stride, _doubles_of_steps)
    return doubles(stream, first, size) if made is None else made[:size]


def _doubles_of_steps(words: Array) -> Array:
    """See `Stream.words_of_steps`."""
    return doubles_of(words.reshape(-1, 4)).reshape(len(words), -1)


def doubles_of(words: Array) -> Array:
    """float64 [n, 2] in [0, 1) from [n, 4] words."""
    return _float64(words[:, 0::2], words[:, 1::2])


# -- normal numbers ---------------------------------------------------------------------------


def normal(stream: Stream, size: int, dtype: np.dtype[Any], runs: int = 1) -> Array:
    """[runs * size] of mean 0 and standard deviation 1: what so many runs make, with seeds."""
    if not stream.seeded:
        kind = np.float64 if dtype == np.float64 else np.float32
        made = aligned((size,), np.dtype(kind))
        return stream.numpy.standard_normal(dtype=kind, out=made).astype(dtype, copy=False)
    if dtype == np.float64:
        out = np.empty(runs * size, dtype)
        stream.fill(out, 2, normals_of, runs)
        return out
    return stream.floats(size, _normals, runs).astype(dtype, copy=False)


def truncated_normal(stream: Stream, size: int, dtype: np.dtype[Any], runs: int = 1) -> Array:
    """[runs * size] of a normal distribution without what is 2 or more standard deviations off: what so many runs make,
    with seeds.
    """
    if not stream.seeded:
        return _redrawn(stream.numpy, size, dtype)
    draw, group = (_doubles_at, 2) if dtype == np.float64 else (_floats_at, 4)
    kind = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    # Each group of elements has blocks of its own and takes the first numbers that fit.
    groups, stride = -(-size // group), group * BLOCKS_PER_NUMBER // 4

    def of_runs(first: int, count: int) -> Array:
        starts = _of_runs(first, count, size * BLOCKS_PER_NUMBER, groups, stride)
        out = aligned((len(starts), group), kind)

        def chunk(at: int) -> None:
            some, begins = out[at : at + _CHUNK], starts[at : at + _CHUNK]
            draw(stream, begins, some)  # of most groups all of these fit
            short = np.flatnonzero(~_all_of_row(np.abs(some) < _CUTOFF))
            some[short] = _fitting(stream, begins[short], some[short], stride, draw)

        parallel_for(chunk, range(0, len(out), _CHUNK))
        return out

    if runs > 1:
        return stream._rows(draw, size, runs, of_runs).astype(dtype, copy=False)
    made = of_runs(stream.reserve(size * BLOCKS_PER_NUMBER), 1)
    return made.reshape(-1)[:size].astype(dtype, copy=False)


def _fitting(stream: Stream, starts: Array, drawn: Array, most: int, draw: Draw) -> Array:
    """[n, group]: the first numbers below the cutoff that the blocks from each start [n] on have, `most` at most.

    drawn [n, group]: the numbers of the first of them.
    """
    group, blocks = drawn.shape[1], 1
    out = np.empty_like(drawn)
    rows = np.arange(len(starts))  # of out, which are not complete
    while len(rows):
        if blocks >= most:  # one chance in 10 ** 80
            raise ArithmeticError("no truncated normal numbers among all those reserved")
        more = min(blocks, most - blocks)
        where = starts[rows, None] + np.arange(blocks, blocks + more, dtype=np.uint64)
        made = np.empty((where.size, group), drawn.dtype)
        draw(stream, where.reshape(-1), made)
        drawn = np.concatenate([drawn, made.reshape(len(rows), -1)], axis=1)
        blocks += more
        fits = np.abs(drawn) < _CUTOFF
        each = min(fits.shape[1], 8)
        counts = np.bitwise_count(fits.view(f"u{each}")).sum(axis=1, dtype=np.intp)
        (enough,) = (counts >= group).nonzero()
        firsts = (counts.cumsum() - counts)[enough]
        numbers = np.flatnonzero(fits)[firsts[:, None] + np.arange(group)]
        out[rows[enough]] = drawn.take(numbers)
        if len(enough) == len(rows):
            break
        (left,) = (counts < group).nonzero()
        rows, drawn = rows[left], drawn[left]
    return out


def _floats_at(stream: Stream, blocks: Array, out: Array) -> None:
    _normals(*stream.halves_at(blocks), out)


def _doubles_at(stream: Stream, blocks: Array, out: Array) -> None:
    out[...] = normals_of(stream.words_at(blocks))


def _all_of_row(truths: Array) -> Array:
    """[n] of bools [n, 2 or 4]: whether all of a row hold; `all` takes several times as long."""
    rows: Array = truths.view(f"u{truths.shape[1]}")[:, 0]
    found: Array = rows == int.from_bytes(bytes([1] * truths.shape[1]))
    return found


def _redrawn(generator: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Array:
    kind = np.float64 if dtype == np.float64 else np.float32
    out = generator.standard_normal(dtype=kind, out=aligned((size,), np.dtype(kind)))
    far = np.flatnonzero(np.abs(out) >= _CUTOFF)
    while far.size:
        again = generator.standard_normal(far.size, kind)
        out[far] = again
        far = far[np.abs(again) >= _CUTOFF]
    return out.astype(dtype, copy=False)


def normals_of(words: Array) -> Array:
    """float64 [n, 2] of mean 0 and standard deviation 1 from [n, 4] words, by Box and Muller's transform."""
    radius_of, angle_of = _float64(words[:, 0], words[:, 1]), _float64(words[:, 2], words[:, 3])
    logs = _each(math.log, np.maximum(radius_of, _SMALLEST))
    angle = 2 * np.pi * angle_of
    radius = np.sqrt(-2.0 * logs)
    return np.stack((_each(math.sin, angle) * radius, _each(math.cos, angle) * radius), axis=1)


def _normals(even: Array, odd: Array, out: Array) -> None:
    """As `normals_of`, of float32; see `Stream.floats`."""
    even &= _MANTISSA
    x = even.astype(np.float32).reshape(-1)
    x *= np.float32(_OF_MANTISSA)
    radius = logarithms(np.maximum(x, np.float32(_SMALLEST), out=x))
    radius *= np.float32(-2)
    np.sqrt(radius, radius)
    odd &= _MANTISSA
    angle = odd.astype(np.float64).reshape(-1)
    angle *= 2 * np.pi * _OF_MANTISSA
    for at, wave in enumerate(sines_and_cosines(angle.astype(np.float32))):
        np.multiply(wave.reshape(even.shape), radius.reshape(even.shape), out=out.T[at::2])


def _each(function: Callable[[float], float], x: Array) -> Array:
    return np.fromiter(map(function, x.tolist()), np.float64, len(x))
