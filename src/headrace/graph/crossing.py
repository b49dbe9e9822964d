"""Gradients across the borders of functions: what a function's body takes from outside counts as the input itself.

Called by: graph.gradients.  Threads: as graph.
Source: TF 1.15 python/ops/gradients_util.py, for behaviour; compared with the oracle
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.base.traits import PLACEHOLDER
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor


class Crossing:
    """Inputs and users of nodes in the graphs of some tensors, and in those around them."""

    def __init__(self, tensors: Iterable[Tensor], xs: Sequence[Tensor]) -> None:
        """xs: what gradients are asked for; nobody looks through those."""
        self._xs = set(xs)
        self._functions: list[Any] = []
        for tensor in tensors:
            graph: Any = tensor.graph
            while graph.building_function and graph not in self._functions:
                self._functions.append(graph)
                graph = graph.outer_graph

    def inputs(self, op: Operation) -> Sequence[Tensor]:
        """What a node takes."""
        if not op.graph.building_function:
            return op.inputs
        return [tensor if tensor in self._xs else _outside(tensor) for tensor in op.inputs]

    def consumers(self, tensor: Tensor) -> Iterator[Operation]:
        """The nodes that take a tensor."""
        yield from tensor._consumers
        for function in self._functions:
            inside = function.captured.get(tensor)
            if inside is not None:
                yield from self.consumers(inside)


def _outside(tensor: Tensor) -> Tensor:
    """What an argument of a function stands for, if it is not the caller's."""
    while tensor.graph.building_function and PLACEHOLDER in tensor.op.traits:
        function: Any = tensor.graph
        found = function.outside_of(tensor)
        if found is None:
            break
        tensor = found
    return tensor
