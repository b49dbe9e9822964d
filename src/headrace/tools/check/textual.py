"""Names in lines that no parser takes: dotted words that begin with what the program calls TensorFlow.

Called by: command.  Threads: any.
"""

from __future__ import annotations

import ast
import re

from headrace.tools.check.names import ROOTS, Use

_ROOT = f"(?:{'|'.join(ROOTS)})"
_IMPORT = re.compile(rf"^\s*import\s+(?P<path>{_ROOT}[\w.]*)(?:\s+as\s+(?P<name>\w+))?")
_FROM = re.compile(rf"^\s*from\s+(?P<path>{_ROOT}[\w.]*)\s+import\s+(?P<names>[\w\s,()]+)")
_DOTTED = re.compile(r"(?<![\w.'\"])([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)+)")


def uses_in_text(tree: ast.Module, blanked: dict[int, str]) -> list[Use]:
    """The uses in lines that are not in the tree; what the tree imports is known in them."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update(
                {
                    a.asname or a.name.partition(".")[0]: a.name
                    if a.asname
                    else a.name.partition(".")[0]
                    for a in node.names
                    if a.name.partition(".")[0] in ROOTS
                }
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ROOTS:
            aliases.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    found: list[Use] = []
    for line, text in sorted(blanked.items()):
        imported = _IMPORT.match(text)
        if imported is not None:
            path = imported["path"]
            aliases[imported["name"] or path.partition(".")[0]] = (
                path if imported["name"] else path.partition(".")[0]
            )
            found.append(Use(path, line, 0, imported=True))
            continue
        imported = _FROM.match(text)
        if imported is not None:
            for each in imported["names"].strip("() \n").split(","):
                words = each.split()
                if words and words[0] != "*":
                    aliases[words[-1]] = f"{imported['path']}.{words[0]}"
                    found.append(Use(aliases[words[-1]], line, 0, imported=True))
            continue
        for match in _DOTTED.finditer(text.partition("#")[0]):
            if match[1] in aliases:
                found.append(Use(aliases[match[1]] + match[2], line, match.start()))
    return found
