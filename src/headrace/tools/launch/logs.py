"""A task's log: a file that is renamed when it is large, so that only the latest few remain.

Called by: supervisor.  Threads: one.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO


class RotatingLog:
    """Appends to `path`; before it would exceed `most_bytes` it becomes `path`.1, and that .2, up to `kept` of them."""

    def __init__(self, path: Path, most_bytes: int, kept: int) -> None:
        """Raises OSError."""
        self._path, self._most_bytes, self._kept = path, most_bytes, kept
        self._file: BinaryIO = path.open("ab", buffering=0)
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        """Raises OSError."""
        if self._size and self._size + len(data) > self._most_bytes:
            self._rotate()
        self._file.write(data)
        self._size += len(data)

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._kept, 0, -1):
            older = self._older(number)
            newer = self._older(number - 1) if number > 1 else self._path
            if newer.exists():
                newer.replace(older)
        self._file = self._path.open("wb", buffering=0)
        self._size = 0

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def __enter__(self) -> RotatingLog:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()
