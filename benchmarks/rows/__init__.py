"""All rows, in the order of the table; importing this registers them."""

from __future__ import annotations

from benchmarks.row import TABLE
from benchmarks.rows import footprint, local, remote  # noqa: F401  (they register their rows)

AREAS = ("footprint", "local", "remote")
"""The table's sections, in order."""

__all__ = ["AREAS", "TABLE"]
