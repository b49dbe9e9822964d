"""Sources: the Python files, notebooks and folders that a command was given, as source whose lines can be named.

Called by: command.  Threads: any.
"""

from __future__ import annotations

import io
import json
import os
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PYTHON, _NOTEBOOK = ".py", ".ipynb"
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"}
_PYTHON_CELLS = ("time", "timeit", "capture", "prun")
"""Cell magics after which Python goes on."""
_MAGIC = re.compile(r"(?P<indent>\s*)(?P<target>[\w, ]+=\s*)?(?P<sign>[%!?]).*", re.S)


class UnreadableError(Exception):
    """A file is no text, or no notebook; the text says why."""


@dataclass(frozen=True)
class Source:
    """A file's Python.

    cells: of a notebook, for each line of `text` the cell's number (from 1 on) and the line in it.
    """

    path: str
    text: str
    cells: list[tuple[int, int]] = field(default_factory=list)

    def place(self, line: int) -> tuple[int | None, int]:
        """(cell, line in it); the cell is None where there are none."""
        if not self.cells:
            return None, line
        return self.cells[min(max(line, 1), len(self.cells)) - 1]


def files(paths: list[str]) -> Iterator[Path]:
    """The Python files and notebooks there, folders in name order; a file that is named counts whatever its name.

    Hidden folders and those of installed or built packages are passed over.  Raises FileNotFoundError.
    """
    seen: set[Path] = set()
    for text in paths:
        path = Path(text)
        if not path.exists():
            raise FileNotFoundError(text)
        for each in [path] if not path.is_dir() else _beneath(path):
            if each not in seen:
                seen.add(each)
                yield each


def _beneath(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if n[0] != "." and n not in _SKIPPED)
        for name in sorted(names):
            if name.endswith((_PYTHON, _NOTEBOOK)):
                yield Path(here, name)


def read(path: Path) -> Source:
    """The Python in a file.  Raises UnreadableError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error
    if path.suffix == _NOTEBOOK:
        return _notebook(str(path), data)
    return Source(str(path), _decoded(data))


def _decoded(data: bytes) -> str:
    if b"\0" in data:
        raise UnreadableError("it is no text: there are zero bytes in it")
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        text = data.decode(encoding)
    except (SyntaxError, LookupError, UnicodeDecodeError):
        text = data.decode("latin-1")  # names are ASCII whatever the rest is
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")


def _notebook(path: str, data: bytes) -> Source:
    try:
        document = json.loads(data)
        sheets = document.get("worksheets") or [document]
        found = [cell for sheet in sheets for cell in sheet.get("cells", [])]
        cells = [(cell.get("cell_type"), _joined(cell)) for cell in found]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise UnreadableError(f"it is no notebook: {error}") from error
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, (kind, text) in enumerate(cells, 1):
        if kind == "code":
            for at, line in enumerate(_without_magics(text), 1):
                lines.append(line)
                places.append((number, at))
    return Source(path, "\n".join(lines) + "\n", places or [(1, 1)])


def _joined(cell: dict[str, Any]) -> str:
    text = cell.get("source", cell.get("input", ""))
    return "".join(text) if isinstance(text, list) else str(text)


def _without_magics(text: str) -> list[str]:
    """The lines of a cell, with a statement that does nothing in the place of what only IPython understands."""
    lines = text.replace("\r\n", "\n").split("\n")
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("%%") and first[2:].split(" ")[0].strip() not in _PYTHON_CELLS:
        return ["" for _ in lines]
    return [_plain(line) for line in lines]


def _plain(line: str) -> str:
    found = _MAGIC.match(line)
    if found is not None:
        if found["target"]:
            return f"{found['indent']}{found['target']}None"
        return f"{found['indent']}pass"
    stripped = line.rstrip()
    if stripped.endswith("?") and re.fullmatch(r"[\w.\s]+\?{1,2}", stripped):
        return line[: len(line) - len(line.lstrip())] + "pass"
    return line
