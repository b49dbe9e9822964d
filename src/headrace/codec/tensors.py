"""Values to TensorProto and back.

Two pairs.  `encode`/`decode` are the wire's: arrays as they are at run time, raw bytes wherever a dtype has them;
what arrives is distrusted.  `make_tensor_proto`/`make_ndarray` are the public pair, and write a graph's constants:
they take Python values and choose between raw bytes and typed fields as TensorFlow does.
Called by: serve (wire), graph and ops (constants), client; the public API.
Threads: pure functions.
Source: TF 1.15 core/framework/tensor.cc, python/framework/tensor_util.py; 2.21 where they differ
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors, shapes
from headrace.codec import protos as pb
from headrace.codec.fields import FIELDS, Array, from_content, get_typed, put_typed
from headrace.codec.values import to_array

MAX_FILL_BYTES: Final = 1 << 30
"""Most that is allocated for tensors whose messages hold fewer values than their shapes have elements."""

MAX_RANK: Final = 64  # NumPy's


def shape_to_proto(shape: shapes.Shape) -> pb.TensorShapeProto:
    """Unknown dimensions as -1, unknown rank as such."""
    proto = pb.TensorShapeProto()
    put_shape(proto, shape)
    return proto


def put_shape(proto: pb.TensorShapeProto, shape: shapes.Shape) -> None:
    """Say in an empty message what `shape_to_proto` says."""
    if shape is None:
        proto.unknown_rank = True
    else:
        for size in shape:
            proto.dim.add(size=-1 if size is None else size)


shapes.AS_PROTO.append(shape_to_proto)


def shape_from_proto(proto: pb.TensorShapeProto) -> shapes.Shape:
    """Raises InvalidArgument for a size below -1, which means unknown."""
    if proto.unknown_rank:
        return None
    sizes = [dim.size for dim in proto.dim]
    if sizes and min(sizes) < -1:
        raise errors.invalid_argument(
            f"a shape with dimensions {sizes} does not exist: {min(sizes)} is below -1"
        )
    return tuple([None if size == -1 else size for size in sizes])


def encode(
    value: np.ndarray[Any, Any] | np.generic,
    dtype: dtypes.DType,
    into: pb.TensorProto | None = None,
) -> pb.TensorProto:
    """The message for a run-time value: tensor_content, or string_val for strings.

    `into`: an empty message to fill, for which a field of another message saves a copy.  Elements of resource
    and variant tensors must be ResourceHandleProto and VariantTensorDataProto messages, or have `to_message`.
    Raises InvalidArgument if the value is not of that dtype.
    """
    base = dtype.base_dtype
    array = np.asarray(value)
    if array.dtype != base.np:
        raise errors.invalid_argument(
            f"a value of NumPy type {array.dtype} was to be sent as {base.name}"
        )
    proto = pb.TensorProto() if into is None else into
    start(proto, base, array.shape)
    if base.np.kind == "O":
        put_typed(proto, array, base)
    else:
        proto.tensor_content = array.tobytes()
    return proto


def start(proto: pb.TensorProto, dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    """Set dtype and shape."""
    proto.dtype = dtype.as_datatype_enum  # type: ignore[assignment]
    proto.tensor_shape.SetInParent()
    for size in shape:
        proto.tensor_shape.dim.add(size=size)


def decode(
    proto: pb.TensorProto, *, writable: bool = False, max_fill_bytes: int | None = None
) -> np.ndarray[Any, Any]:
    """The array in a message, whatever its encoding; handles come as the messages that stand for them.

    A read-only array that keeps the content alive, where that saves a copy; with `writable` always the caller's own.
    Fewer values than elements: the last one is repeated; none at all: zeros (empty strings).

    Raises InvalidArgument for a dtype without values, a shape that is not fully known or beyond NumPy's limits, a
    number of values or bytes that does not fit it, and a repetition beyond `max_fill_bytes` (MAX_FILL_BYTES).
    """
    dtype = value_dtype(proto.dtype)
    shape = tuple([dim.size for dim in proto.tensor_shape.dim])
    if proto.tensor_shape.unknown_rank or len(shape) > MAX_RANK or (shape and min(shape) < 0):
        raise errors.invalid_argument(
            f"a tensor cannot have the shape {describe(proto.tensor_shape)}"
        )
    count = math.prod(shape)
    content = proto.tensor_content
    if content:
        flat = from_content(content, count, dtype)
    else:
        flat = get_typed(proto, dtype)
        if len(flat) != count:
            limit = MAX_FILL_BYTES if max_fill_bytes is None else max_fill_bytes
            flat = filled(flat, count, dtype, limit)
    try:
        array = flat.reshape(shape)
    except ValueError as error:  # no element, but other dimensions that are out of NumPy's range
        raise errors.invalid_argument(f"shape {list(shape)}: {error}") from error
    return array.copy() if writable and not array.flags.writeable else array


def decode_all(
    protos: Iterable[pb.TensorProto],
    *,
    writable: bool = False,
    max_fill_bytes: int = MAX_FILL_BYTES,
) -> list[np.ndarray[Any, Any]]:
    """`decode` for the tensors of one message, whose repetitions together stay within `max_fill_bytes`."""
    values = []
    left = max_fill_bytes
    for proto in protos:
        value = decode(proto, writable=writable, max_fill_bytes=left)
        left -= max(0, value.nbytes - proto.ByteSize())
        values.append(value)
    return values


def value_dtype(number: int) -> dtypes.DType:
    """The dtype of a message's values.  Raises InvalidArgument for none, an unknown one and refs."""
    try:
        dtype = dtypes.DType(number)
    except TypeError:
        raise errors.invalid_argument(
            f"a tensor came with dtype number {number}, which does not exist"
        ) from None
    if dtype not in FIELDS:
        raise errors.invalid_argument(
            f"a tensor came with dtype {dtype.name}; values have no ref type"
        )
    return dtype


