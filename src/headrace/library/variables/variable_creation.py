"""What `tf.Variable(...)` makes: a reference or a resource variable, by way of the creators in force.

A creator is a function (next_creator, **arguments of Variable) -> variable; it may change the arguments, or return
something else altogether.  The one entered last is asked first.
Called by: variables.Variable (its metaclass), programs.  Threads: a thread has its own creators in a graph.
Source: TF 1.15 behaviour of variable_creator_scope; checked against the oracle
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from headrace.graph import scopes
from headrace.graph.behavior import resource_variables_enabled
from headrace.graph.graph import Graph
from headrace.graph.tensor import Tensor

__all__ = ["variable_creator_scope"]

Creator = Callable[..., Any]

_KEY = ("__variable_creators",)


class _Creators(threading.local):
    def __init__(self) -> None:
        self.stack: list[Creator] = []


def _creators(graph: Graph) -> _Creators:
    kept = graph.get_collection_ref(_KEY)
    if not kept:
        kept.append(_Creators())
    found: _Creators = kept[0]
    return found


@contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Context manager: variables of the default graph are made by variable_creator(next_creator, **arguments)."""
    creators = _creators(scopes.get_default_graph())
    saved = creators.stack
    creators.stack = [*saved, variable_creator]
    try:
        yield
    finally:
        creators.stack = saved


class Created(type):
    """The class of Variable: calling it asks the creators and picks the kind; calling a subclass does neither."""

    _extends: bool

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._extends = any(isinstance(base, Created) for base in bases)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls._extends:
            return super().__call__(*args, **kwargs)
        names = _names(cls)
        graph = scopes.get_default_graph()
        stack = _creators(graph).stack
        if not stack and len(args) <= len(names) and kwargs.keys().isdisjoint(names[: len(args)]):
            return _plain(cls, **dict(zip(names, args, strict=False)), **kwargs)
        arguments = _signature(cls).bind(None, *args, **kwargs)
        if stack:
            arguments.apply_defaults()
        named = dict(list(arguments.arguments.items())[1:])
        make: Creator = partial(_plain, cls)
        for creator in stack:
            make = partial(creator, make)
        if not stack:
            return make(**named)
        with graph._located(None):  # they may make nodes of their own
            return make(**named)


@cache
def _signature(cls: type) -> inspect.Signature:
    return inspect.signature(vars(cls)["__init__"])


@cache
def _names(cls: type) -> tuple[str, ...]:
    """Of the arguments, in the order in which they may be given without."""
    return tuple(_signature(cls).parameters)[1:]


def _plain(cls: type, **arguments: Any) -> Any:
    """A variable, without creators."""
    from headrace.library.variables.resource_variables import ResourceVariable

    check_lifted(arguments.get("initial_value"), arguments.get("name"))
    return type.__call__(ResourceVariable if _wants_resource(arguments) else cls, **arguments)


def check_lifted(value: Any, name: str | None) -> None:
    """Raises ValueError: the initial value is computed in the body of a function, and the variable is outside."""
    function = scopes.function_being_built()
    if function is None or not function.functional_flow or not isinstance(value, Tensor):
        return
    if value.graph.building_function:
        raise ValueError(
            f"Argument `initial_value` ({value}) could not be lifted out of a `tf.function`. (Tried to create variable "
            f"with name={name!r}): it is computed in a branch, a loop or a function, and "
            "variables are made outside of those; give a function that computes it"
        )


def _wants_resource(arguments: dict[str, Any]) -> bool:
    if arguments.get("variable_def") is not None:
        return bool(getattr(arguments["variable_def"], "is_resource", False))
    wanted = arguments.get("use_resource")
    if wanted is None:
        from headrace.library.variables.variable_scope import get_variable_scope

        wanted = get_variable_scope().use_resource
    return resource_variables_enabled() if wanted is None else bool(wanted)
