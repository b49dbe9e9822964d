"""Arguments that no function could use: errors that say whose argument, which one, and what is wanted.

Called by: library, training.  Threads: any.
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np


def _wrong(function: str, name: str, value: Any, wanted: str) -> TypeError:
    return TypeError(f"{function}: {name} must be {wanted}, and is {value!r:.200}")


def whole_number(function: str, name: str, value: Any) -> int:
    """The argument `name` of `function` as an int.  Raises TypeError: it is none, nor an integer of NumPy's."""
    if not isinstance(value, numbers.Integral):
        raise _wrong(function, name, value, "an integer")
    return int(value)


def check_number(function: str, name: str, value: Any) -> None:
    """Raise TypeError unless it is a number, or a tensor or array of one element as far as that is known."""
    if isinstance(value, numbers.Real):
        return
    if not hasattr(value, "dtype") or (isinstance(value, np.ndarray) and value.size != 1):
        raise _wrong(function, name, value, "a number")


def check_python_number(function: str, name: str, value: Any) -> None:
    """Raise TypeError unless it is a number that is known while a graph is built."""
    if not isinstance(value, numbers.Real) and not (
        isinstance(value, np.ndarray) and not value.ndim
    ):
        raise _wrong(function, name, value, "a Python number")


def check_flag(function: str, name: str, value: Any) -> None:
    """Raise TypeError for what is neither true nor false: an array."""
    if getattr(value, "ndim", 0):
        raise _wrong(function, name, value, "True or False")


def several(function: str, name: str, value: Any, of: str) -> list[Any]:
    """Its elements.  Raises TypeError: it has none to go through; `of` says of what it should have."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)) or _is_scalar(value):
        raise _wrong(function, name, value, f"a list of {of}")
    return [*value]


def _is_scalar(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0


def check_function(function: str, name: str, value: Any, example: str) -> None:
    """Raise TypeError unless it can be called; `example` is one that can."""
    if not callable(value):
        raise _wrong(function, name, value, f"a function, as {example} is one")


def check_mapping(function: str, name: str, value: Any, of: str) -> None:
    """Raise TypeError unless it is a dict; `of` says from what to what."""
    if not isinstance(value, Mapping):
        raise _wrong(function, name, value, f"a dict of {of}")


def check_word(function: str, name: str, value: Any, words: Iterable[str]) -> None:
    """Raise TypeError unless it is a string, as one of `words` would be."""
    if not isinstance(value, str):
        raise _wrong(function, name, value, f"one of {', '.join(map(repr, words))}")


def check_hashable(function: str, name: str, value: Any) -> None:
    """Raise TypeError unless it can be the key of a dict."""
    if not isinstance(value, Hashable):
        raise _wrong(function, name, value, "a word or number")


def check_tensor(function: str, name: str, value: Any) -> None:
    """Raise TypeError unless it is of a graph: a tensor or variable."""
    if not hasattr(value, "dtype") or not hasattr(value, "graph"):
        raise _wrong(function, name, value, "a tensor")
