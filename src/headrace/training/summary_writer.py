"""`tf.summary.FileWriter`: summaries, graphs and metadata of runs, as events in a directory, for TensorBoard.

Called by: programs, training.  Threads: any.  Steps do not wait for the disk: a thread of the event file writes
(`run.event_files`); what is in memory when the program ends, by Ctrl-C too, is written then.
Source: TF 1.15 python/summary/writer, for behaviour
"""

from __future__ import annotations

import threading
import time
import warnings
from types import TracebackType
from typing import Any, ClassVar

from headrace.base import text
from headrace.codec import events
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.graph import Graph
from headrace.run.event_files import EventFile
from headrace.training import logging
from headrace.training.meta_graph import export_meta_graph
from headrace.training.session_event_writer import SessionEventWriter

__all__ = ["EventFileWriter", "FileWriter", "FileWriterCache"]

_CLOSED = (
    "Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is "
    "explicitly reopened."
)


class EventFileWriter:
    """Writes Events to an event file, which it makes in a directory."""

    def __init__(
        self,
        logdir: Any,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str | None = None,
    ) -> None:
        """max_queue: how many events may wait to be written, beside 4 MiB that always may.

        Raises errors of files: NotFoundError, PermissionDeniedError, ….
        """
        self._logdir = logdir
        self._directory = text.as_str_any(text.path_to_str(logdir or "."))
        self._options = max_queue, flush_secs, filename_suffix or ""
        self._file: EventFile | None = EventFile(self._directory, *self._options)

    def get_logdir(self) -> Any:
        """The directory, as it was given."""
        return self._logdir

    @property
    def closed(self) -> bool:
        """Whether there is no file, until `reopen`."""
        return self._file is None

    def add_event(self, event: Any) -> None:
        """Append an Event message; dropped, if closed.  Raises what writing met with: ResourceExhaustedError, …."""
        self.add(event.SerializeToString())

    def add(self, content: bytes) -> None:
        """`add_event` of a serialized one."""
        if self._file is not None:
            self._file.add(content)

    def flush(self) -> None:
        """Wait until everything is in the file.  Raises as `add_event`."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """`flush`, and close the file.  Raises as `add_event`."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def reopen(self) -> None:
        """Go on in a new file, if closed.  Raises errors of files."""
        if self._file is None:
            self._file = EventFile(self._directory, *self._options)


