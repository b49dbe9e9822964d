"""`tf.CriticalSection`: functions of which one step at a time runs the nodes.

What a function makes waits for the section's lock, which is given back when all that it returns is there.  What it
takes from outside is there before the lock is asked for, so that nobody holds it while he waits for others.
Called by: programs.  Threads: building as graph.
Source: GraphDefs and behaviour of TF 2.21's compat.v1
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from headrace.base import dtypes, nest
from headrace.graph import scopes
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import colocate_with, control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.flow.identities import group, identity, tuple_
from headrace.ops.state.mutexes import consume_mutex_lock_op, mutex_lock_op, mutex_op

__all__ = ["CriticalSection"]

_SECTIONS = "critical_sections"
_EXECUTIONS = "critical_section_executions"


class _Signatures(threading.local):
    """Of the sections whose functions this thread is in."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, str, Any]] = []


_signatures = _Signatures()


class _ExecutionSignature(NamedTuple):
    """What an execution uses, in a collection of the graph; others are compared with it."""

    op: Operation
    handle: Tensor
    resources: list[Tensor]
    exclusive_resource_access: bool


class CriticalSection:
    """A mutex behind a handle; sections of one container and shared_name share it, over all sessions of a cluster."""

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        """shared_name: the name of the scope, without one.  Raises ValueError for a critical_section_def."""
        if critical_section_def is not None:
            raise ValueError(
                f"Arguments critical_section_def={critical_section_def!r:.80} and shared_name={shared_name!r} are "
                "mutually exclusive, and a section cannot be made of a definition: give it a shared_name, by which all "
                "sections of that name share a lock"
            )
        graph = scopes.get_default_graph()
        with name_scope(name, "CriticalSection", []) as scope, control_dependencies(None):
            handle: Tensor = mutex_op(shared_name=shared_name or scope, name=scope)
        self._handle = handle
        self._signature = (graph._container or "", shared_name or scope, None)
        graph.add_to_collection(_SECTIONS, self)

    @property
    def name(self) -> str:
        """Of the mutex's node."""
        return self._handle.op.name

    def execute(
        self,
        fn: Callable[[], Any],
        exclusive_resource_access: bool = True,
        name: str | None = None,
    ) -> Any:
        """What fn() returns, a structure of tensors and operations; its nodes run while the lock is held.

        exclusive_resource_access: no other section's function may use the resources that fn uses.
        Raises ValueError (in its own function, resources of another section), TypeError, what fn raises.
        """
        with name_scope(name, "critical_section_execute", []):
            self._check_not_inside()
            lock: Tensor = mutex_lock_op(self._handle)
            graph = lock.graph
            count = len(graph.get_operations())
            _signatures.entered.append(self._signature)
            try:
                with control_dependencies([lock]):
                    returned = fn()
            finally:
                _signatures.entered.pop()
            made = graph.get_operations()[count:]
            resources = self._resources(made)
            _take_first(lock.op, made)
            self._check_exclusive(graph, resources, exclusive_resource_access)
            outputs = self._gated(lock, returned)
        use = _ExecutionSignature(lock.op, self._handle, resources, exclusive_resource_access)
        graph.add_to_collection(_EXECUTIONS, use)
        return outputs

    def _gated(self, lock: Tensor, returned: Any) -> Any:
        """`returned`, each there only when all is and the lock is given back."""
        values = nest.flatten(returned)
        copies = [_copied(each) for each in values]
        with control_dependencies(copies):
            with colocate_with(self._handle):
                given_back = consume_mutex_lock_op(lock)
            values = tuple_(values)
        with control_dependencies([given_back]):
            return nest.pack_sequence_as(returned, [_copied(each) for each in values])

    def _check_not_inside(self) -> None:
        if self._signature in _signatures.entered:
            raise ValueError(
                f"Attempting to lock a CriticalSection (signature={self._signature}) in which we are already running: "
                "it would wait for itself.  Execute it outside of its own function"
            )

    def _resources(self, made: Iterable[Operation]) -> list[Tensor]:
        """The resources that nodes of the function take.  Raises ValueError if its own mutex is among them."""
        used = (value for op in made for value in op.inputs if value.dtype == dtypes.resource)
        found = list({value.name: value for value in used}.values())
        if any(self._is_mine(value) for value in found):
            raise ValueError(
                f"the function executed in {self.name!r} attempts to lock it again, and would wait for itself"
            )
        return found

    def _is_mine(self, handle: Tensor) -> bool:
        op, mine = handle.op, self._handle.op
        return (
            op.type == mine.type
            and op.get_attr("shared_name") == mine.get_attr("shared_name")
            and op.get_attr("container") == mine.get_attr("container")
        )

    def _check_exclusive(self, graph: Graph, resources: list[Tensor], exclusive: bool) -> None:
        for other in graph.get_collection(_EXECUTIONS):
            if self._is_mine(other.handle):
                continue
            if not exclusive and not other.exclusive_resource_access:
                continue
            names = {value.name for value in other.resources}
            both = [value.name for value in resources if value.name in names]
            if both:
                raise ValueError(
                    f"This execution would access resources: {', '.join(both)}, which {other.op.name!r} uses under the "
                    f"lock of {other.handle.op.name!r}, and one of the two, {self.name!r} or that, wants them for "
                    "itself.  Execute both in one CriticalSection, or both with exclusive_resource_access=False"
                )


def _copied(value: Any) -> Any:
    return group(value) if isinstance(value, Operation) else identity(value)


def _take_first(lock: Operation, made: list[Operation]) -> None:
    """Have the lock wait for what `made` takes from outside."""
    inside = {op.id for op in made}
    outside = {value.op.id: value.op for op in made for value in op.inputs}
    wanted = [op for at, op in sorted(outside.items()) if at not in inside and op is not lock]
    if wanted:
        lock._add_control_input(group(*wanted))
