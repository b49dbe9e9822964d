"""Meta graphs: a graph with its collections and the names of its saver's nodes, as a message and as a file.

A collection is written in the way that its first value asks for: those with a row in `KINDS` as messages of their own,
numbers as they are, everything else by the names of nodes and tensors.  What a name scope contains can be exported and
imported by itself; inputs from outside it are unbound then, to be given by `input_map`.
Called by: training.saver, training.meta_graph_import, training.summary_writer, programs.  Threads: as graph.
Source of the format: files and messages that TensorFlow 2.21 writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any, NamedTuple

from google.protobuf import text_format
from google.protobuf.any_pb2 import Any as Any_

from headrace.base import text
from headrace.base.traits import CHECKPOINT
from headrace.base.version import VERSION
from headrace.codec import protos as pb
from headrace.graph import context_protos, scopes
from headrace.graph.attrs import to_proto as attr_proto
from headrace.graph.collections import GraphKeys
from headrace.graph.export_scopes import without_prefix
from headrace.graph.graph import Graph
from headrace.graph.graphdef import op_def
from headrace.graph.registry import OPS, OpSpec, traits_of
from headrace.graph.schemas import MISSING
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.library.variables.variables import Variable
from headrace.run.checkpoints.writing import write_file
from headrace.run.readers.files import ANYWHERE
from headrace.training import gfile, logging
from headrace.training.queue_runner import QueueRunner

__all__ = ["export_meta_graph"]

UNBOUND = "unbound_inputs"
_PREFIX = "$unbound_inputs_"


class Kind(NamedTuple):
    """How a collection is written: `to_proto(value, export_scope=)`, `from_proto(message, import_scope=)`."""

    message: Any
    to_proto: Callable[..., Any]
    from_proto: Callable[..., Any]


KINDS: dict[str, Kind] = {}
VARIABLES = (
    GraphKeys.GLOBAL_VARIABLES,
    GraphKeys.TRAINABLE_VARIABLES,
    GraphKeys.MOVING_AVERAGE_VARIABLES,
    GraphKeys.LOCAL_VARIABLES,
    GraphKeys.MODEL_VARIABLES,
    GraphKeys.METRIC_VARIABLES,
    GraphKeys.GLOBAL_STEP,
)


def register_proto_function(
    collection_name: str,
    proto_type: Any = None,
    to_proto: Callable[..., Any] | None = None,
    from_proto: Callable[..., Any] | None = None,
) -> None:
    """Write the values of a collection as messages of this type, and make them from such.

    Raises TypeError (not callable), KeyError (the collection has its functions already).
    """
    for name, function in (("to_proto", to_proto), ("from_proto", from_proto)):
        if not callable(function):
            raise TypeError(f"{name} must be callable, and is {function!r:.80}")
    if collection_name in KINDS:
        raise KeyError(f"the collection {collection_name!r} has functions for its messages already")
    assert to_proto is not None
    assert from_proto is not None
    KINDS[collection_name] = Kind(proto_type, to_proto, from_proto)


def _written(value: Any, export_scope: str | None = None) -> Any:
    return value.to_proto(export_scope)


for _name in VARIABLES:
    register_proto_function(_name, pb.VariableDef, _written, Variable.from_proto)
register_proto_function(
    GraphKeys.QUEUE_RUNNERS, pb.QueueRunnerDef, _written, QueueRunner.from_proto
)
for _name, _message in (
    (GraphKeys.COND_CONTEXT, pb.CondContextDef),
    (GraphKeys.WHILE_CONTEXT, pb.WhileContextDef),
):
    register_proto_function(_name, _message, context_protos.to_proto, context_protos.from_proto)


# -- exporting ----------------------------------------------------------------------------------


def export_meta_graph(
    filename: Any = None,
    meta_info_def: pb.MetaGraphDef.MetaInfoDef | None = None,
    graph_def: pb.GraphDef | None = None,
    saver_def: pb.SaverDef | None = None,
    collection_list: Any = None,
    as_text: bool = False,
    graph: Any = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> pb.MetaGraphDef:
    """The MetaGraphDef of a graph, written to `filename`, whose directory is made, if one is given.

    graph_def: instead of the graph's nodes.  collection_list: those to write; None is all.  export_scope: only the
    nodes inside, by their names from there; inputs from outside are named in collection ``unbound_inputs``.
    clear_devices: no node has a device.  clear_extraneous_savers: nodes of savers other than saver_def's are left out.
    strip_default_attrs: attrs that have their defaults are left out.  save_debug_info is taken, and writes nothing.
    Raises TypeError (messages of other types), PermissionDenied and other errors of files.
    """
    found, _ = export_scoped_meta_graph(
        filename=filename,
        meta_info_def=meta_info_def,
        graph_def=graph_def,
        saver_def=saver_def,
        collection_list=collection_list,
        as_text=as_text,
        graph=graph,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        save_debug_info=save_debug_info,
        **kwargs,
    )
    return found


def export_scoped_meta_graph(
    filename: Any = None,
    graph_def: pb.GraphDef | None = None,
    graph: Any = None,
    export_scope: str | None = None,
    as_text: bool = False,
    unbound_inputs_col_name: str | None = UNBOUND,
    clear_devices: bool = False,
    saver_def: pb.SaverDef | None = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    meta_info_def: pb.MetaGraphDef.MetaInfoDef | None = None,
    collection_list: Any = None,
) -> tuple[pb.MetaGraphDef, dict[str, Any]]:
    """As `export_meta_graph`; and the variables inside the scope by their names from there."""
    graph = graph_of(graph)
    given = graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def
    check_message("graph_def", given, "GraphDef")
    excluded = _nodes_of_other_savers(given, saver_def) if clear_extraneous_savers else set()
    unbound: dict[str, None] = {}
    nodes = given
    if excluded or export_scope or clear_devices:
        nodes = _chosen(given, excluded, export_scope, clear_devices, unbound)
    variables = {}
    if export_scope:
        if unbound_inputs_col_name:
            graph.clear_collection(unbound_inputs_col_name)
            for name in unbound:
                graph.add_to_collection(unbound_inputs_col_name, name)
        for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=export_scope):
            variables[without_prefix(variable.name, export_scope)] = variable
    found = create_meta_graph_def(
        graph_def=nodes,
        saver_def=saver_def,
        meta_info_def=meta_info_def,
        collection_list=collection_list,
        graph=graph,
        export_scope=export_scope,
        exclude_nodes=excluded,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
    )
    if unbound_inputs_col_name and not export_scope:  # what an earlier export of a part left there
        found.collection_def.pop(unbound_inputs_col_name, None)
    if filename:
        _write(filename, found, as_text)
    return found, variables


def _chosen(
    given: Any,
    excluded: Collection[str],
    export_scope: str | None,
    clear_devices: bool,
    unbound: dict[str, None],
) -> pb.GraphDef:
    """Those of the nodes that are to be exported, as they are to be; inputs from outside are noted in `unbound`."""
    nodes = pb.GraphDef(versions=given.versions)
    if hasattr(given, "library") and given.HasField("library"):
        nodes.library.CopyFrom(given.library)
    for node in given.node:
        if node.name not in excluded and _is_inside(node.name, export_scope):
            copied = nodes.node.add()
            copied.CopyFrom(node)
            if export_scope:
                _see_from_inside(copied, export_scope, unbound)
            if clear_devices:
                copied.device = ""
    return nodes


def create_meta_graph_def(
    meta_info_def: pb.MetaGraphDef.MetaInfoDef | None = None,
    graph_def: pb.GraphDef | None = None,
    saver_def: pb.SaverDef | None = None,
    collection_list: Any = None,
    graph: Any = None,
    export_scope: str | None = None,
    exclude_nodes: Collection[str] | None = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
) -> pb.MetaGraphDef:
    """The MetaGraphDef of nodes that are chosen already.  Raises TypeError (messages of other types)."""
    graph = graph_of(graph)
    found = pb.MetaGraphDef()
    if meta_info_def is not None:
        check_message("meta_info_def", meta_info_def, "MetaInfoDef")
        found.meta_info_def.MergeFromString(meta_info_def.SerializeToString())
    if graph_def is None:
        graph_def = graph.as_graph_def(add_shapes=True)
    check_message("graph_def", graph_def, "GraphDef")
    found.graph_def.MergeFromString(graph_def.SerializeToString())
    info = found.meta_info_def
    if strip_default_attrs:
        strip_graph_default_valued_attrs(found)
    if not info.HasField("stripped_op_list"):
        info.stripped_op_list.CopyFrom(stripped_op_list_for_graph(found.graph_def))
    info.tensorflow_version = VERSION
    if saver_def is not None:
        check_message("saver_def", saver_def, "SaverDef")
        found.saver_def.MergeFromString(saver_def.SerializeToString())
    keys = graph.get_all_collection_keys() if collection_list is None else collection_list
    kept = {GraphKeys.SAVERS: _kept_savers(graph, saver_def)} if clear_extraneous_savers else {}
    for key in keys:
        add_collection_def(
            found, key, graph, export_scope, exclude_nodes, override_contents=kept.get(key)
        )
    return found


def graph_of(graph: Any) -> Graph:
    """The graph, the default one for None.  Raises TypeError."""
    found = scopes.get_default_graph() if graph is None else graph
    if not isinstance(found, Graph):
        raise TypeError(f"graph must be a tf.Graph, and is a {type(found).__name__}")
    return found


def check_message(name: str, value: Any, kind: str) -> None:
    """Raises TypeError if `value` is no message of that kind."""
    if getattr(getattr(value, "DESCRIPTOR", None), "name", None) != kind:
        raise TypeError(f"{name} must be of type {kind}. Received type: {type(value)}.")


def _is_inside(name: str, scope: str | None) -> bool:
    return not scope or name.startswith(scope)


def _see_from_inside(node: pb.NodeDef, scope: str, unbound: dict[str, None]) -> None:
    """Change the names of a node; note those of inputs from outside."""
    node.name = without_prefix(node.name, scope)
    for index, name in enumerate(node.input):
        control, name = name[: name.startswith("^")], name.removeprefix("^")
        if _is_inside(name, scope):
            node.input[index] = control + without_prefix(name, scope)
            continue
        node.input[index] = control + _PREFIX + name
        if not control:
            unbound[_PREFIX + name] = None
    groups = node.attr["_class"].list.s if "_class" in node.attr else []
    for index, group in enumerate(groups):
        if group.startswith(b"loc:@"):
            groups[index] = b"loc:@" + without_prefix(group[5:].decode(), scope).encode()


def _scope_of(name: str) -> str:
    return name.rpartition("/")[0]


def _nodes_of_other_savers(graph_def: pb.GraphDef, saver_def: pb.SaverDef | None) -> set[str]:
    """The nodes in the scopes of savers, but that of `saver_def`, that hang on what saves and restores."""
    kept = _scope_of(saver_def.save_tensor_name) if saver_def is not None else None
    others = {
        _scope_of(node.name) for node in graph_def.node if CHECKPOINT in traits_of(node.op)
    } - {kept}
    if not others:
        return set()
    neighbours: dict[str, set[str]] = {}
    for node in graph_def.node:
        for source in node.input:
            name = source.removeprefix("^").partition(":")[0]
            neighbours.setdefault(node.name, set()).add(name)
            neighbours.setdefault(name, set()).add(node.name)
    waiting = [node.name for node in graph_def.node if CHECKPOINT in traits_of(node.op)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and any(name.startswith(f"{scope}/") for scope in others):
            found.add(name)
            waiting.extend(neighbours.get(name, ()))
    return found


def _kept_savers(graph: Graph, saver_def: pb.SaverDef | None) -> list[Any]:
    name = saver_def.save_tensor_name if saver_def is not None else None
    return [
        s for s in graph.get_collection(GraphKeys.SAVERS) if s.saver_def.save_tensor_name == name
    ]


def strip_graph_default_valued_attrs(meta_graph_def: pb.MetaGraphDef) -> None:
    """Take away attrs that have the defaults of their ops, so that programs older than they are read the graph."""
    for node in meta_graph_def.graph_def.node:
        spec = OPS.get(node.op)
        for name, definition in ({} if spec is None else spec.attrs).items():
            if definition.default is MISSING or name not in node.attr:
                continue
            if node.attr[name] == attr_proto(definition.default):
                del node.attr[name]
    meta_graph_def.meta_info_def.stripped_default_attrs = True


def stripped_op_list_for_graph(graph_def: pb.GraphDef) -> pb.OpList:
    """The OpDefs of the ops that a graph uses, by name."""
    used = ops_used_by_graph_def(graph_def)
    found = pb.OpList()
    for name in sorted(used):
        if name in OPS:
            found.op.add().MergeFromString(_definition(OPS[name]))
    return found


@cache
def _definition(spec: OpSpec) -> bytes:
    """The OpDef of a registered op, which does not change."""
    content: bytes = op_def(spec).SerializeToString()
    return content


def ops_used_by_graph_def(graph_def: pb.GraphDef) -> set[str]:
    """The names of the ops of a graph's nodes and of those of its functions."""
    functions = graph_def.library.function
    nodes = [*graph_def.node, *(node for function in functions for node in function.node_def)]
    return {node.op for node in nodes} - {function.signature.name for function in functions}


