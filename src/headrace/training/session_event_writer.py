"""Events written by steps of a session: `tf.summary.FileWriter(session=…)`, whose file is on the disk of a task.

Called by: training.summary_writer.  Threads: any; adding, flushing and closing run a step each, and wait for it.
Source: TF 1.15 python/summary/writer/event_file_writer_v2.py, for behaviour; nodes checked against the oracle
"""

from __future__ import annotations

import threading
from typing import Any, Final

from headrace.base import text
from headrace.graph import scopes
from headrace.graph.names import control_dependencies, name_scope
from headrace.ops.array.constants import constant
from headrace.ops.array.placeholders import placeholder_with_default
from headrace.ops.io import summary_writers as io

__all__: list[str] = []

_CPU: Final = "/device:CPU:0"
WRITERS: Final = "_SUMMARY_WRITER_V2"
"""The collection of what begins the files of writers."""


class SessionEventWriter:
    """Writes Events to an event file by nodes that it adds to the session's graph; see `EventFileWriter`."""

    def __init__(
        self,
        session: Any,
        logdir: Any,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str | None = None,
    ) -> None:
        """Raises RuntimeError (the graph is final), and what the step that begins the file does."""
        self._session, self._logdir = session, logdir
        self._lock = threading.Lock()
        directory = text.as_str_any(text.path_to_str(logdir))
        options = directory, max_queue, int(flush_secs * 1000)
        graph = session.graph
        with graph.as_default(), name_scope("filewriter"):
            with graph.device(_CPU):
                suffix: Any = constant(".v2") if filename_suffix is None else filename_suffix
                writer = io.summary_writer(shared_name=f"logdir:{directory}", container="")
                begin = io.create_summary_file_writer(writer, *options, suffix)
            scopes.get_default_graph().add_to_collection(WRITERS, begin)
            self._event = placeholder_with_default(constant("unused"), shape=[])
            self._add = io.import_event(writer, self._event)
            with graph.device(_CPU):
                io.flush_summary_writer(writer)  # TensorFlow's nodes are numbered
            self._begin = io.create_summary_file_writer(writer, *options, suffix)
            with graph.device(_CPU):
                self._flush = io.flush_summary_writer(writer)
                with control_dependencies([io.flush_summary_writer(writer)]):
                    self._close = io.close_summary_writer(writer)
        session.run(self._begin)
        self._closed = False

    def get_logdir(self) -> Any:
        """The directory, as it was given."""
        return self._logdir

    @property
    def closed(self) -> bool:
        """Whether events are dropped, until `reopen`."""
        return self._closed

    def add_event(self, event: Any) -> None:
        """Append an Event message; dropped, if closed.  Raises what the step does."""
        self.add(event.SerializeToString())

    def add(self, content: bytes) -> None:
        """`add_event` of a serialized one."""
        with self._lock:
            if not self._closed:
                self._session.run(self._add, {self._event: content})

    def flush(self) -> None:
        """Wait until everything is in the file.  Raises what the step does."""
        with self._lock:
            if not self._closed:
                self._session.run(self._flush)

    def close(self) -> None:
        """`flush`, and close the file.  Raises what the step does."""
        with self._lock:
            if not self._closed:
                self._session.run(self._close)
                self._closed = True

    def reopen(self) -> None:
        """Go on in a new file, if closed.  Raises what the step does."""
        with self._lock:
            if self._closed:
                self._session.run(self._begin)
                self._closed = False
