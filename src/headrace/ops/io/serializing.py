"""Tensors, sparse tensors and examples to strings and back.

Called by: programs.  Threads: any.
Source: TF 1.15 core/kernels/{parse_tensor,serialize_sparse,deserialize_sparse,decode_compressed}_op.cc and
example_parsing_ops.cc, for behaviour; GraphDefs as 2.21
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.limits import Growth
from headrace.base.shapes import Shape, text
from headrace.codec import protos as pb
from headrace.codec import records
from headrace.codec.fields import to_string_list
from headrace.codec.tensors import decode, encode, start
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, scalar, unchanged, unknown
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops.sparse.maps import checked_sparse, rows_of, stacked
from headrace.ops.string.strings import mapped
from headrace.run.readers.files import PIECE_BYTES

__all__ = [
    "decode_compressed",
    "decode_json_example",
    "deserialize_many_sparse",
    "parse_tensor",
    "serialize_many_sparse",
    "serialize_sparse",
    "serialize_tensor",
]

Array = np.ndarray[Any, Any]


# -- tensors ----------------------------------------------------------------------------------


def _parsed(serialized: bytes, dtype: DType, what: str) -> Array:
    """Raises InvalidArgument."""
    try:
        proto = pb.TensorProto.FromString(serialized)
    except DecodeError:
        raise errors.invalid_argument(
            f"Could not parse `{what}` as TensorProto: {serialized[:80]!r}"
        ) from None
    if proto.dtype != dtype.as_datatype_enum:
        found = dtypes.spelled(dtypes.DType(proto.dtype)) if proto.dtype else "nothing"
        raise errors.invalid_argument(
            f"Type mismatch between parsed tensor ({found}) and dtype ({dtypes.spelled(dtype)}): {what} holds the first"
        )
    return decode(proto, writable=True)


def _box(value: bytes) -> Array:
    box = np.empty((), object)
    box[()] = value
    return box


@op(
    "ParseTensor",
    inputs="serialized: string",
    outputs="output: out_type",
    attrs="out_type: type",
    shape=unknown,
    differentiable=False,
)
def parse_tensor_op(xp: Any, serialized: Array, *, out_type: DType) -> Array:
    """The tensor in a serialized TensorProto, string [].  Raises InvalidArgument."""
    if serialized.ndim:
        raise errors.invalid_argument(
            f"Expected `serialized` to be a scalar, got shape: {list(serialized.shape)}"
        )
    content: Any = serialized[()]
    return _parsed(content, out_type, "serialized")


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor of `out_type` in a serialized TensorProto, string []."""
    made: Tensor = parse_tensor_op(serialized, out_type=out_type, name=name)
    return made


@op(
    "SerializeTensor",
    inputs="tensor: T",
    outputs="serialized: string",
    attrs="T: type",
    shape=scalar,
    differentiable=False,
)
def serialize_tensor_op(xp: Any, tensor: Any, *, T: DType) -> Array:
    """A TensorProto, string []."""
    return _box(encode(tensor, T).SerializeToString())


def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """`tensor` as a serialized TensorProto, string []; `parse_tensor` is the way back."""
    made: Tensor = serialize_tensor_op(tensor, name=name)
    return made


# -- sparse tensors ---------------------------------------------------------------------------

_SPARSE_IN = "sparse_indices: int64; sparse_values: T; sparse_shape: int64"
_SPARSE_ATTRS = "T: type; out_type: {string, variant} = string"
_SPARSE_OUT = "sparse_indices: int64; sparse_values: dtype; sparse_shape: int64"


def _triple(
    indices: Array, values: Array, shape: Array, dtype: DType, out_type: DType
) -> Sequence[Any]:
    """Three messages; as variants the arrays themselves."""
    if out_type is dtypes.variant:
        return [indices.copy(), values.copy(), shape.copy()]
    found = [encode(part, dtypes.int64).SerializeToString() for part in (indices, shape)]
    content = encode(values, dtype)
    if dtype is dtypes.string and values.size:  # as content, not as string_val: that is the format
        content = pb.TensorProto()
        start(content, dtype, values.shape)
        content.tensor_content = to_string_list(values.tolist())
    return [found[0], content.SerializeToString(), found[1]]


