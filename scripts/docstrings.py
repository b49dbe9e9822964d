"""Count what has no docstring: a sign of how much of the source says what a caller must know.

``.venv/bin/python scripts/docstrings.py`` prints both numbers; with ``--list`` where each one is.
Public is what begins with no underscore and lies in nothing that does, nor in a function; a property's setter is not
counted.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "headrace"


def public(node: ast.AST) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """The public functions, classes and methods in a module or class."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef) or child.name.startswith("_"):
            continue
        if not any(
            isinstance(d, ast.Attribute) and d.attr == "setter" for d in child.decorator_list
        ):
            yield child
            if isinstance(child, ast.ClassDef):
                yield from public(child)


def main(arguments: list[str]) -> int:
    """Print the counts, and with ``--list`` the places."""
    found, without = 0, []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        for node in public(ast.parse(path.read_text())):
            found += 1
            if ast.get_docstring(node) is None:
                without.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}")
    if "--list" in arguments:
        print(*without, sep="\n")
    print(f"{len(without)} of {found} public functions, classes and methods have no docstring")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
