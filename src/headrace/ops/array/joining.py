"""Joining and splitting along an axis: Concat, Split and what is built from them.

Called by: users, gradients.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/concat_op.cc, split_op.cc, split_v_op.cc).
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Dimension, Shape
from headrace.base.traits import ALIASES, CONST, LIGHT, NEVER_FAILS, OF_COUNTS, PER_RECORD
from headrace.graph.const_value import as_shape, constant_value
from headrace.graph.control_flow import output_context
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_axis, gathered_axis, static_axis
from headrace.ops.array.constants import constant, ones, zeros
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import expand_dims, rank, reshape, shape_n, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.flow.identities import identity

__all__ = ["concat", "meshgrid", "split"]

_SPLIT: Final = "-input rank(-{rank}) <= split_dim < input rank ({rank}), but got {axis}"
_CONCATENATED: Final = (
    "ConcatOp : Expected concatenating dimensions in the range [-{rank}, {rank}), but got {axis}"
)


_SPLIT_RANGE = "Dimension size, given by scalar input {axis} must be in range [{low}, {rank})"

# -- Concat -----------------------------------------------------------------------------------


def _joined_shape(found: Sequence[Shape], axis: int | None) -> Shape:
    known = [shape for shape in found if shape is not None]
    if not known:
        return None
    rank = len(known[0])
    for shape in known:
        if not shape:
            raise ValueError("Can't concatenate scalars (use tf.stack instead)")
        if len(shape) != rank:
            raise ValueError(
                f"Shape must be rank {rank} but is rank {len(shape)}: "
                f"{shape_rules.text(known[0])} and {shape_rules.text(shape)} cannot be concatenated"
            )
    if axis is None:
        return (None,) * rank
    axis = gathered_axis(axis, rank, "concat axis")
    rest: Shape = None
    for shape in known:
        rest = shape_rules.merge(rest, shape[:axis] + shape[axis + 1 :])
    assert rest is not None
    sizes = [shape[axis] for shape in known]
    whole = None if None in sizes or len(known) < len(found) else sum(size or 0 for size in sizes)
    return (*rest[:axis], whole, *rest[axis:])


def _concat_shape(values: slice, axis: int) -> Any:
    def shape(c: ShapeContext) -> Shape:
        index = axis % len(c.op.inputs)
        at = c.value(index)
        c.with_rank(index, 0)
        return _joined_shape(c.shapes[values], None if at is None else int(at))

    return shape


def _concatenated(xp: Any, values: Sequence[Any], axis: Any) -> Any:
    if not axis.ndim:
        try:
            return xp.concatenate(values, axis=int(axis))
        except (ValueError, IndexError):
            pass  # what does not fit is said below
    first = np.shape(values[0])
    if not first:
        raise errors.invalid_argument("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    if np.size(axis) == 1:  # a vector of one will do, as in graphs of old producers
        axis = np.reshape(axis, ())
    at = checked_axis(axis, len(first), "concat axis", _CONCATENATED)
    for index, value in enumerate(values[1:], 1):
        shape = np.shape(value)
        if len(shape) != len(first):
            raise errors.invalid_argument(
                f"ConcatOp : Ranks of all input tensors should match: shape[0] = {shape_rules.text(first)} vs. "
                f"shape[{index}] = {shape_rules.text(shape)}"
            )
        for axis_index, (a, b) in enumerate(zip(first, shape, strict=True)):
            if a != b and axis_index != at:
                raise errors.invalid_argument(
                    f"ConcatOp : Dimension {axis_index} in both shapes must be equal: shape[0] = "
                    f"{shape_rules.text(first)} vs. shape[{index}] = {shape_rules.text(shape)} for a concat along {at}"
                )
    return xp.concatenate(values, axis=at)


@op(
    "ConcatV2",
    inputs="values: N * T; axis: Tidx",
    outputs="output: T",
    attrs="N: int >= 2; T: type; Tidx: {int32, int64} = int32",
    shape=_concat_shape(slice(0, -1), -1),
    traits={NEVER_FAILS, PER_RECORD, LIGHT},
)
def concat_v2_op(xp: Any, *values_and_axis: Any) -> Any:
    """The values one after the other along axis.

    values: equal shapes but for axis; axis [] in [-rank, rank).
    Raises InvalidArgument on other shapes, scalars, an axis out of range.
    """
    return _concatenated(xp, values_and_axis[:-1], values_and_axis[-1])


@op(
    "Concat",
    inputs="concat_dim: int32; values: N * T",
    outputs="output: T",
    attrs="N: int >= 2; T: type",
    shape=_concat_shape(slice(1, None), 0),
    traits={PER_RECORD},
)
def concat_v1_op(xp: Any, concat_dim: Any, *values: Any) -> Any:
    """ConcatV2 with the axis in front; graphs of old producers have it.  Raises as ConcatV2."""
    return _concatenated(xp, values, concat_dim)


@concat_v2_op.gradient
def _(op: Operation, dout: Any) -> list[Any]:
    return [*_concat_gradient(op.inputs[:-1], op.inputs[-1], dout), None]


@concat_v1_op.gradient
def _(op: Operation, dout: Any) -> list[Any]:
    return [None, *_concat_gradient(op.inputs[1:], op.inputs[0], dout)]


_MANY = 16  # inputs; above that one SplitV takes the place of slices


def _concat_gradient(values: list[Tensor], axis: Tensor, dout: Any) -> list[Any]:
    if len(values) == 1:
        return [dout]
    if (
        isinstance(dout, Tensor)
        and CONST in axis.op.traits
        and output_context(axis.op) is not output_context(dout.op)
    ):
        # A constant of a branch or loop is made again rather than brought out of it.
        axis = get("Const")(value=axis.op["value"], dtype=axis.dtype.base_dtype)
    at = axis % rank(values[0])
    if isinstance(dout, IndexedSlices):
        return _concat_sparse_gradient(values, axis, at, dout)
    sizes = _shapes_of(values)
    if len(sizes) > _MANY:
        column = get("Squeeze")(get("Slice")(stack(sizes, axis=1), [at, 0], [1, -1]))
        parts: list[Any] = split(dout, column, at)
        return parts
    offsets = concat_offset_op(at, sizes)
    return [get("Slice")(dout, begin, size) for begin, size in zip(offsets, sizes, strict=True)]


def _shapes_of(values: list[Tensor]) -> list[Tensor]:
    """Shapes as tensors: constants where all are known, else one ShapeN."""
    sizes = []
    for value in values:
        size = shape_of(value)
        if CONST not in size.op.traits:
            return shape_n(values)
        sizes.append(size)
    return sizes


def _concat_sparse_gradient(
    values: list[Tensor], axis: Tensor, at: Tensor, dout: IndexedSlices
) -> list[Any]:
    known = constant_value(axis)
    if known is None:
        raise ValueError(
            "the gradient of a concat by IndexedSlices needs an axis that is known statically"
        )
    if known < 0:
        known_rank = constant_value(rank(values[0]))
        if known_rank is None:
            raise ValueError(
                "the gradient of a concat by IndexedSlices needs a rank that is known statically"
            )
        known = known % known_rank
    sizes = [shape_of(value) for value in values]
    if known > 0:
        return _columns_of(dout, sizes, at)
    return _rows_of(dout, sizes, at)


def _columns_of(dout: IndexedSlices, sizes: list[Tensor], axis: Tensor) -> list[IndexedSlices]:
    """Each input gets all indices, and its own columns of the values."""
    ranks = shape_of(sizes[0])
    mask = concat(
        [zeros(expand_dims(axis, 0), dtypes.int32), [1], zeros(ranks - axis - 1, dtypes.int32)], 0
    )
    begin = zeros(ranks, dtypes.int32)
    found = []
    for size in sizes:
        extent = concat([[-1], get("Slice")(size, [1], [-1])], 0)
        found.append(IndexedSlices(get("Slice")(dout.values, begin, extent), dout.indices, size))
        begin = get("AddV2")(begin, size * mask, name="Add")
    return found


def _rows_of(dout: IndexedSlices, sizes: list[Tensor], axis: Tensor) -> list[IndexedSlices]:
    """Each input gets the rows whose indices fall into it."""
    start = constant(0, dout.indices.dtype)
    found = []
    for size in sizes:
        length = get("GatherV2")(size, axis, 0)
        if length.dtype is not dout.indices.dtype:
            length = get("Cast")(length, DstT=dout.indices.dtype)
        end = start + length
        inside = get("LogicalAnd")(dout.indices >= start, dout.indices < end)
        selected = squeeze(get("Where")(inside), axis=[1])
        indices = get("GatherV2")(dout.indices, selected, 0) - start
        found.append(IndexedSlices(get("GatherV2")(dout.values, selected, 0), indices, size))
        start = end
    return found


@of_ragged_by("headrace.ops.array.ragged_joining")
def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """`values` (a list of tensors of one rank) joined along `axis`; a single one passes through."""
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        with name_scope(name):
            at = convert(axis, dtypes.int32, name="concat_dim")
            if not shape_rules.compatible(at.raw_shape, ()):
                raise ValueError(
                    f"Shapes {at.shape} and () are incompatible: the concat axis must be a scalar"
                )
            alone: Tensor = identity(values[0], name=name)
            return alone
    made: Tensor = concat_v2_op(list(values), axis, name=name)
    return made


@op(
    "ConcatOffset",
    inputs="concat_dim: int32; shape: N * shape_type",
    outputs="offset: N * shape_type",
    attrs="N: int >= 2; shape_type: {int32, int64} = int32",
    shape=lambda c: c.shapes[1:],
    traits={OF_COUNTS},
    differentiable=False,
)
def concat_offset_op(xp: Any, concat_dim: Any, *shape: Any) -> list[Any]:
    """Where each input of a concat begins in the output.

    concat_dim []; shape: N vectors [r], equal but at concat_dim.  offset: N vectors [r].
    Raises InvalidArgument on shapes that do not fit.
    Source: TF 1.15 core/kernels/concat_op.cc
    """
    if any(np.ndim(sizes) != 1 for sizes in shape):
        raise errors.invalid_argument(
            f"shapes must be vectors, but have shapes {[np.shape(s) for s in shape]}"
        )
    first = shape[0].tolist()
    at = checked_axis(concat_dim, len(first), "concat_dim")
    offsets = []
    start = 0
    for index, sizes in enumerate(shape):
        listed = sizes.tolist()
        if len(listed) != len(first) or [*listed[:at], *listed[at + 1 :]] != [
            *first[:at],
            *first[at + 1 :],
        ]:
            raise errors.invalid_argument(
                f"all dimensions except {at} must match: input {index} has shape {listed} "
                f"and input 0 has shape {first}"
            )
        offset = [0] * len(first)
        offset[at] = start
        start += listed[at]
        offsets.append(np.array(offset, shape[0].dtype))
    return offsets


# -- Split ------------------------------------------------------------------------------------


def _split_shape(c: ShapeContext) -> list[Shape]:
    whole, count = c.shape("value"), c.attr("num_split")
    c.with_rank("split_dim", 0)
    axis = c.value("split_dim")
    if whole is None:
        return [None] * count
    if axis is None:
        return [(None,) * len(whole)] * count
    at = static_axis(int(axis), len(whole), "split_dim", _SPLIT_RANGE)
    size = whole[at]
    if size is not None and size % count:
        raise ValueError(
            f"Dimension size must be evenly divisible by {count} but is {size}: "
            f"dimension {at} of {shape_rules.text(whole)} is split into {count}"
        )
    return [(*whole[:at], None if size is None else size // count, *whole[at + 1 :])] * count


@op(
    "Split",
    inputs="split_dim: int32; value: T",
    outputs="output: num_split * T",
    attrs="num_split: int >= 1; T: type",
    shape=_split_shape,
    traits={PER_RECORD, ALIASES},
)
def split_op(xp: Any, split_dim: Any, value: Any, *, num_split: int) -> list[Any]:
    """value cut into num_split equal parts along split_dim.

    Raises InvalidArgument if split_dim is out of range or its size is no multiple of num_split.
    """
    at = checked_axis(split_dim, np.ndim(value), "split_dim", _SPLIT)
    size = value.shape[at]
    if size % num_split:
        raise errors.invalid_argument(
            "Number of ways to split should evenly divide the split dimension, but got split_dim "
            f"{at} (size = {size}) and num_split {num_split}"
        )
    return _cut(value, at, [size // num_split] * num_split)


def _cut(value: Any, axis: int, sizes: Sequence[int]) -> list[Any]:
    parts, start = [], 0
    front = (builtins.slice(None),) * axis
    for size in sizes:
        parts.append(value[(*front, builtins.slice(start, start + size))])
        start += size
    return parts


@split_op.gradient
def _(op: Operation, *douts: Tensor) -> tuple[None, Tensor]:
    return None, concat(list(douts), op.inputs[0])


def _split_v_shape(c: ShapeContext) -> list[Shape]:
    whole, count = c.shape("value"), c.attr("num_split")
    c.with_rank("size_splits", 1)
    axis = c.value("split_dim")
    if whole is None:
        return [None] * count
    if axis is None:
        return [whole if count == 1 else (None,) * len(whole)] * count
    at = static_axis(int(axis), len(whole), "split_dim", _SPLIT_RANGE)
    sizes = as_shape(c.op.inputs[c.index("size_splits")])
    parts: list[int | None] = list(sizes) if sizes is not None else [None] * count
    if len(parts) != count:
        raise ValueError(
            f"Length of size_splits should be equal to num_outputs: it has {len(parts)} elements, "
            f"and there are {count} outputs"
        )
    whole_size = whole[at]
    if whole_size is not None and c.value("size_splits") is not None:
        known = sum(part or 0 for part in parts)
        if parts.count(None) > 1:
            raise ValueError(
                f"size_splits can only have one -1, and not {parts.count(None)}: no other size can be inferred"
            )
        if known > whole_size or (None not in parts and known != whole_size):
            pieces = shape_rules.text(tuple(parts)).replace("?", "-1")
            raise ValueError(
                f"can't split axis of size {whole_size} into pieces of size {pieces}: it is dimension {at}, "
                f"and they add up to {known}"
            )
        parts = [whole_size - known if part is None else part for part in parts]
    return [(*whole[:at], part, *whole[at + 1 :]) for part in parts]


@op(
    "SplitV",
    inputs="value: T; size_splits: Tlen; split_dim: int32",
    outputs="output: num_split * T",
    attrs="num_split: int >= 1; T: type; Tlen: {int8, int32, int64} = int64",
    shape=_split_v_shape,
    traits={PER_RECORD, ALIASES},
)
def split_v_op(
    xp: Any, value: Any, size_splits: Any, split_dim: Any, *, num_split: int
) -> list[Any]:
    """value cut along split_dim into parts of the given sizes; one may be -1 and takes the rest.

    Raises InvalidArgument if the sizes do not add up to that of split_dim.
    """
    at = checked_axis(split_dim, np.ndim(value), "split_dim", _SPLIT)
    if np.ndim(size_splits) != 1 or len(size_splits) != num_split:
        raise errors.invalid_argument(
            f"size_splits must be a vector with one size for each of {num_split} outputs, "
            f"but has shape {list(np.shape(size_splits))}"
        )
    sizes = [int(size) for size in size_splits]
    whole = value.shape[at]
    if sizes.count(-1) > 1:
        raise errors.invalid_argument(
            f"There can only be one -1 in the input: size_splits has {sizes.count(-1)}, {sizes}"
        )
    known = sum(size for size in sizes if size != -1)
    if -1 in sizes and known <= whole:
        sizes[sizes.index(-1)] = whole - known
    if any(size < 0 for size in sizes) or sum(sizes) != whole:
        wrong = [place for place, size in enumerate(sizes) if size < -1]
        says = (
            f"Split size at index {wrong[0]} must be >= 0. Got: {sizes[wrong[0]]}"
            if wrong
            else "Determined shape must either match input shape along split_dim exactly if fully specified, or be less"
        )
        raise errors.invalid_argument(
            f"{says}: size_splits must add up to {whole}, the size of dimension {at} of the input, but are "
            f"{size_splits.tolist()}"
        )
    return _cut(value, at, sizes)


@split_v_op.gradient
def _(op: Operation, *douts: Tensor) -> tuple[Tensor, None, None]:
    return concat(list(douts), op.inputs[2]), None, None


@of_ragged_by("headrace.ops.array.ragged_shaping")
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """`value` cut along `axis`: into equal parts (an int) or parts of given sizes (a vector; one may be -1).

    num: the number of parts, where the length of a vector of sizes is not known statically.
    Raises ValueError if the number is unknown.
    """
    if isinstance(num_or_size_splits, Dimension):
        num_or_size_splits = num_or_size_splits.value
    made: list[Tensor]
    if isinstance(num_or_size_splits, (int, np.integer)):
        made = split_op(axis, value, num_split=int(num_or_size_splits), name=name)
        return made
    sizes = convert(num_or_size_splits)
    raw = sizes.raw_shape
    if raw == ():
        raise ValueError(
            "num_or_size_splits must be a Python int or a vector of sizes, not a scalar tensor"
        )
    if num is None:
        num = raw[0] if raw is not None else None
        if num is None:
            raise ValueError(
                f"Cannot infer argument `num` from shape {sizes.shape}; pass num, how many parts split makes"
            )
    made = split_v_op(value, sizes, axis, num_split=num, name=name)
    return made


# -- meshgrid ---------------------------------------------------------------------------------


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Coordinate matrices of coordinate vectors: for n vectors n tensors of rank n.

    indexing: "xy" (Cartesian: the first two axes are exchanged) or "ij".
    Raises ValueError on another indexing.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(
            f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'"
        )
    with name_scope(name, "meshgrid", list(args)):
        count = len(args)
        parts = [
            reshape(stack(arg) if isinstance(arg, (list, tuple)) else arg, _along(index, count))
            for index, arg in enumerate(args)
        ]
        sizes: list[Any] = [size_of(arg) for arg in args]
        kind = convert(args[0]).dtype.base_dtype if args else dtypes.float32
        if indexing == "xy" and count > 1:
            parts[0] = reshape(parts[0], _along(1, count))
            parts[1] = reshape(parts[1], _along(0, count))
            sizes[0], sizes[1] = sizes[1], sizes[0]
        if not args:
            return []
        factor = ones(sizes, kind)
        return [part * factor for part in parts]


def _along(axis: int, count: int) -> list[int]:
    return [-1 if index == axis else 1 for index in range(count)]
