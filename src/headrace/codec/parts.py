"""Parts of tensors in checkpoints: what files say of a tensor, checked, and how one is put together from its parts.

Files may say anything: sizes and places are looked at before memory is asked for, or an array is indexed.
Called by: codec.tensor_bundle, codec.bundle_reader, codec.slice_table, training (checkpoint readers).  Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec.ordered import WHOLE, Extent

Array = np.ndarray[Any, Any]

_MOST_DIMENSIONS: Final = 64  # of an array
_MOST_ELEMENTS: Final = 1 << 62


def extents_of(proto: pb.TensorSliceProto) -> tuple[Extent, ...]:
    """(start, length) of each dimension; a length that is not said is the whole."""
    return tuple(
        (each.start, each.length if each.HasField("length") else WHOLE) for each in proto.extent
    )


def slice_proto(extents: Sequence[Extent]) -> pb.TensorSliceProto:
    """The message of a part."""
    found = pb.TensorSliceProto()
    for start, length in extents:
        each = found.extent.add()
        if length != WHOLE:
            each.start, each.length = start, length
    return found


def ranges(extents: Sequence[Extent], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A part of a tensor of `sizes`, as an index."""
    return tuple(
        slice(0, size) if length == WHOLE else slice(start, start + length)
        for (start, length), size in zip(extents, sizes, strict=True)
    )


# -- what files say -------------------------------------------------------------------------------


def check_described(
    number: int,
    shape: pb.TensorShapeProto,
    no_data: Collection[dtypes.DType] = (dtypes.resource, dtypes.variant),
) -> None:
    """Raise ValueError unless a file's type and shape are those of a tensor, and Unimplemented for `no_data`."""
    try:
        dtype = dtypes.as_dtype(int(number))
    except TypeError:
        raise ValueError(f"its type is {number}, which is none") from None
    if dtype._is_ref_dtype:
        raise ValueError(f"its type is {dtype.name}: references are in no file")
    if dtype in no_data:
        raise errors.unimplemented(
            f"tensors of type {dtype.name} cannot be restored from a checkpoint"
        )
    sizes = sizes_of(shape)
    if shape.unknown_rank or any(size < 0 for size in sizes):
        raise ValueError(f"its shape {list(sizes)} is not known")
    if len(sizes) > _MOST_DIMENSIONS:
        raise ValueError(f"it has {len(sizes)} dimensions")
    if math.prod(size or 1 for size in sizes) > _MOST_ELEMENTS:
        raise ValueError(f"its shape {list(sizes)} fits into no memory")


def sizes_of(shape: pb.TensorShapeProto) -> tuple[int, ...]:
    """Of its dimensions."""
    return tuple(dim.size for dim in shape.dim)


def check_extents(extents: Sequence[Extent], sizes: Sequence[int]) -> None:
    """Raise ValueError unless that is a part of a tensor of `sizes`."""
    fits = len(extents) == len(sizes) and all(
        length == WHOLE or 0 <= start <= start + length <= size
        for (start, length), size in zip(extents, sizes, strict=True)
    )
    if not fits:
        raise ValueError(f"a tensor of {list(sizes)} has no part {list(extents)}")


# -- putting together -----------------------------------------------------------------------------


def assembled(
    name: str,
    dtype: dtypes.DType,
    sizes: Sequence[int],
    extents: Sequence[Extent],
    parts: Iterable[tuple[Extent, ...]],
    read: Callable[[tuple[Extent, ...]], Array],
) -> Array:
    """A part of a tensor, put together from those of its parts that it meets.

    name: what errors call it.  extents: of the part that is wanted.  parts: those that there are, each inside `sizes`.
    read: the value of one.  Raises InvalidArgument (elements that are in no part), ResourceExhausted, what `read` does.
    """
    wanted = ranges(extents, sizes)
    meeting: dict[tuple[Extent, ...], list[slice]] = {}
    for part in parts:
        common = [
            slice(max(a.start, b.start), min(a.stop, b.stop))
            for a, b in zip(wanted, ranges(part, sizes), strict=True)
        ]
        if all(each.start < each.stop for each in common):
            meeting[part] = common
    shape = [each.stop - each.start for each in wanted]
    lacking = math.prod(shape) - sum(
        math.prod(each.stop - each.start for each in common) for common in meeting.values()
    )
    if lacking > 0:  # looked at first: there may be more than memory
        raise _lacking(name, extents, len(meeting), lacking, math.prod(shape))
    try:
        found = np.empty(shape, dtype.as_numpy_dtype)
        missing = np.ones(shape, np.bool_)
    except (MemoryError, ValueError):
        raise errors.resource_exhausted(
            f"no memory for the {math.prod(shape)} elements of {name}"
        ) from None
    for part, common in meeting.items():
        into = _relative(common, wanted)
        found[into] = read(part)[_relative(common, ranges(part, sizes))]
        missing[into] = False
    if missing.any():
        raise _lacking(name, extents, len(meeting), int(missing.sum()), missing.size)
    return found


def _lacking(
    name: str, extents: Sequence[Extent], parts: int, count: int, of: int
) -> errors.OpError:
    return errors.invalid_argument(
        f"{name}: {count} of the {of} elements of the part {list(extents)} are in none of the {parts} parts of it that "
        "were saved"
    )


def _relative(common: Sequence[slice], whole: Sequence[slice]) -> tuple[slice, ...]:
    return tuple(
        slice(c.start - w.start, c.stop - w.start) for c, w in zip(common, whole, strict=True)
    )
