"""Lookup: whether headrace has a name of TensorFlow, and what to say if not.

Called by: command.  Threads: any; answers are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from headrace.base.missing import explanation, public, tensorflow_names
from headrace.base.replaced import advice
from headrace.unmodified.facade import module_at
from headrace.unmodified.table import plain

_ABSENT = object()


@dataclass(frozen=True)
class Missing:
    """A name that headrace does not have.

    kind: "missing", or "unsupported" if asking for it is an error that says what to use.
    """

    kind: str
    message: str


class Lookup:
    """Answers by path, ``tensorflow.train.Saver``."""

    def __init__(self) -> None:
        self._known: dict[str, Missing | None] = {}

    def exists(self, path: str) -> bool:
        """Whether headrace has what is at a path."""
        return self.missing(path) is None

    def missing(self, path: str) -> Missing | None:
        """What there is to say of a path at which there is nothing; None if there is something."""
        path = beneath_tensorflow(path)
        if path not in self._known:
            self._known[path] = self._looked_up(path)
        return self._known[path]

    def public(self, module: str) -> Iterable[str]:
        """Names that ``from module import *`` brings in TensorFlow, as far as they are known, or in headrace."""
        path = beneath_tensorflow(module)
        inner = plain(path.partition(".")[2])
        start = f"{inner}." if inner else ""
        found = {
            name.removeprefix(start).partition(".")[0]
            for name in tensorflow_names()
            if name.startswith(start) and name != inner
        }
        there = module_at(inner)
        if there is not None:
            found.update(getattr(there, "__all__", ()) or dir(there))
        return sorted(name for name in found if name and not name.startswith("_"))

    @staticmethod
    def _looked_up(path: str) -> Missing | None:
        parts = path.split(".")[1:]
        found: Any = module_at("")
        for count, part in enumerate(parts, 1):
            if not isinstance(found, (ModuleType, type)):
                return None  # of an object nothing can be told before the program runs
            try:
                value = getattr(found, part, _ABSENT)
            except ImportError:  # of what the name stands for
                value = _ABSENT
            if value is _ABSENT and isinstance(found, ModuleType):
                value = module_at(".".join(parts[:count])) or _ABSENT
            if value is _ABSENT:
                return _nothing(path)
            found = value
        return None


def _nothing(path: str) -> Missing:
    shown = path.replace("tensorflow", "tf", 1)
    kind = "missing" if advice(public(shown)) is None else "unsupported"
    return Missing(kind, explanation(shown))


def beneath_tensorflow(path: str) -> str:
    """A path with ``tensorflow`` for its root, whatever it was."""
    _, dot, rest = path.partition(".")
    return f"tensorflow{dot}{rest}"
