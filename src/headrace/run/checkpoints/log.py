"""The checkpoints that a task has saved, merged of shards or restored of late, for whoever watches.

Called by: ops.io.checkpoints (notes), serve.worker.inspects (reads).  Threads: any; one lock, held for an instant.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.base import errors

MOST: Final = 32  # kept; older ones are forgotten
SAVED, MERGED, RESTORED = "saved", "merged", "restored"
_TOGETHER_S: Final = 1.0


class CheckpointNote:
    """One of them.  nbytes: of its tensors.  began_s, ended_s: time.monotonic.  error: why it failed, or ""."""

    __slots__ = ("began_s", "ended_s", "error", "kind", "nbytes", "number", "prefix", "tensors")

    def __init__(self, kind: str, prefix: str, tensors: int) -> None:
        self.kind = kind
        self.prefix = prefix
        self.tensors = tensors
        self.nbytes = 0
        self.began_s = self.ended_s = time.monotonic()
        self.error = ""
        self.number = 0


class CheckpointLog:
    """See the module header."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: deque[CheckpointNote] = deque(maxlen=MOST)
        self._count = 0

    @contextmanager
    def noting(self, kind: str, prefix: bytes, tensors: int = 0) -> Iterator[CheckpointNote]:
        """Around what is done, which may say more of itself; a failure is noted too, and raised."""
        noted = CheckpointNote(kind, os.fsdecode(prefix), tensors)
        try:
            yield noted
        except BaseException as error:
            text = error.message if isinstance(error, errors.OpError) else str(error)
            noted.error = text or type(error).__name__
            raise
        finally:
            noted.ended_s = time.monotonic()
            self._add(noted)

    def _add(self, noted: CheckpointNote) -> None:
        with self._lock:
            last = self._latest[-1] if self._latest else None
            if last is not None and _belong_together(last, noted):
                last.tensors += noted.tensors
                last.nbytes += noted.nbytes
                last.ended_s = noted.ended_s
                return
            self._count += 1
            noted.number = self._count
            self._latest.append(noted)

    def latest(self) -> list[CheckpointNote]:
        """Those that are remembered, oldest first."""
        with self._lock:
            return list(self._latest)


def _belong_together(last: CheckpointNote, noted: CheckpointNote) -> bool:
    """Whether both are of one restore: the older ops have a node a tensor."""
    return (
        noted.kind == last.kind == RESTORED
        and noted.prefix == last.prefix
        and not (noted.error or last.error)
        and noted.began_s - last.ended_s < _TOGETHER_S
    )
