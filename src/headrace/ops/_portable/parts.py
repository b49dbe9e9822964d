"""Array kernels that put something in the place of a part of an array: slices, rows.

Nothing is changed in place: another array has the part.  JAX has its own way to say so.
Called by: ops._portable.table.  Threads: any.
Source: as ops.array.in_place and ops.array.slicing
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.ops._portable.scattering import (
    MASKS,
    put_lines,
    reduced_lines,
    require_different,
    slice_put_apart,
)
from headrace.ops._portable.table import UPDATE, arrays, check, device_of, is_jax, of_state
from headrace.ops.array.slicing import slice_index

# -- slices -----------------------------------------------------------------------------------------------------------


def _with_slice(
    xp: Any, whole: Any, begin: Any, end: Any, strides: Any, value: Any, masks: dict[str, int]
) -> Any:
    """`whole` with a value, which broadcasts, in the place of a slice that the host knows."""
    first, last, ellipsis, new, shrink = [masks[name] for name in MASKS]
    index = slice_index(begin, end, strides, (first, last, ellipsis, new, shrink))
    sizes = np.broadcast_to(np.zeros((), bool), whole.shape)[index].shape
    check(math.prod(sizes) > 0)
    given = xp.reshape(value, ()) if math.prod(value.shape) == 1 else value
    filled = xp.broadcast_to(given, sizes)
    if is_jax(xp):
        return whole.at[index].set(filled)
    is_part = np.zeros(whole.shape, bool)
    is_part[index] = True
    apart = slice_put_apart(xp, whole.shape, index, filled)
    return xp.where(xp.asarray(is_part, device=device_of(whole)), apart, whole)


@arrays("TensorStridedSliceUpdate", host=(1, 2, 3), attrs=MASKS)
def _updated(
    xp: Any, input: Any, begin: Any, end: Any, strides: Any, value: Any, **masks: int
) -> Any:
    check(math.prod(value.shape) != 1 or value.ndim == 0)  # of such the host has other rules
    return _with_slice(xp, input, begin, end, strides, value, masks)


@of_state("StridedSliceAssign", "ResourceStridedSliceAssign", does=UPDATE, host=(1, 2, 3))
def _assigned(
    xp: Any,
    var: Any,
    begin: Any,
    end: Any,
    strides: Any,
    value: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> tuple[Any, ...]:
    given = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    masks = dict(zip(MASKS, given, strict=True))
    return (_with_slice(xp, var, begin, end, strides, value, masks),)


# -- rows -------------------------------------------------------------------------------------------------------------


def _rows_of(xp: Any, x: Any, i: Any, v: Any) -> tuple[Any, Any, Any]:
    """(x as rows, which of them, v as rows); numbers of rows count around."""
    check(x.ndim > 0 and i.ndim == 1 and v.shape == (*i.shape, *x.shape[1:]))
    check(math.prod(v.shape) > 0)
    lines = xp.remainder(i, xp.full_like(i, x.shape[0]))
    return xp.reshape(x, (x.shape[0], -1)), lines, xp.reshape(v, (v.shape[0], -1))


@arrays("InplaceUpdate")
def _put_rows(xp: Any, x: Any, i: Any, v: Any) -> Any:
    whole, lines, rows = _rows_of(xp, x, i, v)
    require_different(xp, lines)
    return xp.reshape(put_lines(xp, whole, lines, rows), x.shape)


@arrays("InplaceAdd")
def _add_rows(xp: Any, x: Any, i: Any, v: Any) -> Any:
    check(xp.isdtype(x.dtype, ("real floating", "integral")))
    whole, lines, rows = _rows_of(xp, x, i, v)
    return xp.reshape(reduced_lines(xp, "add", whole, rows, lines), x.shape)


@arrays("InplaceSub")
def _subtract_rows(xp: Any, x: Any, i: Any, v: Any) -> Any:
    return _add_rows(xp, x, i, -v)


@arrays("ParallelConcat")
def _rows_in_turn(xp: Any, *values: Any) -> Any:
    check(len({each.shape for each in values}) == 1 and values[0].shape[:1] == (1,))
    return xp.concat(values, axis=0)


@arrays("Snapshot")
def _copy(xp: Any, input: Any) -> Any:
    return xp.asarray(input, copy=True)
