"""The logarithm of 1 + x, of float32 where NumPy has no vector instructions for it.

NumPy calls the C library for each element there, which takes twice as long as its own logarithm of u = 1 + x, rounded,
and what that has lost, which is (1 + x - u) / u as long as it is little.  NumPy's logarithm is off by up to three units
in the last place, and this one by up to four.
Called by: ops.math.elementwise, ops._kernels.logistic.  Threads: pure functions.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_SINGLE: Final = np.dtype(np.float32)
_ONE: Final = np.float32(1)
_TOGETHER: Final = 1 << 14  # elements, which stay in a processor's cache


def _by_elements() -> bool:
    """Whether NumPy has its logarithm in vector instructions, and not this one."""
    core: Any = sys.modules.get("numpy._core._multiarray_umath")
    has: dict[str, bool] = getattr(core, "__cpu_features__", {})
    return bool(has.get("AVX2") and has.get("FMA3") and not has.get("AVX512_SKX"))


BY_ELEMENTS: Final = _by_elements()


def log1p(x: Any, out: Any = None) -> Any:
    """log(1 + x), element by element; `out` may be x.  An element's bits do not depend on what is beside it."""
    if not BY_ELEMENTS or x.dtype != _SINGLE or not x.ndim:
        return np.log1p(x, out=out)
    if out is None:
        out = np.empty(x.shape, _SINGLE)
    if x.size <= _TOGETHER or not (x.flags.c_contiguous and out.flags.c_contiguous):
        return _of_any(x, out)
    flat, into = x.reshape(-1), out.reshape(-1)
    for first in range(0, len(flat), _TOGETHER):
        some = slice(first, first + _TOGETHER)
        _of_any(flat[some], into[some])
    return out


def _of_any(x: Array, out: Array) -> Array:
    u = np.add(x, _ONE)
    log1p_beside(x, u, out)
    if x.size and not np.isfinite(np.maximum.reduce(out, axis=None)):
        # Where u is 0 or infinite, nothing is lost, and what is said to be is no number.
        at = np.isnan(out)
        out[at] = np.log(u[at])
    return out


def log1p_beside(x: Array, u: Array, out: Array) -> Array:
    """As `log1p`, of float32 for which u = 1 + x is there, positive and finite, or not a number."""
    lost = np.subtract(u, _ONE)
    np.subtract(x, lost, lost)
    np.divide(lost, u, lost)
    np.log(u, out)
    return np.add(out, lost, out)
