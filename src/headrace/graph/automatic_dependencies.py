"""Automatic control dependencies: nodes of a function with effects run in the order in which they were made.

Those of one resource wait for each other as reads and writes must; the others wait for the one before.
Called by: graph.flow_graphs, what makes functions of datasets and batches.  Threads: as a graph.
Source: TF 1.15's python/framework/auto_control_deps.py, for behaviour; compared with the oracle
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.traits import DRAWS, IDENTITY, READS_HANDLE, RECEIVE, STATEFUL
from headrace.graph import flow_nodes as nodes
from headrace.graph import registry
from headrace.graph.func_graph import FuncGraph
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor


class Ordered:
    """What is made in the graph from now on is ordered by `finish`; branches and loops in it, too."""

    def __init__(self, graph: FuncGraph) -> None:
        self._graph = graph
        self._count = len(graph.get_operations())
        self._results: list[Tensor] = []
        graph.automatic_dependencies = True

    def returned(self, value: Any) -> Any:
        """`value` as a result of the function."""
        if hasattr(value, "with_flow"):
            return value.with_flow(self._result(value.flow))
        parts = [self._result(part) for part in nodes.tensors_of(value)]
        return nodes.bundled(value, parts)

    def _result(self, tensor: Tensor) -> Tensor:
        made: Tensor = registry.get("Identity")(tensor, name="Identity")
        self._results.append(made)
        return made

    def returns(self, tensors: Sequence[Tensor]) -> None:
        """The function's results are these, when all that it does is done."""
        self._graph.outputs = [self._result(tensor) for tensor in tensors]
        self._graph.control_outputs = self.finish()

    def finish(self) -> list[Operation]:
        """Add the control inputs; returns what has to run whichever results are wanted."""
        graph = self._graph
        graph.automatic_dependencies = getattr(graph.outer_graph, "automatic_dependencies", False)
        must_run: dict[Operation, None] = {}
        last_write: dict[Tensor | None, Operation] = {}
        reads: dict[Tensor, list[Operation]] = {}
        for op in graph.get_operations()[self._count :]:
            effects = _has_effects(op)
            if effects and (
                READS_HANDLE not in op.traits or any(tensor._consumers for tensor in op.outputs)
            ):
                must_run[op] = None
            waits: dict[Operation, None] = {}
            handles = dict(_resources(op))
            for handle, is_read in handles.items():
                if handle in last_write:
                    waits[last_write[handle]] = None
                if is_read:
                    reads.setdefault(handle, []).append(op)
                else:
                    waits.update(dict.fromkeys(reads.pop(handle, [])))
                    last_write[handle] = op
            if effects and not handles:
                if None in last_write:
                    waits[last_write[None]] = None
                last_write[None] = op
            waits.pop(op, None)
            op._add_control_inputs([*waits])
        if must_run and self._results:
            gate = registry.get("NoOp")()
            gate._add_control_inputs([*must_run])
            for result in self._results:
                result.op._add_control_inputs([gate])
        return [*must_run]


def _has_effects(op: Operation) -> bool:
    """Whether its place among others matters: drawing numbers at random has none."""
    return STATEFUL in op.traits and DRAWS not in op.traits and RECEIVE not in op.traits


def _resources(op: Operation) -> Iterator[tuple[Tensor, bool]]:
    """The handles that a node uses, and whether it only reads what they stand for."""
    listed = op.attrs.get("_read_only_resource_inputs", ())
    if IDENTITY in op.traits:
        return
    for at, tensor in enumerate(op.inputs):
        if tensor.dtype == dtypes.resource:
            is_read = READS_HANDLE in op.traits or at in listed
            while IDENTITY in tensor.op.traits:
                tensor = tensor.op.inputs[0]
            yield tensor, is_read
