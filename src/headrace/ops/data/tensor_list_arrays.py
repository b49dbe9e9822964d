"""TensorList ops between lists and tensors: stacked and cut along the first dimension, joined and split, gathered and
scattered.

Elements that are cut from a tensor are views of it; what is made of elements is filled in one copy.
Called by: ops.data.tensor_list_calls, graphs from elsewhere.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/list_ops.cc, core/kernels/list_kernels.{h,cc}; 2.21 where they differ
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape, text
from headrace.graph.graph import Operation
from headrace.graph.list_elements import (
    EXPECTED,
    TO_READ,
    known_elements,
    says_elements,
    static_element_shape,
)
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.data.tensor_lists import (
    KEEPS,
    MAKES,
    SHAPE_TYPE,
    checked_length,
    element_shape_op,
    fits,
    length_op,
    list_of,
    merged,
    rows_of,
    scalar_of,
    shape_given,
    tensor_list_reserve_op,
)
from headrace.run.devices.there import There, joined, pieces, stacked
from headrace.run.state.tensor_lists import TensorList, zeros_of

Array = np.ndarray[Any, Any]

# -- stacked ----------------------------------------------------------------------------------------------------------


def _stacked(c: ShapeContext) -> Shape:
    shape = shape_rules.merge(known_elements(c, TO_READ), static_element_shape(c, "element_shape"))
    count = c.attr("num_elements")
    return shape_rules.concatenate((None if count == -1 else count,), shape)


@op(
    "TensorListStack",
    inputs="input_handle: variant; element_shape: int32",
    outputs="tensor: element_dtype",
    attrs="element_dtype: type; num_elements: int = -1",
    shape=_stacked,
    traits=MAKES,
)
def stack_op(
    xp: Any, input_handle: Any, element_shape: Any, *, element_dtype: DType, num_elements: int
) -> Array:
    """All elements, of one shape, as [n, ...]; zeros for those that were never set.

    Raises InvalidArgument (no list, dtype, shapes that differ or are not known, another number of elements).
    """
    items = list_of(input_handle, element_dtype)
    shape = merged(shape_given(element_shape), items.element_shape)
    if not items.length and not shape_rules.is_fully_defined(shape):
        raise errors.invalid_argument(
            f"Tried to stack elements of an empty list with non-fully-defined element_shape: {text(shape)}; give the "
            "shape that elements have"
        )
    if num_elements not in (-1, items.length):
        raise errors.invalid_argument(
            f"Operation expected a list with {num_elements} elements but got a list with {items.length} elements."
        )
    refusal = "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined element_shape"
    return _filled(items.items(), shape, element_dtype, refusal)


def _filled(values: Sequence[Any], known: Shape, kind: DType, refusal: str) -> Array:
    """[n, ...] of elements.  Raises InvalidArgument: shapes that differ, or `refusal` where they are not known."""
    shape: Any = known
    for value in values:
        if value is not None and value.shape != shape:
            shape = merged(shape, value.shape)
    if not shape_rules.is_fully_defined(shape):
        raise errors.invalid_argument(
            f"{refusal}: {text(shape)}; give the shape that elements have"
        )
    if any(value.__class__ is There for value in values):
        return _stacked_there(values, shape, kind)
    out = np.empty((len(values), *shape), kind.np)
    zero = None
    for at, value in enumerate(values):
        if value is None:
            if zero is None:
                zero = zeros_of(kind, shape)
            value = zero
        out[at] = value if value.ndim or kind.np.kind != "O" else value.item()
    return out


def _stacked_there(values: Sequence[Any], shape: Any, kind: DType) -> Array:
    """As `_filled`, of elements some of which are on a device."""
    zero = zeros_of(kind, shape) if any(value is None for value in values) else None
    found: Array = stacked([zero if value is None else value for value in values])
    return found


def _rest_of_shape(tensor: Tensor) -> Tensor:
    """The sizes of a tensor but for the first, as a node."""
    found: Tensor = slice_of(shape_of(tensor), [1], [-1])
    return found


@stack_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return from_tensor_op(dout, as_element_shape(dout.shape[1:])), None


def as_element_shape(shape: Any) -> Any:
    """What a user says of the shape of elements, as the input of an op: -1 for None, and for what is not known."""
    if isinstance(shape, Tensor):
        return shape
    if shape is None or (isinstance(shape, TensorShape) and shape.rank is None):
        return -1
    sizes = shape.as_list() if isinstance(shape, TensorShape) else shape
    if isinstance(sizes, int | np.integer):
        return sizes
    known = [-1 if size is None else size for size in sizes]
    return known if known else constant(np.zeros(0, np.int32))  # a node before the op's own


# -- cut --------------------------------------------------------------------------------------------------------------


def _cut(c: ShapeContext) -> Shape:
    shape = static_element_shape(c, "element_shape")
    whole = c.shape("tensor")
    if whole is not None:
        shape_rules.merge(whole[1:], shape)
    says_elements(c, c.attr("element_dtype"), shape)
    return ()


def _rows_for(tensor: Any, shape: Shape) -> list[Any]:
    """The elements of a tensor for a list of `shape`.  Raises InvalidArgument."""
    if not tensor.shape:
        raise errors.invalid_argument(
            f"Tensor must be at least a vector, but saw shape: {text(tensor.shape)}; its rows become elements"
        )
    if not fits(shape, tensor.shape[1:]):
        raise errors.invalid_argument(
            f"Specified a list with shape {text(shape)} from a tensor with shape {text(tensor.shape[1:])}: its rows "
            "become elements"
        )
    return rows_of(tensor)


@op(
    "TensorListFromTensor",
    inputs="tensor: element_dtype; element_shape: shape_type",
    outputs="output_handle: variant",
    attrs=SHAPE_TYPE,
    shape=_cut,
    traits=KEEPS,
)
def from_tensor_op(xp: Any, tensor: Any, element_shape: Any, *, element_dtype: DType) -> TensorList:
    """A list of the rows of tensor [n, ...].  Raises InvalidArgument (a scalar, shapes)."""
    shape = shape_given(element_shape)
    return TensorList(element_dtype, shape, _rows_for(tensor, shape))


@from_tensor_op.gradient
def _(op: Operation, dlist: Tensor) -> Any:
    tensor = op.inputs[0]
    raw = tensor.raw_shape
    count = -1 if not raw or raw[0] is None else raw[0]
    made: Tensor = stack_op(
        dlist, _rest_of_shape(tensor), element_dtype=tensor.dtype, num_elements=count
    )
    made.set_shape(tensor.shape)
    return made, None


# -- joined -----------------------------------------------------------------------------------------------------------


def _joined(c: ShapeContext, wanted: Shape) -> list[Shape]:
    shape = shape_rules.merge(known_elements(c, TO_READ), wanted)
    return [None if shape is None else (None, *shape[1:]), (None,)]


def _concatenated(
    items: TensorList, wanted: Shape, leading: Sequence[int], kind: DType
) -> tuple[Array, Array]:
    """All elements along their first dimension, and how long each is.  Raises InvalidArgument."""
    shape = merged(wanted, items.element_shape)
    if shape == ():
        raise errors.invalid_argument(
            "Concat requires elements to be at least vectors, found scalars instead. Stack them"
        )
    rest: Any = None if shape is None else shape[1:]
    values = items.items()
    lengths = {value.shape[0] for value in values if value is not None and value.shape}
    if shape is not None and shape[0] is not None:
        lengths.add(shape[0])
    for at, value in enumerate(values):
        if value is None:
            continue
        if not value.shape:
            raise errors.invalid_argument(
                f"Concat saw a scalar shape at index {at} but requires at least vectors. Stack scalars"
            )
        rest = merged(rest, value.shape[1:])
    if not shape_rules.is_fully_defined(rest):
        raise errors.invalid_argument(
            "All except the first dimension must be fully defined when concating an empty tensor list. "
            f"element_shape: {text(rest)}; give the shape that elements have"
        )
    parts = []
    for at, value in enumerate(values):
        if value is None:
            value = _unset(at, lengths, leading, rest, kind)
        parts.append(value)
    sizes = np.array([part.shape[0] for part in parts], np.int64)
    if not parts:
        return np.empty((0, *rest), kind.np), sizes
    if any(part.__class__ is There for part in parts):
        return joined(parts), sizes
    return np.concatenate(parts), sizes


def _unset(at: int, lengths: set[int], leading: Sequence[int], rest: Any, kind: DType) -> Array:
    """Zeros for an element that was never set: as long as `leading` says, or as all others are."""
    if at < len(leading):
        length = leading[at]
        if length < 0:
            raise errors.invalid_argument(
                f"leading_dims says that the element at index {at} is {length} long"
            )
    elif len(lengths) == 1:
        (length,) = lengths
    else:
        raise errors.invalid_argument(
            f"List contains uninitialized tensor at index {at} but leading_dims has only {len(leading)} elements."
        )
    found: Array = zeros_of(kind, (length, *rest))
    return found


@op(
    "TensorListConcat",
    inputs="input_handle: variant",
    outputs="tensor: element_dtype; lengths: int64",
    attrs="element_dtype: type; element_shape: shape = unknown_shape",
    shape=lambda c: _joined(c, c.attr("element_shape")._raw),
    traits=MAKES,
)
def concat_op(
    xp: Any, input_handle: Any, *, element_dtype: DType, element_shape: TensorShape
) -> tuple[Array, Array]:
    """All elements, one after another along their first dimension, and how long each is.

    Raises InvalidArgument (no list, dtype, scalars, shapes that differ or are not known).
    """
    items = list_of(input_handle, element_dtype)
    return _concatenated(items, element_shape._raw, (), element_dtype)


@op(
    "TensorListConcatV2",
    inputs="input_handle: variant; element_shape: shape_type; leading_dims: int64",
    outputs="tensor: element_dtype; lengths: int64",
    attrs=SHAPE_TYPE,
    shape=lambda c: _joined(c, static_element_shape(c, "element_shape", strict=True)),
    traits=MAKES,
)
def concat_v2_op(
    xp: Any, input_handle: Any, element_shape: Any, leading_dims: Any, *, element_dtype: DType
) -> tuple[Array, Array]:
    """As TensorListConcat; leading_dims [n] says how long elements are that were never set.

    Raises InvalidArgument as TensorListConcat.
    """
    items = list_of(input_handle, element_dtype)
    leading = leading_dims.reshape(-1).tolist()
    return _concatenated(items, shape_given(element_shape), leading, element_dtype)


def _split_again(op: Operation, dout: Tensor) -> Tensor:
    shape = element_shape_op(op.inputs[0], shape_type=dtypes.int32)
    made: Tensor = split_op(dout, shape, op.outputs[1])
    return made


@concat_op.gradient
def _(op: Operation, dout: Tensor, _dlengths: Any) -> Any:
    return _split_again(op, dout)


@concat_v2_op.gradient
def _(op: Operation, dout: Tensor, _dlengths: Any) -> Any:
    return _split_again(op, dout), None, None


def _split(c: ShapeContext) -> Shape:
    whole = c.with_rank_at_least("tensor", 1)
    shape = static_element_shape(c, "element_shape")
    c.with_rank("lengths", 1)
    if whole is not None:
        shape_rules.merge((None, *whole[1:]), shape)
    says_elements(c, c.attr("element_dtype"), shape)
    return ()


@op(
    "TensorListSplit",
    inputs="tensor: element_dtype; element_shape: shape_type; lengths: int64",
    outputs="output_handle: variant",
    attrs=SHAPE_TYPE,
    shape=_split,
    traits=KEEPS,
)
def split_op(
    xp: Any, tensor: Any, element_shape: Any, lengths: Any, *, element_dtype: DType
) -> TensorList:
    """A list of parts of tensor [n, ...]: lengths [m] says how many rows each has.

    Raises InvalidArgument (scalars, shapes, lengths that are negative or do not add up).
    """
    if not tensor.shape:
        raise errors.invalid_argument(
            f"Tensor must be at least a vector, but saw shape: {text(tensor.shape)}; its rows are divided"
        )
    if lengths.ndim != 1:
        raise errors.invalid_argument(
            f"Expected lengths to be a vector, received shape: {text(lengths.shape)}"
        )
    shape = shape_given(element_shape)
    known = shape if shape is None else (None, *shape[1:])
    if shape == () or not fits(known, tensor.shape):
        raise errors.invalid_argument(
            f"tensor shape {text(tensor.shape)} is not compatible with element_shape {text(shape)}"
        )
    between, start = list[tuple[int, int]](), 0
    for length in lengths.tolist():
        if length < 0:
            raise errors.invalid_argument(f"Invalid value in lengths: {length}; none is below 0")
        end = start + length
        if end > tensor.shape[0]:
            raise errors.invalid_argument(
                f"Attempting to slice [{start}, {end}] from tensor with length {tensor.shape[0]}"
            )
        between.append((start, end))
        start = end
    if start != tensor.shape[0]:
        raise errors.invalid_argument(
            f"Unused values in tensor. Length of tensor: {tensor.shape[0]} Values used: {start}"
        )
    if tensor.__class__ is There:
        parts = pieces(tensor, between)
    else:
        parts = [tensor[start:end] for start, end in between]
    return TensorList(element_dtype, shape, parts)


@split_op.gradient
def _(op: Operation, dlist: Tensor) -> Any:
    tensor, _, lengths = op.inputs
    shape = concat([[-1], _rest_of_shape(tensor)], 0)
    found = concat_v2_op(dlist, shape, lengths, element_dtype=tensor.dtype)
    return found[0], None, None


# -- gathered ---------------------------------------------------------------------------------------------------------


def _gathered(c: ShapeContext) -> Shape:
    known = known_elements(c, EXPECTED)
    shape = shape_rules.merge(known, static_element_shape(c, "element_shape"))
    indices = c.shape("indices")
    count = indices[0] if indices else None
    return shape_rules.concatenate((count,), shape)


@op(
    "TensorListGather",
    inputs="input_handle: variant; indices: int32; element_shape: int32",
    outputs="values: element_dtype",
    attrs="element_dtype: type",
    shape=_gathered,
    traits=MAKES,
)
def gather_op(
    xp: Any, input_handle: Any, indices: Any, element_shape: Any, *, element_dtype: DType
) -> Array:
    """The elements at indices [n], of one shape, as [n, ...]; zeros for those that were never set.

    Raises InvalidArgument (no list, dtype, an index, shapes that differ or are not known).
    """
    items = list_of(input_handle, element_dtype)
    shape = merged(shape_given(element_shape), items.element_shape)
    wanted = indices.reshape(-1).tolist()
    if not wanted and not shape_rules.is_fully_defined(shape):
        raise errors.invalid_argument(
            f"Tried to gather 0-elements from a list with non-fully-defined shape: {text(shape)}; give the shape that "
            "elements have"
        )
    values = items.items()
    for index in wanted:
        if not 0 <= index < len(values):
            raise errors.invalid_argument(
                f"Trying to gather element {index} in a list with {len(values)} elements."
            )
    refusal = (
        "Tried to gather uninitialized tensors from a list with non-fully-defined element_shape"
    )
    return _filled([values[index] for index in wanted], shape, element_dtype, refusal)


@gather_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    items, indices, _ = op.inputs
    shape = element_shape_op(items, shape_type=dtypes.int32)
    length = length_op(items)
    made = tensor_list_reserve_op(shape, length, element_dtype=dout.dtype)
    return scatter_into_op(made, dout, indices), None, None


# -- scattered --------------------------------------------------------------------------------------------------------


def _scattered(c: ShapeContext) -> Shape:
    says_elements(c, c.attr("element_dtype"), static_element_shape(c, "element_shape"))
    return ()


def _scatter_into(values: list[Any], rows: list[Any], indices: list[int]) -> list[Any]:
    """`values` with the rows at their places; longer, if they lie beyond."""
    if indices:
        values += [None] * (checked_length(max(indices) + 1) - len(values))
    for index, row in zip(indices, rows, strict=True):
        values[index] = row
    return values


def _indices_for(rows: list[Any], indices: Any) -> list[int]:
    """Where rows go.  Raises InvalidArgument (another number of them, a negative one)."""
    wanted: list[int] = indices.reshape(-1).tolist()
    if len(wanted) != len(rows):
        raise errors.invalid_argument(
            f"Invalid number of rows in input tensor. Expected: {len(wanted)} Actual: {len(rows)}: there is one for "
            "each index"
        )
    if wanted and min(wanted) < 0:
        raise errors.invalid_argument(
            f"Indices in TensorListScatter must all be non-negative. {min(wanted)} is among them"
        )
    return wanted


@op(
    "TensorListScatter",
    inputs="tensor: element_dtype; indices: int32; element_shape: shape_type",
    outputs="output_handle: variant",
    attrs=SHAPE_TYPE,
    shape=_scattered,
    traits=KEEPS,
)
def scatter_op(
    xp: Any, tensor: Any, indices: Any, element_shape: Any, *, element_dtype: DType
) -> TensorList:
    """A list in which row i of tensor [n, ...] is at indices[i]; as long as the largest of them needs.

    Raises InvalidArgument (a scalar, shapes, indices), ResourceExhausted (a list that would be too long).
    """
    shape = shape_given(element_shape)
    rows = _rows_for(tensor, shape)
    return TensorList(element_dtype, shape, _scatter_into([], rows, _indices_for(rows, indices)))


@op(
    "TensorListScatterV2",
    inputs="tensor: element_dtype; indices: int32; element_shape: shape_type; num_elements: int32",
    outputs="output_handle: variant",
    attrs=SHAPE_TYPE,
    shape=_scattered,
    traits=KEEPS,
)
def scatter_v2_op(
    xp: Any,
    tensor: Any,
    indices: Any,
    element_shape: Any,
    num_elements: Any,
    *,
    element_dtype: DType,
) -> TensorList:
    """As TensorListScatter; num_elements [] says how long the list is, unless that is -1.

    Raises InvalidArgument as TensorListScatter, and for an index beyond that; ResourceExhausted.
    """
    count = scalar_of(num_elements, "num_elements is a scalar, not of shape ")
    if count < -1:
        raise errors.invalid_argument(
            f"TensorListScatter expects num_elements >= -1, found: {count}"
        )
    shape = shape_given(element_shape)
    rows = _rows_for(tensor, shape)
    wanted = _indices_for(rows, indices)
    if count != -1 and wanted and max(wanted) >= count:
        raise errors.invalid_argument(
            f"TensorListScatter: Trying to scatter at index {max(wanted)} in list with size {count}"
        )
    room = [None] * checked_length(max(count, 0))
    return TensorList(element_dtype, shape, _scatter_into(room, rows, wanted))


def _scattered_into(c: ShapeContext) -> Shape:
    known_elements(c, EXPECTED)
    return ()


@op(
    "TensorListScatterIntoExistingList",
    inputs="input_handle: variant; tensor: element_dtype; indices: int32",
    outputs="output_handle: variant",
    attrs="element_dtype: type",
    shape=_scattered_into,
    traits=KEEPS,
)
def scatter_into_op(
    xp: Any, input_handle: Any, tensor: Any, indices: Any, *, element_dtype: DType
) -> TensorList:
    """The list with row i of tensor [n, ...] at indices[i]; longer, if they lie beyond.

    Raises InvalidArgument (no list, dtype, a scalar, shapes, indices), ResourceExhausted (too long).
    """
    items = list_of(input_handle, element_dtype)
    if indices.ndim != 1:
        raise errors.invalid_argument(
            f"Expected indices to be a vector, but received shape: {text(indices.shape)}"
        )
    rows = _rows_for(tensor, items.element_shape)
    if indices.size != len(rows):
        raise errors.invalid_argument(
            f"Expected len(indices) == tensor.shape[0], but saw: {indices.size} vs. {len(rows)}"
        )
    return items.replaced(_scatter_into(items.items(), rows, _indices_for(rows, indices)))


def _gathered_again(op: Operation, dlist: Tensor, tensor: Tensor, indices: Tensor) -> Tensor:
    made: Tensor = gather_op(dlist, indices, _rest_of_shape(tensor), element_dtype=tensor.dtype)
    return made


def _of_scattered(op: Operation, dlist: Tensor) -> list[Tensor | None]:
    found = _gathered_again(op, dlist, op.inputs[0], op.inputs[1])
    return [found] + [None] * (len(op.inputs) - 1)


def _with_gradient(spec: OpSpec) -> None:
    spec.gradient(_of_scattered)


_with_gradient(scatter_op)
_with_gradient(scatter_v2_op)


@scatter_into_op.gradient
def _(op: Operation, dlist: Tensor) -> Any:
    _, tensor, indices = op.inputs
    dtensor = _gathered_again(op, dlist, tensor, indices)
    rest = scatter_into_op(dlist, zeros_like(tensor), indices)
    return rest, dtensor, None
