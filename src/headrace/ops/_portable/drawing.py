"""Array kernels of random numbers: the words of the host's streams, and the numbers that it makes of them.

Philox 4x32-10 in products of 64 bits, of which 32 are a word.  What a node of a stream takes of it in a step comes from
the host (`OpSpec.takes_ahead`): the seeds, the first of its blocks, and what else the numbers are made of.  Integers
and uniform numbers have the host's bits; normal ones differ by a few units in the last place, since logarithms and
sines are the device's.
Called by: ops._portable.table.  Threads: any.
Source: as ops._kernels.random_streams
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from headrace.base.dtypes import float64
from headrace.ops._kernels.random_streams import BLOCKS_PER_NUMBER
from headrace.ops._portable.table import (
    arrays,
    check,
    device_of,
    is_jax,
    is_traced,
    tracing,
)

_ROUNDS: Final = 10
_LOW: Final = 0xFFFFFFFF
_SCRAMBLER: Final = 0x02461E29_3EC8F720
_SMALLEST: Final = 1e-7
_FEWEST: Final = 256
"""Blocks; as many as the next power of two are made at once, so that few programs are compiled."""
_WIDE: Final = frozenset(("float64", "int64", "uint64"))
_PHILOX: Final = (1, 3)

Words = tuple[Any, Any, Any, Any]


def _halves(xp: Any, x: Any) -> tuple[Any, Any]:
    """uint32: the lower and the upper halves of uint64."""
    return xp.astype(x & _LOW, xp.uint32), xp.astype(x >> 32, xp.uint32)


def _words(xp: Any, seed: Any, high: Any, blocks: Any) -> Words:
    """The four numbers, uint32 [n] each, of blocks [n] under a seed [1] and an upper half of the counter [1]."""
    key, other_key = _halves(xp, seed)
    a, b = _halves(xp, blocks)
    c, d = _halves(xp, high)
    for _ in range(_ROUNDS):
        low, upper = _halves(xp, xp.astype(a, xp.uint64) * 0xD2511F53)
        other_low, other_upper = _halves(xp, xp.astype(c, xp.uint64) * 0xCD9E8D57)
        a, b, c, d = other_upper ^ b ^ key, other_low, upper ^ d ^ other_key, low
        key, other_key = key + 0x9E3779B9, other_key + 0xBB67AE85
    return a, b, c, d


def _words_of(xp: Any, taken: Any, blocks: int) -> Words:
    """Of so many blocks from the first on that was taken."""
    every = xp.arange(blocks, dtype=xp.uint64, device=device_of(taken))
    return _words(xp, taken[0:1], taken[1:2], every + taken[2:3])


def _in_order(xp: Any, parts: Any) -> Any:
    """[n] each: the first of each, the second of each, …"""
    return xp.reshape(xp.stack(parts, axis=1), (-1,))


def _pair(xp: Any, low: Any, high: Any) -> Any:
    """uint64 of two words."""
    return xp.astype(low, xp.uint64) | (xp.astype(high, xp.uint64) << 32)


def _integers(xp: Any, words: Words, kind: str) -> Any:
    """uint64 of a word each, or of two where the type is as wide."""
    a, b, c, d = words
    if kind in _WIDE:
        return _in_order(xp, (_pair(xp, a, b), _pair(xp, c, d)))
    return xp.astype(_in_order(xp, words), xp.uint64)


# -- words to numbers -------------------------------------------------------------------------------------------------

_BITS: Final = {"float32": 23, "float16": 10, "bfloat16": 7, "float64": 52}


def _fraction(xp: Any, word: Any, kind: str) -> Any:
    """In [0, 1): the last bits of a word, or of a pair of them, behind the point."""
    bits = _BITS[kind]
    whole = xp.astype(word & ((1 << bits) - 1), xp.int64 if bits > 31 else xp.int32)
    return xp.astype(whole, getattr(xp, kind)) * 2.0**-bits


def _float64s(xp: Any, words: Words) -> tuple[Any, Any]:
    """Two of each block; the first word has the upper bits."""
    a, b, c, d = words
    pairs = _pair(xp, b, a), _pair(xp, d, c)
    return _fraction(xp, pairs[0], "float64"), _fraction(xp, pairs[1], "float64")


def uniform(xp: Any, kind: str, taken: Any, words: Words) -> Any:
    if kind == "float64":
        return _in_order(xp, _float64s(xp, words))
    return _in_order(xp, [_fraction(xp, each, kind) for each in words])


def normal(xp: Any, kind: str, taken: Any, words: Words) -> Any:
    """By Box and Muller's transform."""
    if kind == "float64":
        of_radius, of_angle = _float64s(xp, words)
        return _in_order(xp, _waves(xp, of_radius, of_angle * (2 * math.pi)))
    drawn = [_fraction(xp, each, "float32") for each in words]
    found = []
    for of_radius, of_angle in (drawn[:2], drawn[2:]):
        angle = xp.astype(of_angle, xp.float64) * (2 * math.pi)
        found += _waves(xp, of_radius, xp.astype(angle, xp.float32))
    return xp.astype(_in_order(xp, found), getattr(xp, kind))


