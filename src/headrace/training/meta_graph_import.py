"""Meta graphs imported: their nodes, and collections whose values are made again over these nodes.

Called by: training.saver.imported, programs.  Threads: as graph.
Source of the format: files and messages that TensorFlow 2.21 writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from headrace.base import errors, text
from headrace.base.traits import ENTER
from headrace.codec import protos as pb
from headrace.graph.collections import GraphKeys
from headrace.graph.export_scopes import prefixed, without_prefix
from headrace.graph.graph import Graph
from headrace.graph.graphdef import import_graph_def
from headrace.graph.registry import traits_of
from headrace.training import gfile, logging
from headrace.training.meta_graph import (
    KINDS,
    UNBOUND,
    VARIABLES,
    Kind,
    check_message,
    graph_of,
)

__all__ = ["import_scoped_meta_graph", "read_meta_graph_file"]


def read_meta_graph_file(filename: Any) -> pb.MetaGraphDef:
    """The MetaGraphDef in a file, binary or text.

    Raises OSError (no such file, or it has none), FailedPreconditionError (a directory) and other errors of files.
    """
    path = text.path_to_str(filename)
    try:
        with gfile.GFile(path, "rb") as file:
            content = file.read()
    except errors.NotFoundError:
        raise OSError(f"File does not exist. Received: {path}.") from None
    found = pb.MetaGraphDef()
    try:
        found.ParseFromString(content)
        return found
    except DecodeError:
        pass
    try:
        text_format.Merge(content.decode(), found)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise OSError(f"Cannot parse file {path}: {error}.") from None
    return found


def import_scoped_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Any = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str | None = UNBOUND,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
) -> dict[str, Any]:
    """Add the nodes and collections of a meta graph; its variables by their names inside `import_scope`.

    Raises ValueError (inputs that are neither inside nor in input_map), and what `import_graph_def` does.
    """
    return import_scoped_meta_graph_with_return_elements(
        meta_graph_or_file,
        clear_devices,
        graph,
        import_scope,
        input_map,
        unbound_inputs_col_name,
        restore_collections_predicate,
    )[0]


def import_scoped_meta_graph_with_return_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Any = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str | None = UNBOUND,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
    return_elements: Iterable[str] | None = None,
) -> tuple[dict[str, Any], list[Any] | None]:
    """As `import_scoped_meta_graph`; and what the names `return_elements` became."""
    meta_graph = as_meta_graph(meta_graph_or_file)
    _check_bound(meta_graph, unbound_inputs_col_name, input_map or {})
    graph = graph_of(graph)
    with graph.as_default():
        scope = graph.unique_name(import_scope or "", mark_as_used=False)
        elements = import_graph_def(
            _moved(meta_graph.graph_def, scope, clear_devices),
            name=scope,
            input_map=input_map,
            return_elements=return_elements,
            producer_op_list=meta_graph.meta_info_def.stripped_op_list,
        )
        variables: dict[bytes, Any] = {}
        for key, collection in sorted(meta_graph.collection_def.items()):
            if key != unbound_inputs_col_name and restore_collections_predicate(key):
                for value in _values(key, collection, scope, graph, variables):
                    graph.add_to_collection(key, value)
        found = graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=scope or None)
    return {without_prefix(variable.name, scope): variable for variable in found}, elements


def as_meta_graph(meta_graph_or_file: Any) -> pb.MetaGraphDef:
    """A MetaGraphDef of ours: of one of anybody's, or in a file."""
    if isinstance(meta_graph_or_file, pb.MetaGraphDef):
        return meta_graph_or_file
    if hasattr(meta_graph_or_file, "SerializeToString"):
        check_message("meta_graph_or_file", meta_graph_or_file, "MetaGraphDef")
        return pb.MetaGraphDef.FromString(meta_graph_or_file.SerializeToString())
    return read_meta_graph_file(meta_graph_or_file)


def _check_bound(meta_graph: pb.MetaGraphDef, key: str | None, given: Mapping[str, Any]) -> None:
    if not key or key not in meta_graph.collection_def:
        return
    names = {name.decode() for name in meta_graph.collection_def[key].bytes_list.value}
    missing = sorted(names - {*given})
    if missing:
        raise ValueError(
            f"Graph contains unbound inputs: {','.join(missing)}. Must provide these inputs through input_map."
        )


def _moved(graph_def: pb.GraphDef, scope: str, clear_devices: bool) -> pb.GraphDef:
    """The nodes as they are to be imported: loops inside `scope` are others than those outside."""
    enters = [n for n, node in enumerate(graph_def.node) if scope and ENTER in traits_of(node.op)]
    if not enters and not clear_devices:
        return graph_def
    moved = pb.GraphDef()
    moved.CopyFrom(graph_def)
    for index in enters:
        name = moved.node[index].attr["frame_name"]
        name.s = prefixed(name.s.decode(), scope).encode()
    if clear_devices:
        for node in moved.node:
            node.device = ""
    return moved


def _values(
    key: str, collection: pb.CollectionDef, scope: str, graph: Graph, variables: dict[bytes, Any]
) -> Iterable[Any]:
    """The values of a collection.  variables: those made so far, each is one object in all its collections."""
    field = collection.WhichOneof("kind")
    if field is None:
        logging.error("Cannot identify data type for collection %s. Skipping.", key)
        return
    values = getattr(collection, field).value
    kind = KINDS.get(key)
    if kind is not None and field == "bytes_list":
        made = variables if key in VARIABLES else {}
        for value in values:
            if value not in made:
                message = _message(key, kind, value)
                made[value] = kind.from_proto(message, import_scope=scope or None)
            yield made[value]
    elif kind is not None and key in VARIABLES:
        logging.warning(
            "The collection %s of the meta graph is not imported: it is a %s, as TensorFlow wrote it before 1.0, and "
            "has no initializers",
            key,
            field,
        )
    elif field == "node_list":
        for value in values:
            yield graph.as_graph_element(prefixed(value, scope))
    elif field == "bytes_list":
        for value in values:
            yield prefixed(_text(value), scope) if scope else value
    else:
        yield from values


def _message(key: str, kind: Kind, value: bytes) -> Any:
    try:
        return kind.message.FromString(value)
    except DecodeError as error:
        raise ValueError(
            f"The collection {key!r} of the meta graph is damaged: a value of it is no {kind.message.DESCRIPTOR.name} "
            f"({error}); export the graph again, or import it with a restore_collections_predicate that leaves it out"
        ) from None


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
