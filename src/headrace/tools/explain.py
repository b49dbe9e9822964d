"""`headrace explain`: what a step of a graph in a file becomes, pass by pass, without running it.

`HEADRACE_EXPLAIN=1` does the same for the steps of a program as they are compiled.
Called by: main, which imports this for every command: what the command needs it imports itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.tools.commands import CommandError, ExitCode, Streams, UsageError, command

if TYPE_CHECKING:
    from headrace.codec import protos as pb
    from headrace.graph.graph import Graph

_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "graph",
        metavar="FILE",
        help="a GraphDef or MetaGraphDef, as bytes or, if it ends in txt, as text",
    )
    for name, what in (
        ("feed", "a tensor that is fed"),
        ("fetch", "a tensor that is fetched; without any, and without targets, what no node uses"),
        ("target", "an operation to run"),
    ):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=what)


@command("explain", "show what a step of a graph becomes before it runs, pass by pass", _add)
def explain(arguments: argparse.Namespace, streams: Streams) -> int:
    """Compile the step and print it after every pass."""
    from headrace.base import errors
    from headrace.plan.compile import compile_program
    from headrace.plan.connect import named_operation, named_tensor
    from headrace.plan.explain import explaining
    from headrace.plan.place import place
    from headrace.plan.wanted import wanted

    graph = _loaded(arguments.graph)
    try:
        feeds = [named_tensor(graph, name) for name in arguments.feed]
        fetches = [named_tensor(graph, name) for name in arguments.fetch]
        targets = [named_operation(graph, name) for name in arguments.target]
        if not fetches and not targets:
            targets = [
                op for op in graph.get_operations() if not any(t._consumers for t in op.outputs)
            ]
        found = wanted(feeds, fetches, targets)
        with explaining(streams.out.write):
            devices = place(found.pruned.ops, [_DEVICE], allow_soft_placement=True)
            compile_program(found.pruned, found.feeds, found.fetches, devices=devices, memos={})
    except errors.OpError as error:
        raise UsageError(error.message) from error
    return ExitCode.OK


def _loaded(path: str) -> Graph:
    """The graph of a file.  Raises CommandError."""
    import headrace.ops  # noqa: F401 - the registry is complete
    from headrace.graph.graph import Graph
    from headrace.graph.graphdef import Importer

    try:
        with open(path, "rb") as file:
            proto = _parsed(file.read(), path.endswith("txt"))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
    graph = Graph()
    graph.strict_shapes = False
    try:
        Importer(graph, origins=False).add(proto)
    except (ValueError, TypeError, KeyError) as error:
        raise CommandError(f"the graph in {path} cannot be used: {error}") from error
    return graph


def _parsed(data: bytes, is_text: bool) -> pb.GraphDef:
    """A GraphDef, which may be that of a MetaGraphDef.  Raises CommandError."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    from headrace.codec import protos as pb

    kinds: Sequence[type[pb.GraphDef] | type[pb.MetaGraphDef]] = (pb.GraphDef, pb.MetaGraphDef)
    for kind in kinds:
        proto = kind()
        try:
            if is_text:
                text_format.Parse(data.decode(), proto)
            else:
                proto.ParseFromString(data)
        except (DecodeError, text_format.ParseError, UnicodeDecodeError):
            continue
        found = proto.graph_def if isinstance(proto, pb.MetaGraphDef) else proto
        if found.node:
            return found
    raise CommandError("the file has no graph, neither as a GraphDef nor as a MetaGraphDef")
