"""The blocks of `Graph` that are entered for nearly every node, as classes: a generator takes four times as long.

One may be entered any number of times, also within itself, and decorate a function that threads call side by side.
Called by: graph.graph, graph.graph_scopes, graph.names.  Threads: as the graph; an object is its thread's.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ContextDecorator
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from headrace.base import device as devices
from headrace.graph import scopes
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from headrace.graph.graph import Graph

__all__: list[str] = []


class Controller:
    """One `control_dependencies` block."""

    __slots__ = ("inputs", "seen")

    def __init__(self, inputs: list[Operation]) -> None:
        self.inputs = inputs
        self.seen: set[Operation] = set()


class _Block(ContextDecorator):
    _outer: Any = None
    """(What was in force before it was entered, the same of the time before that); None where it is not."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def _recreate_cm(self) -> Self:
        """For a call of a function that it decorates: one of the call's own, since its thread may be another."""
        again = copy(self)
        again._outer = None
        return again


class Named(_Block):
    """See `Graph.name_scope`."""

    def __init__(self, graph: Graph, name: str | None) -> None:
        self._graph, self._name = graph, name

    def __enter__(self) -> str:
        graph = self._graph
        here = graph._names_here
        outer = here.scope
        here.scope = new = graph._scope_of(self._name)
        self._outer = outer, self._outer
        return new + "/" if new else ""

    def __exit__(self, *_: object) -> None:
        self._graph._names_here.scope, self._outer = self._outer


class Placed(_Block):
    """See `Graph.device`."""

    def __init__(self, graph: Graph, device: Any) -> None:
        """device: a name, a specification, a function of an operation, or None."""
        self._graph, self._device = graph, device

    def __enter__(self) -> None:
        entry = self._device
        if entry is not None and not callable(entry):
            entry = devices.canonical(devices.text(entry))
        self._graph._stacks.devices.append(entry)

    def __exit__(self, *_: object) -> None:
        self._graph._stacks.devices.pop()


class _Beside(_Block):
    """What is made inside lies with others; their devices count, and scopes outside of the block do not."""

    def _enter(self, anchors: list[Operation]) -> None:
        stacks = self._graph._stacks
        self._outer = stacks.colocation, stacks.devices, self._outer
        stacks.colocation, stacks.devices = anchors, []

    def __exit__(self, *_: object) -> None:
        stacks = self._graph._stacks
        stacks.colocation, stacks.devices, self._outer = self._outer


class Colocated(_Beside):
    """See `Graph.colocate_with`."""

    def __init__(self, graph: Graph, op: Any, ignore_existing: bool) -> None:
        self._graph, self._op, self._ignores = graph, op, ignore_existing

    def __enter__(self) -> None:
        op, graph = self._op, self._graph
        here = [] if self._ignores else graph._stacks.colocation
        if op.__class__ is Operation and op.graph is graph:
            self._enter([*here, op])
            return
        if op is None:
            if not self._ignores:
                raise ValueError("colocate_with(None) needs ignore_existing=True")
            self._enter([])
            return
        element = op
        if op.__class__ is not Operation and not isinstance(op, str):
            # A resource variable, or one that was changed, is where its handle is.
            element = getattr(getattr(op, "_handle", op), "op", op)
        element = graph.as_graph_element(element)
        self._enter([*here, element.op if isinstance(element, Tensor) else element])


class Together(_Beside):
    """See `Graph._together_with`."""

    def __init__(self, graph: Graph, ops: Iterable[Operation]) -> None:
        self._graph, self._ops = graph, ops

    def __enter__(self) -> None:
        self._enter([*self._graph._stacks.colocation, *self._ops])


class Controlled(_Block):
    """See `Graph.control_dependencies`."""

    def __init__(self, graph: Graph, control_inputs: Iterable[Any] | None) -> None:
        self._graph = graph
        self._controller: Controller | None = None  # of all times that it is entered
        if control_inputs is not None:
            self._controller = Controller(_operations(graph, control_inputs))

    def __enter__(self) -> None:
        graph = self._graph
        outer = graph._stacks.controllers, graph._control_flow_context
        if self._controller is None:
            graph._stacks.controllers, graph._control_flow_context = [], None
        else:
            graph._stacks.controllers = [*outer[0], self._controller]
        self._outer = *outer, self._outer

    def __exit__(self, *_: object) -> None:
        graph = self._graph
        graph._stacks.controllers, context, self._outer = self._outer
        if self._controller is None:
            graph._control_flow_context = context


def _operations(graph: Graph, control_inputs: Iterable[Any]) -> list[Operation]:
    ops: list[Operation] = []
    for item in control_inputs:
        if item.__class__ is not Operation and (hasattr(item, "_handle") or _is_rows(item)):
            item = item.op  # of a resource variable: what makes its handle, or what changed it
        element = graph.as_graph_element(item)
        op = element.op if isinstance(element, Tensor) else element
        op.attrs.setdefault("_has_manual_control_dependencies", True)
        if op not in ops:
            ops.append(op)
    return ops


def _is_rows(item: Any) -> bool:
    if not hasattr(item, "indices"):
        return False
    from headrace.graph.indexed_slices import IndexedSlices

    return isinstance(item, IndexedSlices)


class Lifted(_Block):
    """See `Graph.init_scope`."""

    def __enter__(self) -> None:
        graph = self._graph
        hidden = scopes.device_stack_of_default()
        scopes.enter(graph)
        stacks = graph._stacks
        saved = stacks.devices
        self._outer = saved, stacks.controllers, graph._control_flow_context, self._outer
        stacks.controllers, graph._control_flow_context = [], None
        stacks.devices = saved or hidden or []

    def __exit__(self, *_: object) -> None:
        graph = self._graph
        stacks = graph._stacks
        stacks.devices, stacks.controllers, graph._control_flow_context, self._outer = self._outer
        scopes.leave(graph)


class MadeFor(_Block):
    """See `Graph._original_op`."""

    def __init__(self, graph: Graph, op: Operation) -> None:
        self._graph, self._op = graph, op

    def __enter__(self) -> None:
        self._outer = self._graph._default_original_op, self._outer
        self._graph._default_original_op = self._op

    def __exit__(self, *_: object) -> None:
        self._graph._default_original_op, self._outer = self._outer


class Located(_Block):
    """See `Graph._located`."""

    def __init__(self, graph: Graph, where: tuple[str, int] | None) -> None:
        self._graph, self._where = graph, where

    def __enter__(self) -> None:
        here = self._graph._names_here
        self._outer = here.where, self._outer
        here.where = self._where

    def __exit__(self, *_: object) -> None:
        self._graph._names_here.where, self._outer = self._outer


class PlacedWith(_Block):
    """Nodes made inside are placed with node `anchor`, which need not exist yet."""

    def __init__(self, graph: Graph, anchor: str) -> None:
        self._graph, self._group = graph, f"loc:@{anchor}".encode()

    def __enter__(self) -> None:
        graph = self._graph
        self._outer = graph._attr_scopes, self._outer
        graph._attr_scopes = {**graph._attr_scopes, "_class": [self._group]}

    def __exit__(self, *_: object) -> None:
        self._graph._attr_scopes, self._outer = self._outer