def _one_serialized(c: ShapeContext) -> Shape:
    for at, rank in enumerate((2, 1, 1)):
        c.with_rank(at, rank)
    return (3,)


def _many_serialized(c: ShapeContext) -> Shape:
    _one_serialized(c)
    return (None, 3)


@op(
    "SerializeSparse",
    inputs=_SPARSE_IN,
    outputs="serialized_sparse: out_type",
    attrs=_SPARSE_ATTRS,
    shape=_one_serialized,
    differentiable=False,
)
def serialize_sparse_op(
    xp: Any,
    sparse_indices: Array,
    sparse_values: Array,
    sparse_shape: Array,
    *,
    T: DType,
    out_type: DType,
) -> Array:
    """indices, values and shape as TensorProtos, string [3], or as variants [3].  Raises InvalidArgument."""
    checked_sparse(sparse_indices, sparse_values, sparse_shape)
    out = np.empty(3, object)
    _put(out, _triple(sparse_indices, sparse_values, sparse_shape, T, out_type))
    return out


def _put(row: Array, three: Sequence[Any]) -> None:
    for at, each in enumerate(three):  # at once NumPy would look into them
        row[at] = each


@op(
    "SerializeManySparse",
    inputs=_SPARSE_IN,
    outputs="serialized_sparse: out_type",
    attrs=_SPARSE_ATTRS,
    shape=_many_serialized,
    differentiable=False,
)
def serialize_many_sparse_op(
    xp: Any,
    sparse_indices: Array,
    sparse_values: Array,
    sparse_shape: Array,
    *,
    T: DType,
    out_type: DType,
) -> Array:
    """Each row of a sparse tensor [n, ...] as SerializeSparse has it, string [n, 3].  Raises as SerializeSparse."""
    rows = rows_of(sparse_indices, sparse_values, sparse_shape)
    out = np.empty((len(rows), 3), object)
    for at, (indices, values, shape) in enumerate(rows):
        _put(out[at], _triple(indices, values, shape, T, out_type))
    return out


def _part(value: Any, dtype: DType, name: str) -> Array:
    """A third of a sparse tensor, from a message or a variant.  Raises InvalidArgument."""
    if not isinstance(value, np.ndarray):
        return _parsed(value, dtype, name)
    if value.dtype != dtype.np:
        raise errors.invalid_argument(
            f"Requested SparseTensor of type {dtype.name} but {name} are {dtypes.from_numpy(value.dtype).name}"
        )
    return value


def _deserialized(serialized: Array, dtype: DType) -> tuple[Array, Array, Array]:
    """[..., 3] to one sparse tensor with the leading dimensions in front.  Raises InvalidArgument."""
    if not serialized.ndim or serialized.shape[-1] != 3 or not serialized.size:
        raise errors.invalid_argument(
            f"Serialized sparse should have 3 as the last dimension {text(serialized.shape)}: they come as "
            "[..., 3], at least one"
        )
    tensors = []
    for triple in serialized.reshape(-1, 3).tolist():
        kinds = (dtypes.int64, dtype, dtypes.int64)
        names = ("the indices", "the values", "the shape")
        found = [_part(*each) for each in zip(triple, kinds, names, strict=True)]
        checked_sparse(*found)
        tensors.append((found[0], found[1], found[2]))
    if serialized.ndim == 1:
        return tensors[0]
    indices, values, shape = stacked(tensors)
    leading = serialized.shape[:-1]
    where = np.stack(np.unravel_index(indices[:, 0], leading), axis=1)
    return (
        np.concatenate([where.astype(np.int64), indices[:, 1:]], axis=1),
        values,
        np.concatenate([np.array(leading, np.int64), shape[1:]]),
    )


def _many_shapes(c: ShapeContext) -> list[Shape]:
    given = c.with_rank("serialized_sparse", 2)
    if given is not None and given[1] not in (None, 3):
        raise ValueError(f"serialized_sparse must have 3 columns, and has shape {list(given)}")
    return [(None, None), (None,), (None,)]


