"""`tf.train.write_graph`: a graph as a file.

Called by: programs.  Threads: any.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

from headrace.base import text
from headrace.graph.graph import Graph
from headrace.run.readers.files import file_error
from headrace.training import gfile

__all__ = ["write_graph"]


def write_graph(graph_or_graph_def: Any, logdir: Any, name: str, as_text: bool = True) -> str:
    """Write a Graph or GraphDef to the file `name` in `logdir`, which is made where it is missing; gives the path.

    as_text: in protobuf's text format.  The file is replaced as a whole, or not at all.
    Raises TypeError, and errors of files: NotFoundError, PermissionDeniedError, ….
    """
    message = graph_or_graph_def
    if isinstance(message, Graph):
        message = message.as_graph_def()
    if not hasattr(message, "SerializeToString"):
        raise TypeError(f"graph_or_graph_def must be a Graph or a GraphDef, not {message!r:.80}")
    if as_text:
        content = _text(message).encode()
    else:
        content = message.SerializeToString()
    path = os.path.join(text.as_str_any(text.path_to_str(logdir)), name)
    local = gfile.local(path)
    directory = os.path.dirname(local) or "."
    try:
        if not os.path.exists(directory):
            os.makedirs(directory)
        _replace(local, content)
    except OSError as error:
        raise file_error(os.fsencode(path), error) from None
    return path


def _text(message: Any) -> str:
    from google.protobuf import text_format

    if getattr(getattr(message, "DESCRIPTOR", None), "name", None) != "GraphDef":
        return text_format.MessageToString(message)
    from headrace.codec.graph_text import graph_text

    return graph_text(message)


def _replace(path: str, content: bytes) -> None:
    """Raises OSError."""
    part = f"{path}.part-{os.getpid()}-{time.monotonic_ns()}"
    try:
        with open(part, "xb") as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
