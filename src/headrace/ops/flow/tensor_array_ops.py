"""TensorArrays as nodes: making, writing, reading, and all elements at once; and their gradients.

A handle is the run-time array itself; a `flow` is a number of no meaning that orders what is done to it.  The
gradient of reading is writing into the gradient's array, and the other way round.
Called by: ops.flow.tensor_array, graphs from elsewhere.
Source: TF 1.15 core/kernels/tensor_array_ops.cc; gradients as GraphDefs of 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import (
    ALIASES,
    ENTER,
    EXIT,
    IDENTITY,
    MERGE,
    NEXT_ITERATION,
    SNAPSHOTS,
    STATEFUL,
    STORES,
    SWITCH,
)
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.graph.tensor import Tensor
from headrace.run.devices.there import There, here, joined, pieces, stacked
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.rows import uncut
from headrace.run.state.tensor_arrays import TensorArray

_FLOW = np.float32(0.0)
_PASSED_ON = frozenset((IDENTITY, SWITCH, MERGE, ENTER, EXIT, NEXT_ITERATION))


def _array_shape(handle: Tensor) -> Shape:
    """What the node that made the array says of its elements, if all are alike."""
    source = handle.op
    while source.inputs and (
        source.spec is tensor_array_grad_op or not _PASSED_ON.isdisjoint(source.traits)
    ):
        source = source.inputs[0].op
    if source.spec is not tensor_array_op or not source["identical_element_shapes"]:
        return None
    raw: Shape = source["element_shape"]._raw
    return raw


def _made(c: ShapeContext) -> list[Shape]:
    c.with_rank(0, 0)
    return [(2,), ()]


def _graded(c: ShapeContext) -> list[Shape]:
    return [(2,), ()]


def _element(c: ShapeContext) -> Shape:
    c.with_rank("index", 0)
    return _array_shape(c.op.inputs[0])


def _elements(c: ShapeContext) -> Shape:
    c.with_rank("indices", 1)
    known = shape_rules.merge(_array_shape(c.op.inputs[0]), c.attr("element_shape")._raw)
    return shape_rules.concatenate((None,), known)


def _joined(c: ShapeContext) -> list[Shape]:
    return [None, (None,)]


def _index(index: Any) -> int:
    if index.ndim:
        raise errors.invalid_argument(f"index must be a scalar, and has shape {list(index.shape)}")
    return int(index)


def _check_type(array: TensorArray, kind: DType) -> None:
    if kind is not array.dtype:
        raise errors.invalid_argument(
            f"TensorArray {array.name!r} holds {array.dtype.name}, not {kind.name}"
        )


def _common_shape(array: TensorArray, wanted: TensorShape, values: list[Any]) -> tuple[int, ...]:
    """The shape of elements that are to become one tensor; of none, what is known must be enough."""
    if values:
        shapes = {value.shape for value in values}
        if len(shapes) > 1:
            raise errors.invalid_argument(
                f"TensorArray has inconsistent shapes: {', '.join(map(str, sorted(shapes)))} cannot be put together, "
                f"in TensorArray {array.name!r}"
            )
        (shape,) = shapes
        if not shape_rules.compatible(wanted._raw, shape):
            raise errors.invalid_argument(
                f"TensorArray {array.name!r} has elements of shape {list(shape)}, and {wanted} is expected"
            )
        found: tuple[int, ...] = shape
        return found
    known = shape_rules.merge(array.shape, wanted._raw)
    if not shape_rules.is_fully_defined(known):
        raise errors.unimplemented(
            f"TensorArray has size zero, but element shape {shape_rules.text(known)} is not fully defined; give "
            f"TensorArray {array.name!r} its element_shape"
        )
    return known  # type: ignore[return-value]


@op(
    "TensorArrayV3",
    inputs="size: int32",
    outputs="handle: resource; flow: float",
    attrs="dtype: type; element_shape: shape = unknown_shape; dynamic_size: bool = false; "
    "clear_after_read: bool = true; identical_element_shapes: bool = false; tensor_array_name: string = ''",
    traits={STATEFUL, STORES},
    shape=_made,
    differentiable=False,
)
def tensor_array_op(
    ctx: KernelContext,
    size: Any,
    *,
    dtype: DType,
    element_shape: TensorShape,
    dynamic_size: bool,
    clear_after_read: bool,
    identical_element_shapes: bool,
    tensor_array_name: bytes,
) -> Any:
    """A new array of size [] elements, and its first flow."""
    count = _index(size)
    if count < 0:
        raise errors.invalid_argument(f"the size of a TensorArray must be >= 0, not {count}")
    name = tensor_array_name.decode() or ctx.node.name
    array = TensorArray(
        name,
        dtype,
        element_shape._raw,
        count,
        dynamic_size=dynamic_size,
        clear_after_read=clear_after_read,
        identical=identical_element_shapes,
    )
    return array, _FLOW


@op(
    "TensorArrayGradV3",
    inputs="handle: resource; flow_in: float",
    outputs="grad_handle: resource; flow_out: float",
    attrs="source: string",
    traits={STATEFUL, ALIASES, STORES},
    shape=_graded,
    differentiable=False,
)
def tensor_array_grad_op(xp: Any, handle: TensorArray, flow_in: Any, *, source: bytes) -> Any:
    """The array of the gradients that `source` accumulates, the same for all who ask in a step."""
    return handle.gradient(source.decode()), flow_in


@op(
    "TensorArrayGradWithShape",
    inputs="handle: resource; flow_in: float; shape_to_prepend: int32",
    outputs="grad_handle: resource; flow_out: float",
    attrs="source: string",
    traits={STATEFUL, ALIASES, STORES},
    shape=_graded,
    differentiable=False,
)
def tensor_array_grad_with_shape_op(
    xp: Any, handle: TensorArray, flow_in: Any, shape_to_prepend: Any, *, source: bytes
) -> Any:
    """As TensorArrayGradV3, for gradients with further dimensions before those of the elements."""
    return handle.gradient(source.decode(), tuple(shape_to_prepend.tolist())), flow_in


def _written(c: ShapeContext) -> Shape:
    c.with_rank("index", 0)
    return ()


def _scattered(c: ShapeContext) -> Shape:
    indices, value = c.with_rank("indices", 1), c.with_rank_at_least("value", 1)
    if indices is not None and value is not None:
        shape_rules.merge_sizes(value[0], indices[0], "the rows of value and the indices")
    return ()


def _cut(c: ShapeContext) -> Shape:
    c.with_rank("lengths", 1)
    return ()


@op(
    "TensorArrayWriteV3",
    inputs="handle: resource; index: int32; value: T; flow_in: float",
    outputs="flow_out: float",
    attrs="T: type",
    traits={STATEFUL, ALIASES, SNAPSHOTS, STORES},
    shape=_written,
)
def write_op(
    xp: Any, handle: TensorArray, index: Any, value: Any, flow_in: Any, *, T: DType
) -> Any:
    """A flow that says: value is at index [].

    Raises InvalidArgument (dtype, index, shape, an index that was written or read before).
    """
    _check_type(handle, T)
    handle.write(_index(index), value)
    return flow_in


@op(
    "TensorArrayReadV3",
    inputs="handle: resource; index: int32; flow_in: float",
    outputs="value: dtype",
    attrs="dtype: type",
    traits={STATEFUL, ALIASES, STORES},
    shape=_element,
)
def read_op(xp: Any, handle: TensorArray, index: Any, flow_in: Any, *, dtype: DType) -> Any:
    """The element at index []; see run.tensor_arrays.TensorArray.read."""
    _check_type(handle, dtype)
    value = handle.read(_index(index))
    return here(value) if value.__class__ is There and xp is np else value


@op(
    "TensorArrayGatherV3",
    inputs="handle: resource; indices: int32; flow_in: float",
    outputs="value: dtype",
    attrs="dtype: type; element_shape: shape = unknown_shape",
    traits={STATEFUL, STORES},
    shape=_elements,
)
def gather_op(
    xp: Any,
    handle: TensorArray,
    indices: Any,
    flow_in: Any,
    *,
    dtype: DType,
    element_shape: TensorShape,
) -> Any:
    """The elements at indices [n], as one tensor [n, ...].

    Raises InvalidArgument (dtype, index, shapes that differ), Unimplemented (n is 0 and the shape unknown).
    """
    _check_type(handle, dtype)
    if element_shape._raw != handle.shape:
        handle.expect(element_shape._raw)
    wanted = indices.tolist()
    whole = handle.read_whole(wanted)
    if whole is not None:
        _common_shape(handle, element_shape, [_like_row(whole)])
        if whole.__class__ is There:
            return here(whole) if xp is np else whole
        return np.array(whole)
    values = handle.read_all(wanted)
    shape = _common_shape(handle, element_shape, values)
    if any(value.__class__ is There for value in values):
        found = stacked(values)
        return here(found) if xp is np else found
    out = np.empty((len(values), *shape), dtype.np)
    for position, value in enumerate(values):
        out[position] = value
    return out


@op(
    "TensorArrayScatterV3",
    inputs="handle: resource; indices: int32; value: T; flow_in: float",
    outputs="flow_out: float",
    attrs="T: type",
    traits={STATEFUL, ALIASES, SNAPSHOTS, STORES},
    shape=_scattered,
)
def scatter_op(
    xp: Any, handle: TensorArray, indices: Any, value: Any, flow_in: Any, *, T: DType
) -> Any:
    """A flow that says: value[i] is at indices[i].

    indices [n], value [n, ...].  Raises InvalidArgument as TensorArrayWriteV3.
    """
    _check_type(handle, T)
    if indices.ndim != 1 or not value.shape or len(indices) != value.shape[0]:
        raise errors.invalid_argument(
            "Expected len(indices) == values.shape[0], but "
            f"indices and value have shapes {list(indices.shape)} and {list(value.shape)}"
        )
    if indices.size and not handle.dynamic and indices.max() >= handle.size():
        raise errors.invalid_argument(
            f"Max scatter index must be < array size ({indices.max()} vs. {handle.size()}): TensorArray "
            f"{handle.name!r} does not grow, as dynamic_size is false"
        )
    handle.write_all(indices.tolist(), _rows(value))
    return flow_in


def _rows(value: Any) -> list[Any]:
    """Slices along the first dimension; scalars as arrays of no dimension where NumPy gives bare objects."""
    if value.__class__ is There:
        return uncut(value, value.shape[0])
    if value.ndim == 1 and value.dtype == object:
        return [value[index : index + 1].reshape(()) for index in range(len(value))]
    return list(value)


@op(
    "TensorArrayConcatV3",
    inputs="handle: resource; flow_in: float",
    outputs="value: dtype; lengths: int64",
    attrs="dtype: type; element_shape_except0: shape = unknown_shape",
    traits={STATEFUL, STORES},
    shape=_joined,
)
def concat_op(
    xp: Any, handle: TensorArray, flow_in: Any, *, dtype: DType, element_shape_except0: TensorShape
) -> Any:
    """All elements, one after another along their first dimension, and how long each is.

    Raises InvalidArgument (dtype, scalars, shapes that differ beyond the first dimension), Unimplemented (no
    elements, and the shape unknown).
    """
    _check_type(handle, dtype)
    values = handle.read_all(range(handle.size()))
    if any(not value.shape for value in values):
        raise errors.invalid_argument(
            "Concat saw a scalar shape but requires at least vectors: "
            f"TensorArray {handle.name!r} has scalars, which cannot be joined; stack them"
        )
    if not values:
        known = shape_rules.merge(
            None if not handle.shape else handle.shape[1:], element_shape_except0._raw
        )
        if not shape_rules.is_fully_defined(known):
            raise errors.unimplemented(
                f"TensorArray has size zero, but element_shape_except0 {shape_rules.text(known)} is not fully defined: "
                f"give TensorArray {handle.name!r} its element_shape"
            )
        return np.empty((0, *known), dtype.np), np.zeros(0, np.int64)  # type: ignore[misc]
    _common_shape(handle, element_shape_except0, [_like_row(value) for value in values])
    lengths = np.array([value.shape[0] for value in values], np.int64)
    if any(value.__class__ is There for value in values):
        found = joined(values)
        return here(found) if xp is np else found, lengths
    return np.concatenate(values), lengths


def _like_row(value: Any) -> Any:
    """Something of the shape of a row."""
    return np.broadcast_to(_FLOW, value.shape[1:])


@op(
    "TensorArraySplitV3",
    inputs="handle: resource; value: T; lengths: int64; flow_in: float",
    outputs="flow_out: float",
    attrs="T: type",
    traits={STATEFUL, ALIASES, SNAPSHOTS, STORES},
    shape=_cut,
)
def split_op(
    xp: Any, handle: TensorArray, value: Any, lengths: Any, flow_in: Any, *, T: DType
) -> Any:
    """A flow that says: the rows of value are in the array, lengths[i] of them at index i.

    Raises InvalidArgument (dtype, lengths that do not add up to the rows, an array of another size).
    """
    _check_type(handle, T)
    if lengths.ndim != 1 or not value.shape or int(lengths.sum()) != value.shape[0]:
        raise errors.invalid_argument(
            "Expected sum of lengths to be equal to values.shape[0], but "
            f"lengths {lengths.tolist()} are no vector that adds up to the rows of value, which has shape "
            f"{list(value.shape)}"
        )
    if not handle.dynamic and handle.size() != len(lengths):
        raise errors.invalid_argument(
            f"TensorArray's size is not equal to the size of lengths ({handle.size()} vs. {len(lengths)}), and "
            f"TensorArray {handle.name!r} does not grow: dynamic_size is false"
        )
    ends = np.cumsum(lengths).tolist()
    between = [*zip([0, *ends[:-1]], ends, strict=True)] if ends else []
    if value.__class__ is There:
        parts = pieces(value, between)
    else:
        parts = [value[start:end] for start, end in between]
    handle.write_all(range(len(parts)), parts)
    return flow_in


@op(
    "TensorArraySizeV3",
    inputs="handle: resource; flow_in: float",
    outputs="size: int32",
    traits={STATEFUL},
    shape=scalar,
    differentiable=False,
)
def size_op(xp: Any, handle: TensorArray, flow_in: Any) -> Any:
    """Number of elements [], written or not."""
    return np.int32(handle.size())


@op("TensorArrayCloseV3", inputs="handle: resource", traits={STATEFUL}, differentiable=False)
def close_op(xp: Any, handle: TensorArray) -> None:
    """Nothing; the array is empty and refuses to be used."""
    handle.close()
