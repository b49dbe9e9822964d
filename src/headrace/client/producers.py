"""What fills queues from this process, as far as blocked steps are concerned.

Implemented by: training.queue_runner.  Called by: client.blocked.  Threads: any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Producing:
    """How far a Producer is in a session.  error: what ended one of its threads, if any failed."""

    started: bool
    running: int
    error: BaseException | None


@runtime_checkable
class Producer(Protocol):
    """What keeps a queue filled from this process: a QueueRunner."""

    @property
    def queue(self) -> Any:
        """The queue, or its node."""

    @property
    def enqueue_ops(self) -> list[Any]:
        """The nodes that fill it, each run by a thread."""

    def producing(self, session: Any) -> Producing:
        """How far it is in a session."""
