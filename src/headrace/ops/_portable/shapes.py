"""Array kernels that move elements: shapes, slices, joining, gathering.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops._portable.reductions import axes_of
from headrace.ops._portable.table import arrays, check, device_of, require
from headrace.ops.array.slicing import slice_index


def _sizes(value: Any) -> tuple[int, ...]:
    check(np.ndim(value) == 1)
    return tuple([int(size) for size in value])


def _axis(value: Any, rank: int) -> int:
    check(np.ndim(value) == 0)
    (axis,) = axes_of(value, rank)
    return axis


@arrays("Reshape", host=(1,))
def _reshape(xp: Any, tensor: Any, shape: Any) -> Any:
    sizes = _sizes(shape)
    check(all(size >= -1 for size in sizes) and sizes.count(-1) < 2)
    return xp.reshape(tensor, sizes)


@arrays("ExpandDims", host=(1,))
def _expand_dims(xp: Any, input: Any, dim: Any) -> Any:
    return xp.expand_dims(input, axis=_axis(dim, input.ndim + 1))


@arrays("Squeeze")
def _squeeze(xp: Any, input: Any, *, squeeze_dims: Any) -> Any:
    if squeeze_dims:
        axes = axes_of(squeeze_dims, input.ndim)
    else:
        axes = tuple([axis for axis, size in enumerate(input.shape) if size == 1])
    return xp.squeeze(input, axis=axes)


@arrays("Transpose", host=(1,))
def _transpose(xp: Any, x: Any, perm: Any) -> Any:
    check(np.shape(perm) == (x.ndim,))
    return xp.permute_dims(x, axes_of(perm, x.ndim))


@arrays("ConcatV2", host=(-1,))
def _concat_v2(xp: Any, *inputs: Any) -> Any:
    *values, axis = inputs
    return xp.concat(values, axis=_axis(axis, values[0].ndim))


@arrays("Concat", host=(0,))
def _concat(xp: Any, concat_dim: Any, *values: Any) -> Any:
    return xp.concat(values, axis=_axis(concat_dim, values[0].ndim))


@arrays("Pack")
def _pack(xp: Any, *values: Any, axis: int) -> Any:
    return xp.stack(values, axis=_axis(axis, values[0].ndim + 1))


@arrays("Unpack")
def _unpack(xp: Any, value: Any, *, num: int, axis: int) -> list[Any]:
    found = _axis(axis, value.ndim)
    before = (slice(None),) * found
    after = (slice(None),) * (value.ndim - found - 1)
    check(value.shape[found] == num)
    return [value[(*before, number, *after)] for number in range(num)]


def _pieces(value: Any, axis: int, sizes: Any) -> list[Any]:
    """Parts of those sizes along a dimension."""
    check(sum(sizes) == value.shape[axis])
    found, begin = [], 0
    for size in sizes:
        index = [slice(None)] * value.ndim
        index[axis] = slice(begin, begin + size)
        found.append(value[tuple(index)])
        begin += size
    return found


@arrays("Split", host=(0,))
def _split(xp: Any, split_dim: Any, value: Any, *, num_split: int) -> list[Any]:
    axis = _axis(split_dim, value.ndim)
    size, left = divmod(value.shape[axis], num_split)
    check(not (left))
    return _pieces(value, axis, [size] * num_split)


@arrays("SplitV", host=(1, 2))
def _split_v(xp: Any, value: Any, size_splits: Any, split_dim: Any) -> list[Any]:
    axis, sizes = _axis(split_dim, value.ndim), list(_sizes(size_splits))
    if -1 in sizes:
        at = sizes.index(-1)
        sizes[at] = 0
        sizes[at] = value.shape[axis] - sum(sizes)
    check(not (any(size < 0 for size in sizes)))
    return _pieces(value, axis, sizes)


@arrays("Slice", host=(1, 2))
def _slice(xp: Any, input: Any, begin: Any, size: Any) -> Any:
    index = []
    for first, count, there in zip(_sizes(begin), _sizes(size), input.shape, strict=True):
        last = there if count == -1 else first + count
        if not 0 <= first <= last <= there:
            raise ValueError(f"{first} to {last} of {there}")
        index.append(slice(first, last))
    return input[tuple(index)]


@arrays("StridedSlice", host=(1, 2, 3))
def _strided_slice(
    xp: Any,
    input: Any,
    begin: Any,
    end: Any,
    strides: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return input[_inside(slice_index(begin, end, strides, masks), input.shape)]


def _inside(index: Any, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """The same index of an array of such sizes, of slices that begin and end inside of it, as the standard asks."""
    axes = iter(cuts_of(index, sizes))
    given = [each for each in index if each is not None]
    skipped = len(sizes) - len(given) + (Ellipsis in given)
    found: list[Any] = []
    for each in index if Ellipsis in given else (*index, Ellipsis):
        if each is None:
            found.append(None)
        elif each is Ellipsis:
            found += [slice(None) for _, _ in zip(range(skipped), axes, strict=False)]
        else:
            first, last, step = next(axes)
            if not isinstance(each, slice):
                found.append(each)
            elif range(first, last, step):
                found.append(slice(first, None if last < 0 else last, step))
            else:
                found.append(slice(0, 0))
    return tuple(found)


def cuts_of(index: Any, sizes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(first, end, step) of each dimension of what is cut."""
    given = [each for each in index if each is not None]
    if Ellipsis in given:
        at = given.index(Ellipsis)
        given[at : at + 1] = [slice(None)] * (len(sizes) - len(given) + 1)
    given += [slice(None)] * (len(sizes) - len(given))
    found = []
    for each, size in zip(given, sizes, strict=True):
        if not isinstance(each, slice):
            check(-size <= int(each) < size)
            place = int(each) % size
            each = slice(place, place + 1)
        found.append(each.indices(size))
    return found


