"""Constants: the Const op, tf.constant, what Python values become, zeros, ones and fill.

Anything that is no tensor becomes a Const node here: `constant_array` decides the array and its
type, the conversions registered at the end bring numbers, strings, lists, arrays, shapes and
whatever NumPy can read.
Called by: graph.build (through conversions), every op family, users.  Threads: as graph.
Source: behaviour of TF 1.15 (python/framework/constant_op.py, tensor_util.py), GraphDefs as 2.21.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Dimension, Shape, TensorShape, as_raw, text
from headrace.base.traits import (
    ALIASES,
    AT_ONCE,
    CONST,
    LIGHT,
    NEVER_FAILS,
    PASSES_LIST,
    PER_RECORD,
)
from headrace.codec import protos as pb
from headrace.codec import tensors as codec
from headrace.codec.values import quick_array, to_array
from headrace.graph.convert import convert, register
from headrace.graph.names import name_scope
from headrace.graph.operation import Operation
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.run.state import variants

__all__ = ["constant", "fill", "ones", "ones_like", "zeros", "zeros_like"]

Array = np.ndarray[Any, Any]

_SMALL = 1000  # elements; larger zeros and ones are a Fill instead of a constant in the graph


# -- values to arrays -------------------------------------------------------------------------


def constant_array(
    values: Any, dtype: DType | None = None, shape: Any = None, verify_shape: bool = False
) -> tuple[Array, DType]:
    """`values` as an array of its own, and its type.

    Python floats become float32, ints int32 (int64 if they do not fit); NumPy values keep their
    type; all are cast to `dtype` if one is given.  With `shape`, fewer values than it holds are
    continued with the last one, unless `verify_shape`.
    Raises TypeError (values that are not of `dtype`, or of none), ValueError (ragged lists, None,
    too many values for `shape`).
    """
    if shape is None and (quick := quick_array(values, dtype)) is not None:
        return quick
    if isinstance(values, Tensor) or hasattr(values, "_as_graph_element"):
        raise TypeError(
            f"Expected any non-tensor type, but got a tensor instead: {values.name}; a constant holds values"
        )
    try:
        array, kind = to_array(values, dtype)
    except (OverflowError, NotImplementedError) as error:  # NotImplementedError: a tensor inside
        raise TypeError(str(error)) from None
    if array is values or array.base is not None:
        array = array.copy()
    if shape is not None:
        sizes = _fixed_sizes(array, shape, verify_shape)
        if math.prod(sizes) or isinstance(values, (np.ndarray, np.generic)):
            array = _shaped(array, sizes)
        else:  # of what is not asked for, TensorFlow does not look at the type either
            kind = dtypes.float32 if dtype is None else kind
            array = np.empty(sizes, kind.np)
    array.flags.writeable = False
    return array, kind


def _fixed_sizes(array: Array, shape: Any, verify_shape: bool) -> tuple[int, ...]:
    if isinstance(shape, (int, np.integer)):
        raise TypeError(
            f"{type(shape).__name__!r} object is not iterable: the shape {shape} is not a list of sizes"
        )
    raw = as_raw(shape)
    if raw is None or None in raw:
        raise TypeError(f"the shape of a constant must be fully known, not {shape_rules.text(raw)}")
    sizes: tuple[int, ...] = raw  # type: ignore[assignment]
    if verify_shape and array.shape != sizes:
        raise TypeError(
            f"Expected Tensor's shape: {sizes}, but got {array.shape}: verify_shape allows no filling"
        )
    return sizes


def _shaped(array: Array, sizes: tuple[int, ...]) -> Array:
    count = math.prod(sizes)
    if array.size == count:
        return array.reshape(sizes)
    if array.size > count:
        raise ValueError(
            f"Too many elements provided. Takes at most {count}, but got {array.size}: the shape is {sizes}"
        )
    filled = np.empty(count, array.dtype)
    filled[: array.size] = array.reshape(-1)
    if array.size:
        filled[array.size :] = array.reshape(-1)[-1]
    else:
        filled[:] = b"" if array.dtype == object else np.zeros((), array.dtype)
    return filled.reshape(sizes)


# -- Const ------------------------------------------------------------------------------------


def _const_shape(c: ShapeContext) -> Shape:
    value = c.attr("value")
    if isinstance(value, pb.TensorProto):
        return codec.shape_from_proto(value.tensor_shape)
    return tuple(value.shape)


@op(
    "Const",
    outputs="output: dtype",
    attrs="value: tensor; dtype: type",
    shape=_const_shape,
    traits={NEVER_FAILS, AT_ONCE, CONST, ALIASES},
    differentiable=False,
)
def const_op(xp: Any, *, value: Any, dtype: DType) -> Any:
    """The value of the attr; executors keep it from one step to the next.

    Source: TF 1.15 core/kernels/constant_op.cc
    """
    return codec.decode(value) if isinstance(value, pb.TensorProto) else value


def constant(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str = "Const",
    verify_shape: bool = False,
) -> Tensor:
    """A constant tensor.

    Raises TypeError, ValueError as `constant_array`.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    array, kind = constant_array(value, wanted, shape, verify_shape)
    made: Tensor = const_op(value=array, dtype=kind, name=name)
    return made


