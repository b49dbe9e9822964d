"""Meta graphs imported together with the savers that they were exported with.

Called by: programs.  Threads: as graph.
"""

from __future__ import annotations

from typing import Any

from headrace.training import logging
from headrace.training.meta_graph import graph_of
from headrace.training.meta_graph_import import (
    as_meta_graph,
    import_scoped_meta_graph_with_return_elements,
)
from headrace.training.saver.saver import Saver, all_saveable_objects


def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **kwargs: Any,
) -> Saver | None:
    """Add the nodes and collections of a meta graph to the default graph; a saver, None if there are no variables.

    meta_graph_or_file: a MetaGraphDef, or the name of a file that has one, binary or as text.  clear_devices: the nodes
    are pinned nowhere.  import_scope: put before all names.  kwargs: input_map and others of
    `import_scoped_meta_graph`.
    Raises OSError (no such file, or it is no meta graph), ValueError (unbound inputs), what `import_graph_def` does.
    """
    return import_with_elements(meta_graph_or_file, clear_devices, import_scope, **kwargs)[0]


def import_with_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **kwargs: Any,
) -> tuple[Saver | None, list[Any] | None]:
    """As `import_meta_graph`; and what `return_elements` of kwargs asks for."""
    meta_graph = as_meta_graph(meta_graph_or_file)
    # The scope has another name if there are nodes in it already.
    scope = graph_of(kwargs.get("graph")).unique_name(import_scope or "", mark_as_used=False)
    _, elements = import_scoped_meta_graph_with_return_elements(
        meta_graph, clear_devices, import_scope=scope, **kwargs
    )
    saver: Saver | None = None
    if meta_graph.HasField("saver_def"):
        saver = Saver(saver_def=meta_graph.saver_def, name=scope)
    elif all_saveable_objects(scope=scope):
        saver = Saver()
    else:
        logging.info("The meta graph has no variables: there is nothing that a saver could restore")
    return saver, elements
