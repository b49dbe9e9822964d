"""Errors for names that headrace does not have: what, what is near it or takes its place, and where it was used.

What a namespace lacks is an AttributeError, what an import asks for in vain an ImportError, so that `hasattr`,
`getattr` with a default and ``try: … except ImportError`` do as they always do.  Their text is put together when
somebody reads it: programs also ask for names to see whether they are there.
Called by: base.lazy, public namespaces, unmodified.  Threads: any.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final

from headrace.base.errors import UnsupportedNameError

_ROOT: Final = __name__.partition(".")[0]
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_MACHINERY: Final = ("<frozen ", os.path.dirname(importlib.__file__) + os.sep)
_NAMES: Final = os.path.join(os.path.dirname(os.path.realpath(__file__)), "tensorflow_names.txt")
_SAME: Final = 0.72
"""How alike two names must be for one to be offered for the other (difflib's ratio)."""
_SHORT: Final = 5
_SHORTS_SAME: Final = 0.8
"""The same for names of less than _SHORT letters, which are alike by chance: foo and floor."""


class _Explained:
    """The text of an error: what is wrong in short, then what there is to say of what was wanted."""

    wanted: str
    used_at: str | None
    short: str

    def __str__(self) -> str:
        where = f"\n  used at {self.used_at}" if self.used_at else ""
        return f"{self.short}: {self.explained()}{where}"

    def explained(self) -> str:
        return explanation(self.wanted)


class MissingName(_Explained, AttributeError):
    """A namespace has no such name.  wanted: "tf.train.Savr"; used_at: "train.py:12"."""

    def __init__(self, module: str, name: str, path: str, used_at: str | None) -> None:
        self.short = f"module {module!r} has no attribute {name!r}"
        super().__init__(self.short, name=name)
        self.wanted = path
        self.used_at = used_at

    def __reduce__(self) -> tuple[object, ...]:
        return AttributeError, (str(self),)


class MissingImport(_Explained, ImportError):
    """``from module import name`` found no such name; `name` is the module's."""

    def __init__(self, module: str, name: str, path: str, used_at: str | None) -> None:
        self.short = f"cannot import name {name!r} from {module!r}"
        super().__init__(self.short, name=module)
        self.wanted = path
        self.used_at = used_at

    def __reduce__(self) -> tuple[object, ...]:
        return ImportError, (str(self),)


class MissingModule(_Explained, ModuleNotFoundError):
    """``import path`` found no such module; `name` is the path."""

    def __init__(self, path: str, used_at: str | None) -> None:
        self.short = f"No module named {path!r}"
        super().__init__(self.short, name=path)
        self.wanted = path
        self.used_at = used_at

    def __reduce__(self) -> tuple[object, ...]:
        return ModuleNotFoundError, (str(self),)

    def explained(self) -> str:
        """With the import that would have found it, where a name was taken for a module."""
        if exists(public(self.wanted)):
            space, _, name = self.wanted.rpartition(".")
            return f"{self.wanted} is no module; use `from {space} import {name}`"
        return super().explained()


def missing(module: str, name: str, path: str | None = None) -> AttributeError:
    """The error for `name` in a namespace of headrace; `path` is how programs know it, if not ``tf.….name``."""
    if name.startswith("__"):  # many ask for those, and nobody reads what comes of it
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    from headrace.base import replaced

    error = MissingName(module, name, path or f"{shown(module)}.{name}", where_used())
    if replaced.advice(public(error.wanted)) is not None:
        return UnsupportedNameError.of(str(error))
    return error


def explaining(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a namespace all of whose names are there when it is imported."""

    def find(name: str) -> Any:
        raise missing(module, name)

    return find


def shown(module: str) -> str:
    """A module of headrace as programs write it: ``tf.train``."""
    return "tf" + module.removeprefix(_ROOT)


def where_used() -> str | None:
    """``file:line`` of the nearest caller that is neither headrace nor Python's import machinery."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, *_MACHINERY)):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def explanation(path: str) -> str:
    """What there is to say of a name that is not there: a sentence or two."""
    from headrace.base import replaced

    name = public(path)
    instead = replaced.REPLACED.get(name)
    if instead is not None:
        return f"TensorFlow 1.0 removed {path}; {_use(instead)}"
    advice = replaced.advice(name)
    if advice is not None:
        return f"headrace does not have {path}; {advice}"
    if name in tensorflow_names():
        found = f"{path} of TensorFlow 1.15 is not in headrace yet"
        everywhere = _everywhere()
        last = name.rpartition(".")[2]
        near = [full for full in _elsewhere(name, everywhere) if everywhere[full] == last]
        return found + (f"; it has {_listed(near)}" if near else "")
    found = f"headrace does not have {path}"
    near = nearest(name)
    if near:
        return f"{found}; did you mean {_listed(near)}?"
    alike = _alike(name, tensorflow_names())
    if alike:
        return f"{found}; did you mean {_listed(alike)}, which it does not have yet either?"
    return found


def public(path: str) -> str:
    """A path without its root: ``tf.compat.v1.nn.relu`` and ``tensorflow.nn.relu`` are ``nn.relu``."""
    return path.partition(".")[2].removeprefix("compat.v1.")


def _use(instead: str) -> str:
    if " " in instead:
        return instead
    there = "" if exists(instead) else " (which headrace does not have yet)"
    return f"use tf.{instead}{there}"


def _listed(names: list[str]) -> str:
    return " or ".join(f"tf.{name}" for name in names)


def exists(name: str) -> bool:
    """Whether headrace has the public name."""
    found: Any = sys.modules[_ROOT]
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
    return True


def nearest(name: str) -> list[str]:
    """Public names of headrace that `name` may have been meant to be, likeliest first: two at most.

    The same name in another namespace, then a name that is spelled alike in the same one, then one anywhere.
    """
    last = name.rpartition(".")[2]
    if last == "python":  # internals, of which none stands for another
        return []
    everywhere = _everywhere()
    found = _elsewhere(name, everywhere) or _alike(name, everywhere)
    if found:
        return found
    import difflib

    alike = difflib.get_close_matches(
        last, sorted({*everywhere.values()}), n=1, cutoff=_cutoff(last)
    )
    found = [full for full, each in everywhere.items() if each in alike]
    return _offered(name, sorted(found, key=lambda full: (full.count("."), full)))


def _everywhere() -> dict[str, str]:
    """Every public name of headrace: its path -> its last part."""
    return {
        f"{space}.{each}".lstrip("."): each for space, listed in namespaces() for each in listed
    }


def _elsewhere(name: str, everywhere: Mapping[str, str]) -> list[str]:
    """The same name in other namespaces: as it is spelled first, and the outermost."""
    last = name.rpartition(".")[2]
    same = [full for full, each in everywhere.items() if _plain(each) == _plain(last)]
    same.sort(key=lambda full: (everywhere[full] != last, full.count("."), full))
    return _offered(name, same)


def _offered(name: str, found: list[str]) -> list[str]:
    """Two of `found`, the outermost first; of tf.contrib only where nothing else is, or it was asked for."""
    plain = [full for full in found if not full.startswith("contrib.")]
    return (found if name.startswith("contrib.") or not plain else plain)[:2]


def _alike(name: str, known: Iterable[str]) -> list[str]:
    """Names that are spelled alike in the same namespace."""
    import difflib

    space, _, last = name.rpartition(".")
    here = [full.rpartition(".")[2] for full in known if full.rpartition(".")[0] == space]
    alike = difflib.get_close_matches(last, sorted(here), n=2, cutoff=_cutoff(last))
    return [f"{space}.{each}".lstrip(".") for each in alike]


def _cutoff(name: str) -> float:
    return _SHORTS_SAME if len(name) < _SHORT else _SAME


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def namespaces() -> Iterator[tuple[str, list[str]]]:
    """(path, names) of every public namespace of headrace; "" is the root.  Imports those that were not used yet."""
    waiting = [("", sys.modules[_ROOT])]
    seen = {id(waiting[0][1])}
    while waiting:
        path, module = waiting.pop()
        names = list(getattr(module, "__all__", ()))
        yield path, names
        for name in names:
            inner = _module_in(module, name)
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                waiting.append((f"{path}.{name}".lstrip("."), inner))


def _module_in(module: ModuleType, name: str) -> ModuleType | None:
    known = vars(module).get(name)
    if known is None and hasattr(module, "__path__"):
        full = f"{module.__name__}.{name}"
        if _is_module(full):
            known = importlib.import_module(full)
    return known if isinstance(known, ModuleType) else None


@cache
def _is_module(full: str) -> bool:
    """Whether a name of a package of headrace is a module; looking takes time, and most are none."""
    import importlib.util

    return importlib.util.find_spec(full) is not None


@cache
def tensorflow_names() -> frozenset[str]:
    """The public names of TensorFlow 1.15, and of its namespaces, without ``tf.``."""
    found: set[str] = set()
    space = ""
    with open(_NAMES, encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if not line.startswith((" ", "#")):
                space = words.pop(0).partition(".")[2]
                found.add(space)
            if line[0] != "#":
                found.update(f"{space}.{word}".lstrip(".") for word in words)
    return frozenset(found)
