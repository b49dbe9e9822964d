"""Attr values: as the node holds them, as callers write them, as AttrValue protos.

A node holds: DType, int, float, bool, bytes (strings), TensorShape, np.ndarray or TensorProto
(tensors), NameAttrList (functions), or a list of one of these.
Called by: graph.build, graph.graphdef.  Threads: any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.base.text import snake
from headrace.codec import protos as pb
from headrace.codec import tensors as codec
from headrace.graph.schemas import AttrDef

if TYPE_CHECKING:
    from headrace.graph.graph import Operation


def coerce(definition: AttrDef, value: Any, op_name: str) -> Any:
    """`value` as a node holds it.  Raises TypeError naming op and attr."""
    kind = definition.kind
    if kind == "type" and value.__class__ is dtypes.DType:
        return value._base
    if value.__class__ is _HELD.get(kind):
        return value
    if kind.startswith("list("):
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"Expected list for {definition.name!r} argument to {snake(op_name)!r} Op, not {value!r:.80}."
            )
        return [_coerce(kind[5:-1], item, definition, op_name) for item in value]
    return _coerce(kind, value, definition, op_name)


def _coerce(kind: str, value: Any, definition: AttrDef, op_name: str) -> Any:
    said = ""
    try:
        if kind == "type":
            return dtypes.as_dtype(value).base_dtype
        if kind == "shape":
            return value if isinstance(value, TensorShape) else TensorShape(value)
        if kind == "int" and not isinstance(value, str):
            return int(value)
        if kind == "float" and value is not None and not isinstance(value, str):
            return float(np.float32(value))  # as a GraphDef keeps it
        if kind == "bool" and isinstance(value, (bool, np.bool_)):
            return bool(value)
        if kind == "string" and isinstance(value, (str, bytes)):
            return value.encode() if isinstance(value, str) else value
        if kind in ("tensor", "func"):
            return value
    except (TypeError, ValueError, NotImplementedError) as error:  # the last for tensors
        said = f": {error}"
    if kind == "shape":
        raise TypeError(
            f"Error converting {definition.name} to a TensorShape{said}: it is {value!r:.80}, for op {op_name}"
        )
    raise TypeError(
        f"Expected {_KINDS.get(kind, kind)} for argument {definition.name!r} not {value!r:.80}, in op {op_name}{said}"
    )


_KINDS = {"type": "DataType"}
_HELD: dict[str, type] = {
    "bool": bool,
    "int": int,
    "string": bytes,
    "shape": TensorShape,
    "tensor": np.ndarray,
}
"""The class of most values of a kind, which a node holds as they are."""


def to_proto(value: Any) -> pb.AttrValue:
    """The AttrValue of a node's attr value.  Raises TypeError if it is none."""
    proto = pb.AttrValue()
    put(proto, value)
    return proto


def put(proto: pb.AttrValue, value: Any) -> None:
    """Say in an empty AttrValue, which may be a part of a message, what `to_proto` says.  Raises as that does."""
    if isinstance(value, list):
        _list_to_proto(proto.list, value)
    elif isinstance(value, dtypes.DType):
        proto.type = value.as_datatype_enum  # type: ignore[assignment]
    elif isinstance(value, (bool, np.bool_)):
        proto.b = bool(value)
    elif isinstance(value, (int, np.integer)):
        proto.i = int(value)
    elif isinstance(value, float):
        proto.f = value
    elif isinstance(value, bytes):
        proto.s = value
    elif isinstance(value, str):
        proto.s = value.encode()
    elif isinstance(value, TensorShape):
        proto.shape.SetInParent()
        codec.put_shape(proto.shape, value._raw)
    elif isinstance(value, pb.TensorProto):
        proto.tensor.CopyFrom(value)
    elif isinstance(value, (np.ndarray, np.generic)):
        proto.tensor.CopyFrom(codec.make_tensor_proto(value))
    elif isinstance(value, pb.NameAttrList):
        proto.func.CopyFrom(value)
    else:
        raise TypeError(f"a {type(value).__name__} is not an attr value: {value!r:.80}")


