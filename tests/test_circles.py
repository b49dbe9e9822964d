"""Files of a folder do not import each other in circles, imports within functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"
FILES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts): path
    for path in (SRC / "headrace").rglob("*.py")
    if path.name != "__init__.py"
}
FOLDERS = sorted(
    {name.split(".")[1] for name in FILES if name.count(".") > 1} - {"unmodified", "tools"}
)

CORES = {
    "graph": "tensors, operations and graphs are made of each other: the one core that ARCHITECTURE shows",
    "library": "tf.Variable(...) makes what the variable scope in force says, and scopes make variables",
}
"""Folders that have one, and why."""


def typing_only(tree: ast.AST) -> set[ast.AST]:
    """What stands under ``if TYPE_CHECKING``."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }


def imports(tree: ast.AST, files: set[str]) -> Iterator[str]:
    """The files among `files` that are imported, wherever the statement stands."""
    skipped = typing_only(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (inner | {node.module}) & files


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Groups of files of which each reaches every other one."""
    reached = {name: reachable(name, edges) for name in edges}
    groups = {
        frozenset({other for other in reached[name] if name in reached[other]} | {name})
        for name in edges
    }
    return [set(group) for group in groups if len(group) > 1]


def reachable(name: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [name]
    while todo:
        new = edges[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_no_circle_but_those_that_are_named(folder: str) -> None:
    names = {name for name in FILES if name.split(".")[1] == folder}
    edges = {
        name: set(imports(ast.parse(FILES[name].read_text()), names)) - {name} for name in names
    }
    found = circles(edges)
    if folder in CORES:
        assert found, f"{folder} has no circle any more: take it out of CORES"
    else:
        assert found == []


@pytest.mark.parametrize(
    ("a", "b", "circle"),
    [
        ("from f import b", "from f.a import x", True),
        ("from f.b import x", "def g():\n    import f.a", True),
        ("from f.b import x", "if TYPE_CHECKING:\n    from f import a", False),
        ("from f.b import x", "import os", False),
    ],
)
def test_the_check_sees_circles(a: str, b: str, circle: bool) -> None:
    edges = {
        name: set(imports(ast.parse(text), {"f.a", "f.b"}))
        for name, text in (("f.a", a), ("f.b", b))
    }
    assert circles(edges) == ([{"f.a", "f.b"}] if circle else [])
