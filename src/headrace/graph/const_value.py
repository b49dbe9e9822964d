"""Values and shapes that can be computed while the graph is built.

`folded` runs the kernels of small pure nodes on their constant inputs, which is what shape
functions need (a reshape by a computed shape); `as_shape` also keeps what is partly known.
`constant_value` is the public, narrower question that TensorFlow programs ask.
Called by: shape functions, ops, users.  Threads: as graph.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base.errors import OpError
from headrace.base.shapes import Shape
from headrace.base.traits import CONST, OF_SHAPE, SWITCH
from headrace.codec import protos as pb
from headrace.codec import tensors as codec
from headrace.graph.graph import Operation
from headrace.graph.handles import behind
from headrace.graph.tensor import Tensor

KERNEL_FAILURES = (OpError, ValueError, TypeError, IndexError, ArithmeticError, MemoryError)
_LARGEST = 4096  # elements; folding is for shapes and axes, not for data
_DEEPEST = 64

Array = np.ndarray[Any, Any]


def const_array(op: Operation) -> Array:
    """The value of a Const node, decoded once."""
    value = op.attrs["value"]
    if isinstance(value, pb.TensorProto):
        value = op.attrs["value"] = codec.decode(value)
    array: Array = value
    return array


def folded(tensor: Tensor, depth: int = 0) -> Array | None:
    """The value of `tensor` if it depends on constants and static shapes only, else None."""
    op = tensor.op
    if CONST in op.traits:
        return const_array(op)
    if tensor._folded is not None:
        known: Array = tensor._folded
        return known
    if OF_SHAPE in op.traits:
        return _of_metadata(op, tensor.value_index, depth)
    if SWITCH in op.traits:  # what comes out, where it does
        return folded(op.inputs[0], depth + 1)
    if op.type == "VariableShape":
        variable = behind(op.inputs[0])
        raw = None if variable is None else variable[1]
        return None if raw is None or None in raw else np.array(raw, op.attrs["out_type"].np)
    spec = op.spec
    if (
        spec is None
        or not spec.foldable
        or spec.kernel is None
        or depth > _DEEPEST
        or not op.inputs
    ):
        return None
    if spec.takes_ctx:
        return None
    raw = tensor._raw
    if raw is not None and None not in raw and math.prod(raw) > _LARGEST:  # type: ignore[arg-type]
        return None
    values: list[Array] = []
    for source in op.inputs:
        value = folded(source, depth + 1)
        if value is None and op.type == "StridedSlice" and not values:
            return _known_sizes(op, depth)
        if value is None or value.size > _LARGEST:
            return None
        values.append(value)
    attrs = {name: op.attrs[name] for name in spec.kernel_attrs}
    try:
        with np.errstate(all="ignore"):
            result = spec.kernel(np, *values, **attrs)
    except KERNEL_FAILURES:
        return None  # the step will report it, with the node's name
    if isinstance(result, (tuple, list)):
        result = result[tensor.value_index]
    value = np.asarray(result)
    tensor._folded = value
    return value


def _of_metadata(op: Operation, index: int, depth: int) -> Array | None:
    source = op.inputs[index if op.type == "ShapeN" else 0]
    raw = source._raw
    if raw is None or None in raw:  # the size may follow from a value, as that of Unique does
        value = folded(source, depth + 1)
        raw = raw if value is None else value.shape
    if raw is None:
        return None
    if op.type == "Rank":
        return np.array(len(raw), np.int32)
    if None in raw:
        return None
    kind = op.attrs["out_type"].np
    if op.type == "Size":
        count = math.prod(raw)
        return np.array(count, kind) if count <= np.iinfo(kind).max else None
    return np.array(raw, kind)


def as_shape(tensor: Tensor, depth: int = 0) -> Shape:
    """`tensor`, a vector of sizes (-1: unknown), as a raw shape, as far as it is known."""
    op = tensor.op
    value = folded(tensor)
    if value is not None:
        if value.ndim != 1:
            if value.ndim == 0 and int(value) == -1:
                return None
            raise ValueError(
                f"Shape must be rank 1 but is rank {value.ndim}: "
                f"{tensor.name} is used as a shape but is not a vector: {value.tolist()!r:.80}"
            )
        sizes: list[int] = value.astype(np.int64, copy=False).tolist()
        if sizes and min(sizes) < -1:
            raise ValueError(
                f"Invalid value in tensor used for shape: {min(sizes)}: {tensor.name} is {sizes}"
            )
        return tuple(None if size == -1 else size for size in sizes)
    found: Shape = None
    if depth < _DEEPEST:
        found = _partial(op, tensor, depth)
    if (
        found is None
        and tensor._raw is not None
        and len(tensor._raw) == 1
        and tensor._raw[0] is not None
    ):
        return (None,) * tensor._raw[0]
    return found


def _partial(op: Operation, tensor: Tensor, depth: int) -> Shape:
    if op.type in ("Shape", "ShapeN"):
        return op.inputs[tensor.value_index]._raw
    if op.type == "VariableShape":
        variable = behind(op.inputs[0])
        return None if variable is None else variable[1]
    if op.type in ("Identity", "Cast"):
        return as_shape(op.inputs[0], depth + 1)
    if op.type == "Pack" and op.attrs["axis"] == 0:
        parts = [folded(item) for item in op.inputs]
        if any(part is not None and part.ndim for part in parts):
            return None
        return tuple(None if part is None or int(part) < 0 else int(part) for part in parts)
    if op.type == "ConcatV2":
        pieces = [as_shape(item, depth + 1) for item in op.inputs[:-1]]
        if any(piece is None for piece in pieces):
            return None
        return tuple(size for piece in pieces for size in piece or ())
    if op.type == "StridedSlice":
        return _sliced(op, depth)
    return None


def _known_sizes(op: Operation, depth: int) -> Array | None:
    """shape[i] or shape[i:j] where those sizes are known though others are not."""
    whole = as_shape(op.inputs[0], depth + 1) if op.inputs[0].op.type in _SIZES else None
    bounds = [folded(item, depth + 1) for item in op.inputs[1:]]
    if whole is None or op["ellipsis_mask"] or op["new_axis_mask"]:
        return None
    if any(b is None or b.size != 1 for b in bounds):
        return None
    kind = op.outputs[0]._dtype.np
    begin = int(bounds[0].reshape(()))  # type: ignore[union-attr]
    if op["shrink_axis_mask"]:
        size = whole[begin] if -len(whole) <= begin < len(whole) else None
        return None if size is None else np.array(size, kind)
    part = _sliced(op, depth)
    return None if part is None or None in part else np.array(part, kind)


_SIZES = frozenset(("Shape", "ShapeN", "Cast", "Identity", "Pack", "ConcatV2", "StridedSlice"))


def _sliced(op: Operation, depth: int) -> Shape:
    whole = as_shape(op.inputs[0], depth + 1)
    bounds = [folded(item) for item in op.inputs[1:]]
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    if whole is None or any(b is None or b.size != 1 for b in bounds) or any(op[m] for m in masks):
        return None
    begin, end, stride = (int(b.reshape(())) for b in bounds if b is not None)
    return whole[
        None if op["begin_mask"] & 1 else begin : None if op["end_mask"] & 1 else end : stride
    ]


_PUBLIC = frozenset(
    "Const Shape Size Rank Range Cast Concat ConcatV2 Pack Unpack Split Fill Equal NotEqual Identity "
    "StopGradient".split()
)


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """The value of `tensor` if the graph fixes it (a constant, a shape, a pack of those), else None.

    partial: of a pack some of which is known the value is an array of objects, with None for the rest.
    Arithmetic is not evaluated, as in TensorFlow; ask `session.run` for that.
    """
    if not isinstance(tensor, Tensor):
        return (
            np.asarray(tensor) if isinstance(tensor, (np.ndarray, np.generic, int, float)) else None
        )
    if not _narrow(tensor):
        return _known_parts(tensor.op) if partial else None
    if SWITCH in tensor.op.traits:
        return None
    value = folded(tensor)
    if value is not None:
        tensor.graph.prevent_feeding(tensor)
        return value if value.ndim or value.dtype == object else value[()]
    return None


def _known_parts(op: Operation) -> Array | None:
    """What is known of each part of a pack along the first axis; None for what is no such pack."""
    if op.type == "Identity":
        return _known_parts(op.inputs[0].op)
    if op.type != "Pack" or op.attrs["axis"] != 0:
        return None
    parts = [constant_value(item, partial=True) for item in op.inputs]
    try:
        return np.array(parts, dtype=object)
    except ValueError:  # parts of which nothing is known, beside rows
        whole = np.empty(len(parts), dtype=object)
        whole[:] = parts
        return whole


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value of `tensor` as an array, of no dimensions for a scalar, if the graph fixes it, else None.

    partial: of a pack some of which is known, an array of objects, with None for the rest.
    Arithmetic is not evaluated; ask `session.run` for that.
    """
    found = constant_value(tensor, partial)
    return np.asarray(found) if isinstance(found, np.generic) else found


def _narrow(tensor: Tensor) -> bool:
    op = tensor.op
    if op.type in ("Shape", "Size"):
        raw = op.inputs[0]._raw
        return raw is not None and None not in raw
    if op.type in ("Const", "Rank"):
        return True
    return op.type in _PUBLIC and all(_narrow(item) for item in op.inputs)