class FileWriter:
    """Writes summaries and what goes with them to event files in a directory; a context manager, which closes it."""

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        """logdir: made where it is missing.  graph: a Graph to begin with, and its meta graph; graph_def: deprecated.

        max_queue: how many events may wait to be written, beside 4 MiB that always may; adding another waits.
        flush_secs: how long an event may wait.  filename_suffix: of the files.  session: whose steps write, on the disk
        of the task that its graph's unpinned nodes are on; nodes are added to the graph.
        Raises errors of files: NotFoundError, PermissionDeniedError, …; RuntimeError (the session's graph is final).
        """
        options = logdir, max_queue, flush_secs, filename_suffix
        self.event_writer: EventFileWriter | SessionEventWriter
        if session is None:
            self.event_writer = EventFileWriter(*options)
        else:
            self.event_writer = SessionEventWriter(session, *options)
        self._lock = threading.Lock()
        self._session_run_tags: set[str] = set()
        self._described: set[str] = set()  # tags whose metadata was written
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            given = graph_def if graph is None else graph
            of = {"graph": given} if isinstance(given, Graph) else {"graph_def": given}
            self.add_meta_graph(export_meta_graph(**of))

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def get_logdir(self) -> Any:
        """The directory, as it was given."""
        return self.event_writer.get_logdir()

    # -- adding -----------------------------------------------------------------------------

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Append a summary: what a step gave for one, or a Summary message.

        The metadata of a tag is written once.  Raises google.protobuf.message.DecodeError; TypeError, ValueError for a
        step that is no number; what writing met with: ResourceExhaustedError, ….
        """
        if isinstance(summary, bytes):
            content = summary
            summary = pb.Summary.FromString(content)
        else:
            content = None
        told = self._told(summary.value)
        if told:
            shorter = type(summary)()
            shorter.CopyFrom(summary)
            for index in told:
                shorter.value[index].ClearField("metadata")
            content = shorter.SerializeToString()
        elif content is None:
            content = summary.SerializeToString()
        self._add(events.SUMMARY, content, global_step)

    def _told(self, values: Any) -> list[int]:
        """The indices of values with metadata whose tag had some before."""
        found = []
        for index, value in enumerate(values):
            if value.HasField("metadata"):
                with self._lock:
                    if value.tag in self._described:
                        found.append(index)
                    self._described.add(value.tag)
        return found

    def add_event(self, event: Any) -> None:
        """Append an Event message.  Raises as `add_summary`."""
        self._warn_if_closed()
        self.event_writer.add_event(event)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Append a SessionLog message.  Raises TypeError, and as `add_summary`."""
        _check_type("session_log", session_log, "SessionLog")
        self._add(events.SESSION_LOG, session_log.SerializeToString(), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Append a graph, with the shapes of its tensors.

        graph: a Graph, or a GraphDef, which is deprecated, as is `graph_def`.
        Raises ValueError for both of them, TypeError for neither; and as `add_summary`.
        """
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        given = graph_def if graph is None else graph
        if isinstance(given, Graph):
            if graph is None:
                logging.warning("a Graph is passed to FileWriter as graph, not as graph_def")
            content = given.as_graph_def(add_shapes=True).SerializeToString()
        elif hasattr(given, "SerializeToString") and _named(given) == "GraphDef":
            logging.warning("passing a GraphDef to FileWriter is deprecated; pass a Graph as graph")
            content = given.SerializeToString()
        else:
            raise TypeError(
                "The passed graph must be an instance of `Graph` or the deprecated `GraphDef`, and is "
                f"{_named(given)}"
            )
        self._add(events.GRAPH_DEF, content, global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Append a MetaGraphDef.  Raises TypeError, and as `add_summary`."""
        _check_type("meta_graph_def", meta_graph_def, "MetaGraphDef")
        self._add(events.META_GRAPH_DEF, meta_graph_def.SerializeToString(), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Append what a traced step gave: TensorBoard shows its times and memory on the graph.

        tag: of this step, once in the writer's life.  Raises ValueError for one that was there, and as `add_summary`.
        """
        with self._lock:
            if tag in self._session_run_tags:
                raise ValueError(
                    f"The provided tag was already used for this event type: {tag!r} names another step's metadata"
                )
            self._session_run_tags.add(tag)
        tagged = pb.TaggedRunMetadata(tag=tag, run_metadata=run_metadata.SerializeToString())
        self._add(events.TAGGED_RUN_METADATA, tagged.SerializeToString(), global_step)

    def _add(self, what: int, content: bytes, global_step: Any) -> None:
        step = None if global_step is None else int(global_step)
        self._warn_if_closed()
        self.event_writer.add(events.event(time.time(), step, what, content))

    # -- the file ---------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until everything is in the file.  Raises what writing met with: ResourceExhaustedError, …."""
        self._warn_if_closed()
        self.event_writer.flush()

    def close(self) -> None:
        """`flush`, and close the file; what is added later is dropped, with a warning.  Raises as `flush`."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in a new file of the directory, if closed.  Raises errors of files."""
        self.event_writer.reopen()

    def _warn_if_closed(self) -> None:
        if self.event_writer.closed:
            warnings.warn(_CLOSED, stacklevel=3)


def _named(message: Any) -> str:
    descriptor = getattr(message, "DESCRIPTOR", None)
    return str(getattr(descriptor, "name", type(message).__name__))


def _check_type(what: str, message: Any, name: str) -> None:
    """Raises TypeError."""
    if _named(message) != name:
        raise TypeError(f"{what} must be type {name}, saw type: {type(message)}")


class FileWriterCache:
    """One FileWriter a directory, for those who do not hand theirs around."""

    _cache: ClassVar[dict[Any, FileWriter]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Close all and forget them.  Raises as `FileWriter.close`."""
        with FileWriterCache._lock:
            writers = list(FileWriterCache._cache.values())
            FileWriterCache._cache.clear()
        for writer in writers:
            writer.close()

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """The writer of a directory, made by the first call, with the default graph.  Raises as `FileWriter`."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriter(
                    logdir, graph=scopes.get_default_graph()
                )
            return FileWriterCache._cache[logdir]
