"""name_scope, device, container and the other scopes as module-level functions on the default graph.

Called by: ops, training, users.  Threads: as graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ContextDecorator
from typing import Any

from headrace.graph import scopes
from headrace.graph.convert import graph_of


class name_scope:
    """Context manager: `name`, or `default_name` when it is None, for the nodes made inside.

    Gives the scope's full name with a trailing '/', which as the `name` of an op names the op
    itself.  The graph is that of the tensors among `values`, else the default one.
    """

    def __init__(
        self,
        name: str | bytes | None,
        default_name: str | None = None,
        values: Sequence[Any] | None = None,
    ) -> None:
        if isinstance(name, bytes):
            name = name.decode()
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of a name_scope is a string, not {name!r}")
        if default_name is None and values is not None and name is None:
            raise ValueError("name_scope needs a name or a default_name when values are given")
        self._name = default_name if name is None else name
        self._values = values
        # Where it is entered: the graph, its scope before, the same of the time before that.
        self._outer: Any = None

    @property
    def name(self) -> str | None:
        """As it was given, which the scope's own, unique one may differ from."""
        return self._name

    def __enter__(self) -> str:
        values = self._values
        graph = graph_of(values) if values else scopes.get_default_graph()
        here = graph._names_here
        outer, scope = here.scope, graph._scope_of(self._name)
        scopes.enter(graph)
        here.scope = scope
        self._outer = graph, outer, self._outer
        return f"{scope}/" if scope else ""

    def __exit__(self, *exc: Any) -> None:
        graph, outer, self._outer = self._outer
        graph._names_here.scope = outer
        scopes.leave(graph)


def device(device_name_or_function: Any) -> Any:
    """Context manager: nodes made inside get this device (see `Graph.device`)."""
    return scopes.get_default_graph().device(device_name_or_function)


def container(container_name: str) -> Any:
    """Context manager: stateful nodes made inside keep their state in this container."""
    return scopes.get_default_graph().container(container_name)


def control_dependencies(control_inputs: Iterable[Any] | None) -> Any:
    """Context manager: nodes made inside run after `control_inputs`."""
    return scopes.get_default_graph().control_dependencies(control_inputs)


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """Context manager: nodes made inside are placed on the device of `op`."""
    return scopes.get_default_graph().colocate_with(op, ignore_existing)


def init_scope() -> Any:
    """Lift nodes out of control-dependency and control-flow scopes; names stay.  See `Graph.init_scope`.

    It is one of the graph that is the default when it is entered.
    """
    return _InitScope()


class _InitScope(ContextDecorator):
    _entered: Any = None
    """(The scope of the graph that it was entered in, the same of the time before that); None where it is not."""

    def _recreate_cm(self) -> _InitScope:
        return _InitScope()

    def __enter__(self) -> None:
        lifted = scopes.get_default_graph().init_scope()
        lifted.__enter__()
        self._entered = lifted, self._entered

    def __exit__(self, *exc: Any) -> Any:
        lifted, self._entered = self._entered
        return lifted.__exit__(*exc)


def add_to_collection(name: Any, value: Any) -> None:
    """Append to a collection of the default graph."""
    scopes.get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Append to several collections of the default graph."""
    scopes.get_default_graph().add_to_collections(names, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """A copy of a collection of the default graph."""
    return scopes.get_default_graph().get_collection(key, scope)


def get_collection_ref(key: Any) -> list[Any]:
    """A collection of the default graph itself."""
    return scopes.get_default_graph().get_collection_ref(key)


_MAX_SEED = 2**31 - 1
_DEFAULT_GRAPH_SEED = 87654321


def set_random_seed(seed: int | None) -> None:
    """Set the graph-level seed of the default graph; None for none."""
    scopes.get_default_graph().seed = seed


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The pair (graph seed, op seed) for a random op; (None, None) asks for a random one.

    With only a graph-level seed the op's is the number of ops before it that got theirs this way.
    Source: TF 2.21 behaviour (1.15 counted all nodes of the graph instead)
    """
    graph = scopes.get_default_graph()
    pair: tuple[int | None, int | None]
    if graph.seed is not None:
        if op_seed is None:
            op_seed = graph._implicit_seeds
            graph._implicit_seeds += 1
        pair = graph.seed, op_seed
    elif op_seed is not None:
        pair = _DEFAULT_GRAPH_SEED, op_seed
    else:
        return None, None
    first, second = (_truncate(seed) for seed in pair)
    if (first, second) == (0, 0):
        return 0, _MAX_SEED  # (0, 0) would ask for a random seed
    return first, second


def _truncate(seed: int | None) -> int:
    return int(seed or 0) % _MAX_SEED
