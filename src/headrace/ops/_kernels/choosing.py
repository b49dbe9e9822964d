"""Elements of one array or another, by a condition that processors cannot foresee.

NumPy's `where` takes a branch for each element, and six times as long where conditions are as good as random as where
they come in runs.  Bits are chosen without a branch, so many elements at a time as stay in a processor's cache.
Called by: ops.math.comparisons, ops.nn.activations.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__: list[str] = []

_LEAST: Final = 1 << 13
"""Elements from which that is worth the calls."""
_TOGETHER: Final = 1 << 14
_KINDS: Final = {size: (np.dtype(f"u{size}"), np.dtype(f"i{size}")) for size in (1, 2, 4, 8)}


def where(condition: Any, x: Any, y: Any) -> Any:
    """`np.where`, of a condition of bools and arrays of one type that broadcast."""
    if condition.size >= _LEAST and _fits(condition, x) and _fits(condition, y):
        kinds = _KINDS.get(x.dtype.itemsize) if x.dtype == y.dtype else None
        if kinds is not None and x.dtype.kind not in "OSU":
            return _by_bits(condition, x, y, *kinds)
    return np.where(condition, x, y)


def _fits(condition: Any, value: Any) -> bool:
    """Whether it is a scalar, or there is an element of it, in the same order, for each of the condition's."""
    return value.ndim == 0 or bool(
        value.shape == condition.shape and value.flags.c_contiguous and condition.flags.c_contiguous
    )


def _by_bits(condition: Any, x: Any, y: Any, bits: Any, signed: Any) -> Any:
    holds = np.ascontiguousarray(condition).reshape(-1).view(np.int8)
    ones, others = (np.ascontiguousarray(each).reshape(-1).view(bits) for each in (x, y))
    found = np.empty(holds.shape, bits)
    masks = np.empty(min(_TOGETHER, len(holds)), signed)
    for first in range(0, len(holds), _TOGETHER):
        some = slice(first, first + _TOGETHER)
        made, one = found[some], ones[some] if x.ndim else ones
        other = others[some] if y.ndim else others
        mask = masks[: len(made)]
        np.copyto(mask, holds[some])
        np.negative(mask, out=mask)  # all bits where it holds
        np.bitwise_xor(one, other, out=made)
        np.bitwise_and(made, mask.view(bits), out=made)
        np.bitwise_xor(made, other, out=made)
    return found.view(x.dtype).reshape(condition.shape)
