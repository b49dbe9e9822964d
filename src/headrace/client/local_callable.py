"""What CallableOptions name, as a function of a local session.

Called by: client.local.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import errors
from headrace.client.engine import CallFunction, StepFunction
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor
from headrace.plan.connect import (
    check_callable,
    connected,
    connections,
    named_operation,
    named_tensor,
)

MakeStep = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Operation]], StepFunction]


def local_callable(graph: Graph, options: pb.CallableOptions, step: MakeStep) -> CallFunction:
    """Raises InvalidArgument, NotFound, OutOfRange: names that the graph does not have, connections
    that cannot be made.
    """
    check_callable(options)
    wired = connections(options)
    if wired:
        graph = connected(graph.as_graph_def(), wired)
    feeds = [named_tensor(graph, name) for name in options.feed]
    fetches = [named_tensor(graph, name) for name in options.fetch]
    distinct = list(dict.fromkeys(fetches))
    positions = [distinct.index(tensor) for tensor in fetches]
    run = step(feeds, distinct, [named_operation(graph, name) for name in options.target])
    run_options = options.run_options if options.HasField("run_options") else None

    def call(values: Sequence[Any], metadata: pb.RunMetadata | None) -> list[Any]:
        _check(feeds, values)
        found = run(values, run_options, metadata)
        return [found[position] for position in positions]

    return call


def _check(feeds: Sequence[Tensor], values: Sequence[Any]) -> None:
    """Raise InvalidArgument unless there is a value of the right type for each feed."""
    if len(values) != len(feeds):
        raise errors.invalid_argument(
            f"the callable takes {len(feeds)} feeds, {', '.join(t.name for t in feeds) or 'none'}; "
            f"{len(values)} were given"
        )
    for tensor, value in zip(feeds, values, strict=True):
        kind = tensor._dtype.base_dtype
        if value.dtype != kind.np:
            raise errors.invalid_argument(
                f"the value fed for {tensor.name} is {value.dtype}, the tensor {kind.name}; feed {kind.name}"
            )