def _list_to_proto(proto: Any, values: list[Any]) -> None:
    proto.SetInParent()
    for value in values:
        if isinstance(value, dtypes.DType):
            proto.type.append(value.as_datatype_enum)
        elif isinstance(value, (bool, np.bool_)):
            proto.b.append(bool(value))
        elif isinstance(value, (int, np.integer)):
            proto.i.append(int(value))
        elif isinstance(value, float):
            proto.f.append(value)
        elif isinstance(value, (bytes, str)):
            proto.s.append(value.encode() if isinstance(value, str) else value)
        elif isinstance(value, TensorShape):
            codec.put_shape(proto.shape.add(), value._raw)
        elif isinstance(value, pb.NameAttrList):
            proto.func.add().CopyFrom(value)
        elif isinstance(value, pb.TensorProto):
            proto.tensor.add().CopyFrom(value)
        else:
            raise TypeError(f"a {type(value).__name__} is not an attr value: {value!r:.80}")


_FIELDS = {"type": "type", "int": "i", "float": "f", "bool": "b", "string": "s"}
"""The field of an AttrValue that has values of a kind; those of other kinds are called as the kind is."""
_REFERENCES = 100
"""Numbers of dtypes above it are those of references."""
_SHOWN = {field: kind for kind, field in _FIELDS.items()}


def check_kind(definition: AttrDef, proto: pb.AttrValue) -> None:
    """Raises ValueError: an AttrValue has a value that is not of the kind that the attr has."""
    kind, found = definition.kind, proto.WhichOneof("value")
    if not kind.startswith("list("):
        if found == _FIELDS.get(kind, kind):
            if found == "type" and proto.type > _REFERENCES:
                raise ValueError(
                    f"AttrValue must not have reference type value of {dtypes.as_dtype(int(proto.type)).name} for attr "
                    f"{definition.name!r}"
                )
            return
        said = f"had value with type {_SHOWN.get(found, found)!r} when {kind!r} expected"
        said = f"missing value with expected type {kind!r}" if found is None else said
        raise ValueError(f"AttrValue {said} for attr {definition.name!r}")
    wanted = _FIELDS.get(kind[5:-1], kind[5:-1])
    others = [field.name for field, _ in proto.list.ListFields() if field.name != wanted]
    if found not in (None, "list") or others:
        shown = f"list({_SHOWN.get(others[0], others[0])})" if others else _SHOWN.get(found, found)
        raise ValueError(
            f"AttrValue had value with type {shown!r} when {kind!r} expected for attr {definition.name!r}"
        )


def from_proto(proto: pb.AttrValue) -> Any:
    """The value a node holds for `proto`.  Raises InvalidArgument on a hostile tensor or type."""
    kind = proto.WhichOneof("value")
    if kind == "type":
        return dtypes.as_dtype(int(proto.type))
    if kind == "shape":
        return TensorShape(codec.shape_from_proto(proto.shape))
    if kind == "tensor":
        return pb.TensorProto.FromString(proto.tensor.SerializeToString())
    if kind == "list":
        return _list_from_proto(proto.list)
    if kind == "func":
        return pb.NameAttrList.FromString(proto.func.SerializeToString())
    if kind is None:
        return []
    return getattr(proto, kind)


def _list_from_proto(proto: Any) -> list[Any]:
    if proto.type:
        return [dtypes.as_dtype(int(item)) for item in proto.type]
    if proto.shape:
        return [TensorShape(codec.shape_from_proto(item)) for item in proto.shape]
    for field in ("s", "i", "f", "b", "func", "tensor"):
        items = getattr(proto, field)
        if items:
            return list(items)
    return []


def public_value(op: Operation, name: str) -> Any:
    """What `Operation.get_attr` returns: protos for shapes and tensors, base types otherwise."""
    value = op.attrs[name]
    if isinstance(value, TensorShape):
        return codec.shape_to_proto(value._raw)
    if isinstance(value, list):
        return [codec.shape_to_proto(v._raw) if isinstance(v, TensorShape) else v for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return codec.make_tensor_proto(value)
    return value