def add_collection_def(
    meta_graph_def: pb.MetaGraphDef,
    key: Any,
    graph: Any = None,
    export_scope: str | None = None,
    exclude_nodes: Collection[str] | None = None,
    override_contents: Iterable[Any] | None = None,
) -> None:
    """Write a collection of the graph, or `override_contents`; one that cannot be is left out, with a warning."""
    if not isinstance(key, (str, bytes)):
        logging.warning(
            "Only collections with string type keys will be serialized. This key has %s", type(key)
        )
        return
    name = key.decode() if isinstance(key, bytes) else key
    values = (
        graph_of(graph).get_collection_ref(key) if override_contents is None else override_contents
    )
    values = [v for v in values if _is_written(v, export_scope, exclude_nodes or ())]
    found = pb.CollectionDef()
    try:
        _fill(found, name, values, export_scope)
    except (AttributeError, TypeError, ValueError) as error:
        logging.warning(
            "The collection %s is not in the meta graph: its values are neither nodes nor strings, integers or floats, "
            "nor all of one of these kinds; register_proto_function says how others are written (%s)",
            name,
            error,
        )
        return
    kind = found.WhichOneof("kind")
    if kind is not None and getattr(found, kind).value:
        meta_graph_def.collection_def[name].CopyFrom(found)


