"""Logarithms, sines and cosines in single precision with the bits of the C library, for whole arrays.

glibc and others compute them in double precision and round once.  The same polynomials are computed here by NumPy;
where the rounding is so near that a fused multiplication could decide it, the library is asked, number by number.  A
process compares some numbers first: a library that computes otherwise is asked for all whose rounding is in doubt.
Called by: ops._kernels.random_streams.  Threads: pure functions; the comparison is made once, by whoever is first.
Source: logf, sinf and cosf of Arm's Optimized Routines (MIT licence), which glibc has since 2.28: their coefficients
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_exact = float.fromhex

_INVERSES: Final = np.array(
    [
        *map(_exact, ("0x1.661ec79f8f3bep+0", "0x1.571ed4aaf883dp+0", "0x1.49539f0f010bp+0")),
        *map(_exact, ("0x1.3c995b0b80385p+0", "0x1.30d190c8864a5p+0", "0x1.25e227b0b8eap+0")),
        *map(_exact, ("0x1.1bb4a4a1a343fp+0", "0x1.12358f08ae5bap+0", "0x1.0953f419900a7p+0")),
        *map(_exact, ("0x1p+0", "0x1.e608cfd9a47acp-1", "0x1.ca4b31f026aap-1")),
        *map(_exact, ("0x1.b2036576afce6p-1", "0x1.9c2d163a1aa2dp-1", "0x1.886e6037841edp-1")),
        _exact("0x1.767dcf5534862p-1"),
    ]
)
"""About 1 / z in the middle of each sixteenth of an octave, whose first begins at `_FIRST`."""
_FIRST: Final = 0x3F330000  # bits of 0.699
_SIXTEENTH: Final = 19  # by how many bits a float is shifted to be the number of its sixteenth
_LOWEST: Final = (0x00800000 - _FIRST) >> _SIXTEENTH  # of the smallest normal float
_HIGHEST: Final = (0x7F7FFFFF - _FIRST) >> _SIXTEENTH
_LN2: Final = _exact("0x1.62e42fefa39efp-1")
_A: Final = [
    _exact(a) for a in ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")
]
_QUARTER: Final = _exact("0x1.921FB54442D18p0")  # of a turn
_QUARTERS: Final = _exact("0x1.45F306DC9C883p+23")  # of a turn, times 2**24
_SIGN: Final = np.int32(-(1 << 31))
_S: Final = [
    _exact(s) for s in ("-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13")
]
_C: Final = [
    *map(_exact, ("-0x1.ffffffd0c621cp-2", "0x1.55553e1068f19p-5")),
    *map(_exact, ("-0x1.6c087e89a359dp-10", "0x1.99343027bf8c3p-16")),
]
_NEAR: Final = (
    256  # of 2**29 bits that are rounded off, by which two ways to compute differ at most
)
_KEPT: Final = np.uint64(35)  # bits of a float64 that are not rounded off
_BELOW: Final = np.uint64((_NEAR - (1 << 28)) % (1 << 29) << 35)
_WIDTH: Final = np.uint64(2 * _NEAR << 35)
_NOWHERE: Final = np.empty(0, np.intp)
_COMPARED: Final = 2048
_DOUBT: Final = {"logf": 0.17, "sinf": 0.42, "cosf": 0.42}
"""Units in the last place from which on rounding the exact value may differ from another library's."""


def logarithms(x: Array) -> Array:
    """float32 of float32 [n] that are normal and positive."""
    if not _is_known():
        return _asked("logf", np.log, x)
    return _rounded("logf", _logarithms(x), x)


def sines_and_cosines(x: Array) -> tuple[Array, Array]:
    """float32 of float32 [n] in [0, 100)."""
    if not _is_known():
        return _asked("sinf", np.sin, x), _asked("cosf", np.cos, x)
    *found, near = _sines_and_cosines(x)
    if len(near):
        for name, values in zip(("sinf", "cosf"), found, strict=True):
            values[near] = _values(_library()[name], x[near])
    return found[0], found[1]


# -- the polynomials --------------------------------------------------------------------------


@functools.cache
def _tables() -> tuple[Array, Array]:
    """For each sixteenth of an octave: what a float in it is multiplied by to be near 1, and what that adds to its
    logarithm.
    """
    number = np.arange(_LOWEST, _HIGHEST + 1)
    inverses, octaves = _INVERSES[number & 15], number >> 4
    return np.ldexp(inverses, -octaves), octaves * _LN2 - np.log(inverses)