@op(
    "DeserializeManySparse",
    inputs="serialized_sparse: string",
    outputs=_SPARSE_OUT,
    attrs="dtype: type",
    shape=_many_shapes,
    differentiable=False,
)
def deserialize_many_sparse_op(xp: Any, serialized_sparse: Array, *, dtype: DType) -> Any:
    """string [n, 3] as one sparse tensor of shape [n, ...].  Raises InvalidArgument."""
    return _deserialized(serialized_sparse, dtype)


@op(
    "DeserializeSparse",
    inputs="serialized_sparse: Tserialized",
    outputs=_SPARSE_OUT,
    attrs="dtype: type; Tserialized: {string, variant} = string",
    shape=lambda c: [(None, None), (None,), (None,)],
    differentiable=False,
)
def deserialize_sparse_op(
    xp: Any, serialized_sparse: Array, *, dtype: DType, Tserialized: DType
) -> Any:
    """string or variant [..., 3] as one sparse tensor.  Raises InvalidArgument."""
    return _deserialized(serialized_sparse, dtype)


def _sparse(value: Any) -> SparseTensor:
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor, and not {value!r:.80}")
    return value


def serialize_sparse(
    sp_input: Any, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """A SparseTensor as string [3].  Raises TypeError."""
    given = _sparse(sp_input)
    made: Tensor = serialize_sparse_op(
        given.indices,
        given.values,
        given.dense_shape,
        out_type=out_type,
        name=name,
    )
    return made


def serialize_many_sparse(
    sp_input: Any, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """The rows of a SparseTensor [n, ...] as string [n, 3].  Raises TypeError."""
    given = _sparse(sp_input)
    made: Tensor = serialize_many_sparse_op(
        given.indices,
        given.values,
        given.dense_shape,
        out_type=out_type,
        name=name,
    )
    return made


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """string [n, 3] as a SparseTensor [n, ...].  rank: of the result, if it is known."""
    indices, values, shape = deserialize_many_sparse_op(serialized_sparse, dtype=dtype, name=name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


# -- examples and compressed strings ----------------------------------------------------------


@op(
    "DecodeJSONExample",
    inputs="json_examples: string",
    outputs="binary_examples: string",
    shape=unchanged,
    differentiable=False,
)
def decode_json_example(xp: Any, json_examples: Array) -> Any:
    """tf.train.Examples in JSON to serialized ones; the shape stays.  Raises InvalidArgument."""
    from google.protobuf import json_format  # takes its time to load

    def converted(text: bytes) -> bytes:
        if not text.lstrip().startswith(b"{"):
            raise errors.invalid_argument(
                f"Error while parsing JSON: {text[:80]!r} is not a JSON object"
            )
        try:
            return json_format.Parse(text, pb.Example()).SerializeToString()
        except (json_format.ParseError, UnicodeDecodeError) as error:
            raise errors.invalid_argument(
                f"Error while parsing JSON: {text[:80]!r} is not an Example: {error}"
            ) from None

    return mapped(converted, json_examples)


@op(
    "DecodeCompressed",
    inputs="bytes: string",
    outputs="output: string",
    attrs="compression_type: string = ''",
    shape=unchanged,
    differentiable=False,
)
def decode_compressed_op(xp: Any, bytes: Array, *, compression_type: Any) -> Any:
    """Each string inflated; '' leaves it.  Raises InvalidArgument, DataLoss, ResourceExhausted (`base.limits`)."""
    kind = compression_type.decode(errors="replace")
    if kind not in records.COMPRESSIONS:
        raise errors.invalid_argument(
            f"compression_type must be '', 'ZLIB' or 'GZIP' and is {kind!r}"
        )
    if kind == records.NONE:
        return mapped(lambda text: text, bytes)
    growth = Growth("the strings that are inflated here")
    return mapped(
        lambda text: records.inflated_whole(_pieces(text), kind, "a string", growth), bytes
    )


def _pieces(text: Any) -> Iterator[Any]:
    """Of a size that zlib gets through in a few calls, since each of them copies what is left."""
    view = memoryview(text)
    return (view[at : at + PIECE_BYTES] for at in range(0, len(view), PIECE_BYTES))


@of_ragged
def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Strings inflated: compression_type "ZLIB", "GZIP" or "" (as they are)."""
    made: Tensor = decode_compressed_op(bytes, compression_type=compression_type, name=name)
    return made
