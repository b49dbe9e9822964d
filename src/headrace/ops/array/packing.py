"""Stacking and unstacking: Pack, Unpack, and lists that contain tensors.

A list that contains tensors becomes a tensor here (a Pack node), through a conversion.
Called by: graph.build (through the conversion), op families, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/pack_op.cc, unpack_op.cc, python/ops/array_ops.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import ALIASES, NEVER_FAILS, PASSES_LIST, PER_RECORD
from headrace.graph.convert import convert, register_tensor_conversion_function
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_axis, static_axis
from headrace.ops.array.constants import constant

_RANGE = "Argument `axis` = {axis} not in range [{low}, {rank})"

__all__ = ["stack", "unstack"]

# -- Pack -------------------------------------------------------------------------------------


def _pack_shape(c: ShapeContext) -> Shape:
    item: Shape = None
    for shape in c.shapes:
        item = shape_rules.merge(item, shape)
    if item is None:
        return None
    at = static_axis(c.attr("axis"), len(item) + 1, "axis", _RANGE)
    return (*item[:at], len(c.op.inputs), *item[at:])


def _is_number(value: Any) -> bool:
    """Whether it is a scalar, and one of NumPy's own numbers."""
    kind = getattr(value, "dtype", None)
    return kind is not None and kind.kind in "fiu" and not value.ndim


@op(
    "Pack",
    inputs="values: N * T",
    outputs="output: T",
    attrs="N: int >= 1; T: type; axis: int = 0",
    shape=_pack_shape,
    traits={NEVER_FAILS, PER_RECORD, PASSES_LIST},
)
def pack_op(xp: Any, *values: Any, axis: int) -> Any:
    """The values stacked along a new axis.

    values: equal shapes of rank r; axis in [-r-1, r+1).  out: rank r+1.
    Raises InvalidArgument on shapes that differ or an axis out of range.
    """
    first = np.shape(values[0])
    if not first and xp is np and all(map(_is_number, values)):
        checked_axis(axis, 1)
        return np.array(values)
    for index, value in enumerate(values[1:], 1):
        if np.shape(value) != first:
            raise errors.invalid_argument(
                f"Shapes of all inputs must match: values[0].shape = {text(first)} != "
                f"values[{index}].shape = {text(np.shape(value))}"
            )
    return xp.stack(values, axis=checked_axis(axis, len(first) + 1))


@pack_op.gradient
def _(op: Operation, dout: Tensor) -> list[Tensor]:
    return unstack(dout, num=op["N"], axis=op["axis"])


@of_ragged_by("headrace.ops.array.ragged_joining")
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape stacked along a new `axis`.  Raises ValueError on an axis out of range."""
    if axis == 0:
        try:
            return convert(values, name=name)  # plain values make one constant
        except (TypeError, ValueError):
            pass
    if isinstance(values, Tensor):
        raise TypeError(
            f"Expected list for 'values' argument to 'pack' Op, not {values!r}: tf.unstack makes a list of a tensor"
        )
    first = convert(values[0], name=name)
    if first.raw_shape is not None:
        static_axis(axis, len(first.raw_shape) + 1, "axis", _RANGE)
    made: Tensor = pack_op(list(values), axis=axis, name=name)
    return made


def _symbolic_dtype(value: Any) -> DType | None:
    """The dtype of a tensor or variable, None for anything else."""
    if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
        kind: DType = value.dtype.base_dtype
        return kind
    return None


def _first_dtype(values: Any) -> DType | None:
    if isinstance(values, (list, tuple)):
        for item in values:
            found = _first_dtype(item)
            if found is not None:
                return found
        return None
    return _symbolic_dtype(values)


def _cast_tensors(values: Any, dtype: DType) -> Any:
    if isinstance(values, (list, tuple)):
        return [_cast_tensors(item, dtype) for item in values]
    found = _symbolic_dtype(values)
    return get("Cast")(values, DstT=dtype) if found not in (None, dtype) else values


def _pack_nested(values: Any, dtype: DType, name: str) -> Any:
    """A Pack of Packs where tensors are inside, else the nested list itself."""
    must_pack = False
    items: list[Any] = []
    with name_scope(name) as scope:
        for index, item in enumerate(values):
            if _symbolic_dtype(item) is not None:
                if item.dtype.base_dtype is not dtype:
                    raise TypeError(
                        f"Cannot convert a list containing a tensor of dtype {item.dtype} to {dtype}: {item.name} "
                        "is the tensor; tf.cast converts"
                    )
                must_pack = True
            elif isinstance(item, (list, tuple)):
                item = _pack_nested(item, dtype, str(index))
                must_pack = must_pack or isinstance(item, Tensor)
            items.append(item)
        if not must_pack:
            return items
        tensors = []
        for index, item in enumerate(items):
            if _symbolic_dtype(item) is None:
                item = constant(item, dtype, name=str(index))
            tensors.append(item)
        return pack_op(tensors, name=scope)


def _convert_list(
    value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Any:
    inferred = _first_dtype(value)
    if inferred is None:
        return NotImplemented
    if dtype is None:
        dtype = inferred
    elif dtype is not inferred:
        value = _cast_tensors(value, dtype)
    return _pack_nested(value, dtype, name or "packed")


register_tensor_conversion_function((list, tuple), _convert_list, 99)


# -- Unpack -----------------------------------------------------------------------------------


def _unpack_shape(c: ShapeContext) -> list[Shape]:
    whole, num = c.shape(0), c.attr("num")
    if whole is None:
        return [None] * num
    at = static_axis(c.attr("axis"), len(whole), "axis", _RANGE)
    if whole[at] not in (None, num):
        raise ValueError(
            f"Dimension must be {num} but is {whole[at]}: "
            f"dimension {at} of {shape_rules.text(whole)} cannot be unstacked into {num} tensors"
        )
    return [whole[:at] + whole[at + 1 :]] * num


@op(
    "Unpack",
    inputs="value: T",
    outputs="output: num * T",
    attrs="num: int >= 0; T: type; axis: int = 0",
    shape=_unpack_shape,
    traits={PER_RECORD, ALIASES},
)
def unpack_op(xp: Any, value: Any, *, num: int, axis: int) -> list[Any]:
    """The num slices of value along axis.

    Raises InvalidArgument if axis is out of range or its size is not num.
    """
    at = checked_axis(axis, np.ndim(value), says="axis = {axis} not in [0, {rank})")
    if value.shape[at] != num:
        raise errors.invalid_argument(
            f"Input shape axis {at} must equal {num}, got shape {text(value.shape)}"
        )
    front = xp.moveaxis(value, at, 0)
    return [front[index, ...] for index in range(num)]


@unpack_op.gradient
def _(op: Operation, *douts: Tensor) -> Tensor:
    return stack(list(douts), axis=op["axis"])


def unstack(
    value: Any, num: int | None = None, axis: int = 0, name: str = "unstack"
) -> list[Tensor]:
    """The slices of `value` along `axis`; `num`, their number, is needed where it is not known statically.

    Raises ValueError if the axis is out of range or the number is unknown.
    """
    if num is None:
        value = convert(value)
        raw = value.raw_shape
        if raw is not None:
            num = raw[static_axis(axis, len(raw), "axis", _RANGE)]
        if num is None:
            raise ValueError(
                f"Cannot infer argument `num` from shape {value.shape}; pass num, how many tensors unstack makes"
            )
    made: list[Tensor] = unpack_op(value, num=num, axis=axis, name=name)
    return made
