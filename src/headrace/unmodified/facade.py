"""Modules of TensorFlow: those that headrace has itself, and facades, which the table makes for all others.

`module_at` gives the module of a path.  A public namespace of headrace is the module that programs get, so what they
put into it is there for everybody; a facade looks its attributes up in the table and keeps them.
Called by: finder, headrace.python, headrace.contrib.  Threads: any.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from headrace.base.missing import missing
from headrace.base.replaced import advice
from headrace.unmodified import table

_ROOT: Final = __name__.partition(".")[0]
_lock = threading.Lock()
_facades: dict[str, Facade] = {}


class Facade(ModuleType):
    """A module of TensorFlow that headrace has no module of its own for."""

    def __init__(self, path: str) -> None:
        super().__init__(f"tensorflow.{path}", f"tensorflow.{path}: what headrace has of it.")
        self._path = path
        self.__path__: list[str] = []
        self.__package__ = self.__name__
        self.__spec__ = ModuleSpec(self.__name__, None, is_package=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise missing(self.__name__, name)
        value = beneath(self._path, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        row = table.rows()[self._path]
        return sorted({*vars(self), *row.names, *row.ops, *row.children})


def module_at(path: str) -> ModuleType | None:
    """The module that ``tensorflow.`` + path is, or None; "" is headrace itself."""
    path = table.plain(path)
    found = sys.modules[_ROOT]
    for part in filter(None, path.split(".")):
        inner = _namespace(found, part)
        if inner is None:
            return _facade(path)
        found = inner
    return found


def _namespace(module: ModuleType, name: str) -> ModuleType | None:
    """A public namespace of headrace inside another."""
    if name not in getattr(module, "__all__", ()):
        return None
    found = getattr(module, name, None)
    return found if isinstance(found, ModuleType) and not isinstance(found, Facade) else None


def _facade(path: str) -> Facade | None:
    with _lock:
        known = _facades.get(path)
        if known is None and path in table.rows() and advice(path) is None:
            known = _facades[path] = Facade(path)
        return known


def beneath(path: str, name: str, asked: str | None = None) -> Any:
    """Attribute `name` of the module at `path`, by the table.

    asked: the module that the program asked, where that has the names of another.
    Raises AttributeError, which says what there is.
    """
    asked = asked or path
    row = table.rows().get(path)
    if row is not None:
        if name in row.names:
            return _target(asked, name, row.names[name])
        if name in row.children and (module := module_at(f"{path}.{name}")) is not None:
            return module
        if name in row.ops or name.lstrip("_") in row.ops:
            return _raw(asked, name, row.ops.get(name) or row.ops[name.lstrip("_")])
        for other in row.modules:
            known = table.rows()[other]
            if name in known.names or name.lstrip("_") in known.ops:
                return beneath(other, name, asked)
        for source in row.sources:
            found = getattr(importlib.import_module(f"{_ROOT}.{source}"), name, None)
            if found is not None and name[0] != "_":
                return found
    raise missing(f"tensorflow.{asked}", name, f"tensorflow.{asked}.{name}")


def _target(path: str, name: str, target: str) -> Any:
    if target[0] == ":":
        module = module_at(target[1:])
        if module is None:
            raise missing(f"tensorflow.{path}", name, f"tensorflow.{path}.{name}")
        return module
    if target[0] == "@":
        source, _, attribute = target[1:].partition(":")
        found: Any = importlib.import_module(f"{_ROOT}.{source}")
        try:
            return getattr(found, attribute)
        except AttributeError:
            raise missing(f"tensorflow.{path}", name, f"tensorflow.{path}.{name}") from None
    found = sys.modules[_ROOT]
    for part in target.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise missing(f"tensorflow.{path}", name, f"tf.{target}") from None
    return found


def _raw(path: str, name: str, form: str) -> Any:
    from headrace.unmodified.raw_functions import raw_function

    found = raw_function(name, form)
    if found is None:
        raise missing(f"tensorflow.{path}", name, f"tensorflow.{path}.{name}")
    return found


def names_beneath(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of headrace.python and its kin: what they do not have themselves is in the table."""
    path = module.removeprefix(f"{_ROOT}.")

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise missing(module, name)
        return beneath(path, name)

    return find
