"""Parts of GraphDefs: `tf.graph_util`.

Called by: programs.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.base.traits import CONST
from headrace.codec import protos as pb
from headrace.graph.registry import traits_of

__all__ = [
    "extract_sub_graph",
    "must_run_on_cpu",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]

_ONLY_FOR_TRAINING = ("CheckNumerics", "Identity", "StopGradient")
_OF_VARIABLES = (
    "Assign AssignAdd AssignSub Queue ScatterAdd ScatterSub ScatterUpdate "
    "TruncatedNormal Variable VariableV2"
).split()
"""What `must_run_on_cpu` takes for a variable's."""


def node_of(input_name: str) -> str:
    """The node that an input like ``x:1`` or ``^x`` names."""
    return input_name.removeprefix("^").partition(":")[0]


def extract_sub_graph(graph_def: pb.GraphDef, dest_nodes: Sequence[str]) -> pb.GraphDef:
    """A GraphDef of the nodes that `dest_nodes` (names of nodes) need, in their order; and of those beside which they
    are to be placed.

    Raises TypeError, AssertionError for a name that the graph does not have, KeyError for one that a node asks for.
    """
    if not isinstance(graph_def, pb.GraphDef):
        raise TypeError(
            f"graph_def must be a graph_pb2.GraphDef proto, not {type(graph_def).__name__}"
        )
    if isinstance(dest_nodes, (str, bytes)):
        raise TypeError("dest_nodes must be a list of node names, not one name")
    nodes = {node.name: node for node in graph_def.node}
    for name in dest_nodes:
        if name not in nodes:
            raise AssertionError(f"{name} is not in graph: give names of nodes, without ':0'")
    needed: set[str] = set()
    pending = list(dest_nodes)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [node_of(each) for each in nodes[name].input]
            pending += _beside(nodes[name])
    return _with_nodes(graph_def, [node for node in graph_def.node if node.name in needed])


def _beside(node: pb.NodeDef) -> list[str]:
    """The nodes whose device a node is to share."""
    groups = node.attr["_class"].list.s if "_class" in node.attr else ()
    return [group.decode().removeprefix("loc:@") for group in groups]


def _with_nodes(graph_def: pb.GraphDef, nodes: Iterable[pb.NodeDef]) -> pb.GraphDef:
    made = pb.GraphDef()
    made.node.extend(nodes)
    made.library.CopyFrom(graph_def.library)
    made.versions.CopyFrom(graph_def.versions)
    return made


def remove_training_nodes(
    input_graph: pb.GraphDef, protected_nodes: Sequence[str] | None = None
) -> pb.GraphDef:
    """Without the nodes that only pass a value on: Identity, StopGradient, CheckNumerics.

    One stays if it is protected; one that checks nothing stays, too, if it has control inputs, is another's control
    input, or another is to be placed beside it.  An output that is such a node must be protected to stay.
    """
    kept: set[str] = set()
    protected = set(protected_nodes or ())
    checks = {
        node.name
        for node in input_graph.node
        if node.op == "CheckNumerics" and node.name not in protected
    }
    for node in input_graph.node:
        controls = {name[1:] for name in node.input if name.startswith("^")} - checks
        kept.update(controls, _beside(node))
        if controls:
            kept.add(node.name)
    kept = kept - checks | protected
    source = {
        node.name: node.input[0]
        for node in input_graph.node
        if node.op in _ONLY_FOR_TRAINING and node.name not in kept
    }

    def resolved(name: str) -> str:
        while not name.startswith("^") and node_of(name) in source:
            name = source[node_of(name)]
        return name

    nodes = []
    for node in input_graph.node:
        if node.name not in source:
            changed = pb.NodeDef()
            changed.CopyFrom(node)
            changed.input[:] = [
                resolved(name) for name in node.input if name.partition("^")[2] not in checks
            ]
            nodes.append(changed)
    return _with_nodes(input_graph, nodes)


def tensor_shape_from_node_def_name(graph: Any, input_name: str) -> TensorShape:
    """The static shape of a tensor, named as an input names it: ``x`` is ``x:0``."""
    name = input_name if ":" in input_name else f"{input_name}:0"
    shape: TensorShape = graph.get_tensor_by_name(name).get_shape()
    return shape


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node, an Operation or a NodeDef, has int32 numbers or strings that TensorFlow keeps in a host's memory.

    pin_variables_on_cpu: variables are to be there as well.  Raises AssertionError for anything else.
    """
    node = getattr(node, "node_def", node)
    if not isinstance(node, pb.NodeDef):
        raise AssertionError(f"an Operation or a NodeDef is wanted, not {type(node).__name__}")
    if pin_variables_on_cpu and node.op in _OF_VARIABLES:
        return True
    if CONST in traits_of(node.op):
        kept = (dtypes.string.as_datatype_enum, dtypes.int32.as_datatype_enum)
        return node.attr["dtype"].type in kept
    kind = node.attr["SrcT" if node.op == "Cast" else "T"].type
    of_sizes = node.op == "Cast" or node.op.endswith("DynamicStitch")
    return of_sizes and kind == dtypes.int32.as_datatype_enum
