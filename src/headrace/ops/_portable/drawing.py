"""Array kernels of random numbers: the words of the host's streams, and the numbers that it makes of them.

Philox 4x32-10 in products of 64 bits, of which 32 are a word.  What a node of a stream takes of it in a step comes from
the host (`OpSpec.takes_ahead`): the seeds, the first of its blocks, and what else the numbers are made of.  Integers and
uniform numbers have the host's bits; normal ones differ by a few units in the last place, since logarithms and sines
are the device's.
Called by: ops._portable.table.  Threads: any.
Source: as ops._kernels.random_streams
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from headrace.ops._portable.table import arrays, check, device_of, is_jax, is_traced, tracing

_ROUNDS: Final = 10
_LOW: Final = 0xFFFFFFFF
_SCRAMBLER: Final = 0x02461E29_3EC8F720
_SMALLEST: Final = 1e-7
_FEWEST: Final = 256
"""Blocks; as many as the next power of two are made at once, so that few programs are compiled."""
_WIDE: Final = frozenset(("float64", "int64", "uint64"))
_PHILOX: Final = (1, 3)

Words = tuple[Any, Any, Any, Any]


def _words(xp: Any, seed: Any, high: Any, blocks: Any) -> Words:
    """The four 32-bit numbers, uint64 [n] each, of blocks [n] under a seed [] and an upper half of the counter []."""
    key, key2 = seed & _LOW, seed >> 32
    a, b, c, d = blocks & _LOW, blocks >> 32, high & _LOW, high >> 32
    for _ in range(_ROUNDS):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (second >> 32) ^ b ^ key, second & _LOW, (first >> 32) ^ d ^ key2, first & _LOW
        key, key2 = (key + 0x9E3779B9) & _LOW, (key2 + 0xBB67AE85) & _LOW
    return a, b, c, d


def _words_of(xp: Any, taken: Any, blocks: int) -> Words:
    """Of so many blocks from the first on that was taken."""
    every = xp.arange(blocks, dtype=xp.uint64, device=device_of(taken))
    return _words(xp, taken[0], taken[1], every + taken[2])


def _in_order(xp: Any, parts: Any) -> Any:
    """[n] each: the first of each, the second of each, …"""
    return xp.reshape(xp.stack(parts, axis=1), (-1,))


def _pairs(words: Words) -> tuple[Any, Any]:
    a, b, c, d = words
    return a | (b << 32), c | (d << 32)


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
    return _fraction(xp, (a << 32) | b, "float64"), _fraction(xp, (c << 32) | d, "float64")


def _uniform(xp: Any, kind: str, taken: Any, words: Words) -> Any:
    if kind == "float64":
        return _in_order(xp, _float64s(xp, words))
    return _in_order(xp, [_fraction(xp, each, kind) for each in words])


def _normal(xp: Any, kind: str, taken: Any, words: Words) -> Any:
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
    drawn = _in_order(xp, _pairs(words) if kind in _WIDE else words)
    return _wrapped(xp, drawn % taken[3] + taken[4], kind)


def _all_bits(xp: Any, kind: str, taken: Any, words: Words) -> Any:
    return _wrapped(xp, _in_order(xp, _pairs(words) if kind in _WIDE else words), kind)


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


def _filled(xp: Any, maker: Maker, shape: Any, taken: Any, dtype: Any) -> Any:
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
    return _filled(xp, _uniform, shape, taken, dtype)


@arrays("RandomStandardNormal", host=(0,))
def _random_normal(xp: Any, shape: Any, taken: Any, *, dtype: Any) -> Any:
    return _filled(xp, _normal, shape, taken, dtype)


@arrays("RandomUniformInt", host=(0, 1, 2))
def _random_whole(
    xp: Any, shape: Any, minval: Any, maxval: Any, taken: Any, *, Tout: Any
) -> Any:
    return _filled(xp, _whole, shape, taken, Tout)


# -- by a seed, or by a key and a counter -----------------------------------------------------------------------------


def _scrambled(xp: Any, seed: Any) -> tuple[Any, Any]:
    """uint64 [] and []: the key, and the upper half of the counter, that a seed [2] stands for."""
    check(seed.shape == (2,))
    wide = seed if seed.dtype == xp.uint64 else xp.astype(seed, xp.int64)
    pair = xp.astype(wide, xp.uint64)
    a, b, c, d = _words(xp, xp.zeros_like(pair[0]) + _SCRAMBLER, pair[1], pair[0])
    return a | (b << 32), c | (d << 32)


def _of_seed(xp: Any, seed: Any) -> Any:
    key, high = _scrambled(xp, seed)
    return xp.stack([key, high, xp.zeros_like(key)])


def _of_key(xp: Any, key: Any, counter: Any, alg: Any) -> Any:
    check(key.shape == (1,) and counter.shape == (2,) and np.ndim(alg) == 0)
    check(int(alg) in _PHILOX)
    return xp.stack([key[0], counter[1], counter[0]])


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
        return _filled(xp, maker, shape, _of_seed(xp, seed), dtype)

    @arrays(f"{name}V2", host=(0, 3))
    def by_key(xp: Any, shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any) -> Any:
        return _filled(xp, maker, shape, _of_key(xp, key, counter, alg), dtype)


_fillers("StatelessRandomUniform", _uniform)
_fillers("StatelessRandomNormal", _normal)
_fillers("StatelessRandomUniformFullInt", _all_bits)


@arrays("StatelessRandomUniformInt", host=(0, 2, 3))
def _whole_by_seed(
    xp: Any, shape: Any, seed: Any, minval: Any, maxval: Any, *, dtype: Any
) -> Any:
    taken = _limited(xp, _of_seed(xp, seed), minval, maxval, dtype)
    return _filled(xp, _whole, shape, taken, dtype)


@arrays("StatelessRandomUniformIntV2", host=(0, 3, 4, 5))
def _whole_by_key(
    xp: Any, shape: Any, key: Any, counter: Any, alg: Any, minval: Any, maxval: Any, *, dtype: Any
) -> Any:
    taken = _limited(xp, _of_key(xp, key, counter, alg), minval, maxval, dtype)
    return _filled(xp, _whole, shape, taken, dtype)


@arrays("StatelessRandomGetKeyCounter")
def _key_and_counter(xp: Any, seed: Any) -> tuple[Any, Any]:
    key, high = _scrambled(xp, seed)
    return xp.reshape(key, (1,)), xp.stack([xp.zeros_like(high), high])
