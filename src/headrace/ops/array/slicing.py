"""Slicing: x[...], tf.strided_slice, tf.slice, their gradients, and assignment to a slice.

The index of a StridedSlice (begin, end, strides and five bit masks) means what a NumPy index
tuple means, so kernels build that tuple; bit i of a mask belongs to entry i of the vectors.
Called by: Tensor.__getitem__, gradients, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/strided_slice_op.cc, slice_op.cc,
core/util/strided_slice_op.cc, python/ops/array_ops.py), GraphDefs as 2.21.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, merge, text
from headrace.base.traits import LIGHT, NEVER_FAILS, NEVER_FOLDED, PER_RECORD, UPDATES
from headrace.graph.const_value import constant_value
from headrace.graph.graph import Operation
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext, same_as
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import checked_sizes, ones_like
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import rank, reshape, shape
from headrace.run.uninterrupted import changes

__all__ = ["slice", "strided_slice"]

_MASKS = (
    "begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; "
    "shrink_axis_mask: int = 0"
)
Masks = tuple[int, int, int, int, int]  # begin, end, ellipsis, new axis, shrink axis


_Index = tuple[Any, ...]
_indices: dict[tuple[bytes, bytes, bytes, str, Masks], _Index] = {}
_MOST_INDICES = 1024


def slice_index(begin: Any, end: Any, strides: Any, masks: Masks) -> _Index:
    """`_made_index`, which is long, of what is mostly constants; what was made lately is kept."""
    if not begin.ndim == end.ndim == strides.ndim == 1:
        return _made_index(begin, end, strides, masks)
    key = begin.tobytes(), end.tobytes(), strides.tobytes(), begin.dtype.char, masks
    found = _indices.get(key)
    if found is None:
        if len(_indices) >= _MOST_INDICES:
            _indices.clear()
        found = _indices[key] = _made_index(begin, end, strides, masks)
    return found


def _made_index(begin: Any, end: Any, strides: Any, masks: Masks) -> tuple[Any, ...]:
    """The NumPy index; the result of using it is an array, never a bare element.

    Raises ValueError on vectors that do not fit together, a zero stride or two ellipses.
    """
    if not (np.ndim(begin) == np.ndim(end) == np.ndim(strides) == 1) or not len(begin) == len(
        end
    ) == len(strides):
        raise ValueError(
            "Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
            f"{text(np.shape(begin))}, {text(np.shape(end))}, and {text(np.shape(strides))} instead"
        )
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks
    if ellipsis_mask & (ellipsis_mask - 1):
        raise ValueError("Multiple ellipses in slice spec not allowed: an index can have one")
    found: list[Any] = []
    rows = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    for i, (first, last, stride) in enumerate(rows):
        bit = 1 << i
        if ellipsis_mask & bit:
            found.append(Ellipsis)
        elif new_axis_mask & bit:
            found.append(None)
        elif stride == 0:
            raise ValueError(f"strides[{i}] must be non-zero, as a step of 0 leads nowhere")
        elif shrink_mask & bit:
            if stride < 0:
                raise ValueError(
                    f"only stride 1 allowed on non-range indexing: strides[{i}] is {stride}, and the index removes "
                    "the dimension"
                )
            found.append(first)
        else:
            found.append(
                builtins.slice(
                    None if begin_mask & bit else first,
                    None if end_mask & bit else last,
                    stride,
                )
            )
    if Ellipsis not in found:  # nor is it where the mask has a bit beyond the last of them
        found.append(Ellipsis)
    return tuple(found)


def _masks(op: Operation) -> Masks:
    return (
        op["begin_mask"],
        op["end_mask"],
        op["ellipsis_mask"],
        op["new_axis_mask"],
        op["shrink_axis_mask"],
    )


def _part(whole: Any, begin: Any, end: Any, strides: Any, masks: Masks) -> Any:
    """The slice as a view of `whole`.  Raises InvalidArgument."""
    try:
        index = slice_index(begin, end, strides, masks)
    except ValueError as error:
        raise errors.invalid_argument(str(error)) from None
    try:
        return whole[index]
    except IndexError:
        _check_bounds(whole.shape, index, errors.invalid_argument)
        raise


def _check_bounds(sizes: Any, index: tuple[Any, ...], failure: Any) -> None:
    taken = [item for item in index if item is not None]
    after = taken.index(Ellipsis)
    if len(taken) - 1 > len(sizes):
        if not sizes:
            raise failure(
                f"Attempting to slice scalar input: the index has {len(taken) - 1} dimensions"
            )
        raise failure(
            f"Index out of range using input dim {len(sizes)}; input has only {len(sizes)} dims, and the index "
            f"{len(taken) - 1}"
        )
    skipped = len(sizes) - (len(taken) - 1)
    for place, item in enumerate(taken):
        axis = place if place < after else place - 1 + skipped
        size = sizes[axis] if item is not Ellipsis else None
        if isinstance(item, int) and size is not None and not -size <= item < size:
            raise failure(
                f"slice index {item} of dimension {axis} out of bounds: the size is {size}"
            )


# -- StridedSlice -----------------------------------------------------------------------------


def _strided_shape(c: ShapeContext) -> Shape:
    whole = c.shape("input")
    lengths = [c.with_rank(arg, 1) for arg in ("begin", "end", "strides")]
    count = next(
        (shape[0] for shape in lengths if shape is not None and shape[0] is not None), None
    )
    if any(shape is not None and shape[0] not in (None, count) for shape in lengths):
        for shape in lengths[1:]:
            merge(lengths[0], shape)  # raises
    if whole is None or count is None:
        return None
    begin, end, strides = (c.value(arg) for arg in ("begin", "end", "strides"))
    if strides is None:
        return None
    ones = np.ones(count, np.int64)
    index = slice_index(
        ones if begin is None else begin, ones if end is None else end, strides, _masks(c.op)
    )
    if begin is not None:
        _check_bounds(whole, index, ValueError)
    elif sum(item is not None for item in index) - 1 > len(whole):
        raise ValueError(
            f"Index out of range using input dim {len(whole)}; input has only {len(whole)} dims: "
            "the index has more"
        )
    return _sliced_sizes(whole, index, begin is not None and end is not None)


def _sliced_sizes(whole: tuple[int | None, ...], index: tuple[Any, ...], known: bool) -> Shape:
    skipped = len(whole) - (sum(item is not None for item in index) - 1)
    sizes: list[int | None] = []
    axis = 0
    for item in index:
        if item is None:
            sizes.append(1)
        elif item is Ellipsis:
            sizes.extend(whole[axis : axis + skipped])
            axis += skipped
        else:
            if not isinstance(item, int):
                size = whole[axis]
                sure = known or (item.start is None and item.stop is None)
                sizes.append(len(range(size)[item]) if sure and size is not None else None)
            axis += 1
    return tuple(sizes)


@op(
    "StridedSlice",
    inputs="input: T; begin: Index; end: Index; strides: Index",
    outputs="output: T",
    attrs=f"T: type; Index: {{int16, int32, int64}}; {_MASKS}",
    shape=_strided_shape,
    traits={NEVER_FAILS, PER_RECORD, LIGHT},
)
def strided_slice_op(
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
    """input[...], as a copy.

    begin, end, strides [k].  Raises InvalidArgument on a zero stride, an index out of bounds or too
    many of them.
    """
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return _part(np.asarray(input), begin, end, strides, masks).copy()


@strided_slice_op.knowing
def _known_slice(op: Operation, known: Sequence[Any]) -> Callable[..., Any] | None:
    """The kernel of a node whose vectors are constants: the index is made once."""
    begin, end, strides = known[1:]
    if any(np.ndim(vector) != 1 for vector in known[1:]):
        return None
    masks = _masks(op)
    try:
        index = slice_index(begin, end, strides, masks)
    except ValueError:  # for the step to report
        return None

    def part(whole: Any, *vectors: Any) -> Any:
        try:
            return np.asarray(whole)[index].copy()
        except IndexError:
            return _part(np.asarray(whole), begin, end, strides, masks)

    return part


def strided_slice_rows(op: Operation, begin: Any, end: Any, strides: Any) -> Callable[..., Any]:
    """The kernel of a node whose vectors are known, for input [n, ...]: see plan.rules.batching_rules."""
    begin, end = np.append(0, begin), np.append(0, end)  # of axis 0 all, says the mask
    strides = np.append(1, strides)
    from_start, to_end, ellipsis, new, shrink = _mask_attrs(op).values()
    masks = (2 * from_start + 1, 2 * to_end + 1, 2 * ellipsis, 2 * new, 2 * shrink)

    def parts(values: Any, *_: Any) -> Any:
        found = _part(values, begin, end, strides, masks)
        # What is all of it, or all but what an axis of one element said, is as good as a copy.
        return found if found.flags.c_contiguous and found.size == values.size else found.copy()

    return parts


@strided_slice_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None, None]:
    source, *vectors = op.inputs
    parts = [shape(source, out_type=vectors[0].dtype.base_dtype), *vectors]
    known = [constant_value(part) for part in parts]
    arguments = [part if value is None else value for part, value in zip(parts, known, strict=True)]
    made: Tensor = strided_slice_grad_op(*arguments, dout, **_mask_attrs(op))
    return made, None, None, None


def _mask_attrs(op: Operation) -> dict[str, Any]:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return {name: op[name] for name in names}


@op(
    "StridedSliceGrad",
    inputs="shape: Index; begin: Index; end: Index; strides: Index; dy: T",
    outputs="output: T",
    attrs=f"T: type; Index: {{int32, int64}}; {_MASKS}",
    shape=lambda c: c.shape_value("shape"),
    traits={NEVER_FAILS},
)
def strided_slice_grad_op(
    xp: Any,
    shape: Any,
    begin: Any,
    end: Any,
    strides: Any,
    dy: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    """Zeros of `shape` with dy in the place of the slice.

    Raises InvalidArgument if dy has not the shape of the slice.
    """
    whole = xp.zeros(checked_sizes(shape, "shape"), dtype=dy.dtype)
    if dy.dtype == object:
        whole[...] = b""
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    part = _part(whole, begin, end, strides, masks)
    if part.shape != np.shape(dy):
        raise errors.invalid_argument(
            f"shape of dy was {list(np.shape(dy))} instead of {list(part.shape)}"
        )
    part[...] = dy
    return whole


@strided_slice_grad_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[None, None, None, None, Tensor]:
    _, begin, end, strides, _ = op.inputs
    made: Tensor = strided_slice_op(dout, begin, end, strides, **_mask_attrs(op))
    return None, None, None, None, made


@op(
    "StridedSliceAssign",
    inputs="ref: Ref(T); begin: Index; end: Index; strides: Index; value: T",
    outputs="output_ref: Ref(T)",
    attrs=f"T: type; Index: {{int32, int64}}; {_MASKS}",
    shape=same_as("ref"),
    traits={UPDATES, NEVER_FOLDED},
)
@changes
def strided_slice_assign_op(
    xp: Any,
    ref: Any,
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
) -> Any:
    """ref[...] = value; returns the reference.

    Raises FailedPrecondition on an uninitialized variable, InvalidArgument if value does
    not broadcast to the slice.
    """
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    with ref.lock:
        whole = ref.writable(sparse=True)
        part = _part(whole, begin, end, strides, masks)
        try:
            part[...] = np.reshape(value, ()) if np.size(value) == 1 else value
        except ValueError:
            raise errors.invalid_argument(
                f"Cannot broadcast input shape {text(np.shape(value))} into final shape "
                f"{text(part.shape)}: "
                "that is the shape of the slice"
            ) from None
    return ref


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """input_[begin[0]:end[0]:strides[0], ...]; bit i of a mask changes what entry i means.

    `var` is accepted for compatibility: `variable[...]` gives slices that can be assigned to.
    """
    if strides is None:
        strides = ones_like(begin)
    made: Tensor = strided_slice_op(
        input_,
        begin,
        end,
        strides,
        name=name,
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
    )
    return made


# -- Slice ------------------------------------------------------------------------------------


def _starts(c: ShapeContext) -> list[int | None] | None:
    """Where the slice begins, as far as it is known."""
    begin = c.value("begin")
    known = c.shape_value("begin") if begin is None else begin.tolist()
    return None if known is None else list(known)


def _slice_shape(c: ShapeContext) -> Shape:
    whole = c.shape("input")
    lengths = [c.with_rank("begin", 1), c.with_rank("size", 1)]
    counts = {shape[0] for shape in lengths if shape is not None} | {
        None if whole is None else len(whole)
    }
    counts.discard(None)
    if len(counts) > 1:
        merge(*lengths)
        raise ValueError(
            f"Shape must be rank {max(n for n in counts if n is not None and n != len(whole or ()))} "
            f"but is rank {len(whole or ())}: "
            f"begin and size must have one element for each dimension of {text(whole)}, but have shapes "
            f"{text(lengths[0])} and {text(lengths[1])}"
        )
    if not counts:
        return None
    (count,) = counts
    assert count is not None
    begin, size = _starts(c), c.value("size")
    wanted: list[int | None]
    if size is None:
        partial = c.shape_value("size")
        wanted = list(partial) if partial is not None else [None] * count
        return tuple(wanted)
    wanted = []
    for axis, extent in enumerate(size.tolist()):
        known = None if whole is None else whole[axis]
        if extent != -1:
            wanted.append(int(extent))
        else:
            first = None if begin is None else begin[axis]
            wanted.append(None if known is None or first is None else known - int(first))
    if any(extent is not None and extent < 0 for extent in wanted):
        least = min(extent for extent in wanted if extent is not None)
        raise ValueError(
            f"Invalid value in tensor used for shape: {least}: sizes of a slice are -1 or more, not {size.tolist()}"
        )
    return tuple(wanted)


@op(
    "Slice",
    inputs="input: T; begin: Index; size: Index",
    outputs="output: T",
    attrs="T: type; Index: {int32, int64}",
    shape=_slice_shape,
    traits={NEVER_FAILS, PER_RECORD},
)
def slice_op(xp: Any, input: Any, begin: Any, size: Any) -> Any:
    """The block that starts at begin and has the given size, as a copy.

    begin, size [rank]; a size of -1 takes what is left.
    Raises InvalidArgument if the block is not inside the input.
    """
    whole = np.asarray(input)
    if np.shape(begin) != (whole.ndim,) or np.shape(size) != (whole.ndim,):
        raise errors.invalid_argument(
            f"Expected begin and size arguments to be 1-D tensors of size {whole.ndim}, but got shapes "
            f"{text(np.shape(begin))} and {text(np.shape(size))} instead: the input has rank {whole.ndim}"
        )
    index: list[Any] = []
    for axis, (start, extent, limit) in enumerate(
        zip(begin.tolist(), size.tolist(), whole.shape, strict=True)
    ):
        if not 0 <= start <= limit:
            raise errors.invalid_argument(
                f"Expected begin[{axis}] in [0, {limit}], but got {start}"
            )
        if extent == -1:
            extent = limit - start
        if not 0 <= extent <= limit - start:
            raise errors.invalid_argument(
                f"Expected size[{axis}] in [0, {limit - start}], but got {extent}"
            )
        index.append(builtins.slice(start, start + extent))
    return whole[(*index, Ellipsis)].copy()


@slice_op.knowing
def _block(op: Operation, known: Sequence[Any]) -> Callable[[Any, Any, Any], Any] | None:
    """A block that is known is taken at once, if all of it is there."""
    begin, size = known[1:]
    if begin is None or size is None or not begin.ndim == size.ndim == 1:
        return None
    starts, extents = begin.tolist(), tuple(size.tolist())
    made = op.outputs[0]._raw
    if -1 in extents and made is not None and None not in made and len(made) == len(starts):
        extents = made
    if not starts or len(starts) != len(extents) or min(*starts, *extents) < 0:
        return None
    ends = map(operator.add, starts, extents)
    index = (*map(builtins.slice, starts, ends), Ellipsis)

    def block(input: Any, begin: Any, size: Any) -> Any:
        if input.ndim == len(extents):
            found = input[index]
            if found.shape == extents and 0 not in extents:
                return found.copy()
        return slice_op.kernel(np, input, begin, size)  # type: ignore[misc]

    return block


@slice_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    source, begin, _ = op.inputs
    kind = begin.dtype.base_dtype
    count = rank(source)
    size = shape(op.outputs[0], out_type=kind)
    column = stack([count, 1])
    before = reshape(begin, column)
    after = reshape(shape(source, out_type=kind) - size - begin, column)
    made: Tensor = get("Pad")(dout, concat([before, after], 1))
    return made, None, None


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """The block of `input_` that starts at `begin` and has `size` (-1: what is left)."""
    made: Tensor = slice_op(input_, begin, size, name=name)
    return made
