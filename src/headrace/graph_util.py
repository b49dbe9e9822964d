"""`tf.graph_util`: parts of GraphDefs."""

from __future__ import annotations

from headrace.graph.graph_util import (
    convert_variables_to_constants,
    extract_sub_graph,
    remove_training_nodes,
    tensor_shape_from_node_def_name,
)
from headrace.graph.graphdef import import_graph_def

__all__ = [
    "convert_variables_to_constants",
    "extract_sub_graph",
    "import_graph_def",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]