def _waves(xp: Any, of_radius: Any, angle: Any) -> list[Any]:
    floor = xp.full_like(of_radius, _SMALLEST)
    radius = xp.sqrt(xp.log(xp.maximum(of_radius, floor)) * -2.0)
    return [xp.sin(angle) * radius, xp.cos(angle) * radius]


def _whole(xp: Any, kind: str, taken: Any, words: Words) -> Any:
    """taken: the span and the lowest number are behind what all have."""
    return _wrapped(xp, _integers(xp, words, kind) % taken[3:4] + taken[4:5], kind)


def _all_bits(xp: Any, kind: str, taken: Any, words: Words) -> Any:
    return _wrapped(xp, _integers(xp, words, kind), kind)


def _wrapped(xp: Any, x: Any, kind: str) -> Any:
    """uint64 as a type of fewer bits, or with a sign."""
    if kind == "int32":
        x = xp.astype(x & _LOW, xp.int64)
        x = xp.where(x >= 1 << 31, x - (1 << 32), x)
    elif kind == "uint32":
        x = x & _LOW
    return xp.astype(x, getattr(xp, kind))


# -- filling ----------------------------------------------------------------------------------------------------------

Maker = Callable[[Any, str, Any, Words], Any]


def _made(xp: Any, maker: Maker, kind: str, blocks: int, taken: Any) -> Any:
    return maker(xp, kind, taken, _words_of(xp, taken, blocks))


@lru_cache(maxsize=256)
def _compiled(xp: Any, maker: Maker, kind: str, blocks: int) -> Callable[[Any], Any]:
    import jax

    def traced(taken: Any) -> Any:
        with tracing():
            return _made(xp, maker, kind, blocks, taken)

    program: Callable[[Any], Any] = jax.jit(traced)
    return program