# -- Fill, ZerosLike, OnesLike ------------------------------------------------------------------


def checked_sizes(dims: Any, what: str) -> tuple[int, ...]:
    """A run-time shape vector as a tuple.  Raises InvalidArgument on a negative size or a wrong rank."""
    if np.ndim(dims) != 1:
        raise errors.invalid_argument(
            f"{what} must {'represent a vector' if what == 'dims' else 'be a vector'} of {{int32,int64}}, got shape "
            f"{text(np.shape(dims))}: a vector of sizes is needed"
        )
    sizes = tuple(int(size) for size in dims)
    if any(size < 0 for size in sizes):
        raise errors.invalid_argument(
            f"Dimension {min(sizes)} must be >= 0: {what} is {text(sizes)}"
        )
    return sizes


def _fill_shape(c: ShapeContext) -> Shape:
    c.with_rank("dims", 1)
    c.with_rank("value", 0)
    sizes = c.value("dims")
    if sizes is not None and np.any(sizes < 0):
        raise ValueError(f"Fill dimensions must be >= 0, and not {sizes.tolist()}")
    return c.shape_value("dims")


@op(
    "Fill",
    inputs="dims: index_type; value: T",
    outputs="output: T",
    attrs="T: type; index_type: {int32, int64} = int32",
    shape=_fill_shape,
    traits={NEVER_FAILS, PER_RECORD, LIGHT},
)
def fill_op(xp: Any, dims: Any, value: Any) -> Any:
    """`value` everywhere.

    dims [r], value [].  out: shape dims.
    Raises InvalidArgument if value is not a scalar or a size is negative.
    Source: TF 1.15 core/kernels/constant_op.cc
    """
    alike = _alike(dims, value)
    out = np.empty(alike.shape, alike.dtype)
    out[...] = alike
    return out