def _is_written(value: Any, scope: str | None, excluded: Collection[str]) -> bool:
    if isinstance(value, str):
        return value.startswith(_PREFIX) or _is_inside(value, scope)
    if isinstance(
        value, PartitionedVariable
    ):  # the whole is no node; its parts are in collections of their own
        return False
    name = getattr(value, "name", None)
    if not isinstance(name, str):
        return True
    return name.partition(":")[0] not in excluded and _is_inside(name, scope)


def _fill(found: pb.CollectionDef, key: str, values: list[Any], scope: str | None) -> None:
    kind = KINDS.get(key)
    if kind is not None:
        for value in values:
            message = kind.to_proto(value, export_scope=scope)
            if message is not None:
                found.bytes_list.value.append(message.SerializeToString(deterministic=True))
    elif not values:
        return
    elif isinstance(values[0], (bytes, str)):
        found.bytes_list.value.extend(
            value.encode() if isinstance(value, str) else value for value in values
        )
    elif isinstance(values[0], int):
        found.int64_list.value.extend(values)
    elif isinstance(values[0], float):
        found.float_list.value.extend(values)
    elif isinstance(values[0], Any_):
        found.any_list.value.extend(values)
    else:
        found.node_list.value.extend(without_prefix(value.name, scope) for value in values)


def _write(filename: Any, found: pb.MetaGraphDef, as_text: bool) -> None:
    content = text_format.MessageToString(found).encode() if as_text else found.SerializeToString()
    path = os.fsencode(text.path_to_str(filename))
    gfile.MakeDirs(os.path.dirname(path))
    write_file(path, [content], ANYWHERE)