def filled(xp: Any, maker: Maker, shape: Any, taken: Any, dtype: Any) -> Any:
    check(np.ndim(shape) == 1)
    sizes = tuple([int(size) for size in shape])
    check(min(sizes, default=1) >= 0)
    kind = dtype.base_dtype.name
    size = math.prod(sizes)
    blocks = -(-size // (2 if kind in _WIDE else 4))
    if is_jax(xp) and not is_traced():
        found = _compiled(xp, maker, kind, max(_FEWEST, 1 << (blocks - 1).bit_length()))(taken)
    else:
        found = _made(xp, maker, kind, blocks, taken)
    return xp.reshape(found[:size], sizes)


@arrays("RandomUniform", host=(0,))
def _random_uniform(xp: Any, shape: Any, taken: Any, *, dtype: Any) -> Any:
    return filled(xp, uniform, shape, taken, dtype)


@arrays("RandomStandardNormal", host=(0,))
def _random_normal(xp: Any, shape: Any, taken: Any, *, dtype: Any) -> Any:
    return filled(xp, normal, shape, taken, dtype)


@arrays("RandomUniformInt", host=(0, 1, 2))
def _random_whole(xp: Any, shape: Any, minval: Any, maxval: Any, taken: Any, *, Tout: Any) -> Any:
    return filled(xp, _whole, shape, taken, Tout)


# -- of a stream that is carried along -------------------------------------------------------------------------------


class Carried:
    """A node's stream in a program that takes of it again and again, and what the node asks of the runtime meanwhile.

    state: uint64 [3], the seeds and the block that comes next, as `Stream.now` gives it.
    """

    seeded = True

    def __init__(self, xp: Any, state: Any) -> None:
        self._xp, self.state = xp, state

    @property
    def memo(self) -> dict[str, Any]:
        """What the node remembers."""
        return {"stream": self}

    def taken(self, numbers: int, *more: int) -> Any:
        """As `Stream.taken`."""
        taken = self.state
        further = np.array([0, 0, numbers * BLOCKS_PER_NUMBER], np.uint64)
        self.state = taken + self._xp.asarray(further)
        if not more:
            return taken
        behind = np.array([each & (2**64 - 1) for each in more], np.uint64)
        return self._xp.concat([taken, self._xp.asarray(behind)])


# -- by a seed, or by a key and a counter -----------------------------------------------------------------------------


def _scrambled(xp: Any, seed: Any) -> tuple[Any, Any]:
    """uint64 [1] and [1]: the key, and the upper half of the counter, that a seed [2] stands for."""
    check(seed.shape == (2,))
    wide = seed if seed.dtype == xp.uint64 else xp.astype(seed, xp.int64)
    pair = xp.astype(wide, xp.uint64)
    scrambler = xp.zeros_like(pair[0:1]) + _SCRAMBLER
    a, b, c, d = _words(xp, scrambler, pair[1:2], pair[0:1])
    return _pair(xp, a, b), _pair(xp, c, d)


def _of_seed(xp: Any, seed: Any) -> Any:
    key, high = _scrambled(xp, seed)
    return xp.concat([key, high, xp.zeros_like(key)])


def _of_key(xp: Any, key: Any, counter: Any, alg: Any) -> Any:
    check(key.shape == (1,) and counter.shape == (2,) and np.ndim(alg) == 0)
    check(int(alg) in _PHILOX)
    return xp.concat([key, counter[1:2], counter[0:1]])


def _limited(xp: Any, taken: Any, minval: Any, maxval: Any, dtype: Any) -> Any:
    """With the span and the lowest number behind what all have."""
    check(np.ndim(minval) == np.ndim(maxval) == 0)
    low, high = int(minval), int(maxval)
    check(low < high)
    more = np.array([high - low, low & (2**64 - 1)], np.uint64)
    return xp.concat([taken, xp.asarray(more, device=device_of(taken))])


def _fillers(name: str, maker: Maker) -> None:
    @arrays(name, host=(0,))
    def by_seed(xp: Any, shape: Any, seed: Any, *, dtype: Any) -> Any:
        return filled(xp, maker, shape, _of_seed(xp, seed), dtype)

    @arrays(f"{name}V2", host=(0, 3))
    def by_key(xp: Any, shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any) -> Any:
        return filled(xp, maker, shape, _of_key(xp, key, counter, alg), dtype)


_fillers("StatelessRandomUniform", uniform)
_fillers("StatelessRandomNormal", normal)
_fillers("StatelessRandomUniformFullInt", _all_bits)


@arrays("StatelessRandomUniformInt", host=(0, 2, 3))
def _whole_by_seed(xp: Any, shape: Any, seed: Any, minval: Any, maxval: Any, *, dtype: Any) -> Any:
    taken = _limited(xp, _of_seed(xp, seed), minval, maxval, dtype)
    return filled(xp, _whole, shape, taken, dtype)


@arrays("StatelessRandomUniformIntV2", host=(0, 3, 4, 5))
def _whole_by_key(
    xp: Any, shape: Any, key: Any, counter: Any, alg: Any, minval: Any, maxval: Any, *, dtype: Any
) -> Any:
    taken = _limited(xp, _of_key(xp, key, counter, alg), minval, maxval, dtype)
    return filled(xp, _whole, shape, taken, dtype)


@arrays("StatelessRandomGetKeyCounter")
def _key_and_counter(xp: Any, seed: Any) -> tuple[Any, Any]:
    key, high = _scrambled(xp, seed)
    return key, xp.concat([xp.zeros_like(high), high])


# -- categories and orders --------------------------------------------------------------------------------------------


def _classes(xp: Any, logits: Any, samples: Any, taken: Any, dtype: Any) -> Any:
    """[batch, samples] of class numbers; logits [batch, classes].  By where numbers drawn are in sums of weights."""
    check(logits.ndim == 2 and np.ndim(samples) == 0 and xp.isdtype(logits.dtype, "real floating"))
    batch, classes = logits.shape
    many = int(samples)
    check(batch > 0 and classes > 0 and many > 0)
    drawn = filled(xp, uniform, np.array([batch, many]), taken, float64)
    wide = xp.astype(logits, xp.float64)
    finite = xp.isfinite(wide)
    least = xp.full_like(wide, -math.inf)
    tops = xp.max(xp.where(finite, wide, least), axis=1, keepdims=True)
    powers = xp.exp(xp.where(finite, wide - tops, least))
    totals = xp.cumulative_sum(xp.where(finite, powers, xp.zeros_like(powers)), axis=1)
    wanted = drawn * totals[:, -1:]
    if is_jax(xp):
        import jax

        found = jax.vmap(lambda row, each: xp.searchsorted(row, each, side="right"))(totals, wanted)
    else:
        found = xp.stack(
            [xp.searchsorted(totals[at, :], wanted[at, :], side="right") for at in range(batch)]
        )
    return xp.astype(found, getattr(xp, dtype.name))


@arrays("Multinomial", host=(1,))
def _multinomial(xp: Any, logits: Any, num_samples: Any, taken: Any, *, output_dtype: Any) -> Any:
    return _classes(xp, logits, num_samples, taken, output_dtype)


@arrays("StatelessMultinomial", host=(1,))
def _multinomial_by_seed(
    xp: Any, logits: Any, num_samples: Any, seed: Any, *, output_dtype: Any
) -> Any:
    return _classes(xp, logits, num_samples, _of_seed(xp, seed), output_dtype)


@arrays("RandomShuffle")
def _shuffled(xp: Any, value: Any, taken: Any) -> Any:
    """The host has drawn the order of the rows."""
    check(value.ndim > 0 and taken.shape[0] == value.shape[0] > 0)
    return xp.take(value, taken, axis=0)
