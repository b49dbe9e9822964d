"""Gradients that are compared with differences, a module a family: `CASES`, and `ELSEWHERE`.

`CASES`: the name of an op (and a variant, after a space): (function, inputs in double precision).  `ELSEWHERE`: ops
whose gradients are checked in other tests, with a comment that says where.  A new family of ops adds a module.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.graph.registry import get

Function = Callable[..., Any]
Cases = dict[str, tuple[Function, list[Any]]]


def op(name: str, *more: Any, **attrs: Any) -> Function:
    """The op with these last inputs (an int32 array for a list of numbers) and attrs."""
    extra = [np.array(m, np.int32) if isinstance(m, (list, int)) else m for m in more]
    return lambda *inputs: get(name)(*inputs, *extra, **attrs)


def listed(name: str, *more: Any, **attrs: Any) -> Function:
    return lambda *inputs: get(name)(list(inputs), *more, **attrs)


def collected() -> tuple[Cases, set[str]]:
    """The cases of all families, and what is checked elsewhere."""
    cases: Cases = {}
    elsewhere: set[str] = set()
    for module in pkgutil.iter_modules(__path__):
        family = importlib.import_module(f"{__name__}.{module.name}")
        assert not cases.keys() & family.CASES.keys(), module.name
        cases |= family.CASES
        elsewhere |= family.ELSEWHERE
    return cases, elsewhere
