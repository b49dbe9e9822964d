"""What importlib.metadata says of the distribution "tensorflow" where headrace stands for it.

Called by: finder.
"""

from __future__ import annotations

import importlib.metadata
import os
from typing import Never


class Distribution(importlib.metadata.Distribution):
    """Name and version; no files."""

    def __init__(self, name: str, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: headrace stands for it.\n"

    def read_text(self, filename: str) -> str | None:
        """Its METADATA; None for any other file."""
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Never:
        """Raises FileNotFoundError: it has none."""
        raise FileNotFoundError(f"{path}: headrace stands for tensorflow, and has no files of it")
