"""Schemas: the arguments and attrs of an op, out of strings in the grammar of TensorFlow's OpDefs.

    inputs   "x: T; axis: Tidx"     "values: N * T"     "components: Tcomponents"     "ref: Ref(T)"
    attrs    "T: numbertype; Tidx: {int32, int64} = int32; N: int >= 1; keep_dims: bool = false"

Called by: graph.registry, graph (building, protos).  Threads: any.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape

__all__: list[str] = []


class _Missing:
    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()


class ArgDef:
    """One input or output: a tensor, `number_attr` tensors, or one per type of `type_list_attr`.

    is_list: whether it stands for several tensors, as many as an attr says.
    """

    __slots__ = ("is_list", "is_ref", "name", "number_attr", "type", "type_attr", "type_list_attr")

    def __init__(
        self,
        name: str,
        type: dtypes.DType | None = None,
        type_attr: str | None = None,
        number_attr: str | None = None,
        type_list_attr: str | None = None,
        is_ref: bool = False,
    ) -> None:
        self.name, self.type, self.type_attr = name, type, type_attr
        self.number_attr, self.type_list_attr, self.is_ref = number_attr, type_list_attr, is_ref
        self.is_list = number_attr is not None or type_list_attr is not None


class AttrDef(NamedTuple):
    """One attr: `kind` is type, int, float, bool, string, shape, tensor, func or list(one of these)."""

    name: str
    kind: str
    default: Any = MISSING
    allowed: tuple[Any, ...] | None = None
    minimum: int | None = None
    # Of the dtypes among `allowed`, each of which is one object.
    allowed_ids: frozenset[int] = frozenset()


_TYPE_NAMES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
}


def parse_type(text: str) -> dtypes.DType:
    """The DType of an OpDef spelling: float, DT_FLOAT, int32, …"""
    name = text.strip()
    if name.startswith("DT_"):
        name = name[3:].lower()
    return dtypes.as_dtype(_TYPE_NAMES.get(name, name))


def parse_args(text: str) -> tuple[ArgDef, ...]:
    """The arguments of an ``inputs=`` or ``outputs=`` string."""
    return tuple(_parse_arg(part) for part in text.split(";") if part.strip())


def _parse_arg(text: str) -> ArgDef:
    name, _, kind = (piece.strip() for piece in text.partition(":"))
    number = None
    if "*" in kind:
        number, _, kind = (piece.strip() for piece in kind.partition("*"))
    is_ref = kind.startswith("Ref(")
    if is_ref:
        kind = kind[4:-1].strip()
    # Attr names start with a capital, or are one of the few lower-case ones (dtype, out_type, …).
    try:
        return ArgDef(name, type=parse_type(kind), number_attr=number, is_ref=is_ref)
    except TypeError:
        return ArgDef(name, type_attr=kind, number_attr=number, is_ref=is_ref)


_ATTR = re.compile(
    r"\s*(?P<name>\w+)\s*:\s*(?P<kind>.*?)\s*(?:>=\s*(?P<min>-?\d+)\s*)?(?:=\s*(?P<default>[^=>].*?)\s*)?\Z",
    re.S,
)
_TYPE_SETS = {"numbertype": dtypes.NUMBERTYPE, "realnumbertype": dtypes.REALNUMBERTYPE}
_PLAIN_KINDS = {"type", "int", "float", "bool", "string", "shape", "tensor", "func"}


def parse_attrs(text: str) -> dict[str, AttrDef]:
    """The attrs of an ``attrs=`` string, by name, in order."""
    found = {}
    for part in text.split(";"):
        if part.strip():
            attr = _parse_attr(part)
            found[attr.name] = attr
    return found


def _parse_attr(text: str) -> AttrDef:
    match = _ATTR.match(text)
    if match is None:
        raise ValueError(f"attr {text!r} is not in the grammar of OpDefs")
    kind, allowed = _parse_kind(match["kind"])
    default = MISSING if match["default"] is None else _parse_default(kind, match["default"])
    minimum = None if match["min"] is None else int(match["min"])
    ids = frozenset(id(each) for each in allowed or () if isinstance(each, dtypes.DType))
    return AttrDef(match["name"], kind, default, allowed, minimum, ids)


def _parse_kind(text: str) -> tuple[str, tuple[Any, ...] | None]:
    if text.startswith("list("):
        kind, allowed = _parse_kind(text[5:-1])
        return f"list({kind})", allowed
    if text in _TYPE_SETS:
        return "type", tuple(_TYPE_SETS[text])
    if text.startswith("{"):
        members = [member.strip() for member in text[1:-1].split(",")]
        if members[0][0] in "'\"":
            return "string", tuple(member[1:-1].encode() for member in members)
        return "type", tuple(parse_type(member) for member in members)
    if text not in _PLAIN_KINDS:
        raise ValueError(f"attr type {text!r} is not in the grammar of OpDefs")
    return text, None


def _parse_default(kind: str, text: str) -> Any:
    if kind.startswith("list("):
        inner = text.strip()[1:-1].strip()
        if not inner:
            return []
        return [_parse_default(kind[5:-1], item.strip()) for item in inner.split(",")]
    if kind == "type":
        return parse_type(text)
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    if kind == "bool":
        return text == "true"
    if kind == "string":
        return text[1:-1].encode().decode("unicode_escape").encode("latin-1")
    if kind == "shape":
        if text == "unknown_shape":
            return TensorShape(None)
        return TensorShape(
            [
                None if d.strip() == "-1" else int(d)
                for d in text.strip("[]").split(",")
                if d.strip()
            ]
        )
    if kind == "tensor":
        return _parse_tensor(text)
    raise ValueError(f"attrs of type {kind} take no default")


def _parse_tensor(text: str) -> np.ndarray[Any, Any]:
    """``{ dtype: DT_UINT8 tensor_shape { dim { size: 2 } } int_val: 0 int_val: 1 }`` as an array."""
    kind = re.search(r"\bdtype: (\w+)", text)
    if kind is None:
        raise ValueError(f"the tensor {text!r} has no dtype")
    sizes = [int(size) for size in re.findall(r"\bsize: (\d+)", text)]
    values = [float(value) for value in re.findall(r"_val: (\S+)", text)]
    return np.array(values).astype(parse_type(kind[1]).np).reshape(sizes)
