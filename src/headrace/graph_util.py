"""`tf.graph_util`: parts of GraphDefs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.graph.freezing import convert_variables_to_constants
from headrace.graph.graph_util import (
    extract_sub_graph,
    must_run_on_cpu,
    remove_training_nodes,
    tensor_shape_from_node_def_name,
)
from headrace.graph.graphdef import import_graph_def

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "convert_variables_to_constants",
    "extract_sub_graph",
    "import_graph_def",
    "must_run_on_cpu",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]
