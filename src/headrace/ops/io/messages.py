"""Protocol buffers of any type, to tensors and back.

A descriptor source says what a message type is: ``local://`` those that this process knows (headrace's own, under
TensorFlow's names, and what the program imported), ``bytes://`` and a FileDescriptorSet, or the name of a file with
one.
Called by: programs (as tf.io).  Threads: kernels any; files are opened where run.readers.files allows.
Source: TF 1.15 core/ops/decode_proto_ops.cc, encode_proto_ops.cc; behaviour as 2.21
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import NEVER_FOLDED
from headrace.codec import protos as pb
from headrace.codec.varints import packed as varint
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.run.exec.kernel import KernelContext
from headrace.run.readers.files import file_error

__all__ = ["decode_proto", "encode_proto"]

Array = np.ndarray[Any, Any]
F = FieldDescriptor
_BYTES, _LOCAL, _OURS = b"bytes://", b"local://", "tensorflow."
_WHOLE = {
    F.TYPE_INT32: (dtypes.int32, dtypes.int64),
    F.TYPE_SINT32: (dtypes.int32, dtypes.int64),
    F.TYPE_SFIXED32: (dtypes.int32, dtypes.int64),
    F.TYPE_ENUM: (dtypes.int32,),
    F.TYPE_INT64: (dtypes.int64,),
    F.TYPE_SINT64: (dtypes.int64,),
    F.TYPE_SFIXED64: (dtypes.int64,),
    F.TYPE_UINT32: (dtypes.uint32, dtypes.uint64),
    F.TYPE_FIXED32: (dtypes.uint32, dtypes.uint64),
    F.TYPE_UINT64: (dtypes.uint64,),
    F.TYPE_FIXED64: (dtypes.uint64,),
    F.TYPE_FLOAT: (dtypes.float32, dtypes.float64),
    F.TYPE_DOUBLE: (dtypes.float64,),
    F.TYPE_BOOL: (dtypes.bool,),
    F.TYPE_STRING: (dtypes.string,),
    F.TYPE_BYTES: (dtypes.string,),
    F.TYPE_MESSAGE: (dtypes.string,),
    F.TYPE_GROUP: (dtypes.string,),
}
"""By a field's type the dtypes that it may be decoded to and encoded from."""


def _descriptor(ctx: KernelContext, source: bytes, name: bytes) -> Descriptor:
    """Of message type `name`; looked up once a node.  Raises InvalidArgument."""
    found: Descriptor | None = ctx.memo.get("descriptor")
    if found is None:
        wanted = name.decode(errors="replace")
        try:
            found = _found(ctx, source, wanted)
        except KeyError:
            where = source[:40].decode(errors="replace")
            raise errors.invalid_argument(
                f"No descriptor found for message type {wanted!r} in descriptor source {where!r}; give a file with a "
                "FileDescriptorSet, or bytes:// and one"
            ) from None
        ctx.memo["descriptor"] = found
    return found


def _found(ctx: KernelContext, source: bytes, name: str) -> Descriptor:
    if source in (b"", _LOCAL):
        ours = getattr(pb, name.removeprefix(_OURS), None) if name.startswith(_OURS) else None
        if ours is not None:
            descriptor: Descriptor = ours.DESCRIPTOR
            return descriptor
        return descriptor_pool.Default().FindMessageTypeByName(name)
    if source.startswith(_BYTES):
        content = source[len(_BYTES) :]
    else:
        try:
            with ctx.runtime.files.open(source, "rb") as file:
                content = file.read()
        except (OSError, ValueError) as error:
            raise errors.invalid_argument(
                f"the descriptor source cannot be read: {file_error(source, error).message}"
            ) from None
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(content)
        for each in files.file:
            pool.Add(each)
        return pool.FindMessageTypeByName(name)
    except (DecodeError, TypeError) as error:
        raise errors.invalid_argument(
            f"the descriptor source is no FileDescriptorSet: {error}"
        ) from None


def _fields(
    descriptor: Descriptor, names: Sequence[bytes], types: Sequence[DType]
) -> list[FieldDescriptor]:
    """The fields.  Raises InvalidArgument (unknown names, dtypes that do not fit)."""
    if len(names) != len(types):
        raise errors.invalid_argument(
            f"field_names has {len(names)} entries and the types have {len(types)}: there must be as many"
        )
    found = []
    for name, kind in zip(names, types, strict=True):
        field = descriptor.fields_by_name.get(name.decode(errors="replace"))
        if field is None:
            field = (
                descriptor.file.pool.FindExtensionByName(name.decode()) if b"." in name else None
            )
        if field is None:
            raise errors.invalid_argument(
                f"Unknown field {name.decode(errors='replace')!r} of message type {descriptor.full_name}"
            )
        if kind not in _WHOLE[field.type]:
            fitting = ", ".join(each.name for each in _WHOLE[field.type])
            raise errors.invalid_argument(
                f"Unexpected output type for field {field.full_name}: {kind.name}, where it may be {fitting}"
            )
        found.append(field)
    return found


# -- decoding ---------------------------------------------------------------------------------


