"""Parts of GraphDefs, and variables frozen into constants: `tf.graph_util`.

Called by: programs.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.base.traits import CONST, VARIABLE
from headrace.codec import protos as pb
from headrace.codec.tensors import make_tensor_proto
from headrace.graph.registry import traits_of

__all__ = [
    "convert_variables_to_constants",
    "extract_sub_graph",
    "must_run_on_cpu",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]

_ONLY_FOR_TRAINING = ("CheckNumerics", "Identity", "StopGradient")


def node_of(input_name: str) -> str:
    """The node that an input like ``x:1`` or ``^x`` names."""
    return input_name.removeprefix("^").partition(":")[0]


def extract_sub_graph(graph_def: pb.GraphDef, dest_nodes: Sequence[str]) -> pb.GraphDef:
    """A GraphDef of the nodes that `dest_nodes` (names of nodes) need, in their order.

    Raises TypeError, AssertionError for a name that the graph does not have.
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
    return _with_nodes(graph_def, [node for node in graph_def.node if node.name in needed])


def _with_nodes(graph_def: pb.GraphDef, nodes: Iterable[pb.NodeDef]) -> pb.GraphDef:
    made = pb.GraphDef()
    made.node.extend(nodes)
    made.library.CopyFrom(graph_def.library)
    made.versions.CopyFrom(graph_def.versions)
    return made


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: pb.GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Sequence[str] | None = None,
    variable_names_blacklist: Sequence[str] | None = None,
) -> pb.GraphDef:
    """What `output_node_names` need, with the variables' values in `sess` as constants.

    Only variables on the whitelist, if there is one, and none on the blacklist.
    Blocks for one step that reads them all.  Raises AssertionError as `extract_sub_graph` does,
    FailedPreconditionError for an uninitialized variable.
    """
    inner = extract_sub_graph(input_graph_def, output_node_names)
    excluded = set(variable_names_blacklist or ())
    names = [
        node.name
        for node in inner.node
        if VARIABLE in traits_of(node.op)
        and (variable_names_whitelist is None or node.name in variable_names_whitelist)
        and node.name not in excluded
    ]
    fetched = sess.run([f"{name}:0" for name in names]) if names else []
    values = dict(zip(names, fetched, strict=True))
    return _with_nodes(
        inner,
        [
            _constant(node, values[node.name]) if node.name in values else node
            for node in inner.node
        ],
    )


def _constant(variable: pb.NodeDef, value: Any) -> pb.NodeDef:
    dtype = dtypes.as_dtype(variable.attr["dtype"].type)
    made = pb.NodeDef(name=variable.name, op="Const", device=variable.device)
    made.attr["dtype"].CopyFrom(variable.attr["dtype"])
    made.attr["value"].tensor.CopyFrom(make_tensor_proto(value, dtype=dtype, shape=value.shape))
    return made


def remove_training_nodes(
    input_graph: pb.GraphDef, protected_nodes: Sequence[str] | None = None
) -> pb.GraphDef:
    """Without the nodes that only pass a value on: Identity, StopGradient, CheckNumerics.

    One stays if it is protected, has control inputs, or is another's control input.  An output that
    is such a node must be protected to stay.
    """
    kept = set(protected_nodes or ())
    for node in input_graph.node:
        controls = [name[1:] for name in node.input if name.startswith("^")]
        kept.update(controls)
        if controls:
            kept.add(node.name)
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
            changed.input[:] = [resolved(name) for name in node.input]
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
    traits = traits_of(node.op)
    if VARIABLE in traits and node.op != "VarHandleOp":
        return pin_variables_on_cpu
    if CONST in traits:
        kept = (dtypes.string.as_datatype_enum, dtypes.int32.as_datatype_enum)
        return node.attr["dtype"].type in kept
    kind = node.attr["SrcT" if node.op == "Cast" else "T"].type
    of_sizes = node.op == "Cast" or node.op.endswith("DynamicStitch")
    return of_sizes and kind == dtypes.int32.as_datatype_enum