def _logarithms(x: Array) -> Array:
    """float64, of which the library's value is the rounding."""
    scales, begins = _tables()
    number = x.view(np.int32) - np.int32(_FIRST + (_LOWEST << _SIXTEENTH))
    number >>= _SIXTEENTH
    index = number.astype(np.intp)  # of other types NumPy makes one for each table
    r: Array = x.astype(np.float64)
    r *= scales.take(index, mode="clip")
    r -= 1
    begun = begins.take(index, mode="clip")
    begun += r
    squared = r * r
    r *= _A[1]
    r += _A[2]
    r += _A[0] * squared
    r *= squared
    r += begun
    return r


def _sines_and_cosines(x: Array) -> tuple[Array, Array, Array]:
    """float32, and where they may be others than the library's."""
    r = x.astype(np.float64)
    turns = (r * _QUARTERS).astype(np.int32)
    turns += 0x800000
    turns >>= 24
    whole = turns.astype(np.float64)
    whole *= _QUARTER
    r -= whole
    square = np.multiply(r, r, whole)
    sines = _polynomial(square, (_S[2], _S[1], _S[0], 1.0))
    sines *= r
    cosines = _polynomial(square, (_C[3], _C[2], _C[1], _C[0], 1.0))
    near = np.concatenate((_near(sines), _near(cosines)))
    return *_turned(sines.astype(np.float32), cosines.astype(np.float32), turns), near


def _polynomial(x: Array, factors: Sequence[float]) -> Array:
    """factors: of the highest power first; two or more."""
    made = x * factors[0]
    for factor in factors[1:-1]:
        made += factor
        made *= x
    made += factors[-1]
    return made


def _turned(sines: Array, cosines: Array, turns: Array) -> tuple[Array, Array]:
    """The same arrays, of angles that are `turns` quarters of a turn larger; turns int32, which is written to.

    Bits are exchanged and signs changed where they have to be.
    """
    s, c = sines.view(np.int32), cosines.view(np.int32)
    room = turns << 31
    room >>= 31  # all bits of an odd number's
    exchanged = s ^ c
    exchanged &= room
    s ^= exchanged
    c ^= exchanged
    np.left_shift(turns, 30, room)
    room &= _SIGN
    s ^= room
    turns += 1
    turns <<= 30
    turns &= _SIGN
    c ^= turns
    return sines, cosines


def _near(precise: Array) -> Array:
    """Where float64 are so near the middle between two float32 that the library may round to the other one."""
    off = precise.view(np.uint64) << _KEPT  # the bits that are rounded off
    off += _BELOW
    return np.flatnonzero(off <= _WIDTH) if off.min() <= _WIDTH else _NOWHERE


# -- the library ------------------------------------------------------------------------------


def _rounded(name: str, precise: Array, x: Array) -> Array:
    """float32; the library's value of x where it lies just between two."""
    rounded = precise.astype(np.float32)
    near = _near(precise)
    if len(near):
        rounded[near] = _values(_library()[name], x[near])
    return rounded


def _asked(name: str, exact: Callable[[Array], Array], x: Array) -> Array:
    """float32: the exact value rounded, and the library's where it may be another; without one the exact value."""
    precise = exact(x.astype(np.float64))
    rounded: Array = precise.astype(np.float32)
    function = _library().get(name)
    if function is not None:
        off = np.abs(precise - rounded) / np.spacing(np.abs(rounded)).astype(np.float64)
        doubtful = off > _DOUBT[name]
        rounded[doubtful] = _values(function, x[doubtful])
    return rounded


def _values(function: Callable[[float], float], x: Array) -> Array:
    return np.fromiter(map(function, x.tolist()), np.float32, len(x))


@functools.cache
def _library() -> dict[str, Any]:
    """The C library's single-precision functions that this process has; empty if it has none."""
    found = {}
    try:
        library = ctypes.CDLL(None)
        for name in _DOUBT:
            function = getattr(library, name)
            function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
            found[name] = function
    except (OSError, AttributeError, TypeError):
        return {}
    return found


@functools.cache
def _is_known() -> bool:
    """Whether the library's values are the roundings of the polynomials here."""
    library = _library()
    if not library:
        return False
    places = np.linspace(0, 1, _COMPARED, endpoint=False, dtype=np.float32)
    x, angles = np.maximum(places, np.float32(1e-7)), places * np.float32(2 * np.pi)
    found = _logarithms(x).astype(np.float32), *_sines_and_cosines(angles)[:2]
    given = (x, angles, angles)
    return all(
        np.array_equal(_values(library[name], of), mine)
        for name, of, mine in zip(_DOUBT, given, found, strict=True)
    )
