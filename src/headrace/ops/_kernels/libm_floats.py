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
from collections.abc import Callable
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
_LOGARITHMS: Final = -np.log(_INVERSES)
_FIRST: Final = np.int32(0x3F330000)  # bits of 0.699
_OCTAVE: Final = np.int32(-(1 << 23))
_LN2: Final = _exact("0x1.62e42fefa39efp-1")
_A: Final = [
    _exact(a) for a in ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")
]
_QUARTER: Final = _exact("0x1.921FB54442D18p0")  # of a turn
_QUARTERS: Final = _exact("0x1.45F306DC9C883p+23")  # of a turn, times 2**24
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
_COMPARED: Final = 2048
_DOUBT: Final = {"logf": 0.17, "sinf": 0.42, "cosf": 0.42}
"""Units in the last place from which on rounding the exact value may differ from another library's."""


def logarithms(x: Array) -> Array:
    """float32 of float32 [n] that are normal and positive."""
    if _is_known():
        return _rounded("logf", _logarithms(x), x)
    return _asked("logf", np.log, x)


def sines_and_cosines(x: Array) -> tuple[Array, Array]:
    """float32 of float32 [n] in [0, 100)."""
    if _is_known():
        sines, cosines = _sines_and_cosines(x)
        return _rounded("sinf", sines, x), _rounded("cosf", cosines, x)
    return _asked("sinf", np.sin, x), _asked("cosf", np.cos, x)


# -- the polynomials --------------------------------------------------------------------------


def _logarithms(x: Array) -> Array:
    """float64, of which the library's value is the rounding."""
    bits = x.view(np.int32)
    from_first = bits - _FIRST
    interval, octave = (from_first >> 19) & 15, from_first >> 23
    r: Array = (bits - (from_first & _OCTAVE)).view(np.float32) * _INVERSES[interval]
    r -= 1
    begun = octave * _LN2
    begun += _LOGARITHMS[interval]
    begun += r
    squared = r * r
    r *= _A[1]
    r += _A[2]
    r += _A[0] * squared
    r *= squared
    r += begun
    return r


def _sines_and_cosines(x: Array) -> tuple[Array, Array]:
    """float64, of which the library's values are the roundings."""
    r = x.astype(np.float64)
    turns = ((r * _QUARTERS).astype(np.int32) + 0x800000) >> 24
    r -= turns * _QUARTER
    square = r * r
    cube = r * square
    sines = square * _S[2]
    sines += _S[1]
    sines *= cube * square
    cube *= _S[0]
    r += cube
    sines += r
    fourth = square * square
    cosines = square * _C[3]
    cosines += _C[2]
    cosines *= fourth * square
    square *= _C[0]
    square += 1
    fourth *= _C[1]
    square += fourth
    cosines += square
    odd = (turns & 1).astype(bool)
    found = np.where(odd, cosines, sines), np.where(odd, sines, cosines)
    found[0][...] *= 1 - (turns & 2)
    found[1][...] *= 1 - ((turns + 1) & 2)
    return found


# -- the library ------------------------------------------------------------------------------


def _rounded(name: str, precise: Array, x: Array) -> Array:
    """float32; the library's value of x where it lies just between two."""
    rounded = precise.astype(np.float32)
    off = precise.view(np.int64) + (_NEAR - (1 << 28))
    off &= (1 << 29) - 1
    near = np.flatnonzero(off <= 2 * _NEAR)
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
    found = _logarithms(x), *_sines_and_cosines(angles)
    given = (x, angles, angles)
    return all(
        np.array_equal(_values(library[name], of), mine.astype(np.float32))
        for name, of, mine in zip(_DOUBT, given, found, strict=True)
    )
