"""Ops, as patterns of names, and why their outcomes may not be TensorFlow's.

Each module has `DIFFERENT`: patterns and reasons.  A new family of ops adds a module.  What is not needed fails
tests/oracle/test_operands.py.
"""

from __future__ import annotations

import importlib
import pkgutil


def different() -> dict[str, str]:
    """All patterns and their reasons."""
    tables: dict[str, str] = {}
    for module in pkgutil.iter_modules(__path__):
        found = importlib.import_module(f"{__name__}.{module.name}").DIFFERENT
        assert not tables.keys() & found.keys(), module.name
        tables |= found
    return tables
