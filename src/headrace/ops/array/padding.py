"""Repeating, padding and reversing.

Called by: users, gradients.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/tile_ops.cc, pad_op.cc, mirror_pad_op.cc, reverse_op.cc,
reverse_sequence_op.cc).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, merge_sizes, text
from headrace.base.traits import NEVER_FAILS, PER_RECORD
from headrace.graph.const_value import constant_value
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_axis, static_axis
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import rank, reshape, shape, size, transpose

__all__ = ["pad", "reverse", "reverse_sequence", "reverse_v2", "tile"]

_FEW: Final = 16
"""Elements of a row, a picture's channels for instance, that are copied in half the time if they are gathered."""

# -- Tile -------------------------------------------------------------------------------------


def _tile_shape(c: ShapeContext) -> Shape:
    whole, times = c.shape("input"), c.shape_value("multiples")
    length = c.with_rank("multiples", 1)
    assert length is not None
    if whole is None:
        return None if length[0] is None else (None,) * length[0]
    if length[0] not in (None, len(whole)):
        raise ValueError(
            f"Shape must be rank {len(whole)} but is rank {length[0]}: "
            f"multiples has {length[0]} elements, but the input has shape {text(whole)}"
        )
    if times is None:
        return (None,) * len(whole)
    return tuple(
        0 if 0 in (size, count) else None if size is None or count is None else size * count
        for size, count in zip(whole, times, strict=True)
    )


@op(
    "Tile",
    inputs="input: T; multiples: Tmultiples",
    outputs="output: T",
    attrs="T: type; Tmultiples: {int32, int64} = int32",
    shape=_tile_shape,
    traits={NEVER_FAILS, PER_RECORD},
)
def tile(xp: Any, input: Any, multiples: Any) -> Any:
    """The input repeated multiples[i] times along dimension i.

    multiples [rank] >= 0.  Raises InvalidArgument otherwise.
    """
    sizes = np.shape(input)
    if np.shape(multiples) != (len(sizes),):
        says = (
            f"Expected multiples argument to be a vector of length {len(sizes)} but got length {np.size(multiples)}"
            if np.ndim(multiples) == 1
            else f"Expected multiples to be 1-D, but got shape {text(np.shape(multiples))}"
        )
        raise errors.invalid_argument(f"{says}: the input has rank {len(sizes)}")
    times = multiples.tolist()
    for at, count in enumerate(times):
        if count < 0:
            raise errors.invalid_argument(f"Expected multiples[{at}] >= 0, but got {count}")
    if len(sizes) != 2:
        return xp.tile(input, tuple(times))
    (height, width), (down, along) = sizes, times
    out = xp.empty((down, height, along, width), input.dtype)
    out[...] = input[:, xp.newaxis]
    return out.reshape(down * height, along * width)


tile.ragged_by("headrace.ops.array.ragged_shaping", "tile")


@tile.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    own = shape(op.inputs[0], out_type=op.inputs[1].dtype.base_dtype)
    # Each dimension becomes (times, size); the sum runs over the times.
    parts = reshape(transpose(stack([op.inputs[1], own])), [-1])
    axes = get("Range")(0, size(parts), 2, name="range")
    if isinstance(dout, IndexedSlices):
        rows = (
            get("Cast")(own[0], DstT=dout.indices.dtype)
            if own.dtype is not dout.indices.dtype
            else own[0]
        )
        dout = get("UnsortedSegmentSum")(dout.values, dout.indices % rows, rows)
        parts = concat([[1], parts[1:]], axis=0)
    made: Tensor = get("Sum")(reshape(dout, parts), axes)
    made.set_shape(op.inputs[0].shape)
    return made, None


# -- Pad --------------------------------------------------------------------------------------


