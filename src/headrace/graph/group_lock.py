"""GroupLock: threads of one group hold it together, those of two groups never.

Sessions that take nodes from a graph are one group, threads that change nodes which are there the other.  A thread that
holds it for one group may take it for either, which waits for nobody.  Taking and leaving complete or never begin
(`run.uninterrupted`); only the wait between is open to Ctrl-C, to a deadline and to cancellation, and whoever is driven
from it holds nothing.
Called by: graph.low_level.  Threads: any; its own lock is never held while calling out.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from threading import get_ident
from types import FrameType, TracebackType

from headrace.base import errors
from headrace.graph.operation import where_built
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.scope import Scope
from headrace.run.uninterrupted import changes, takes

_PYTHONS = threading.__file__  # that somebody waits for a lock there is not what is to be told


class GroupLock:
    """A lock of two groups, 0 and 1."""

    def __init__(self, on: str, does: Sequence[str]) -> None:
        """For the errors of those who wait: what it guards, and what a thread does with that in each group."""
        self._on = on
        self._does = does
        self._lock = threading.Lock()
        self._depths: tuple[dict[int, int], ...] = ({}, {})
        """Of each group, the threads that hold it, and how many times over."""
        self._waiters: list[Pending[None]] = []

    def group(self, number: int, scope: Scope | None = None) -> Held:
        """Inside, this thread holds it for the group; on the way in it waits until nobody does for the other one.

        Raises the error that ends `scope`, with who holds it.
        """
        return Held(self, number, scope)

    @changes
    def take(self, number: int) -> Pending[None] | None:
        """Hold it for this group, to which a `leave` belongs; if that cannot be, what is done when to try again."""
        me = get_ident()
        with self._lock:
            mine = next((depths for depths in self._depths if me in depths), None)
            if mine is not None:
                mine[me] += 1
            elif self._depths[1 - number]:
                return self._wait_for(1 - number)
            else:
                self._depths[number][me] = 1
        return None

    @changes
    def leave(self) -> None:
        """Take one `take` of this thread back."""
        me = get_ident()
        with self._lock:
            mine = next(depths for depths in self._depths if me in depths)
            if mine[me] > 1:
                mine[me] -= 1
                return
            del mine[me]
            if mine:
                return
            waiters, self._waiters = self._waiters, []
        announce_all([each for each in waiters if each.settle(None)])

    def _wait_for(self, others: int) -> Pending[None]:
        info = WaitInfo("a turn", self._on, lambda: self._holders(others))
        waiter: Pending[None] = Pending(info, self._withdraw)
        self._waiters.append(waiter)
        return waiter

    @changes
    def _withdraw(self, waiter: Pending[None]) -> bool:
        with self._lock:
            if waiter not in self._waiters:
                return False
            self._waiters.remove(waiter)
            return True

    def _holders(self, number: int) -> str:
        """The threads that hold it for this group, where they are, and what they do."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        frames = sys._current_frames()
        holders = [
            f"thread {names.get(ident, ident)!r}{_at(frames.get(ident))} {self._does[number]}"
            for ident in list(self._depths[number])
        ]
        return ", ".join(holders) or "the one who had it has just left"


def _at(frame: FrameType | None) -> str:
    """The line of the program that a thread is at, to be put behind its name."""
    while frame is not None and frame.f_code.co_filename == _PYTHONS:
        frame = frame.f_back
    where = None if frame is None else where_built(frame)
    return "" if where is None else f" at {where[0]}:{where[1]}"


class Held:
    """What `GroupLock.group` gives, for `with`."""

    __slots__ = ("_lock", "_number", "_scope")

    def __init__(self, lock: GroupLock, number: int, scope: Scope | None) -> None:
        self._lock = lock
        self._number = number
        self._scope = scope

    @takes
    def __enter__(self) -> None:
        while (waiter := self._lock.take(self._number)) is not None:
            _wait(waiter, Scope() if self._scope is None else self._scope)

    @changes
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.leave()


def _wait(waiter: Pending[None], scope: Scope) -> None:
    info = waiter.wait_info
    try:
        waiter.wait(scope)
    except errors.DeadlineExceededError:  # which says it by itself
        raise
    except errors.OpError as error:
        told = errors.copied(error)
        told.message = f"{error.message.rstrip('.')}; it came while waiting for {info}"
        told.args = (told.message, *told.args[1:])
        raise told from None
