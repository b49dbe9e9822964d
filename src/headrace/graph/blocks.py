"""The blocks of `Graph` that are entered for nearly every node, as classes: a generator takes four times as long.

One may be entered any number of times, also within itself, and decorate a function.
Called by: graph.graph, graph.graph_scopes, graph.names.  Threads: as the graph; an object is its thread's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any

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
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outer: list[Any] = []  # of each time it was entered: what was in force before


class Named(_Block):
    """See `Graph.name_scope`."""

    def __init__(self, graph: Graph, name: str | None) -> None:
        super().__init__(graph)
        self._name = name

    def __enter__(self) -> str:
        graph = self._graph
        here = graph._names_here
        outer = here.scope
        here.scope = new = graph._scope_of(self._name)
        self._outer.append(outer)
        return new + "/" if new else ""

    def __exit__(self, *_: object) -> None:
        self._graph._names_here.scope = self._outer.pop()


class Placed(_Block):
    """See `Graph.device`."""

    def __init__(self, graph: Graph, entry: Any) -> None:
        super().__init__(graph)
        self._entry = entry

    def __enter__(self) -> None:
        self._graph._stacks.devices.append(self._entry)

    def __exit__(self, *_: object) -> None:
        self._graph._stacks.devices.pop()


class _Beside(_Block):
    """What is made inside lies with others; their devices count, and scopes outside of the block do not."""

    def _enter(self, anchors: list[Operation]) -> None:
        stacks = self._graph._stacks
        self._outer.append((stacks.colocation, stacks.devices))
        stacks.colocation, stacks.devices = anchors, []

    def __exit__(self, *_: object) -> None:
        stacks = self._graph._stacks
        stacks.colocation, stacks.devices = self._outer.pop()


class Colocated(_Beside):
    """See `Graph.colocate_with`."""

    def __init__(self, graph: Graph, op: Any, ignore_existing: bool) -> None:
        super().__init__(graph)
        self._op, self._ignores = op, ignore_existing

    def __enter__(self) -> None:
        op, graph = self._op, self._graph
        here = [] if self._ignores else graph._stacks.colocation
        if op is None:
            if not self._ignores:
                raise ValueError("colocate_with(None) needs ignore_existing=True")
            self._enter([])
            return
        element = op
        if op.__class__ is not Operation:
            element = op if isinstance(op, str) else getattr(op, "op", op)
        element = graph.as_graph_element(element)
        self._enter([*here, element.op if isinstance(element, Tensor) else element])


class Together(_Beside):
    """See `Graph._together_with`."""

    def __init__(self, graph: Graph, ops: Sequence[Operation]) -> None:
        """ops: one at least."""
        super().__init__(graph)
        self._ops = ops

    def __enter__(self) -> None:
        self._enter([*self._graph._stacks.colocation, *self._ops])


class Controlled(_Block):
    """See `Graph.control_dependencies`."""

    def __init__(self, graph: Graph, control_inputs: Sequence[Any] | None) -> None:
        super().__init__(graph)
        self._inputs = control_inputs

    def __enter__(self) -> None:
        graph = self._graph
        outer = graph._stacks.controllers, graph._control_flow_context
        if self._inputs is None:
            graph._stacks.controllers, graph._control_flow_context = [], None
        else:
            controller = Controller(self._operations(self._inputs))
            graph._stacks.controllers = [*outer[0], controller]
        self._outer.append(outer)

    def _operations(self, control_inputs: Sequence[Any]) -> list[Operation]:
        ops: list[Operation] = []
        for item in control_inputs:
            if item.__class__ is not Operation and (
                hasattr(item, "_handle") or (hasattr(item, "values") and hasattr(item, "indices"))
            ):
                item = item.op  # of a resource variable: what makes its handle, or what changed it
            element = self._graph.as_graph_element(item)
            op = element.op if isinstance(element, Tensor) else element
            op.attrs.setdefault("_has_manual_control_dependencies", True)
            if op not in ops:
                ops.append(op)
        return ops

    def __exit__(self, *_: object) -> None:
        graph = self._graph
        controllers, context = self._outer.pop()
        graph._stacks.controllers = controllers
        if self._inputs is None:
            graph._control_flow_context = context


class Lifted(_Block):
    """See `Graph.init_scope`."""

    def __enter__(self) -> None:
        graph = self._graph
        hidden = scopes.device_stack_of_default()
        scopes.enter(graph)
        stacks = graph._stacks
        saved = stacks.devices
        self._outer.append((saved, stacks.controllers, graph._control_flow_context))
        stacks.controllers, graph._control_flow_context = [], None
        stacks.devices = saved or hidden or []

    def __exit__(self, *_: object) -> None:
        graph = self._graph
        stacks = graph._stacks
        stacks.devices, stacks.controllers, graph._control_flow_context = self._outer.pop()
        scopes.leave(graph)


class MadeFor(_Block):
    """See `Graph._original_op`."""

    def __init__(self, graph: Graph, op: Operation) -> None:
        super().__init__(graph)
        self._op = op

    def __enter__(self) -> None:
        self._outer.append(self._graph._default_original_op)
        self._graph._default_original_op = self._op

    def __exit__(self, *_: object) -> None:
        self._graph._default_original_op = self._outer.pop()
