"""YAML of what JSON can say, in block style.

Strings that a reader of YAML could take for something else are in double quotes, as JSON writes them, which YAML reads
the same.
Called by: command.  Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/_][A-Za-z0-9/_.-]*")
_OTHER_THINGS = frozenset("y n yes no on off true false null".split())


def documents(values: Sequence[Mapping[str, Any]]) -> str:
    """One document each."""
    return "---\n".join("\n".join(_lines(value)) + "\n" for value in values)


def _lines(value: Any) -> list[str]:
    """Of a mapping or a sequence that is not empty."""
    found: list[str] = []
    if isinstance(value, Mapping):
        for key, each in value.items():
            if _is_block(each):
                indent = "" if isinstance(each, Sequence) else "  "
                found += [f"{_scalar(key)}:", *(indent + line for line in _lines(each))]
            else:
                found.append(f"{_scalar(key)}: {_scalar(each)}")
        return found
    for each in value:
        inside = _lines(each) if _is_block(each) else [_scalar(each)]
        found += [f"- {inside[0]}", *(f"  {line}" for line in inside[1:])]
    return found


def _is_block(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _OTHER_THINGS:
        return value
    return json.dumps(value)
