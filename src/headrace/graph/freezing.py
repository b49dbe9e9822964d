"""Variables frozen into constants: `tf.graph_util.convert_variables_to_constants`.

A variable behind a handle is several nodes: the handle, what passes it on, and what reads it.  They become a constant,
nodes that pass on its value, and nodes that take a value; in functions, too, to which the handle goes.
Called by: programs.  Threads: any; blocks for one step that reads the variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.traits import READS_VARIABLE, VAR_HANDLE, VARIABLE
from headrace.codec import protos as pb
from headrace.codec.tensors import make_tensor_proto
from headrace.graph.frozen_handles import Conversion
from headrace.graph.graph_util import extract_sub_graph
from headrace.graph.registry import get, traits_of

__all__ = ["convert_variables_to_constants"]


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
    handles = {
        node.name: dtypes.as_dtype(node.attr["dtype"].type)
        for node in variables
        if VAR_HANDLE in traits_of(node.op)
    }
    Conversion(inner).convert(handles)
    for node, value in zip(variables, values, strict=True):
        dtype = dtypes.as_dtype(node.attr["dtype"].type)
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
