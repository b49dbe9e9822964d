"""Operands that fit, for ops whose inputs have to: beside those that operands.py draws, which seldom do.

Each module has `SHAPED`: patterns of names of ops, and rows of operands.  A row has one entry an input: a tuple is the
shape of values, anything else is the value itself.  A new family of ops adds a module.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from typing import Any

Row = tuple[Any, ...]
"""Operands of one node."""


@functools.cache
def _tables() -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {}
    for module in pkgutil.iter_modules(__path__):
        found = importlib.import_module(f"{__name__}.{module.name}").SHAPED
        assert not tables.keys() & found.keys(), module.name
        tables |= found
    return tables


@functools.cache
def shaped(op: str) -> tuple[Row, ...]:
    """The rows of `op`; none if what it takes need not fit."""
    return tuple(
        row for pattern, rows in _tables().items() if re.fullmatch(pattern, op) for row in rows
    )
