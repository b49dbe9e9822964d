"""Contexts of branches and loops ↔ their messages, so that gradients can be asked of an imported graph.

A GraphDef has the nodes of a loop, and not where the loop begins and ends; collections of meta graphs say that.  Only
outermost contexts are in a collection, the others are inside their messages.
Called by: training.meta_graph.  Threads: as graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.codec import protos as pb
from headrace.graph import flow_nodes as nodes
from headrace.graph import scopes
from headrace.graph.control_flow import CondContext, Context, context_of, encloses
from headrace.graph.export_scopes import prefixed, without_prefix
from headrace.graph.tensor import Tensor
from headrace.graph.while_context import WhileContext


def to_proto(context: Context, export_scope: str | None = None) -> Any:
    """The CondContextDef or WhileContextDef; None if it is outside `export_scope`."""
    if export_scope and not context.name.startswith(export_scope):
        return None

    def name_of(thing: Any) -> str:
        return "" if thing is None else without_prefix(thing.name, export_scope)

    proto: Any
    if isinstance(context, WhileContext):
        proto = pb.WhileContextDef(
            parallel_iterations=context.parallel_iterations,
            back_prop=context.back_prop,
            swap_memory=context.swap_memory,
            pivot_name=name_of(context.pivot),
            pivot_for_pred_name=name_of(context.pivot_for_pred),
            pivot_for_body_name=name_of(context.pivot_for_body),
            maximum_iterations_name=name_of(context.maximum_iterations),
        )
        for tensors, field in (
            (context.enters, proto.loop_enter_names),
            (context.exits, proto.loop_exit_names),
        ):
            field.extend(name_of(part) for tensor in tensors for part in nodes.tensors_of(tensor))
    else:
        assert isinstance(context, CondContext)
        proto = pb.CondContextDef(
            pred_name=name_of(context.pred),
            pivot_name=name_of(context.pivot),
            branch=context.branch,
        )
    proto.context_name = name_of(context)
    known, inside = context.values()
    here = [
        tensor for tensor in known if tensor in inside or encloses(context, context_of(tensor.op))
    ]
    proto.values_def.values.extend(sorted(map(name_of, here)))
    for outside, within in inside.items():
        proto.values_def.external_values[name_of(outside)] = name_of(within)
    for inner in context.nested:
        found = to_proto(inner, export_scope)
        if found is not None:
            field = "while_ctxt" if isinstance(inner, WhileContext) else "cond_ctxt"
            getattr(proto.nested_contexts.add(), field).CopyFrom(found)
    return proto


def from_proto(
    proto: Any, import_scope: str | None = None, named: Mapping[str, str] | None = None
) -> Context:
    """The context of nodes that the default graph has, inside `import_scope`; they are told that they belong to it.

    named: what nodes are called there that have another name in the message.
    Raises KeyError if the graph has not one of them.
    """
    graph = scopes.get_default_graph()
    others = named or {}

    def tensor(name: str) -> Tensor:
        node, _, output = name.partition(":")
        return graph.get_tensor_by_name(
            prefixed(f"{others.get(node, node)}:{output}", import_scope)
        )

    name = prefixed(proto.context_name, import_scope)
    context: Any
    if isinstance(proto, pb.WhileContextDef):
        limit = proto.maximum_iterations_name
        context = WhileContext(
            graph,
            parallel_iterations=proto.parallel_iterations,
            back_prop=proto.back_prop,
            swap_memory=proto.swap_memory,
            maximum_iterations=tensor(limit) if limit else None,
            imported_name=name,
        )
        context.pivot = tensor(proto.pivot_name)
        context.pivot_for_pred = tensor(proto.pivot_for_pred_name)
        context.pivot_for_body = tensor(proto.pivot_for_body_name)
        context.enters = [tensor(name) for name in proto.loop_enter_names]
        context.exits = [tensor(name) for name in proto.loop_exit_names]
    else:
        context = CondContext(
            graph, tensor(proto.pred_name), tensor(proto.pivot_name), proto.branch, name
        )
    values = proto.values_def
    outside = {tensor(key): tensor(value) for key, value in values.external_values.items()}
    known = [tensor(value) for value in values.values]
    context.recall(known, outside)
    with context.entered():
        for inner in proto.nested_contexts:
            from_proto(getattr(inner, inner.WhichOneof("ctxt")), import_scope, named)
    return context  # type: ignore[no-any-return]