def _decoded_shapes(c: ShapeContext) -> list[Shape]:
    given = c.shape("bytes")
    count = len(c.attr("output_types"))
    if given is None:
        return [None] * (count + 1)
    return [(*given, count), *[(*given, None)] * count]


@op(
    "DecodeProtoV2",
    inputs="bytes: string",
    outputs="sizes: int32; values: output_types",
    attrs="message_type: string; field_names: list(string); output_types: list(type) >= 0; "
    "descriptor_source: string = 'local://'; message_format: string = 'binary'; sanitize: bool = false",
    shape=_decoded_shapes,
    traits={NEVER_FOLDED},
    differentiable=False,
)
def decode_proto_op(
    ctx: KernelContext,
    bytes: Array,
    *,
    message_type: bytes,
    field_names: list[bytes],
    output_types: list[DType],
    descriptor_source: bytes,
    message_format: bytes,
) -> Any:
    """How often each message of bytes [...] has each field [..., fields], and the values [..., most], zeros behind.

    Raises InvalidArgument (types, names, descriptors, no message), DataLoss (no such message).
    """
    descriptor = _descriptor(ctx, descriptor_source, message_type)
    fields = _fields(descriptor, field_names, output_types)
    if message_format not in (b"binary", b"text"):
        raise errors.invalid_argument(
            f"format must be one of binary or text, not {message_format.decode(errors='replace')!r}"
        )
    if not bytes.size:
        raise errors.invalid_argument("Bufs argument must contain at least one value, and has none")
    kind = message_factory.GetMessageClass(descriptor)
    messages = [_parsed(kind, each, message_format) for each in bytes.reshape(-1)]
    sizes = np.zeros((len(messages), len(fields)), np.int32)
    values = []
    for at, (field, dtype) in enumerate(zip(fields, output_types, strict=True)):
        rows = [_values(message, field) for message in messages]
        sizes[:, at] = [len(row) for row in rows]
        values.append(_padded(rows, field, dtype, bytes.shape))
    return [sizes.reshape(*bytes.shape, len(fields)), *values]


def _parsed(kind: type[Message], content: Any, message_format: bytes) -> Message:
    made = kind()
    try:
        if message_format == b"binary":
            made.ParseFromString(content)
        else:
            text_format.Parse(content, made)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise errors.data_loss(
            f"Unable to parse {message_format.decode()} protobuf of type {made.DESCRIPTOR.full_name}: {error}"
        ) from None
    return made


def _values(message: Message, field: FieldDescriptor) -> list[Any]:
    if field.is_extension:
        holder: Any = message
        known = field in {each for each, _ in message.ListFields()}
        given = holder.Extensions[field] if known else None
    else:
        repeated = _repeated(field)
        known = repeated or (
            message.HasField(field.name)
            if field.has_presence
            else field in {each for each, _ in message.ListFields()}
        )
        given = getattr(message, field.name) if known else None
    if given is None:
        return []
    found = list(given) if _repeated(field) else [given]
    if field.type in (F.TYPE_MESSAGE, F.TYPE_GROUP):
        return [each.SerializeToString(deterministic=True) for each in found]
    return [each.encode() for each in found] if field.type == F.TYPE_STRING else found


def _repeated(field: FieldDescriptor) -> bool:
    kind: Any = field
    known = getattr(field, "is_repeated", None)  # protobuf 6.30 has a label instead, 7 has none
    return bool(kind.label == F.LABEL_REPEATED if known is None else known)


def _padded(
    rows: list[list[Any]], field: FieldDescriptor, dtype: DType, shape: tuple[int, ...]
) -> Array:
    """[*shape, most], where a field that is not repeated has its default where it is not set."""
    most = max((len(row) for row in rows), default=0)
    empty: Any = b"" if dtype is dtypes.string else 0
    if not _repeated(field):
        most = max(most, 1)
        default = field.default_value
        if field.type not in (F.TYPE_MESSAGE, F.TYPE_GROUP):
            empty = default.encode() if isinstance(default, str) else default
    made = np.full((len(rows), most), empty, dtype.np)
    for at, row in enumerate(rows):
        made[at, : len(row)] = row
    return made.reshape(*shape, most)


# -- encoding ---------------------------------------------------------------------------------


def _encoded_shape(c: ShapeContext) -> Shape:
    sizes = c.with_rank_at_least("sizes", 2)
    whole: Shape = None if sizes is None else sizes[:-1]
    for tensor in c.op.inputs[1:]:
        given = tensor._raw
        if given is None:
            continue
        if not given:
            raise ValueError(
                "Shape must be at least rank 1 but is rank 0: values have a last dimension"
            )
        if whole is None:
            whole = given[:-1]
        elif len(given) != len(whole) + 1:
            raise ValueError(
                f"Shapes must be equal rank, but are {len(whole)} and {len(given) - 1}: those of sizes and of values, "
                "without the last dimension"
            )
    return whole


