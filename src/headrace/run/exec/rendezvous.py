"""Rendezvous: the mailbox of one step; each key is sent once and taken once.

The value may come before or after the one who wants it.  A dead value (the untaken side of a
Switch) travels like any other, with its flag.  Nothing is copied: the receiver gets the object that
was sent.  Which keys have been taken is remembered, so that one that comes again is an error: to the end of the step,
but of keys inside loops, which may go on for long, only the latest.

Called by: run's executor (edges between local partitions), serve (RecvTensor, feeds and fetches).
Never does I/O.
Threads: any; one lock, never held while calling out.
Ends by: abort(error) -- every waiter, and whoever comes later, gets that error; values nobody took
are dropped, leases among them released.  Whoever takes a lease releases it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.state.variable import release
from headrace.run.uninterrupted import changes

Delivery = tuple[Any, bool]
"""(value, dead)"""


class _Sent:
    __slots__ = ("delivery",)

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery


_TAKEN: Final = object()
_REMEMBERED = 4096  # keys of loops
_OUTSIDE_LOOPS = ";0:0"


@changes
class Rendezvous:
    """Values of one step by rendezvous key."""

    __slots__ = ("_error", "_lock", "_slots", "_taken_in_loops")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, Any] = {}  # key -> _Sent | the receiver's Pending | _TAKEN
        self._taken_in_loops: deque[str] | None = None
        self._error: errors.OpError | None = None

    @property
    def error(self) -> errors.OpError | None:
        """What it was aborted with, None while the step goes on."""
        return self._error

    def send(self, key: str, value: Any, dead: bool = False) -> None:
        """Leave `value` for the receiver of `key`; never blocks.

        Raises: AlreadyExists (the key was sent already), or the error of an aborted rendezvous.
        """
        with self._lock:
            if self._error is not None:
                raise errors.copied(self._error)
            slot = self._slots.get(key)
            if slot is None:
                self._slots[key] = _Sent((value, dead))
                return
            if not isinstance(slot, Pending):
                taken = "taken" if slot is _TAKEN else "not yet taken"
                raise errors.already_exists(
                    f"{key!r} was sent twice in one step; the first value is {taken}"
                )
            self._take(key)
            slot.settle((value, dead))
        slot.announce()

    def recv(self, key: str) -> Pending[Delivery]:
        """The (value, dead) of `key`, now or when it is sent.

        Rejected with: AlreadyExists (somebody else has taken or awaits it), or the error of an
        aborted rendezvous.
        """
        with self._lock:
            if self._error is not None:
                return Pending.failed_with(self._error)
            slot = self._slots.get(key)
            if slot is None:
                pending: Pending[Delivery] = Pending(WaitInfo("recv", key), self._withdraw)
                self._slots[key] = pending
                return pending
            if isinstance(slot, _Sent):
                self._take(key)
                return Pending.done_with(slot.delivery)
        what = "was taken by" if slot is _TAKEN else "is awaited by"
        return Pending.failed_with(errors.already_exists(f"{key!r} {what} another receiver"))

    def _take(self, key: str) -> None:
        """`key` is taken.  Under the lock."""
        self._slots[key] = _TAKEN
        if key.endswith(_OUTSIDE_LOOPS):
            return
        taken = self._taken_in_loops
        if taken is None:
            taken = self._taken_in_loops = deque()
        taken.append(key)
        if len(taken) > _REMEMBERED:
            del self._slots[taken.popleft()]

    def _withdraw(self, pending: Pending[Delivery]) -> bool:
        """The receiver gives up; the key may be asked for again."""
        info = pending.wait_info
        if info is None:
            return False
        with self._lock:
            if self._slots.get(info.on) is not pending:
                return False
            del self._slots[info.on]
            return True

    def abort(self, error: errors.OpError) -> bool:
        """End the step for everyone; False if it was aborted before, whose error then stays."""
        with self._lock:
            if self._error is not None:
                return False
            self._error = errors.detached(error)
            waiting = [slot for slot in self._slots.values() if isinstance(slot, Pending)]
            unclaimed = [
                slot.delivery[0] for slot in self._slots.values() if isinstance(slot, _Sent)
            ]
            self._slots.clear()
            for pending in waiting:
                pending.settle_error(error)
        release(unclaimed)
        announce_all(waiting)
        return True

    def waiting(self) -> list[WaitInfo]:
        """Who waits for what, for diagnosis."""
        with self._lock:
            slots = [slot for slot in self._slots.values() if isinstance(slot, Pending)]
        return [info for slot in slots if (info := slot.wait_info) is not None]