def _pad_shape(c: ShapeContext) -> Shape:
    whole, paddings = c.shape("input"), c.value("paddings")
    table = c.with_rank("paddings", 2)
    assert table is not None
    if table[1] not in (None, 2):
        raise ValueError(
            f"Dimension must be 2 but is {table[1]}: paddings must be [rank, 2], but has shape {text(table)}"
        )
    if whole is not None and table[0] not in (None, len(whole)):
        raise ValueError(
            f"Shape must be rank {table[0]} but is rank {len(whole)}: "
            f"paddings {text(table)} must have one row for each dimension of {text(whole)}"
        )
    if paddings is None:
        count = len(whole) if whole is not None else table[0]
        return None if count is None else (None,) * count
    if (paddings < 0).any():
        raise ValueError(f"Paddings must be non-negative, but are {paddings.tolist()}")
    if whole is None:
        return (None,) * len(paddings)
    return tuple(
        None if size is None else size + int(before + after)
        for size, (before, after) in zip(whole, paddings, strict=True)
    )


def _checked_paddings(input: Any, paddings: Any) -> list[tuple[int, int]]:
    count = np.ndim(input)
    if np.shape(paddings) != (count, 2):
        says = (
            f"The first dimension of paddings must be the rank of inputs {text(np.shape(paddings))}"
            if np.shape(paddings)[1:] == (2,)
            else f"paddings must be a matrix with 2 columns: {text(np.shape(paddings))}"
        )
        raise errors.invalid_argument(f"{says}; the input has rank {count}")
    table = [(before, after) for before, after in paddings.tolist()]
    for before, after in table:
        if before < 0 or after < 0:
            raise errors.invalid_argument(
                f"Paddings must be non-negative: {before} {after} of {paddings.tolist()}"
            )
    return table


def _padded(xp: Any, input: Any, paddings: Any, value: Any) -> Any:
    table = _checked_paddings(input, paddings)
    sizes, inside = [], []
    for length, (before, after) in zip(np.shape(input), table, strict=True):
        sizes.append(before + length + after)
        inside.append(slice(before, before + length))
    whole = xp.empty(sizes, dtype=input.dtype)
    whole[...] = value
    whole[tuple(inside)] = input
    return whole


@op(
    "Pad",
    inputs="input: T; paddings: Tpaddings",
    outputs="output: T",
    attrs="T: type; Tpaddings: {int32, int64} = int32",
    shape=_pad_shape,
    traits={NEVER_FAILS, PER_RECORD},
)
def pad_op(xp: Any, input: Any, paddings: Any) -> Any:
    """The input with zeros (empty strings) around it.

    paddings [rank, 2]: how many before and after, each dimension.
    Raises InvalidArgument on a negative one or a wrong shape.
    """
    return _padded(xp, input, paddings, b"" if input.dtype == object else np.zeros((), input.dtype))


@op(
    "PadV2",
    inputs="input: T; paddings: Tpaddings; constant_values: T",
    outputs="output: T",
    attrs="T: type; Tpaddings: {int32, int64} = int32",
    shape=_pad_shape,
    traits={PER_RECORD},
)
def pad_v2_op(xp: Any, input: Any, paddings: Any, constant_values: Any) -> Any:
    """Pad with the scalar constant_values instead of zero.  Raises as Pad."""
    if np.ndim(constant_values):
        raise errors.invalid_argument(
            f"constant_values must be a scalar, but has shape {list(np.shape(constant_values))}"
        )
    return _padded(xp, input, paddings, constant_values)


def _pad_gradient(op: Operation, dout: Any) -> Tensor:
    paddings = op.inputs[1]
    before = get("Slice")(paddings, [0, 0], stack([rank(op.inputs[0]), 1]))
    begin = reshape(before, [-1])
    made: Tensor = get("Slice")(dout, begin, shape(op.inputs[0], out_type=begin.dtype.base_dtype))
    return made


@pad_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return _pad_gradient(op, dout), None


@pad_v2_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    return _pad_gradient(op, dout), None, None


_MIRRORS = "T: type; Tpaddings: {int32, int64} = int32; mode: {'REFLECT', 'SYMMETRIC'}"


@op(
    "MirrorPad",
    inputs="input: T; paddings: Tpaddings",
    outputs="output: T",
    attrs=_MIRRORS,
    shape=_pad_shape,
    traits={PER_RECORD},
)
def mirror_pad(xp: Any, input: Any, paddings: Any, *, mode: bytes) -> Any:
    """The input with its mirror image around it; SYMMETRIC repeats the edge, REFLECT does not.

    paddings [rank, 2], at most the size of the dimension (less 1 for REFLECT).
    Raises InvalidArgument otherwise.
    """
    whole = input
    for axis, index in enumerate(_mirror_indices(np.shape(input), paddings, mode)):
        whole = xp.take(whole, index, axis=axis)
    return whole if np.ndim(input) else np.array(input)


