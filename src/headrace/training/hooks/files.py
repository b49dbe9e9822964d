"""What hooks and supervisors write through: event writers, graphs, the saver that is meant.

Imported when there is something to write.  Called by: hooks, training.supervisor.  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Graph

__all__ = ["add_graphs", "the_saver", "write_graph_text", "writer_of"]


def writer_of(directory: str) -> Any:
    """The event writer of `directory`, one for all who write there."""
    from headrace.training.summary_writer import FileWriterCache

    return FileWriterCache.get(directory)


def write_graph_text(graph: Graph, directory: str) -> None:
    """Write ``graph.pbtxt`` there."""
    from headrace.training.graph_files import write_graph

    write_graph(graph.as_graph_def(add_shapes=True), directory, "graph.pbtxt")


def add_graphs(writer: Any, graph: Graph, saver: Any) -> None:
    """Have `writer` write the graph, and the meta graph with the saver's def."""
    from headrace.training.meta_graph import export_meta_graph

    writer.add_graph(graph)
    saver_def = saver.saver_def if saver else None
    writer.add_meta_graph(export_meta_graph(saver_def=saver_def, graph=graph))


def the_saver(wanted_by: str) -> Any:
    """The only saver of the default graph's collection.  Raises RuntimeError if there is none, or several."""
    key = GraphKeys.SAVERS
    savers = scopes.get_default_graph().get_collection(key)
    if not savers:
        raise RuntimeError(
            f"No items in collection {key}. Please add a saver to the collection or give {wanted_by} "
            "a saver or a scaffold"
        )
    if len(savers) > 1:
        raise RuntimeError(
            f"More than one item in collection {key}. Please indicate which one to use: give it to {wanted_by} as saver"
        )
    return savers[0]
