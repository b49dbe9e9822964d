"""The logistic loss of logits x and labels z, max(x, 0) - x z + log(1 + exp(-|x|)), and its gradient.

Programs build it of nine nodes, and its gradient of nine more; of these, five choose by the sign of x.  Here nothing is
chosen: |x| needs no condition, and the gradient is multiplied by 0, 1 or -1.  Each element has the bits that the nodes
give it one by one, but for the sign of a zero; and where the loss's own gradient is infinite, 0 times it is no number.
Called by: plan.rules.logistic_losses.  Threads: any; large arrays are shared by the task's worker pool.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.logarithms import BY_ELEMENTS, log1p, log1p_beside
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_BLOCK: Final = 1 << 15  # elements; what is made of them stays in a processor's cache


def loss(x: Array, labels: Array, zeros: Array, wanted: bool) -> tuple[Array, Array | None, Array]:
    """The loss, whether x >= 0 (bools, if wanted), and exp(-|x|).

    x, labels and zeros are floats of one type and shape, x without gaps.
    """
    made, exps = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    holds = np.empty(x.shape, bool) if wanted else None
    if x.size < LARGE:
        _loss(x, labels, zeros, holds, exps, made)
        return made, holds, exps
    flat = [each.reshape(-1) for each in (x, labels, zeros, exps, made)]
    flags = None if holds is None else holds.reshape(-1)

    def part(first: int) -> None:
        some = slice(first, first + _BLOCK)
        x, labels, zeros, exps, made = (each[some] for each in flat)
        _loss(x, labels, zeros, None if flags is None else flags[some], exps, made)

    parallel_for(part, range(0, x.size, _BLOCK))
    return made, holds, exps


def _loss(x: Any, labels: Any, zeros: Any, holds: Any, exps: Any, out: Any) -> None:
    if holds is not None:
        np.greater_equal(x, zeros, holds)
    falling(x, exps)
    if BY_ELEMENTS and x.dtype == np.float32:
        log1p_beside(exps, np.add(exps, np.float32(1)), out)
    else:
        log1p(exps, out)
    upper = np.maximum(x, zeros)
    np.subtract(upper, np.multiply(x, labels), upper)
    np.add(upper, out, out)


def falling(x: Array, out: Array) -> Array:
    """exp(-|x|)."""
    np.abs(x, out)
    np.negative(out, out)
    return np.exp(out, out)


def gradient(above: Array, beside: Array, by_label: Array, holds: Array, exps: Array) -> Array:
    """The gradient at x: `above` where x >= 0, and `by_label`, and what comes through the logarithm.

    above, beside: the loss's gradient, twice; by_label: what comes through x z; holds, exps: as `loss` gives them.  All
    of one shape and without gaps.
    """
    out = np.empty(holds.shape, exps.dtype)
    given = (above, beside, by_label, holds, exps, out)
    if holds.size < LARGE:
        _gradient(*given)
        return out
    flat = [each.reshape(-1) for each in given]

    def part(first: int) -> None:
        some = slice(first, first + _BLOCK)
        above, beside, by_label, holds, exps, out = (each[some] for each in flat)
        _gradient(above, beside, by_label, holds, exps, out)

    parallel_for(part, range(0, holds.size, _BLOCK))
    return out


def _gradient(above: Any, beside: Any, by_label: Any, holds: Any, exps: Any, out: Any) -> None:
    # Memory that was just given back is in the cache, where that of another step is not.
    kind = exps.dtype.type
    sign = holds.astype(kind)
    np.multiply(above, sign, out)
    np.add(out, by_label, out)
    slope = np.add(exps, kind(1))
    np.reciprocal(slope, slope)
    np.multiply(beside, slope, slope)
    np.multiply(slope, exps, slope)
    # It is added where x < 0, and subtracted elsewhere.
    np.multiply(sign, kind(-2), sign)
    np.add(sign, kind(1), sign)
    np.multiply(slope, sign, slope)
    np.add(out, slope, out)
