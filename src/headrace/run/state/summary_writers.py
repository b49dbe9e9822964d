"""Writers of event files that nodes of graphs write to: a file is begun, flushed and closed by nodes too.

Called by: ops.io.summary_writers.  Threads: any; one lock a writer.  Whoever begins, flushes or closes waits for the
disk; who adds waits only where the file's memory is full (`run.event_files`).
"""

from __future__ import annotations

import itertools
import os
import threading
from typing import TYPE_CHECKING, Final

from headrace.base import errors
from headrace.run.readers.files import Files
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import changes

if TYPE_CHECKING:
    from headrace.run.event_files import EventFile

__all__ = ["GraphWriter"]

_NUMBERS: Final = itertools.count()


@changes
class GraphWriter(Resource):
    """What a SummaryWriter node stands for; without a file until one is begun."""

    type_name = "N10tensorflow22SummaryWriterInterfaceE"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = threading.Lock()
        self._file: EventFile | None = None

    def begin(
        self, directory: str, max_queue: int, flush_secs: float, suffix: str, files: Files
    ) -> None:
        """Begin a file, unless there is one.  Raises errors of files."""
        from headrace.run.event_files import EventFile

        with self._lock:
            if self._file is None:
                own = f".{os.getpid()}.{next(_NUMBERS)}{suffix}"
                self._file = EventFile(directory, max_queue, flush_secs, own, files)

    def add(self, event: bytes) -> None:
        """Append an Event.  Raises NotFound (no file), and what writing met with."""
        self._there().add(event)

    def flush(self) -> None:
        """Wait until all that was added is in the file.  Raises as `add`."""
        self._there().flush()

    def end(self) -> None:
        """Close the file; another may be begun.  Raises as `add`."""
        self._there()
        self.close()

    def close(self) -> None:
        """See `Resource`: nothing if there is no file."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            file.close()

    def _there(self) -> EventFile:
        with self._lock:
            file = self._file
        if file is None:
            raise errors.not_found(
                f"Resource {self.container}/{self.label}/{self.type_name} does not exist: the summary writer has no "
                "file; run its initializer first (a CreateSummaryFileWriter node), and again once it was closed"
            )
        return file
