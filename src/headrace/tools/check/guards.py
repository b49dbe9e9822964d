"""Guards: conditions whose value is known before the program runs, because they ask what TensorFlow there is.

``hasattr(tf, "x")`` is what headrace has; ``tf.__version__`` and what is made of it (``.startswith("1.")``,
``LooseVersion(…) < "2"``, ``int(….split(".")[0])``) is headrace's answer.  All else is unknown.
Called by: names.  Threads: any.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from headrace.base.version import VERSION

Path = Callable[[ast.expr], str | None]
Exists = Callable[[str], bool]
_VERSIONS = ("__version__", "VERSION")
_PARSERS = {"LooseVersion", "StrictVersion", "parse_version", "parse", "Version"}
_METHODS = {"startswith", "endswith", "split", "rsplit", "strip", "partition", "replace"}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "tuple": tuple,
    "list": list,
}
_COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


_MISTAKES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The program's own, in a condition that it may never reach."""


class _Unknown(Exception):
    """The value depends on what is not known."""


def truth(node: ast.expr, path: Path, exists: Exists) -> bool | None:
    """Whether a condition holds; None if that is not known."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found = truth(node.operand, path, exists)
        return None if found is None else not found
    if isinstance(node, ast.BoolOp):
        decides = isinstance(node.op, ast.Or)
        parts = [truth(each, path, exists) for each in node.values]
        if decides in parts:
            return decides
        return None if None in parts else not decides
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
        return _has(node, path, exists)
    if not any(
        isinstance(each, ast.Attribute) and each.attr in _VERSIONS for each in ast.walk(node)
    ):
        return None
    try:
        return bool(_value(node, path))
    except (_Unknown, *_MISTAKES):
        return None


def _has(node: ast.Call, path: Path, exists: Exists) -> bool | None:
    if len(node.args) != 2 or not isinstance(node.args[1], ast.Constant):
        return None
    owner, name = path(node.args[0]), node.args[1].value
    return exists(f"{owner}.{name}") if owner is not None and isinstance(name, str) else None


def _value(node: ast.expr, path: Path) -> Any:
    """The value of an expression of versions and constants.  Raises _Unknown."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute) and node.attr in _VERSIONS and path(node.value) is not None:
        return VERSION
    if isinstance(node, (ast.Tuple, ast.List)):
        kind = tuple if isinstance(node, ast.Tuple) else list
        return kind(_value(each, path) for each in node.elts)
    if isinstance(node, ast.Subscript):
        return _value(node.value, path)[_index(node.slice, path)]
    if isinstance(node, ast.Compare):
        return _compared(node, path)
    if isinstance(node, ast.Call) and not node.keywords:
        return _called(node, path)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, path)
    raise _Unknown


def _index(node: ast.expr, path: Path) -> Any:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if each is None else _value(each, path) for each in parts])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, path)
    return _value(node, path)


def _compared(node: ast.Compare, path: Path) -> bool:
    left = _value(node.left, path)
    for kind, each in zip(node.ops, node.comparators, strict=True):
        right = _value(each, path)
        if isinstance(left, _Release) or isinstance(right, _Release):
            left, right = _release(left), _release(right)
        compare = _COMPARED.get(type(kind))
        if compare is None:
            raise _Unknown
        if not compare(left, right):
            return False
        left = right
    return True


def _called(node: ast.Call, path: Path) -> Any:
    function = node.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    arguments = [_value(each, path) for each in node.args]
    if name in _PARSERS and len(arguments) == 1:
        return _release(arguments[0])
    if isinstance(function, ast.Name) and name in _FUNCTIONS:
        return _FUNCTIONS[name](*arguments)
    if isinstance(function, ast.Attribute) and name in _METHODS:
        return getattr(_value(function.value, path), name)(*arguments)
    raise _Unknown


class _Release(tuple[int, ...]):
    """A version as numbers."""


def _release(value: Any) -> _Release:
    if isinstance(value, _Release):
        return value
    if not isinstance(value, str):
        raise _Unknown
    return _Release(int(each) for each in re.findall(r"\d+", value.partition("+")[0])[:3])