def _mirror_indices(sizes: tuple[int, ...], paddings: Any, mode: bytes) -> list[Any]:
    """For each dimension, which element of the input stands at each place of the output."""
    table = _checked_paddings(np.broadcast_to(0, sizes), paddings)
    edge = 1 if mode == b"REFLECT" else 0
    found = []
    for axis, (extent, (before, after)) in enumerate(zip(sizes, table, strict=True)):
        if max(before, after) > max(extent - edge, 0):
            raise errors.invalid_argument(
                f"paddings must be {'less' if edge else 'no greater'} than the dimension size: {before}, {after} "
                f"{'not less' if edge else 'greater'} than {extent}, that of dimension {axis} (mode {mode.decode()})"
            )
        front = np.arange(before - 1 + edge, edge - 1, -1)
        back = np.arange(extent - 1 - edge, extent - 1 - edge - after, -1)
        found.append(np.concatenate([front, np.arange(extent), back]))
    return found


@mirror_pad.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return mirror_pad_grad(dout, op.inputs[1], mode=op["mode"]), None


def _mirror_pad_grad_shape(c: ShapeContext) -> Shape:
    c.with_rank("paddings", 2)
    whole, paddings = c.shape("input"), c.value("paddings")
    if whole is None or paddings is None:
        return None if whole is None else (None,) * len(whole)
    if np.shape(paddings) != (len(whole), 2):
        raise ValueError(
            f"paddings {np.shape(paddings)} must have one row for each dimension of {text(whole)}"
        )
    return tuple(
        None if size is None else size - int(before + after)
        for size, (before, after) in zip(whole, paddings, strict=True)
    )


@op(
    "MirrorPadGrad",
    inputs="input: T; paddings: Tpaddings",
    outputs="output: T",
    attrs=_MIRRORS,
    shape=_mirror_pad_grad_shape,
)
def mirror_pad_grad(xp: Any, input: Any, paddings: Any, *, mode: bytes) -> Any:
    """The mirror images added onto what they mirror: the gradient of MirrorPad.  Raises as MirrorPad."""
    table = _checked_paddings(input, paddings)
    sizes = tuple(
        size - before - after for size, (before, after) in zip(np.shape(input), table, strict=True)
    )
    if any(size < 0 for size in sizes):
        raise errors.invalid_argument(
            f"paddings {paddings.tolist()} are larger than the input of shape {list(np.shape(input))}"
        )
    _mirror_indices(sizes, paddings, mode)  # which checks them
    whole = np.asarray(input)
    for axis, (before, after) in enumerate(table):
        if before or after:
            whole = _folded(whole, axis, before, after, 1 if mode == b"REFLECT" else 0)
    return whole.copy() if whole is input else whole


def _folded(whole: Any, axis: int, before: int, after: int, edge: int) -> Any:
    """What is mirrored before and after, along an axis, added to what it mirrors, `edge` elements from the ends."""
    whole = np.moveaxis(whole, axis, 0)
    size = len(whole) - before - after
    made = np.array(whole[before : before + size], order="K")
    made[edge : edge + before] += whole[:before][::-1]
    made[size - edge - after : size - edge] += whole[before + size :][::-1]
    return np.moveaxis(made, 0, axis)


@mirror_pad_grad.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return mirror_pad(dout, op.inputs[1], mode=op["mode"]), None


def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: Any = 0,
) -> Tensor:
    """`tensor` with padding around it.

    paddings [rank, 2]: how many elements before and after, in each dimension.
    mode: CONSTANT (constant_values), REFLECT or SYMMETRIC (mirrored without or with the edge).
    Raises ValueError on another mode.
    """
    made: Tensor
    kind = mode.upper()
    if kind == "CONSTANT":
        if (
            not isinstance(constant_values, Tensor)
            and np.ndim(constant_values) == 0
            and constant_values == 0
        ):
            made = pad_op(tensor, paddings, name=name)
        else:
            made = pad_v2_op(tensor, paddings, constant_values, name=name)
    elif kind in ("REFLECT", "SYMMETRIC"):
        made = mirror_pad(tensor, paddings, mode=kind, name=name)
    else:
        raise ValueError(
            'Value of argument `mode` expected to be one of "CONSTANT", "REFLECT", or "SYMMETRIC", '
            f"and is {mode!r}"
        )
    _note_sizes(made)
    return made


