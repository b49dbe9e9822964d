"""Fingerprints of many strings at once: FarmHash's Fingerprint64, SipHash-2-4, MurmurHash64A, and pairs of numbers.

The strings lie end to end in one buffer, and what is a word of 8 bytes of each is one array operation.  Numbers are
uint64 and wrap.  The bits are those of the public definitions (farmhash.cc of google/farmhash; Aumasson and Bernstein,
"SipHash", 2012; MurmurHash2.cpp of aappleby/smhasher), which TensorFlow uses.
Called by: ops.string, ops.sparse.  Threads: any (see run.state.words).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.run.state.words import ByWord, numbered

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]


def _u(value: int) -> np.uint64:
    return np.uint64(value)


_K0, _K1, _K2 = _u(0xC3A5C85C97CB3127), _u(0xB492B66FBE98F273), _u(0x9AE16A3B2F90404F)
_MURMUR, _47 = _u(0xC6A4A7935BD1E995), _u(47)
_SEED_OF_HASH64 = _u(0xDECAFCAFFE)


class Packed:
    """Strings end to end.  starts, lengths [n]: where each is."""

    __slots__ = ("_quarters", "_words", "bytes", "lengths", "starts")

    def __init__(self, strings: Sequence[bytes]) -> None:
        lengths = np.fromiter(map(len, strings), np.int64, len(strings))
        self.lengths = lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths[:-1])])[: len(lengths)]
        joined = b"".join([*strings, bytes(8)])
        self.bytes = np.frombuffer(joined, np.uint8)
        self._words = np.ndarray((len(joined) - 7,), "<u8", joined, 0, (1,))
        self._quarters = np.ndarray((len(joined) - 3,), "<u4", joined, 0, (1,))

    def words(self, at: Array) -> Array:
        """The 8 bytes from each place on, the first one lowest."""
        found: Array = self._words[at].astype(np.uint64)
        return found

    def quarters(self, at: Array) -> Array:
        """The 4 bytes from each place on."""
        found: Array = self._quarters[at].astype(np.uint64)
        return found


def _turned(x: Array, by: int) -> Array:
    found: Array = (x >> _u(by)) | (x << _u(64 - by))
    return found


def _mixed(x: Array) -> Array:
    found: Array = x ^ (x >> _47)
    return found


def _two(u: Array, v: Array, mul: Array) -> Array:
    a = _mixed((u ^ v) * mul)
    return _mixed((v ^ a) * mul) * mul


def farm(strings: Sequence[bytes]) -> Array:
    """Fingerprint64 of each, uint64 [n].  Those of short strings that repeat are remembered."""
    known = numbered(strings)
    return _farm(strings) if known is None else _known.found(*known)


def _farm(strings: Sequence[bytes]) -> Array:
    """Fingerprint64 of each, computed."""
    packed = Packed(strings)
    out = np.empty(len(strings), np.uint64)
    lengths = packed.lengths
    shortest, longest = int(lengths.min(initial=_HUGE)), int(lengths.max(initial=0))
    with np.errstate(over="ignore"):
        for low, high, function in _BY_LENGTH:
            if high < shortest or longest < low:
                continue
            if low <= shortest and longest <= high:
                return function(packed, packed.starts, lengths)
            chosen = np.flatnonzero((lengths >= low) & (lengths <= high))
            if len(chosen):
                out[chosen] = function(packed, packed.starts[chosen], lengths[chosen])
    return out


_known = ByWord(_farm)


def _none(packed: Packed, at: Array, size: Array) -> Array:
    return np.full(len(at), _K2)


def _few(packed: Packed, at: Array, size: Array) -> Array:
    first, middle, last = (
        packed.bytes[place].astype(np.uint64) for place in (at, at + (size >> 1), at + size - 1)
    )
    y = first + (middle << _u(8))
    z = size.astype(np.uint64) + (last << _u(2))
    return _mixed(y * _K2 ^ z * _K0) * _K2


def _multiplier(size: Array) -> Array:
    found: Array = _K2 + size.astype(np.uint64) * _u(2)
    return found


def _quarter(packed: Packed, at: Array, size: Array) -> Array:
    first = size.astype(np.uint64) + (packed.quarters(at) << _u(3))
    return _two(first, packed.quarters(at + size - 4), _multiplier(size))


def _half(packed: Packed, at: Array, size: Array) -> Array:
    mul = _multiplier(size)
    a, b = packed.words(at) + _K2, packed.words(at + size - 8)
    return _two(_turned(b, 37) * mul + a, (_turned(a, 25) + b) * mul, mul)


def _ends(packed: Packed, at: Array, size: Array, mul: Array, factor: np.uint64) -> Any:
    end = at + size
    a, b = packed.words(at) * factor, packed.words(at + 8)
    c, d = packed.words(end - 8) * mul, packed.words(end - 16) * _K2
    return a, _turned(a + b, 43) + _turned(c, 30) + d, a + _turned(b + _K2, 18) + c


def _medium(packed: Packed, at: Array, size: Array) -> Array:
    mul = _multiplier(size)
    _, y, z = _ends(packed, at, size, mul, _K1)
    return _two(y, z, mul)


def _long(packed: Packed, at: Array, size: Array) -> Array:
    mul, end = _multiplier(size), at + size
    a, y, rest = _ends(packed, at, size, mul, _K2)
    z = _two(y, rest, mul)
    e, f = packed.words(at + 16) * mul, packed.words(at + 24)
    g, h = (y + packed.words(end - 32)) * mul, (z + packed.words(end - 24)) * mul
    return _two(_turned(e + f, 43) + _turned(g, 30) + h, e + _turned(f + a, 18) + g, mul)


def _weak(packed: Packed, at: Array, a: Array, b: Array) -> Pair:
    w, x, y, z = (packed.words(at + 8 * step) for step in range(4))
    a = a + w
    b = _turned(b + a + z, 21)
    c = a
    a = a + x + y
    return a + z, b + _turned(a, 44) + c


def _very_long(packed: Packed, at: Array, size: Array) -> Array:
    count = len(at)
    state = np.zeros((7, count), np.uint64)  # x, y, z, v, w
    y0 = np.full(count, _u(81) * _K1 + _u(113))
    state[0] = _u(81) * _K2 + packed.words(at)
    state[1], state[2] = y0, _mixed(y0 * _K2 + _u(113)) * _K2
    blocks = (size - 1) // 64
    for step in range(int(blocks.max())):
        live = np.flatnonzero(blocks > step)
        state[:, live] = _round(packed, at[live] + 64 * step, state[:, live], _K1, _u(1))
    x, y, z, v0, v1, w0, w1 = state
    mul = _K1 + ((z & _u(0xFF)) << _u(1))
    rest = (size - 1) & 63
    w0 = w0 + rest.astype(np.uint64)
    v0 = v0 + w0
    w0 = w0 + v0
    last = np.stack([x, y, z, v0, v1, w0, w1])
    x, y, z, v0, v1, w0, w1 = _round(packed, at + blocks * 64 + rest - 63, last, mul, _u(9))
    return _two(_two(v0, w0, mul) + _mixed(y) * _K0 + z, _two(v1, w1, mul) + x, mul)


def _round(packed: Packed, at: Array, state: Array, mul: Any, nine: np.uint64) -> Array:
    x, y, z, v0, v1, w0, w1 = state
    x = _turned(x + y + v0 + packed.words(at + 8), 37) * mul
    y = _turned(y + v1 + packed.words(at + 48), 42) * mul
    x = x ^ (w1 * nine)
    y = y + v0 * nine + packed.words(at + 40)
    z = _turned(z + w0, 33) * mul
    v = _weak(packed, at, v1 * mul, x + w0)
    w = _weak(packed, at + 32, z + w1, y + packed.words(at + 16))
    return np.stack([z, y, x, *v, *w])


_HUGE = (1 << 63) - 1
_BY_LENGTH: Sequence[tuple[int, int, Callable[[Packed, Array, Array], Array]]] = (
    (0, 0, _none),
    (1, 3, _few),
    (4, 7, _quarter),
    (8, 16, _half),
    (17, 32, _medium),
    (33, 64, _long),
    (65, _HUGE, _very_long),
)


def joined(one: Any, other: Array) -> Array:
    """One number for two, uint64 [n], of which the first may be one for all: how parts make the print of the whole."""
    found: Array = other * _MURMUR
    found ^= found >> _47
    found *= _MURMUR
    found ^= one
    found ^= _MURMUR
    for _ in range(2):
        found *= _MURMUR
        found ^= found >> _47
    return found


# -- MurmurHash64A ----------------------------------------------------------------------------


def murmur(strings: Sequence[bytes]) -> Array:
    """MurmurHash64A of each with TensorFlow's seed, uint64 [n]."""
    packed = Packed(strings)
    with np.errstate(over="ignore"):
        found = _SEED_OF_HASH64 ^ (packed.lengths.astype(np.uint64) * _MURMUR)
        for live, word in _whole_words(packed):
            word = _mixed(word * _MURMUR) * _MURMUR
            found[live] = (found[live] ^ word) * _MURMUR
        some = np.flatnonzero(packed.lengths & 7)
        found[some] = (found[some] ^ _tails(packed)[some]) * _MURMUR
        return _mixed(_mixed(found) * _MURMUR)


