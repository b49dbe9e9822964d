"""Mutants of Python functions: one operator, constant, comparison, branch or function of arrays changed in the source.

A kernel's mutants are also those of the functions of `headrace.ops` that it calls.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dis
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

PACKAGE = "headrace.ops"
SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.MatMult: ast.Add,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_PAIRS = [
    ("real", "imag"), ("minimum", "maximum"), ("min", "max"), ("floor", "ceil"), ("sum", "prod"), ("any", "all"),
    ("sin", "cos"), ("sinh", "cosh"), ("argmin", "argmax"), ("greater", "less"), ("exp", "expm1"), ("log", "log1p"),
]  # fmt: skip
OTHERS: dict[str, str] = {
    **dict(_PAIRS),
    **{b: a for a, b in _PAIRS},
    "angle": "abs",
    "abs": "negative",
    "conj": "negative",
}
"""Functions of arrays, and what takes as many arguments."""


@dataclass
class Mutant:
    """says: where, and what is changed.  put: a context in which it stands in the original's place."""

    says: str
    put: Callable[[], contextlib.AbstractContextManager[None]]


def mutants(kernel: Callable[..., Any], use: Callable[[Any], Any]) -> Iterator[Mutant]:
    """Those of `kernel`, which `use(function)` puts to use, returning the one before; then those of what it calls."""
    seen: set[int] = set()
    waiting: list[tuple[Any, Callable[[Any], Any]]] = [(kernel, use)]
    while waiting:
        function, put = waiting.pop(0)
        if id(function) in seen or not isinstance(function, types.FunctionType):
            continue
        seen.add(id(function))
        yield from _of_function(function, put)
        waiting += [(each, _into(function.__globals__, name)) for name, each in _called(function)]
        for cell in function.__closure__ or ():  # what a factory was given
            with contextlib.suppress(ValueError):
                waiting.append((cell.cell_contents, _into_cell(cell)))


def _called(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        names = (each.argval for each in dis.get_instructions(code) if "GLOBAL" in each.opname)
        for name in dict.fromkeys(names):  # and not what is an attribute's name too
            found = function.__globals__.get(name)
            if isinstance(found, types.FunctionType) and found.__module__.startswith(PACKAGE):
                yield name, found


def _into(space: dict[str, Any], name: str) -> Callable[[Any], Any]:
    def put(function: Any) -> Any:
        before, space[name] = space[name], function
        return before

    return put


def _into_cell(cell: types.CellType) -> Callable[[Any], Any]:
    def put(function: Any) -> Any:
        before, cell.cell_contents = cell.cell_contents, function
        return before

    return put


def _of_function(function: types.FunctionType, put: Callable[[Any], Any]) -> Iterator[Mutant]:
    if function.__closure__ or function.__name__ == "<lambda>":
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return
    made = tree.body[0]
    if not isinstance(made, ast.FunctionDef):
        return
    made.decorator_list = []
    count = len(_places(made))
    for at in range(count):
        changed = copy.deepcopy(tree)
        place = _places(changed.body[0])[at]
        says = f"{function.__module__}:{function.__name__}+{getattr(place, 'lineno', 0)}: {_change(place)}"
        compiled = compile(ast.fix_missing_locations(changed), "<mutant>", "exec")
        yield Mutant(says, _standing_in(compiled, function, put))


def _standing_in(
    compiled: types.CodeType, function: types.FunctionType, put: Callable[[Any], Any]
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def standing_in() -> Iterator[None]:
        space = dict(function.__globals__)
        exec(compiled, space)
        before = put(space[function.__name__])
        try:
            yield
        finally:
            put(before)

    return standing_in


def _places(root: ast.AST) -> list[Any]:
    """Nodes that can be changed, in order; nothing of what is raised, of annotations, of texts."""
    found: list[Any] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.arguments)):
            return
        if isinstance(node, ast.keyword) and node.arg == "copy":  # values are the same
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                visit(node.value)
            return
        if (
            (isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in SWAPPED)
            or (isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED)
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)))
            or (isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)))
            or isinstance(node, (ast.If, ast.IfExp))
            or (isinstance(node, ast.Attribute) and node.attr in OTHERS)
        ):
            found.append(node)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for each in getattr(root, "body", []):
        visit(each)
    return found


def _change(node: Any) -> str:
    """Change the node; what was done."""
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)):
        before = type(node.op).__name__
        node.op = SWAPPED[type(node.op)]()
        return f"{before} to {type(node.op).__name__}"
    if isinstance(node, ast.Compare):
        before = type(node.ops[0]).__name__
        node.ops[0] = SWAPPED[type(node.ops[0])]()
        return f"{before} to {type(node.ops[0]).__name__}"
    if isinstance(node, ast.UnaryOp):
        before = type(node.op).__name__
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if before == "Not":
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        return f"{before} dropped"
    if isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return "the other branch"
    if isinstance(node, ast.Attribute):
        before, node.attr = node.attr, OTHERS[node.attr]
        return f"{before} to {node.attr}"
    before = node.value
    node.value = (not before) if isinstance(before, bool) else before + 1
    return f"{before} to {node.value}"
