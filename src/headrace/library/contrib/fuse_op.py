"""`tf.contrib.framework.fuse_op`: a part of a GraphDef as one node.

Called by: programs.  Threads: any.
Source: behaviour of TensorFlow 1.15's contrib
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.codec import protos as pb

__all__ = ["fuse_op"]


def fuse_op(
    graph_def: Any,
    input_nodes: Sequence[str],
    output_nodes: Sequence[str],
    output_dtypes: Sequence[Any],
    output_quantized: bool,
    op_name: str,
    op_type: str,
) -> Any:
    """The graph, with one node `op_name` of the type `op_type` for all that lies between two rows of nodes.

    The node's inputs are input_nodes, its outputs stand for output_nodes, in their order.  output_dtypes: their types,
    as numbers of DataType or DTypes.  Nodes that only the part needed are gone.  Raises TypeError, ValueError.
    """
    if not isinstance(graph_def, pb.GraphDef):
        raise TypeError(
            f"graph_def must be a graph_pb2.GraphDef proto, but got type {type(graph_def)}."
        )
    if isinstance(input_nodes, str) or isinstance(output_nodes, str):
        raise TypeError("input_nodes and output_nodes must be lists of names of nodes.")
    needs = {node.name: [_node_of(each) for each in node.input] for node in graph_def.node}
    unknown = [name for name in (*input_nodes, *output_nodes) if name not in needs]
    if unknown:
        raise ValueError(f"{unknown} are not nodes of the graph")
    before = _behind(input_nodes, needs, set())
    ends = {name: number for number, name in enumerate(output_nodes)}
    inside = _behind(output_nodes, needs, before) - before
    outside = [n for n in graph_def.node if n.name not in before and n.name not in inside]
    strays = {each for n in outside for each in needs[n.name] if each in inside - ends.keys()}
    if strays:
        raise ValueError(
            f"Nodes {sorted(strays)} lie within what is fused, and others need them; name them among output_nodes"
        )
    made = pb.GraphDef()
    made.node.extend(node for node in graph_def.node if node.name in before)
    fused = made.node.add(op=op_type, name=op_name, input=input_nodes)
    fused.attr["_output_types"].list.type.extend(
        getattr(each, "as_datatype_enum", each) for each in output_dtypes
    )
    fused.attr["_output_quantized"].b = output_quantized
    for node in outside:
        copy = made.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [_renamed(each, ends, op_name) for each in node.input]
    made.library.CopyFrom(graph_def.library)
    made.versions.CopyFrom(graph_def.versions)
    return made


def _node_of(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]


def _renamed(name: str, ends: Mapping[str, int], op_name: str) -> str:
    """An input of a node, where it came from the part the output of the one node."""
    number = ends.get(_node_of(name))
    if number is None:
        return name
    if name[0] == "^":
        return f"^{op_name}"
    return f"{op_name}:{number}" if number else op_name


def _behind(names: Sequence[str], needs: Mapping[str, list[str]], stop: set[str]) -> set[str]:
    """These nodes and all that they need, as far as `stop`."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and name not in stop:
            found.add(name)
            waiting += needs.get(name, [])
    return found
