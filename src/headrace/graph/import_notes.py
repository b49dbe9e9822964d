"""What a GraphDef says of its nodes beside ops, inputs and attrs: their order, their groups, their static shapes.

Called by: graph.graphdef, which imports it.  Threads: any; `add_noted_shapes` as graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from headrace.base import shapes as shape_rules
from headrace.base.traits import NEXT_ITERATION
from headrace.graph.operation import Operation
from headrace.graph.registry import traits_of

__all__ = ["add_noted_shapes", "check_groups", "topological"]


def check_groups(nodes: Sequence[Any], names: set[str]) -> None:
    """Raises ValueError: a node is to be placed beside one that is not there."""
    for node in nodes:
        if "_class" in node.attr:
            for group in node.attr["_class"].list.s:
                name = group.removeprefix(b"loc:@").decode()
                if name not in names and group.startswith(b"loc:@"):
                    raise ValueError(
                        f"Node {node.name!r} expects to be colocated with unknown node {name!r}: the GraphDef has none "
                        "of that name"
                    )


def topological(nodes: list[Any], names: set[str]) -> list[Any]:
    """`nodes` with inputs first, else in the order that they have; loops are cut at NextIteration."""
    position = {node.name: index for index, node in enumerate(nodes)}
    waiting: list[int] = []
    users: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        sources = set()
        for text in node.input:
            source = position.get(text.lstrip("^").partition(":")[0])
            if source is not None and NEXT_ITERATION not in traits_of(nodes[source].op):
                sources.add(source)
        for source in sources:
            users[source].append(index)
        waiting.append(len(sources))
    if all(
        position.get(text.lstrip("^").partition(":")[0], -1) < index
        for index, node in enumerate(nodes)
        for text in node.input
    ):
        return nodes
    ready = [index for index, count in enumerate(waiting) if count == 0]
    ordered = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(nodes[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(ordered) != len(nodes):
        stuck = [nodes[index].name for index, count in enumerate(waiting) if count]
        raise ValueError(
            f"{len(stuck)} nodes in a cycle: the GraphDef has one through {', '.join(stuck[:5])}"
        )
    return ordered


def add_noted_shapes(op: Operation, node: Any) -> None:
    """Add what the node's ``_output_shapes`` knows of the outputs of `op`: what `set_shape` said, shapes in loops.

    Raises ValueError: it contradicts what the op gives.
    """
    noted = node.attr["_output_shapes"].list.shape
    for index, (tensor, shape) in enumerate(zip(op.outputs, noted, strict=False)):
        if shape.unknown_rank:
            continue
        sizes = tuple(dim.size if dim.size >= 0 else None for dim in shape.dim)
        try:
            tensor._raw = shape_rules.merge(tensor._raw, sizes)
        except ValueError as error:
            raise ValueError(
                f"Node {node.name!r} has an _output_shapes attribute inconsistent with the GraphDef for output "
                f"#{index}: {error}"
            ) from None
