"""`tf.graph_util`: parts of GraphDefs."""

from __future__ import annotations

from headrace.graph.graphdef import import_graph_def

__all__ = [
    "import_graph_def",
]
