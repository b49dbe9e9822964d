"""`tf.train.summary_iterator`: the events of an event file.

Called by: programs.  Threads: an iterator belongs to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.base import text
from headrace.codec import protos as pb
from headrace.ops.io.record_files import tf_record_iterator
from headrace.training.gfile import Open

__all__ = ["summary_iterator"]


def summary_iterator(path: Any) -> Iterator[pb.Event]:
    """The events of a file, one after the other; those that are there so far, if it is still being written.

    Raises NotFoundError and other errors of files; while iterating, DataLossError, naming file and offset, for a
    corrupt or truncated record, and google.protobuf.message.DecodeError.
    """
    name = text.as_str_any(text.path_to_str(path))
    with Open(name, "rb") as file:
        file.read(0)
    return map(pb.Event.FromString, tf_record_iterator(name))
