"""Elements of one array or another, by a condition that processors cannot foresee.

NumPy's `where` takes a branch for each element, and six times as long where conditions are as good as random as where
they come in runs.  Bits are chosen without a branch, so many elements at a time as stay in a processor's cache.
Called by: ops.math.comparisons, ops.nn.activations.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__: list[str] = []

_LEAST: Final = 1 << 12
"""Elements from which that is worth the calls."""
_TOGETHER: Final = 1 << 14
_SIGNED: Final = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def where(condition: Any, x: Any, y: Any) -> Any:
    """`np.where`, of a condition of bools and arrays of one type that broadcast."""
    if condition.size >= _LEAST and _fits(condition, x) and _fits(condition, y):
        signed = _SIGNED.get(x.dtype.itemsize) if x.dtype == y.dtype else None
        if signed is not None and x.dtype.kind not in "OSU":
            return _by_bits(condition, x, y, signed)
    return np.where(condition, x, y)


def _fits(condition: Any, value: Any) -> bool:
    """Whether it is a scalar, or there is an element of it, in the same order, for each of the condition's."""
    return value.ndim == 0 or bool(
        value.shape == condition.shape and value.flags.c_contiguous and condition.flags.c_contiguous
    )


def _by_bits(condition: Any, x: Any, y: Any, signed: Any) -> Any:
    holds = np.ascontiguousarray(condition).view(np.int8)
    one, other = x.view(signed), y.view(signed)
    if holds.size <= _TOGETHER:
        mask = holds.astype(signed)
        np.negative(mask, mask)
        return _chosen(mask, one, other, np.empty_like(mask)).view(x.dtype)
    found = np.empty(holds.size, signed)
    holds, ones, others = holds.reshape(-1), one.reshape(-1), other.reshape(-1)
    masks = np.empty(_TOGETHER, signed)
    for first in range(0, len(holds), _TOGETHER):
        some = slice(first, first + _TOGETHER)
        made = found[some]
        mask = masks[: len(made)]
        np.copyto(mask, holds[some])
        np.negative(mask, mask)
        _chosen(mask, ones[some] if x.ndim else one, others[some] if y.ndim else other, made)
    return found.view(x.dtype).reshape(condition.shape)


def _chosen(mask: Any, one: Any, other: Any, out: Any) -> Any:
    """out: the bits of one where those of the mask are set, else of the other."""
    np.bitwise_xor(one, other, out)
    np.bitwise_and(out, mask, out)
    np.bitwise_xor(out, other, out)
    return out
