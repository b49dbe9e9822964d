"""Tensor connections: a graph in which the users of one tensor use another one instead.

Called by: client.local_callable, serve.master.callables.  Threads: any.
Source: TF 1.15 CallableOptions.tensor_connection; error classes checked against the oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.base import errors
from headrace.base.traits import NEXT_ITERATION
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer
from headrace.graph.registry import traits_of
from headrace.graph.tensor import Tensor


def connections(options: pb.CallableOptions) -> dict[str, str]:
    """The source by the tensor that it takes the place of, with output numbers.

    Raises InvalidArgument: a tensor that is also fed, fetched or connected twice.
    """
    found: dict[str, str] = {}
    for connection in options.tensor_connection:
        source, target = _full(connection.from_tensor), _full(connection.to_tensor)
        if target in found or target in map(_full, options.feed):
            raise errors.invalid_argument(
                f"{target} is fed more than once: by a feed or connection each"
            )
        if target in map(_full, options.fetch):
            raise errors.invalid_argument(
                f"{target} is both connected and fetched; fetch {source}, which takes its place"
            )
        found[target] = source
    return found


def connected(graph_def: pb.GraphDef, connections: Mapping[str, str]) -> Graph:
    """A new graph with the nodes of `graph_def` (which is changed), rewired.

    Raises InvalidArgument (an unknown source, a cycle), NotFound (an unknown tensor to replace).
    """
    nodes = {node.name: node for node in graph_def.node}
    for target, source in connections.items():
        if target.rpartition(":")[0] not in nodes:
            raise errors.not_found(f"there is no tensor {target} to connect to")
        if source.rpartition(":")[0] not in nodes:
            raise errors.invalid_argument(
                f"the tensor connection to {target} is from an unknown tensor, {source}"
            )
    for node in graph_def.node:
        for index, text in enumerate(node.input):
            if not text.startswith("^"):
                place = connections.get(_full(text))
                if place is not None:
                    node.input[index] = place
    for target, source in connections.items():
        _check_acyclic(nodes, source, target)
    graph = Graph()
    graph.infer_shapes = False
    try:
        Importer(graph, origins=False).add(graph_def)
    except (ValueError, TypeError, KeyError) as error:
        raise errors.invalid_argument(
            f"the graph cannot be used with these connections: {error}"
        ) from error
    return graph


def _check_acyclic(nodes: Mapping[str, pb.NodeDef], source: str, target: str) -> None:
    """Raise InvalidArgument if the node of `source` depends on itself."""
    start = source.rpartition(":")[0]
    seen: set[str] = set()
    stack = list(_sources(nodes[start].input))
    while stack:
        name = stack.pop()
        if name == start:
            raise errors.invalid_argument(
                f"the tensor connection from {source} to {target} makes a cycle: {source} is computed from {target}"
            )
        if name in seen or name not in nodes:
            continue
        seen.add(name)
        node = nodes[name]
        if NEXT_ITERATION not in traits_of(node.op):
            stack.extend(_sources(node.input))


def _sources(inputs: Iterable[str]) -> Iterable[str]:
    for text in inputs:
        yield text.removeprefix("^").partition(":")[0]


def _full(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def check_callable(options: pb.CallableOptions) -> None:
    """Raise InvalidArgument (nothing to run, fed and fetched, fed twice), Unimplemented (a device
    that has no headrace back end).
    """
    feeds, fetches = list(map(_full, options.feed)), list(map(_full, options.fetch))
    if not fetches and not options.target:
        raise errors.invalid_argument(
            "a callable needs at least one fetch or target; give it something to run"
        )
    for index, name in enumerate(feeds):
        if name in feeds[:index]:
            raise errors.invalid_argument(f"{name} is fed twice; name each feed once")
        if name in fetches:
            raise errors.invalid_argument(
                f"{name} is both fed and fetched; a callable takes it as one of them"
            )
    for kind, devices, names in (
        ("feed", options.feed_devices, feeds),
        ("fetch", options.fetch_devices, fetches),
    ):
        for name, device in devices.items():
            if _full(name) not in names:
                raise errors.invalid_argument(f"{name} has a device, but is no {kind}")
            if "CPU:" not in device.upper():
                raise errors.unimplemented(
                    f"the {kind} {name} of a callable can only be on a CPU, not on {device!r}"
                )


def check_names(graph: Graph, options: pb.CallableOptions) -> None:
    """Raise what `named_tensor` and `named_operation` raise for the names of a callable."""
    for name in (*options.feed, *options.fetch):
        named_tensor(graph, name)
    for name in options.target:
        named_operation(graph, name)


def named_tensor(graph: Graph, name: str) -> Tensor:
    """A feed or fetch of a callable.  Raises InvalidArgument (no such node), OutOfRange (output)."""
    node, _, index = _full(name).rpartition(":")
    op = graph._ops.get(node)
    if op is None:
        raise errors.invalid_argument(f"the graph has no tensor {name!r}", node=node)
    if not index.isdigit() or int(index) >= len(op.outputs):
        raise errors.out_of_range(
            f"tensor {name!r} does not exist: node {node!r} ({op.type}) has {len(op.outputs)} outputs",
            node=node,
            op_type=op.type,
        )
    return op.outputs[int(index)]


def named_operation(graph: Graph, name: str) -> Operation:
    """A target of a callable.  Raises NotFound."""
    op = graph._ops.get(name)
    if op is None:
        raise errors.not_found(f"the graph has no operation {name!r}", node=name)
    return op
