"""tensorflow.python.util.deprecation: functions that say once that they are old.

Called by: programs and libraries, for functions of their own.  Threads: any.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_told: set[tuple[str, str]] = set()
_silent = 0


def _tell(function: Callable[..., Any], what: str, date: str | None, instructions: str) -> None:
    """Log a warning, the first time for each function and reason."""
    from headrace.training import logging

    key = (f"{function.__module__}.{function.__qualname__}", what)
    if _silent or key in _told:
        return
    _told.add(key)
    when = f"after {date}" if date else "in a future version"
    logging.warning(
        f"{key[0]}{what} is deprecated and will be removed {when}. {instructions}".strip()
    )


@contextmanager
def silence() -> Iterator[None]:
    """A ``with`` block in which nothing is logged."""
    global _silent
    _silent += 1
    try:
        yield
    finally:
        _silent -= 1


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[F], F]:
    """Decorator: calls of the function log a warning, once."""

    def decorate(function: F) -> F:
        if isinstance(function, type):
            return function

        @functools.wraps(function)
        def told(*args: Any, **kwargs: Any) -> Any:
            _tell(function, "", date, instructions)
            return function(*args, **kwargs)

        return told  # type: ignore[return-value]

    return decorate


def deprecated_args(
    date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any
) -> Callable[[F], F]:
    """Decorator: calls that give one of the named arguments log a warning, once each.

    An argument is a name, or (name, value that may be given without a warning).
    """
    fine = {
        each[0] if isinstance(each, tuple) else each: each[1:] if isinstance(each, tuple) else ()
        for each in deprecated_arg_names_or_tuples
    }

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        unknown = [name for name in fine if name not in signature.parameters]
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            raise ValueError(
                f"{function.__qualname__} has no parameters {unknown} to be deprecated"
            )

        @functools.wraps(function)
        def told(*args: Any, **kwargs: Any) -> Any:
            for name, value in signature.bind_partial(*args, **kwargs).arguments.items():
                if name in fine and not any(value is each for each in fine[name]):
                    _tell(function, f" with argument {name!r}", date, instructions)
            return function(*args, **kwargs)

        return told  # type: ignore[return-value]

    return decorate


def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any
) -> Callable[[F], F]:
    """Decorator: calls that give one of these values to the argument log a warning, once each."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def told(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind_partial(*args, **kwargs).arguments
            for name, value in deprecated_kwargs.items():
                if name in given and given[name] == value:
                    _tell(function, f" with {name}={value!r}", date, instructions)
            return function(*args, **kwargs)

        return told  # type: ignore[return-value]

    return decorate


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """The one of two that was given (is not None).  Raises ValueError where both were."""
    if old_value is not None:
        if new_value is not None:
            raise ValueError(
                f"Cannot specify both {old_name!r} and {new_name!r}; give {new_name!r}"
            )
        return old_value
    return new_value


def deprecated_alias(
    deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True
) -> Any:
    """The function, under its old name: calls log a warning, once."""
    if isinstance(func_or_class, type):
        return func_or_class
    return deprecated(None, f"Please use {name} instead.")(func_or_class)


def deprecated_endpoints(*args: str) -> Callable[[F], F]:
    """Decorator that changes nothing: names under which an API was exported before."""
    return lambda function: function


def rewrite_argument_docstring(old_doc: str, old_argument: str, new_argument: str) -> str:
    """A docstring in which one argument has another name."""
    return old_doc.replace(f"`{old_argument}`", f"`{new_argument}`").replace(
        f"{old_argument}:", f"{new_argument}:"
    )
