"""What Ctrl-C waits for: functions and classes say so where they stand, by a decorator.

`changes` is for what changes what steps share (a queue, a variable): it completes, or never began.  `takes` is for the
few functions that take note of what has begun.  `run.interrupts` has the handler, which looks for them on the stack.
Called by: whatever changes such things; run.interrupts.  Threads: filled while modules are imported, then only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

CHANGING: Final[set[CodeType]] = set()
"""Code that counts as a change, with all that it calls."""
TAKING: Final[set[CodeType]] = set()
"""Code between the start of what may wait and the note of it, or between the end of a step and the withdrawal of what
it notes; without what it calls."""


def changes(what: T) -> T:
    """Decorator of a function, or of a class for all that it defines: what runs in it, or is called by it, is a change.

    Functions that are defined inside count too, wherever they are called; subclasses have to say so themselves.
    """
    CHANGING.update(_code_in(what))
    return what


def takes(function: T) -> T:
    """Decorator of a function: it is not interrupted itself, but what it calls may be."""
    TAKING.update(_code_in(function))
    return function


def _code_in(what: Any) -> Iterator[CodeType]:
    if isinstance(what, type):
        for value in vars(what).values():
            yield from _code_in(value)
        return
    if isinstance(what, property):
        for accessor in (what.fget, what.fset):
            if accessor is not None:
                yield from _code_in(accessor)
        return
    function = getattr(what, "__wrapped__", what)  # static and class methods, context managers
    if isinstance(function, FunctionType):
        yield from _with_inner(function.__code__)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