def describe(proto: pb.TensorShapeProto) -> str:
    """A shape from outside as text, cut short."""
    if proto.unknown_rank:
        return "<unknown>"
    sizes = ",".join(str(dim.size) for dim in proto.dim[:8])
    return f"[{sizes}]" if len(proto.dim) <= 8 else f"[{sizes},... {len(proto.dim)} dimensions]"


def filled(values: Array, count: int, dtype: dtypes.DType, max_bytes: int) -> Array:
    """`values` and, up to `count` elements, the last of them again: [count].

    Raises InvalidArgument if there are too many, or the result would take more than max_bytes.
    """
    if not count:
        return values[:0]  # TensorFlow repeats a value even into no element
    if len(values) > count:
        raise errors.invalid_argument(
            f"{len(values)} values are too many for {count} elements of {dtype.name}"
        )
    if count * dtype.np.itemsize > max_bytes:
        raise errors.invalid_argument(
            f"{len(values)} values announce {count} elements of {dtype.name}, which would take "
            f"{count * dtype.np.itemsize} bytes; the limit for repeated values is {max_bytes}"
        )
    if dtype is dtypes.string and not len(values):
        return np.full(count, b"", np.object_)
    if dtype.np.kind == "O" and not len(values):
        raise errors.invalid_argument(
            f"{count} elements of {dtype.name} were announced, but none came"
        )
    result: Array = np.zeros(count, dtype.np)
    result[: len(values)] = values
    if len(values):
        result[len(values) :] = values[-1]
    return result


def make_ndarray(tensor: pb.TensorProto) -> np.ndarray[Any, Any]:
    """The array in a message: the caller's own, strings as objects of type bytes.

    Raises TypeError for a dtype that NumPy cannot hold, ValueError for values that do not fit the shape.
    """
    try:
        dtype = value_dtype(tensor.dtype)
    except errors.InvalidArgumentError as error:
        raise TypeError(error.message) from None
    if not dtype.is_numpy_compatible:
        raise TypeError(f"NumPy cannot hold the values of a {dtype.name} tensor")
    try:
        return decode(tensor, writable=True)
    except errors.InvalidArgumentError as error:
        raise ValueError(error.message) from error


def make_tensor_proto(
    values: Any,
    dtype: Any = None,
    shape: Any = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> pb.TensorProto:
    """The message for Python values or arrays (see `codec.values.to_array`), as TensorFlow would write it.

    `shape` may hold more elements than there are values: the last one stands for the rest.  With `verify_shape` it
    must be the shape of the values, with `allow_broadcast` a single value is repeated and others must fill it.

    Raises TypeError for values that do not fit dtype or verified shape; ValueError for too many of them, for None, for
    lists that make no dense tensor, and for both flags at once; OverflowError for an int beyond 64 bits.
    """
    if isinstance(values, pb.TensorProto):
        return values
    if verify_shape and allow_broadcast:
        raise ValueError("verify_shape and allow_broadcast contradict each other; give one of them")
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    sizes = None if shape is None else _sizes(shape)
    if sizes is not None and 0 in sizes and not isinstance(values, np.ndarray | np.generic):
        values = np.empty(sizes, (wanted or dtypes.float32).np)  # Python values for no element
    array, base = to_array(values, wanted)
    if sizes is None:
        sizes = array.shape
    else:
        _check_fit(array, sizes, verify_shape, allow_broadcast)
    proto = pb.TensorProto()
    start(proto, base, sizes)
    if array.size > 1 and array.size == math.prod(sizes) and FIELDS[base].graphs_use_content:
        proto.tensor_content = array.tobytes()
    else:
        put_typed(proto, array, base)
    return proto


def _sizes(shape: Any) -> tuple[int, ...]:
    """Raises TypeError unless the shape is fully known, ValueError for a negative size."""
    if not hasattr(shape, "__iter__"):
        raise TypeError(f"a shape is a list of sizes, not {shape!r}")
    if isinstance(shape, shapes.TensorShape):
        shape = shape._raw
    raw = shapes.as_raw(shape)
    if raw is None or None in raw:
        raise TypeError(f"values need a shape that is fully known, not {shapes.text(raw)}")
    return tuple([size for size in raw if size is not None])


def _check_fit(array: Array, sizes: tuple[int, ...], verify: bool, broadcast: bool) -> None:
    if broadcast and array.shape in ((), (1,)):
        return
    count = math.prod(sizes)
    if array.shape != sizes and (verify or (broadcast and array.size != count)):
        raise TypeError(
            f"Expected Tensor's shape: {sizes}, but got {array.shape}: it is not the one that was asked for"
        )
    if array.size > count:
        raise ValueError(
            f"Too many elements provided. Takes at most {count}, but got {array.size}: the shape is {list(sizes)}"
        )