@arrays("Tile", host=(1,))
def _tile(xp: Any, input: Any, multiples: Any) -> Any:
    check(len(_sizes(multiples)) == input.ndim)
    return xp.tile(input, _sizes(multiples))


@arrays("Fill", host=(0,))
def _fill(xp: Any, dims: Any, value: Any) -> Any:
    check(value.ndim == 0)
    return xp.asarray(xp.broadcast_to(value, _sizes(dims)), copy=True)


@arrays("BroadcastTo", host=(1,))
def _broadcast_to(xp: Any, input: Any, shape: Any) -> Any:
    return xp.asarray(xp.broadcast_to(input, _sizes(shape)), copy=True)


@arrays("ZerosLike")
def _zeros_like(xp: Any, x: Any) -> Any:
    return xp.zeros_like(x)


@arrays("OnesLike")
def _ones_like(xp: Any, x: Any) -> Any:
    return xp.ones_like(x)


@arrays("Pad", "PadV2", host=(1,))
def _pad(xp: Any, input: Any, paddings: Any, constant_values: Any = None) -> Any:
    check(not (paddings.shape != (input.ndim, 2) or (paddings < 0).any()))
    value = constant_values
    if value is None:
        value = xp.zeros((), dtype=input.dtype, device=device_of(input))
    found = xp.asarray(input, copy=True)
    for axis, (before, after) in enumerate(paddings.tolist()):

        def filled(count: int, axis: int = axis, found: Any = found) -> Any:
            return xp.broadcast_to(value, (*found.shape[:axis], count, *found.shape[axis + 1 :]))

        parts = [filled(before), found, filled(after)]
        found = xp.concat([part for part in parts if part.shape[axis]] or [found], axis=axis)
    return found


@arrays("ReverseV2", host=(1,))
def _reverse(xp: Any, tensor: Any, axis: Any) -> Any:
    check(np.ndim(axis) == 1)
    return xp.flip(tensor, axis=axes_of(axis, tensor.ndim))


@arrays("OneHot", host=(1,))
def _one_hot(xp: Any, indices: Any, depth: Any, on_value: Any, off_value: Any, *, axis: int) -> Any:
    rank = indices.ndim + 1
    along = _axis(axis, rank)
    numbers = xp.arange(int(depth), dtype=indices.dtype, device=device_of(indices))
    numbers = xp.reshape(numbers, (-1, *[1] * (rank - along - 1)))
    is_on = xp.expand_dims(indices, axis=along) == numbers
    return xp.where(is_on, on_value, off_value)


@arrays("Gather")
def _gather(xp: Any, params: Any, indices: Any) -> Any:
    return taken(xp, params, indices, 0)


@arrays("GatherV2", host=(2,))
def _gather_v2(xp: Any, params: Any, indices: Any, axis: Any, *, batch_dims: int) -> Any:
    if batch_dims:
        raise NotImplementedError
    return taken(xp, params, indices, _axis(axis, params.ndim))


def taken(xp: Any, params: Any, indices: Any, axis: int) -> Any:
    """The parts of `params` at indices along an axis, in the place of it."""
    there = params.shape[axis]
    inside = xp.logical_and(indices >= 0, indices < there)
    require(xp, inside, f"not all in [0, {there})")
    flat = xp.take(params, xp.reshape(indices, (-1,)), axis=axis)
    return xp.reshape(flat, (*params.shape[:axis], *indices.shape, *params.shape[axis + 1 :]))