def _note_sizes(made: Tensor) -> None:
    """What is known of the shape where some paddings are known and others are not."""
    sizes, before = made._raw, made.op.inputs[0]._raw
    if sizes is None or before is None or None not in sizes:
        return
    paddings = constant_value(made.op.inputs[1], partial=True)
    if paddings is None or paddings.dtype != object:
        return
    made.set_shape(
        [
            None if row is None or size is None or None in row else size + int(sum(row))
            for row, size in zip([_as_list(row) for row in paddings], before, strict=True)
        ]
    )


def _as_list(row: Any) -> list[Any] | None:
    return None if row is None else row.tolist()


# -- Reverse ----------------------------------------------------------------------------------

_REVERSIBLE = (
    "{uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, "
    "complex64, complex128, string}"
)


def _reverse_v1_shape(c: ShapeContext) -> Shape:
    whole, dims = c.shape("tensor"), c.with_rank("dims", 1)
    assert dims is not None
    if whole is None:
        return None if dims[0] is None else (None,) * dims[0]
    if dims[0] not in (None, len(whole)):
        raise ValueError(
            f"Shape must be rank {dims[0]} but is rank {len(whole)}: the tensor has shape {text(whole)}, and dims "
            f"{dims[0]} elements"
        )
    return whole


@op(
    "Reverse",
    inputs="tensor: T; dims: bool",
    outputs="output: T",
    attrs=f"T: {_REVERSIBLE}",
    shape=_reverse_v1_shape,
)
def reverse_v1_op(xp: Any, tensor: Any, dims: Any) -> Any:
    """The tensor reversed along the dimensions where dims is true; graphs of old producers have it.

    dims [rank].  Raises InvalidArgument if it has another shape.
    """
    if np.shape(dims) != (np.ndim(tensor),):
        raise errors.invalid_argument(
            f"dims must be a vector of length {np.ndim(tensor)}, the input's rank, not of shape {list(np.shape(dims))}"
        )
    return xp.flip(tensor, axis=tuple(np.flatnonzero(dims).tolist())).copy()


@reverse_v1_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return reverse_v1_op(dout, op.inputs[1]), None


def _reverse_shape(c: ShapeContext) -> Shape:
    whole, axes = c.shape("tensor"), c.value("axis")
    c.with_rank("axis", 1)
    if whole is not None and axes is not None:
        found: list[int] = []
        for place, given in enumerate(axes):
            says = f"'axis'[{place}] = {given} is out of valid range [0, {len(whole) - 1}]"
            axis = static_axis(int(given), len(whole), "axis", says)
            if axis in found:
                raise ValueError(f"axis {axis} specified more than once: {axes.tolist()}")
            found.append(axis)
    return whole


@op(
    "ReverseV2",
    inputs="tensor: T; axis: Tidx",
    outputs="output: T",
    attrs="Tidx: {int32, int64} = int32; T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, "
    "bfloat16, half, float, double, complex64, complex128, string}",
    shape=_reverse_shape,
    traits={PER_RECORD},
)
def reverse_v2_op(xp: Any, tensor: Any, axis: Any) -> Any:
    """The tensor reversed along the dimensions that axis names.

    axis [k] in [-rank, rank).  Raises InvalidArgument outside, or if one is named twice.
    """
    if not np.ndim(tensor) or not tensor.size:
        return np.array(tensor)
    if np.ndim(axis) != 1:
        raise errors.invalid_argument(
            f"'dims' must be 1-dimension, not {np.ndim(axis)}: axis has shape {text(np.shape(axis))}"
        )
    says = "'axis' {axis} is out of valid range [0, {below}]"
    found = [checked_axis(item, np.ndim(tensor), says=says) for item in axis]
    if len(set(found)) < len(found):
        raise errors.invalid_argument(
            f"axis {next(at for at in found if found.count(at) > 1)} specified more than once: {axis.tolist()}"
        )
    first = found[0] if len(found) == 1 else None
    if xp is np and first is not None and 1 < math.prod(tensor.shape[first + 1 :]) <= _FEW:
        return tensor.take(np.arange(tensor.shape[first] - 1, -1, -1), first)
    return xp.flip(tensor, axis=tuple(found)).copy()


