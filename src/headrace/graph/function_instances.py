"""Functions with attrs: one FunctionDef that is a different function for each of its callers.

Its signature has attrs (``T: type``), its arguments and nodes say ``T`` where a type would stand, and whoever calls it
gives the values.  With these its body is a graph like others.
Called by: graph.function_library, graph.function_def.  Threads: any.
Source: behaviour of TF 1.15 core/framework/function.cc (InstantiateFunction); compared with the oracle
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.base import dtypes, errors
from headrace.codec import protos as pb

Attrs = Mapping[str, pb.AttrValue]


def values_for(definition: pb.FunctionDef, given: Attrs, user: str = "") -> dict[str, pb.AttrValue]:
    """What its attrs are for a caller, who gave these.  Raises InvalidArgument: one is missing, or not allowed."""
    found = {}
    for attr in definition.signature.attr:
        value = given.get(attr.name)
        if value is None and attr.HasField("default_value"):
            value = attr.default_value
        if value is None or value.WhichOneof("value") in (None, "placeholder"):
            raise errors.invalid_argument(
                f"Attr {attr.name} is not found from {{{', '.join(sorted(given))}}}: function "
                f"{definition.signature.name!r} is a different one for each {attr.name} ({attr.type}), and its caller "
                "does not say which",
                node=user or None,
            )
        _check_allowed(attr, value, definition.signature.name, user)
        found[attr.name] = value
    return found


def _check_allowed(attr: pb.OpDef.AttrDef, value: pb.AttrValue, name: str, user: str) -> None:
    allowed = attr.allowed_values.list
    types = {*([value.type] if value.HasField("type") else value.list.type)}
    if not allowed.type or types <= {*allowed.type}:
        return
    raise errors.invalid_argument(
        f"Value for attr {attr.name!r} of {_listed(types)} is not in the list of allowed values: "
        f"{_listed(allowed.type)}; function {name!r} says so",
        node=user or None,
    )


def _listed(types: Iterable[Any]) -> str:
    return ", ".join(sorted(dtypes.as_dtype(int(each)).name for each in types))


def name_for(definition: pb.FunctionDef, values: Attrs) -> str:
    """What people read of the one for these values."""
    parts = [_words(values[attr.name]) for attr in definition.signature.attr]
    return "_".join([definition.signature.name, "of", *parts])


def _words(value: pb.AttrValue) -> str:
    kind = value.WhichOneof("value")
    if kind == "type":
        return dtypes.as_dtype(int(value.type)).name
    if kind == "func":
        return value.func.name
    if kind == "list":
        return "_".join(dtypes.as_dtype(int(each)).name for each in value.list.type) or "none"
    text = str(getattr(value, str(kind)))
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)


def referring(name: str, attrs: Attrs) -> pb.NameAttrList:
    """How an attr names the function of that name, for these values."""
    made = pb.NameAttrList(name=name)
    for key, value in attrs.items():
        made.attr[key].CopyFrom(value)
    return made


def types_of_argument(arg: pb.OpDef.ArgDef, values: Attrs) -> list[int]:
    """The types of the tensors that an argument or result stands for."""
    if arg.type_list_attr:
        return list(values[arg.type_list_attr].list.type)
    kind = values[arg.type_attr].type if arg.type_attr else arg.type
    return [kind] * (values[arg.number_attr].i if arg.number_attr else 1)


def is_list(arg: pb.OpDef.ArgDef) -> bool:
    """Whether it may stand for other than one tensor."""
    return bool(arg.type_list_attr or arg.number_attr)


def substitute(attrs: Any, values: Attrs) -> None:
    """Put the values where attrs of a node say the name of an attr of the function.  Raises InvalidArgument."""
    for value in attrs.values():
        _substitute(value, values)


def _substitute(value: pb.AttrValue, values: Attrs) -> None:
    kind = value.WhichOneof("value")
    if kind == "placeholder":
        found = values.get(value.placeholder)
        if found is None:
            raise errors.invalid_argument(
                f"Failed to bind all placeholders: there is no attr {value.placeholder!r} in the function's signature"
            )
        value.CopyFrom(found)
    elif kind == "func":
        substitute(value.func.attr, values)
    elif kind == "list":
        for each in value.list.func:
            substitute(each.attr, values)


# -- as ops ---------------------------------------------------------------------------------


def arguments_text(args: Iterable[pb.OpDef.ArgDef]) -> str:
    """Arguments or results as an op's schema writes them."""
    texts = []
    for arg in args:
        kind = arg.type_list_attr or arg.type_attr or dtypes.as_dtype(int(arg.type)).base_dtype.name
        texts.append(
            f"{arg.name}: {arg.number_attr} * {kind}" if arg.number_attr else f"{arg.name}: {kind}"
        )
    return "; ".join(texts)


def attrs_text(attrs: Iterable[pb.OpDef.AttrDef]) -> str:
    """Attrs as an op's schema writes them; the default of a shape or tensor is left out."""
    texts = []
    for attr in attrs:
        kind = attr.type
        if attr.allowed_values.list.type:
            allowed = f"{{{_listed(attr.allowed_values.list.type)}}}"
            kind = kind.replace("type", allowed)
        text = f"{attr.name}: {kind}"
        if attr.has_minimum:
            text += f" >= {attr.minimum}"
        default = _default(attr.default_value)
        texts.append(text if default is None else f"{text} = {default}")
    return "; ".join(texts)


def _default(value: pb.AttrValue) -> str | None:
    kind = value.WhichOneof("value")
    if kind == "type":
        return dtypes.as_dtype(int(value.type)).name
    if kind == "s":
        return repr(value.s.decode())
    if kind == "b":
        return "true" if value.b else "false"
    return str(getattr(value, kind)) if kind in ("i", "f") else None