def _whole_words(packed: Packed) -> Any:
    """The words of 8 bytes, one of each string at a time: (which strings, their words)."""
    blocks = packed.lengths // 8
    for step in range(int(blocks.max(initial=0))):
        live = np.flatnonzero(blocks > step)
        yield live, packed.words(packed.starts[live] + 8 * step)


def _tails(packed: Packed) -> Array:
    """The bytes after the last whole word, as a number."""
    rest = packed.lengths & 7
    words = packed.words(packed.starts + packed.lengths - rest)
    found: Array = words & ((_u(1) << (rest.astype(np.uint64) * _u(8))) - _u(1))
    return found


# -- SipHash ----------------------------------------------------------------------------------


def sip(strings: Sequence[bytes], key: tuple[int, int]) -> Array:
    """SipHash-2-4 of each under a key of two uint64, uint64 [n]."""
    packed = Packed(strings)
    k0, k1 = (_u(part & (1 << 64) - 1) for part in key)
    state = np.empty((4, len(strings)), np.uint64)
    state[0], state[1] = k0 ^ _u(0x736F6D6570736575), k1 ^ _u(0x646F72616E646F6D)
    state[2], state[3] = k0 ^ _u(0x6C7967656E657261), k1 ^ _u(0x7465646279746573)
    with np.errstate(over="ignore"):
        for live, word in _whole_words(packed):
            state[:, live] = _taken(state[:, live], word)
        last = _tails(packed) | (packed.lengths.astype(np.uint64) << _u(56))
        state = _taken(state, last)
        state[2] ^= _u(0xFF)
        for _ in range(4):
            state = _sip_round(state)
    found: Array = np.bitwise_xor.reduce(state, axis=0)
    return found


def _taken(state: Array, word: Array) -> Array:
    state = np.array(state)
    state[3] ^= word
    state = _sip_round(_sip_round(state))
    state[0] ^= word
    return state


def _sip_round(state: Array) -> Array:
    a, b, c, d = state
    a, c = a + b, c + d
    b, d = _left(b, 13) ^ a, _left(d, 16) ^ c
    a = _left(a, 32)
    c, a = c + b, a + d
    b, d = _left(b, 17) ^ c, _left(d, 21) ^ a
    return np.stack([a, b, _left(c, 32), d])


def _left(x: Array, by: int) -> Array:
    return _turned(x, 64 - by)