@fill_op.alike
def _alike(dims: Any, value: Any) -> Any:
    """As `fill_op`; one element in memory, read-only."""
    sizes = checked_sizes(
        np.reshape(dims, -1) if not np.ndim(dims) else dims, "dims"
    )  # of old producers a scalar
    if np.ndim(value) > 1 or np.size(value) != 1:
        raise errors.invalid_argument(
            f"value must be a scalar, but has shape {list(np.shape(value))}"
        )
    # A vector of one element counts as a scalar.
    return np.broadcast_to(np.array(value).reshape(()), sizes)


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` with the scalar `value` in every place."""
    made: Tensor = fill_op(dims, value, name=name)
    return made


@op(
    "ZerosLike",
    inputs="x: T",
    outputs="y: T",
    attrs="T: type",
    shape=unchanged,
    traits={NEVER_FAILS, PER_RECORD, LIGHT, PASSES_LIST},
    differentiable=False,
)
def zeros_like_op(xp: Any, x: Any) -> Any:
    """Zeros (empty strings) of the shape and type of x; of variants what counts as zero beside each.

    Raises Internal (variants of a kind that has no zero), and what zeros of a list raise.
    Source: TF 1.15 core/kernels/constant_op.cc
    """
    if x.dtype == object:
        if variants.has_variants(x):
            return variants.zeros_like(x)
        out = np.empty(x.shape, object)
        out[...] = b""
        return out
    return xp.zeros(x.shape, dtype=x.dtype)


@op(
    "OnesLike",
    inputs="x: T",
    outputs="y: T",
    attrs="T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
    "uint64, complex64, complex128, bool}",
    shape=unchanged,
    traits={NEVER_FAILS, PER_RECORD},
    differentiable=False,
)
def ones_like_op(xp: Any, x: Any) -> Any:
    """Ones of the shape and type of x.

    Source: TF 1.15 core/kernels/constant_op.cc
    """
    return xp.ones(x.shape, dtype=x.dtype)


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Zeros (False, empty strings) of `shape`: sizes, a TensorShape or an integer vector."""
    kind = dtypes.as_dtype(dtype).base_dtype
    value: Any = False if kind is dtypes.bool else "" if kind is dtypes.string else 0
    return _filled(shape, kind, value, name, "zeros")


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Ones (True) of `shape`: sizes, a TensorShape or an integer vector."""
    kind = dtypes.as_dtype(dtype).base_dtype
    return _filled(shape, kind, True if kind is dtypes.bool else 1, name, "ones")


def _filled(shape: Any, kind: DType, value: Any, name: str | None, default: str) -> Tensor:
    with name_scope(name, default, [shape]) as scope:
        if not isinstance(shape, Tensor):
            raw = _static_sizes(shape)
            if raw is None:
                shape = convert(shape, dtypes.int32)
            else:
                count = math.prod(raw)
                # A bare size is a Fill in TensorFlow's graphs however small it is.
                if count < _SMALL and kind is not dtypes.variant and np.ndim(shape) == 1:
                    if kind in _OF_NUMBERS:
                        array = np.full(raw, value, kind.np)
                        array.flags.writeable = False
                        filled: Tensor = const_op(value=array, dtype=kind, name=scope)
                        return filled
                    return constant(value, kind, raw, name=scope)
                shape = shape_constant(raw, name="shape_as_tensor")
        if not shape.raw_shape:  # a scalar, or nobody knows
            shape = get("Reshape")(shape, [-1])
        made: Tensor = fill_op(shape, constant(value, kind), name=scope)
        return made


_OF_NUMBERS: Final = frozenset(
    (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.bool)
)


def _static_sizes(shape: Any) -> tuple[int, ...] | None:
    """The sizes if `shape` is made of known numbers, None if a tensor is among them.

    Floats are numbers if they are whole: those of a list that a division gave.
    """
    if isinstance(shape, (list, tuple)):
        shape = [
            int(size) if isinstance(size, (float, np.floating)) and size.is_integer() else size
            for size in shape
        ]
    try:
        raw = as_raw(shape)
    except (TypeError, ValueError):
        return None
    if raw is None or None in raw:
        raise ValueError(f"the shape must be fully known, not {shape_rules.text(raw)}")
    return raw  # type: ignore[return-value]


def shape_constant(
    raw: tuple[int, ...], dtype: DType | None = None, name: str = "shape_as_tensor"
) -> Tensor:
    """A fully known shape as a Const: int32, or int64 where a size needs it."""
    wide = any(size > np.iinfo(np.int32).max for size in raw)
    if dtype is None:
        dtype = dtypes.int64 if wide else dtypes.int32
    elif wide and dtype is dtypes.int32:
        raise ValueError(f"a size of shape {list(raw)} does not fit into int32")
    return constant(list(raw), dtype, name=name)


def shape_tensor(tensor: Any, optimize: bool = True) -> Tensor:
    """The shape of `tensor` (or variable) as zeros_like and its kin have it in their graphs."""
    raw = as_raw(tensor.get_shape())
    if optimize and shape_rules.is_fully_defined(raw):
        with name_scope("Shape"):
            return shape_constant(raw)  # type: ignore[arg-type]
    made: Tensor = get("Shape")(tensor, out_type=dtypes.int32)
    return made


@of_ragged
def zeros_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Zeros of the shape of `tensor`, and of its type unless `dtype` says another.

    With `optimize` a statically known shape makes a constant.
    """
    with name_scope(name, "zeros_like", [tensor]) as scope:
        if not hasattr(tensor, "_as_graph_element"):  # a variable need not be read for its shape
            tensor = convert(tensor, name="tensor")
        kind = (tensor.dtype if dtype is None else dtypes.as_dtype(dtype)).base_dtype
        raw = as_raw(tensor.get_shape())
        if optimize and shape_rules.is_fully_defined(raw) and kind is not dtypes.variant:
            return zeros(raw, kind, name=scope)
        if kind is not tensor.dtype.base_dtype and kind is not dtypes.variant:
            made = zeros(shape_tensor(tensor, optimize), kind, name=scope)
        else:
            made = zeros_like_op(tensor, name=scope)
        made.set_shape(TensorShape(raw))
        return made


@of_ragged
def ones_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Ones of the shape of `tensor`, and of its type unless `dtype` says another."""
    with name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert(tensor, name="tensor")
        kind = (tensor.dtype if dtype is None else dtypes.as_dtype(dtype)).base_dtype
        made = ones(shape_tensor(tensor, optimize), kind, name=scope)
        if optimize:
            made.set_shape(TensorShape(tensor.raw_shape))
        return made


# -- conversions --------------------------------------------------------------------------------


def _convert_value(
    value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    return constant(value, dtype, name=name or "Const")


def _convert_shape(
    value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    raw = value._raw
    if raw is None or None in raw:
        raise ValueError(
            f"Cannot convert a partially known TensorShape {value} to a Tensor; use tf.shape"
        )
    if dtype is not None and dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(
            f"Cannot convert a TensorShape to dtype {dtype.name}, only to int32 or int64"
        )
    return shape_constant(raw, dtype, name or "shape_as_tensor")


def _convert_dimension(
    value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    if value.value is None:
        raise ValueError("Cannot convert unknown Dimension ? to a Tensor; use tf.shape(x)[i]")
    if dtype is not None and dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert Dimension to dtype {dtype.name}, only to int32 or int64")
    return constant(value.value, dtype, name=name or "shape_as_tensor")


def _refuse_operation(value: Operation, **_: Any) -> Tensor:
    raise TypeError(
        f"can't convert Operation {value.name!r} to Tensor: it is a {value.type}; give one of its outputs"
    )


register(Operation, _refuse_operation)

for _kind in ((list, tuple), (str, bytes, bool, int, float, complex, np.ndarray, np.generic)):
    register(_kind, _convert_value, 100)
register(TensorShape, _convert_shape, 100)
register(Dimension, _convert_dimension, 100)
register(object, _convert_value, 200)