@op(
    "EncodeProto",
    inputs="sizes: int32; values: Tinput_types",
    outputs="bytes: string",
    attrs="field_names: list(string); message_type: string; descriptor_source: string = 'local://'; "
    "Tinput_types: list(type) >= 1",
    shape=_encoded_shape,
    traits={NEVER_FOLDED},
    differentiable=False,
)
def encode_proto_op(
    ctx: KernelContext,
    sizes: Array,
    *values: Array,
    field_names: list[bytes],
    message_type: bytes,
    descriptor_source: bytes,
    Tinput_types: list[DType],
) -> Any:
    """Messages [...], of values [..., most] of each field, of which sizes [..., fields] says how many there are.

    Fields come by their numbers.  Raises InvalidArgument (types, names, descriptors, shapes).
    """
    descriptor = _descriptor(ctx, descriptor_source, message_type)
    fields = _fields(descriptor, field_names, Tinput_types)
    shape = sizes.shape[:-1]
    if sizes.ndim < 2 or sizes.shape[-1] != len(fields):
        raise errors.invalid_argument(
            f"sizes must have two dimensions or more, the last of {len(fields)}, a number for each field, not shape "
            f"{text(sizes.shape)}"
        )
    for field, each in zip(fields, values, strict=True):
        if each.shape[:-1] != shape or each.ndim != sizes.ndim:
            raise errors.invalid_argument(
                f"Values must match up to the last dimension: those of {field.name} have shape {text(each.shape)}, "
                f"sizes {text(sizes.shape)}"
            )
    count = math.prod(shape)
    wanted = sizes.reshape(count, len(fields))
    messages: list[list[bytes]] = [[] for _ in range(count)]
    order = sorted(range(len(fields)), key=lambda at: fields[at].number)
    for at in order:
        write = _writer(fields[at])
        rows = values[at].reshape(count, values[at].shape[-1])
        most = rows.shape[1]
        if count and int(wanted[:, at].max()) > most:
            raise errors.invalid_argument(
                f"Size larger than last dimension: {int(wanted[:, at].max())} values of {fields[at].name} and {most}"
            )
        for message, row, size in zip(messages, rows.tolist(), wanted[:, at].tolist(), strict=True):
            message.extend(write(value) for value in row[: max(size, 0)])
    made = np.empty(count, object)
    made[:] = [b"".join(parts) for parts in messages]
    return made.reshape(shape)


_FIXED = {
    F.TYPE_FLOAT: (5, np.float32),
    F.TYPE_FIXED32: (5, np.uint32),
    F.TYPE_SFIXED32: (5, np.int32),
    F.TYPE_DOUBLE: (1, np.float64),
    F.TYPE_FIXED64: (1, np.uint64),
    F.TYPE_SFIXED64: (1, np.int64),
}
"""Wire type and form of numbers that always take as many bytes."""


def _writer(field: FieldDescriptor) -> Callable[[Any], bytes]:
    """One value, with its tag, as bytes."""
    kind = field.type
    if kind in _FIXED:
        wire, form = _FIXED[kind]
        mask = (1 << 8 * np.dtype(form).itemsize) - 1
        start = varint(field.number << 3 | wire)
        if np.dtype(form).kind == "f":
            return lambda value: start + np.array(value, form).tobytes()
        unsigned = np.uint32 if wire == 5 else np.uint64
        return lambda value: start + np.array(int(value) & mask, unsigned).tobytes()
    if kind == F.TYPE_GROUP:
        begin, end = varint(field.number << 3 | 3), varint(field.number << 3 | 4)
        return lambda value: begin + bytes(value) + end
    if kind in (F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE):
        start = varint(field.number << 3 | 2)
        return lambda value: start + varint(len(value)) + bytes(value)
    start = varint(field.number << 3)
    if kind in (F.TYPE_SINT32, F.TYPE_SINT64):
        return lambda value: start + varint((int(value) << 1 ^ int(value) >> 63) & (1 << 64) - 1)
    return lambda value: start + varint(int(value) & (1 << 64) - 1)


# -- as programs call them --------------------------------------------------------------------


def decode_proto(
    bytes: Any,
    message_type: str,
    field_names: Sequence[str],
    output_types: Sequence[Any],
    descriptor_source: str | bytes = "local://",
    message_format: str = "binary",
    sanitize: bool = False,
    name: str | None = None,
) -> Any:
    """Fields of messages, string [...]: `sizes` int32 [..., fields], and `values`, one tensor [..., most] a field.

    sanitize: changes nothing, since messages are parsed as a whole.
    """
    return decode_proto_op(
        bytes,
        message_type=message_type,
        field_names=field_names,
        output_types=output_types,
        descriptor_source=descriptor_source,
        message_format=message_format,
        sanitize=sanitize,
        name=name,
    )


def encode_proto(
    sizes: Any,
    values: Sequence[Any],
    field_names: Sequence[str],
    message_type: str,
    descriptor_source: str | bytes = "local://",
    name: str | None = None,
) -> Any:
    """Messages, string [...], of values [..., most] a field, of which sizes [..., fields] says how many there are."""
    return encode_proto_op(
        sizes,
        list(values),
        field_names=field_names,
        message_type=message_type,
        descriptor_source=descriptor_source,
        name=name,
    )
