"""Variables frozen into constants: `tf.graph_util.convert_variables_to_constants`.

A variable behind a handle is several nodes: the handle, what passes it on, and what reads it.  They become a constant,
nodes that pass on its value, and nodes that take a value.
Called by: programs.  Threads: any; blocks for one step that reads the variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.base import dtypes, errors
from headrace.base.traits import (
    ENTER,
    EXIT,
    IDENTITY,
    MERGE,
    NEXT_ITERATION,
    READS_VARIABLE,
    SWITCH,
    SWITCH_N,
    VAR_HANDLE,
    VARIABLE,
)
from headrace.codec import protos as pb
from headrace.codec.tensors import make_tensor_proto
from headrace.graph.graph_util import extract_sub_graph, node_of
from headrace.graph.registry import get, traits_of

__all__ = ["convert_variables_to_constants"]

_PASS_ON: Final = {IDENTITY, SWITCH, SWITCH_N, MERGE, ENTER, EXIT, NEXT_ITERATION}


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: pb.GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Sequence[str] | None = None,
    variable_names_blacklist: Sequence[str] | None = None,
) -> pb.GraphDef:
    """What `output_node_names` need, with the variables' values in `sess` as constants, which are pinned nowhere.

    Only variables on the whitelist, if there is one, and none on the blacklist.
    Blocks for one step that reads them all.  Raises AssertionError as `extract_sub_graph` does,
    FailedPreconditionError for an uninitialized variable, UnimplementedError where the handle of a variable goes to a
    node that does not only read it.
    """
    inner = extract_sub_graph(input_graph_def, output_node_names)
    excluded = set(variable_names_blacklist or ())
    variables = [
        node
        for node in inner.node
        if traits_of(node.op) & {VARIABLE, VAR_HANDLE}
        and (variable_names_whitelist is None or node.name in variable_names_whitelist)
        and node.name not in excluded
    ]
    values = sess.run([_value(sess, node) for node in variables]) if variables else []
    users: dict[str, list[pb.NodeDef]] = {}
    for node in inner.node:
        for name in {node_of(each) for each in node.input if not each.startswith("^")}:
            users.setdefault(name, []).append(node)
    for node, value in zip(variables, values, strict=True):
        dtype = dtypes.as_dtype(node.attr["dtype"].type)
        if VAR_HANDLE in traits_of(node.op):
            _take_values(inner, node.name, dtype, users)
        name = node.name
        node.Clear()
        node.name, node.op = name, "Const"
        node.attr["dtype"].type = dtype.as_datatype_enum  # type: ignore[assignment]
        node.attr["value"].tensor.CopyFrom(make_tensor_proto(value, dtype=dtype, shape=value.shape))
    return inner


def _value(sess: Any, node: pb.NodeDef) -> Any:
    """The tensor of a variable's value in the graph of the session."""
    output = sess.graph.get_tensor_by_name(f"{node.name}:0")
    if VAR_HANDLE not in traits_of(node.op):
        return output
    for user in output.consumers():
        apart = user.control_inputs or user._get_control_flow_context() is not None
        if READS_VARIABLE in traits_of(user.type) and not apart:
            return user.outputs[0]
    with sess.graph.as_default():
        return get("ReadVariableOp")(output, dtype=dtypes.as_dtype(node.attr["dtype"].type))


def _take_values(
    graph: pb.GraphDef, handle: str, dtype: dtypes.DType, users: dict[str, list[pb.NodeDef]]
) -> None:
    """Change the nodes that a handle comes to, so that they take the value of its variable instead."""
    waiting, seen = [handle], {handle}
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user.name in seen:
                continue
            seen.add(user.name)
            if traits_of(user.op) & _PASS_ON:
                user.attr["T"].type = dtype.as_datatype_enum  # type: ignore[assignment]
                user.attr.pop("_output_shapes", None)
                waiting.append(user.name)
            else:
                _take_value(graph, user, handle)


def _take_value(graph: pb.GraphDef, node: pb.NodeDef, handle: str) -> None:
    """Change a node that reads the variable of a handle.  Raises UnimplementedError: it does something else."""
    old = pb.NodeDef()
    old.CopyFrom(node)
    inputs = [each for each in old.input if not each.startswith("^")]
    gathers = {"ResourceGather": "GatherV2", "ResourceGatherNd": "GatherNd"}
    if READS_VARIABLE not in traits_of(old.op) and old.op not in gathers:
        raise errors.unimplemented(
            f"The variable {handle!r} cannot become a constant: its handle goes to the node {old.name!r}, and "
            f"{old.op} does not only read it. Name it in variable_names_blacklist, or freeze nodes that do not need "
            f"{old.name!r}",
            node=old.name,
            op_type=old.op,
        )
    node.Clear()
    node.name = old.name
    if "_class" in old.attr:
        node.attr["_class"].CopyFrom(old.attr["_class"])
    if old.op not in gathers:
        node.op = "Identity"
        node.input.append(inputs[0])
        node.attr["T"].CopyFrom(old.attr["dtype"])
        return
    node.op = gathers[old.op]
    node.input.extend(inputs)
    node.attr["Tparams"].CopyFrom(old.attr["dtype"])
    node.attr["Tindices"].CopyFrom(old.attr["Tindices"])
    if node.op == "GatherV2":
        batch_dims, kind = old.attr["batch_dims"].i, old.attr["Tindices"]
        axis = graph.node.add(name=f"{old.name}/axis", op="Const")
        axis.attr["dtype"].CopyFrom(kind)
        axis.attr["value"].tensor.CopyFrom(
            make_tensor_proto(batch_dims, dtype=dtypes.as_dtype(kind.type), shape=())
        )
        node.input.append(axis.name)
        node.attr["Taxis"].CopyFrom(kind)
        if batch_dims:
            node.attr["batch_dims"].i = batch_dims
