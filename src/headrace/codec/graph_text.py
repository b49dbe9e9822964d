"""GraphDefs in protobuf's text format, letter by letter what `text_format.MessageToString` makes of them.

That prints field by field, in Python.  Here what a node consists of is printed as it stands, and the values of attrs,
of which the nodes of a graph share most, are printed by `text_format` once each.
Called by: training.graph_files.  Threads: pure functions.
"""

from __future__ import annotations

import re
from typing import Any, Final

from google.protobuf import text_format

__all__ = ["graph_text"]

_NODE: Final = 1  # the numbers of fields
_NAME, _OP, _INPUT, _DEVICE, _ATTR = 1, 2, 3, 4, 5
_PRINTED: Final = frozenset((_NAME, _OP, _INPUT, _DEVICE, _ATTR))

_PLAIN: Final = re.compile(r"[ -!#-&(-\[\]-~]*\Z")
"""Strings that are printed as they are: ASCII without quotes and backslashes."""


def graph_text(graph_def: Any) -> str:
    """The text of a GraphDef, of headrace's or of TensorFlow's own class."""
    pieces: list[str] = []
    known: dict[bytes, str] = {}
    for field, value in graph_def.ListFields():
        if field.number != _NODE:
            pieces.append(_generic(graph_def, field.name, value))
            continue
        for node in value:
            found = _node_text(node, known)
            pieces.append(_generic(graph_def, field.name, [node]) if found is None else found)
    return "".join(pieces)


def _generic(graph_def: Any, name: str, value: Any) -> str:
    """What `text_format` makes of a graph with this field alone."""
    return text_format.MessageToString(type(graph_def)(**{name: value}))


def _node_text(node: Any, known: dict[bytes, str]) -> str | None:
    """A node of a graph; None where it has a field or a letter that is not printed here.

    known: the texts of values of attrs, by their bytes.
    """
    fields = {field.number: value for field, value in node.ListFields()}
    inputs, attrs = fields.get(_INPUT, ()), fields.get(_ATTR, {})
    names = sorted(attrs)
    strings = [fields.get(number, "") for number in (_NAME, _OP, _DEVICE)]
    if not _PRINTED.issuperset(fields) or not all(names):
        return None
    if not _PLAIN.match("".join([*strings, *inputs, *names])):
        return None
    name, op, device = strings
    lines = ["node {\n"]
    if name:
        lines.append(f'  name: "{name}"\n')
    if op:
        lines.append(f'  op: "{op}"\n')
    lines += [f'  input: "{each}"\n' for each in inputs]
    if device:
        lines.append(f'  device: "{device}"\n')
    for key in names:
        value = attrs[key]
        content = value.SerializeToString(deterministic=True)
        shown = known.get(content)
        if shown is None:
            shown = known[content] = text_format.MessageToString(value, indent=6)
        lines.append(f'  attr {{\n    key: "{key}"\n    value {{\n{shown}    }}\n  }}\n')
    lines.append("}\n")
    return "".join(lines)
