"""Two GraphDefs, node by node: where they differ, in lines that a person can read.

Used through the fixture `graph_differences`.  Nodes belong together by name; compared are op, inputs, device and
attrs, the values of tensor attrs among them, and last the order of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.codec import protos as pb
from headrace.codec.tensors import make_ndarray

MOST_TEXT = 160


def differences(mine: pb.GraphDef, theirs: pb.GraphDef) -> list[str]:
    """A line for each difference, `mine` before `theirs`; none if the graphs are the same."""
    left = {node.name: node for node in mine.node}
    right = {node.name: node for node in theirs.node}
    found = [f"{name}: only in ours ({left[name].op})" for name in left if name not in right]
    found += [f"{name}: only in theirs ({right[name].op})" for name in right if name not in left]
    for name, node in left.items():
        if name in right:
            found += [f"{name}: {line}" for line in node_differences(node, right[name])]
    return found or order_differences(list(left), list(right))


def node_differences(mine: pb.NodeDef, theirs: pb.NodeDef) -> Iterator[str]:
    """Lines without the node's name."""
    yield from unequal("op", mine.op, theirs.op)
    yield from unequal("device", mine.device, theirs.device)
    yield from unequal("inputs", list(mine.input), list(theirs.input))
    for key in sorted({*mine.attr, *theirs.attr}):
        if key not in theirs.attr:
            yield f"attr {key}: only in ours, {text(mine.attr[key])}"
        elif key not in mine.attr:
            yield f"attr {key}: only in theirs, {text(theirs.attr[key])}"
        else:
            yield from unequal(f"attr {key}", text(mine.attr[key]), text(theirs.attr[key]))


def order_differences(mine: list[str], theirs: list[str]) -> list[str]:
    """Where the order of the same nodes first differs."""
    for index, (left, right) in enumerate(zip(mine, theirs, strict=True)):
        if left != right:
            return [f"order: node {index} is {left}, not {right}"]
    return []


def unequal(what: str, mine: Any, theirs: Any) -> Iterator[str]:
    if mine != theirs:
        yield f"{what}: {shortened(mine)}, not {shortened(theirs)}"


def shortened(value: Any) -> str:
    whole = str(value)
    return whole if len(whole) <= MOST_TEXT else f"{whole[:MOST_TEXT]}... ({len(whole)} characters)"


def text(value: pb.AttrValue) -> str:
    """An attr as a line; the same for equal values, however they are encoded."""
    kind = value.WhichOneof("value")
    if kind == "tensor":
        return tensor_text(value.tensor)
    if kind == "list" and value.list.tensor:
        return "[" + ", ".join(map(tensor_text, value.list.tensor)) + "]"
    return f"{kind} " + " ".join(str(value).split())


def tensor_text(tensor: pb.TensorProto) -> str:
    array = make_ndarray(tensor)
    with np.printoptions(threshold=10_000, linewidth=10_000, floatmode="unique"):
        return f"tensor of type {tensor.dtype}, shape {array.shape}: {array.tolist()!r}"
