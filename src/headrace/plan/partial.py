"""Compile for partial runs: feeds and fetches pass through the step's rendezvous.

Called by: client.partial, serve.worker.registered.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.base.traits import CONTROL_FLOW
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer
from headrace.graph.tensor import Tensor
from headrace.plan.compile import Compiled, compile_program
from headrace.plan.partition import partition
from headrace.plan.prune import Pruned
from headrace.plan.wanted import wanted
from headrace.run.exec.kernel import Memos

_INCARNATION = 1  # of the only task there is


def compile_partial(graph: Graph, device: str, memos: Memos, dataflow: bool) -> Compiled:
    """The program of every node of a partition, its client-terminated Sends and Recvs included.

    device: of nodes that name none.  dataflow: values may be dead.
    """
    pruned = wanted([], [], graph.get_operations(), exact=True).pruned
    devices = {op: op.device or device for op in pruned.ops}
    return compile_program(pruned, [], [], devices=devices, memos=memos, dataflow=dataflow)


def local_partial(
    pruned: Pruned,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    devices: Mapping[Operation, str],
    memos: Memos,
) -> tuple[Compiled, dict[str, str], dict[str, str]]:
    """For one task: the program, and the rendezvous keys of feeds and fetches by tensor name."""
    (part,) = partition(pruned, feeds, fetches, devices, lambda _: _INCARNATION)
    graph = Graph()
    graph.strict_shapes = False
    Importer(graph, origins=False).add(part.graph_def)
    dataflow = any(CONTROL_FLOW in op.traits for op in pruned.ops)
    program = compile_partial(graph, "", memos, dataflow)
    return (
        program,
        {tensor.name: key for tensor, key in part.feeds.items()},
        {tensor.name: key for tensor, key in part.fetches.items()},
    )
