"""Meta graphs: a graph in a file together with the names of its saver's nodes.

Called by: training.saver.saver, programs.  Threads: as graph.
"""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import text_format

from headrace.base import errors, text
from headrace.base.version import VERSION
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.run.checkpoints.writing import write_file
from headrace.run.readers.files import ANYWHERE

__all__ = ["export_meta_graph"]


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
) -> pb.MetaGraphDef:
    """The MetaGraphDef of a graph, without its collections, written to `filename` if one is given.

    Raises Unimplemented for the parts of a graph and for stripping; NotFound and other errors of files.
    """
    if export_scope or strip_default_attrs:
        raise errors.unimplemented("only whole graphs with all their attrs are exported")
    found = pb.MetaGraphDef()
    if meta_info_def is not None:
        found.meta_info_def.CopyFrom(meta_info_def)
    found.meta_info_def.tensorflow_version = VERSION
    if graph_def is None:
        graph_def = (graph or scopes.get_default_graph()).as_graph_def(add_shapes=True)
    found.graph_def.CopyFrom(graph_def)
    if clear_devices:
        for node in found.graph_def.node:
            node.device = ""
    if saver_def is not None:
        found.saver_def.CopyFrom(saver_def)
    if filename:
        content = (
            text_format.MessageToString(found).encode() if as_text else found.SerializeToString()
        )
        write_file(os.fsencode(text.path_to_str(filename)), [content], ANYWHERE)
    return found
