"""Wait queues: how operations wait for state that others change, in the order in which they came.

No thread waits.  An operation is a function that either does all it has to and returns, or returns
WAIT and has changed nothing.  It is tried when it comes, and again, in its place in its wait queue,
whenever the state has changed, by the thread that changed it.  An abandoned one leaves its wait queue, and
that is all: it has done nothing yet.

Called by: run.state.staging, run.state.barrier, run.state.accumulators.  (Queues, whose operations proceed in parts,
keep wait queues of their own.)
Threads: any; one lock per resource, never held while callbacks run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import changes

WAIT: Final = object()
"""What an operation returns that cannot be done yet."""

Try = Callable[[], Any]


class WaitQueue:
    """Operations in the order of arrival.  In a `strict` queue nobody passes one that waits."""

    __slots__ = ("_waiting", "strict")

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self._waiting: list[_Waiter] = []

    def __len__(self) -> int:
        return len(self._waiting)


class _Waiter:
    __slots__ = ("attempt", "pending")

    def __init__(self, attempt: Try, pending: Pending[Any]) -> None:
        self.attempt = attempt
        self.pending = pending


@changes
class WaitingResource(Resource):
    """A resource with operations that wait."""

    def __init__(self, name: str, *queues: WaitQueue) -> None:
        """`queues` are served in this order after every change."""
        super().__init__(name)
        self._queues = queues
        self._lock = threading.Lock()
        self._gone: errors.OpError | None = None

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    def state(self) -> str:
        """What there is, for people.  Called under the lock."""
        return ""

    def contributors(self) -> list[tuple[str, float, bool]]:
        """Who brings what others wait for here: sessions, seconds since their latest, whether that is still there.
        Called under the lock.
        """
        return []

    def takers(self) -> list[tuple[str, float]]:
        """Who takes out what others bring here: sessions, seconds since their latest.  Called under the lock."""
        return []

    def describe(self) -> dict[str, Any]:
        """A snapshot for people: the state, who waits for what since when, and who brings it."""
        with self._lock:
            waiting = [each.pending.wait_info for queue in self._queues for each in queue._waiting]
            return {
                "kind": type(self).__name__,
                "name": self.label,
                "container": self.container,
                "state": self.state(),
                "waiting": waiting,
                "contributors": self.contributors(),
                "takers": self.takers(),
            }

    def wait_in(self, queue: WaitQueue, kind: str, attempt: Try) -> Pending[Any]:
        """Do `attempt` in its turn.  What it raises (OpError) rejects the Pending."""
        pending: Pending[Any] = Pending(
            WaitInfo(kind, str(self), lambda: self._state_for(pending), self),
            lambda _: self._withdraw(queue, pending),
        )
        with self._lock:
            queue._waiting.append(_Waiter(attempt, pending))
            settled = self._serve()
            if self._gone is not None:
                settled += _fail_all([queue], self._gone)
        announce_all(settled)
        return pending

    def change(self, action: Try) -> Any:
        """Do `action`, which never waits, and serve whom it has released.  Raises what it raises."""
        with self._lock:
            result = action()
            settled = self._serve()
        announce_all(settled)
        return result

    def dropped(self) -> None:
        """Cancels whoever waits.  Steps that hold the resource may use it up, but never wait."""
        error = errors.cancelled(
            f"{self} was removed from container {self.container!r}: "
            "the container was reset, or its owner has closed"
        )
        with self._lock:
            self._gone = error
            settled = _fail_all(self._queues, error)
        announce_all(settled)

    def _withdraw(self, queue: WaitQueue, pending: Pending[Any]) -> bool:
        with self._lock:
            at = next((i for i, w in enumerate(queue._waiting) if w.pending is pending), None)
            if at is None:
                return False
            del queue._waiting[at]
            settled = self._serve() if at == 0 else []
        announce_all(settled)
        return True

    def _serve(self) -> list[Pending[Any]]:
        """Do whatever can be done; returns what was settled, to be announced without the lock."""
        settled: list[Pending[Any]] = []
        moved = True
        while moved:
            moved = False
            for queue in self._queues:
                moved = _serve_queue(queue, settled) or moved
        return settled

    def _state_for(self, pending: Pending[Any]) -> str:
        with self._lock:
            for queue in self._queues:
                for ahead, waiter in enumerate(queue._waiting):
                    if waiter.pending is pending:
                        return self.state() + (f", {ahead} more wait before this" if ahead else "")
        return "being released"


def _serve_queue(queue: WaitQueue, settled: list[Pending[Any]]) -> bool:
    """Serve from the head; returns whether anybody was."""
    waiting, at, moved = queue._waiting, 0, False
    while at < len(waiting):
        pending = waiting[at].pending
        try:
            result = waiting[at].attempt()
        except errors.OpError as error:
            pending.settle_error(error)
        except MemoryError as error:
            pending.settle_error(errors.resource_exhausted(f"out of memory ({error})"))
        else:
            if result is WAIT:
                if queue.strict:
                    break
                at += 1
                continue
            pending.settle(result)
        del waiting[at]
        settled.append(pending)
        moved = True
    return moved


def _fail_all(queues: Iterable[WaitQueue], error: errors.OpError) -> list[Pending[Any]]:
    """Empty the wait queues; returns what is to be announced."""
    settled = []
    for queue in queues:
        settled += [w.pending for w in queue._waiting if w.pending.settle_error(error)]
        queue._waiting.clear()
    return settled
