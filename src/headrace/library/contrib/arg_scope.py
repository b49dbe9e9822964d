"""Defaults of arguments for a part of a program: `tf.contrib.framework.arg_scope`.

Called by: library.contrib, programs.  Threads: a thread has its own scopes.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

__all__ = [
    "add_arg_scope",
    "arg_scope",
    "arg_scope_func_key",
    "arg_scoped_arguments",
    "current_arg_scope",
    "has_arg_scope",
]

Scope = dict[str, dict[str, Any]]
"""Arguments by function."""


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Scope] = [{}]


_scopes = _Scopes()
_arguments: dict[str, tuple[str, ...]] = {}
"""Those with defaults, of the functions that have scopes."""


def arg_scope_func_key(op: Any) -> str:
    """What a function is called in scopes."""
    return str(getattr(op, "_key_op", op))


def current_arg_scope() -> Scope:
    """The scope in force: a dict of arguments by function."""
    return _scopes.stack[-1]


def has_arg_scope(func: Any) -> bool:
    """Whether the function takes its defaults from scopes."""
    return arg_scope_func_key(func) in _arguments


def arg_scoped_arguments(func: Any) -> tuple[str, ...]:
    """The names of the arguments that have defaults.  Raises KeyError: `add_arg_scope` was not applied to it."""
    return _arguments[arg_scope_func_key(func)]


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: arguments that are not given are taken from the scope in force."""
    key = str(func)
    parameters = inspect.signature(func).parameters.values()
    _arguments[key] = tuple(p.name for p in parameters if p.default is not inspect.Parameter.empty)

    @wraps(func)
    def with_scope(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **{**current_arg_scope().get(key, {}), **kwargs})

    with_scope._key_op = key  # type: ignore[attr-defined]
    return with_scope


@contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Context manager: the functions of a list have these defaults inside; or a scope, as this gave one, is in force.

    Raises TypeError (neither a list nor a scope), ValueError (a function that `add_arg_scope` was not applied to;
    a scope and arguments).
    """
    given = list_ops_or_scope
    if isinstance(given, Mapping):
        if kwargs:
            raise ValueError(
                f"a scope that is used again takes no arguments, and there are {sorted(kwargs)}: put them into a scope "
                "of their own inside"
            )
        scope: Scope = dict(given)
    elif isinstance(given, (list, tuple)):
        scope = dict(current_arg_scope())
        for func in given:
            if not has_arg_scope(func):
                name = getattr(func, "__name__", func)
                raise ValueError(
                    f"{name} is not decorated with @add_arg_scope, and takes no defaults from scopes"
                )
            key = arg_scope_func_key(func)
            scope[key] = {**scope.get(key, {}), **kwargs}
    else:
        raise TypeError(
            f"list_ops_or_scope must be a list/tuple or reused scope (i.e. dict), and is a {type(given).__name__}"
        )
    _scopes.stack.append(scope)
    try:
        yield scope
    finally:
        _scopes.stack.pop()