@reverse_v2_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return reverse_v2_op(dout, op.inputs[1]), None


@of_ragged_by("headrace.ops.array.ragged_shaping")
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """`tensor` reversed along the dimensions that `axis`, a vector, names."""
    made: Tensor = reverse_v2_op(tensor, axis, name=name)
    return made


reverse_v2 = reverse


def _reverse_sequence_shape(c: ShapeContext) -> Shape:
    whole, lengths = c.shape("input"), c.with_rank("seq_lengths", 1)
    if whole is None or lengths is None:
        return whole
    seq, batch = c.attr("seq_dim"), c.attr("batch_dim")
    for what, axis in (("batch_dim", batch), ("seq_dim", seq)):
        if not 0 <= axis < len(whole):
            raise ValueError(
                f"{what} must be < input rank: {axis} vs. {len(whole)}, that of {text(whole)}"
            )
    count = merge_sizes(
        whole[batch], lengths[0], f"{lengths[0]} seq_lengths for {whole[batch]} sequences"
    )
    return (*whole[:batch], count, *whole[batch + 1 :])


@op(
    "ReverseSequence",
    inputs="input: T; seq_lengths: Tlen",
    outputs="output: T",
    attrs="seq_dim: int; batch_dim: int = 0; T: type; Tlen: {int32, int64} = int64",
    shape=_reverse_sequence_shape,
)
def reverse_sequence_op(
    xp: Any, input: Any, seq_lengths: Any, *, seq_dim: int, batch_dim: int
) -> Any:
    """The first seq_lengths[i] elements along seq_dim reversed, for each i along batch_dim.

    Raises InvalidArgument if a length is negative or exceeds the size of seq_dim.
    """
    count = np.ndim(input)
    if not (0 <= seq_dim < count and 0 <= batch_dim < count) or seq_dim == batch_dim:
        raise errors.invalid_argument(
            f"seq_dim {seq_dim} and batch_dim {batch_dim} must be two dimensions of the input, whose rank is {count}"
        )
    if np.shape(seq_lengths) != (input.shape[batch_dim],):
        raise errors.invalid_argument(
            f"Length of seq_lengths != input.dims({batch_dim}), ({text(np.shape(seq_lengths))} vs. "
            f"{input.shape[batch_dim]}): there must be one length for each of the batch"
        )
    longest = input.shape[seq_dim]
    if ((seq_lengths < 0) | (seq_lengths > longest)).any():
        at = int(np.flatnonzero((seq_lengths < 0) | (seq_lengths > longest))[0])
        says = (
            f"seq_lens({at}) < 0"
            if seq_lengths[at] < 0
            else f"seq_lens({at}) > input.dims({seq_dim})"
        )
        raise errors.invalid_argument(
            f"{says}: seq_lengths {seq_lengths.tolist()} must be between 0 and {longest}"
        )
    out = np.array(input)
    rows = np.moveaxis(out, (batch_dim, seq_dim), (0, 1))
    for index, length in enumerate(seq_lengths.tolist()):
        rows[index, :length] = rows[index, :length][::-1].copy()
    return out


@reverse_sequence_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return reverse_sequence_op(
        dout, op.inputs[1], seq_dim=op["seq_dim"], batch_dim=op["batch_dim"]
    ), None


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """`input` with the first seq_lengths[i] elements along `seq_axis` reversed, for each i along `batch_axis`.

    `seq_dim` and `batch_dim` are their old names.  Raises ValueError without a seq_axis.
    """
    along = seq_axis if seq_axis is not None else seq_dim
    if along is None:
        raise TypeError(
            "Expected int for argument 'seq_dim' not None: reverse_sequence needs a seq_axis"
        )
    batch = batch_axis if batch_axis is not None else batch_dim
    made: Tensor = reverse_sequence_op(
        input, seq_lengths, seq_dim=along, batch_dim=batch or 0, name=name
    )
    return made
