"""Lazy names of a module: imported when somebody asks for them, not when the module is.

A namespace writes its imports twice: under ``TYPE_CHECKING`` for type checkers and editors, and as the table that
`names_of` looks them up in (a test compares the two).  The first use of a name puts it into the module, so that later
uses cost nothing.
Called by: public namespaces, codec.protos.  Threads: any; the import system's locks hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from headrace.base.imports import collects_nothing
from headrace.base.missing import missing


def names_of(
    module: str,
    table: Mapping[str, str],
    otherwise: Callable[[str], Any] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of `module`.

    table: from a module to the names, separated by spaces, that come from it; ``name=other`` for what is called `other`
    there.  Whatever else stands in the module's `__all__` is a module inside it.
    otherwise: asked for what is none of those; raises AttributeError.
    """
    where: dict[str, tuple[str, str]] = {}
    for source, listed in table.items():
        for each in listed.split():
            name, _, other = each.partition("=")
            where[name] = (source, other or name)
    here = sys.modules[module]

    def find(name: str) -> Any:
        known = where.get(name)
        if known is not None:
            with collects_nothing():
                source = __import__(known[0], fromlist=known[1:])  # imports what is a module in it
            value = getattr(source, known[1])
            setattr(here, name, value)
            return value
        if name in getattr(
            here, "__all__", ()
        ):  # the package's attribute as soon as it is imported
            with collects_nothing():
                return import_module(f"{module}.{name}")
        if otherwise is not None:
            return otherwise(name)
        raise missing(module, name)

    def listing() -> list[str]:
        return sorted({*vars(here), *where, *getattr(here, "__all__", ())} - {"TYPE_CHECKING"})

    return find, listing
