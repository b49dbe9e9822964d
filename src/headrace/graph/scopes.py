"""The only hidden state: the default graph, the default session and their stacks, per thread.

Called by: graph, ops, client, training.  Threads: each has its own stacks; the graph that is the
default where nobody set one is the process's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from headrace.graph.graph import Graph


T = TypeVar("T")


class _Stacks(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.device_stacks: list[list[Any]] = []  # of each of `graphs` when it was entered
        self.sessions: list[Any] = []


_stacks = _Stacks()
_global_graph: Graph | None = None
_lock = threading.Lock()


def get_default_graph() -> Graph:
    """The innermost `Graph.as_default` of this thread, else the process's graph."""
    if _stacks.graphs:
        return _stacks.graphs[-1]
    global _global_graph
    if _global_graph is not None:
        return _global_graph
    with _lock:
        if _global_graph is None:
            from headrace.graph.graph import Graph

            _global_graph = Graph()
        return _global_graph


def function_being_built() -> Graph | None:
    """The default graph, if it is the body of a function."""
    graphs = _stacks.graphs
    return graphs[-1] if graphs and graphs[-1].building_function else None


def reset_default_graph() -> None:
    """Start the process's default graph afresh.  Raises AssertionError inside `as_default`."""
    if _stacks.graphs:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs, those of `with graph.as_default()`: "
            "leave the block first, or make a new tf.Graph() instead"
        )
    global _global_graph
    with _lock:
        _global_graph = None


class graph_as_default(ContextDecorator):
    """Context manager: `graph` is the default of this thread inside."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __enter__(self) -> Graph:
        enter(self._graph)
        return self._graph

    def __exit__(self, *_: object) -> None:
        leave(self._graph)


def enter(graph: Graph) -> None:
    """Make `graph` the default of this thread until `leave`."""
    _stacks.graphs.append(graph)
    _stacks.device_stacks.append(graph._device_stack)


def leave(graph: Graph) -> None:
    """Undo the latest `enter`, which was of `graph`.  Raises AssertionError if it was of another one."""
    stack = _stacks.graphs
    if not stack or stack[-1] is not graph:
        raise AssertionError("default graphs must be left in the reverse order of entering")
    stack.pop()
    _stacks.device_stacks.pop()


def leave_all() -> None:
    """Undo every `enter` of this thread whose `leave` never came."""
    _stacks.graphs.clear()
    _stacks.device_stacks.clear()


def device_stack_of_default() -> list[Any] | None:
    """The device scopes that the default graph had when it became this thread's; None if it did not."""
    return _stacks.device_stacks[-1] if _stacks.device_stacks else None


def get_default_session() -> Any:
    """The innermost `Session.as_default` of this thread, or None."""
    return _stacks.sessions[-1] if _stacks.sessions else None


def push_session(session: Any) -> None:
    """Make `session` this thread's default until `pop_session`."""
    _stacks.sessions.append(session)


def pop_session(session: Any, nested: bool = True) -> None:
    """Undo the latest `push_session` of `session`.

    Raises AssertionError if it must be `nested`, and another one was pushed since.
    """
    if nested and _stacks.sessions and _stacks.sessions[-1] is not session:
        raise AssertionError(
            f"Nesting violated for default stack of {type(session)} objects: default sessions must be left in the "
            "reverse order of entering"
        )
    for index in range(len(_stacks.sessions) - 1, -1, -1):
        if _stacks.sessions[index] is session:
            del _stacks.sessions[index]
            return


def called_apart(function: Callable[[], T]) -> T:
    """What `function` gives, called where nothing is this thread's default, as in a thread of its own."""
    there = _stacks.graphs, _stacks.device_stacks, _stacks.sessions
    _stacks.graphs, _stacks.device_stacks, _stacks.sessions = [], [], []
    try:
        return function()
    finally:
        _stacks.graphs, _stacks.device_stacks, _stacks.sessions = there


def require_session(session: Any, what: str) -> Any:
    """`session`, or the default one.  Raises ValueError saying how to get one."""
    found = session if session is not None else get_default_session()
    if found is None:
        raise ValueError(
            f"Cannot {what}: No default session is registered. Pass session=, "
            "or do it inside `with tf.Session() as sess:`"
        )
    return found


def session_of(session: Any, graph: Any, what: str, how: str, name: str) -> Any:
    """`session`, or the default one, of `graph`, to do `what` ("evaluate tensor") by `how` ("eval()") with `name`.

    Raises ValueError: there is none, or it is of another graph.
    """
    found = require_session(session, f"{what} using `{how}`")
    if found.graph is not graph:
        noun = what.rpartition(" ")[2]
        which = "the given" if session is not None else "the default"
        raise ValueError(
            f"Cannot use {which} session to {what}: the {noun}'s graph is different from the session's graph. "
            f"Pass a session of the graph that {name} belongs to"
        )
    return found
