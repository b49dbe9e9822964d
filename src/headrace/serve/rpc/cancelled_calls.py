"""Calls that were cancelled, and the promise that each ends before anything that is asked for later is served.

Who gives up a call tells the server so at once: by closing half of the connection, or by cancelling.  A server that is
stopped, or busy, may notice that later than the next request, which comes over another connection.  So callers keep the
numbers of the calls that they cancelled (`CancelledCalls`) until the server has answered a request that they went ahead
of, as GiveUp.  The server (`Calls`) cancels them then; a step waits until those of its own session that were cancelled
have left (`CancelledSteps`), those of others may hold it up for a moment.
Called by: the transports, client.remote, serve.worker.worker, serve.master.master, serve.master.master_session.
Threads: any.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.rpc.limits import LIMITS

MOST_BY_GRPC = 400  # numbers; headers are small
_MOST_REFUSED = 4096  # calls that were given up before they came
_OTHERS_WAIT_S = 0.5  # for a step of another session, which may be computing

T = TypeVar("T")


class CancelledCalls:
    """What this process has cancelled of one server and has not had an answer since.

    any: whether there is something.  times: how often something was given up, ever.
    """

    __slots__ = ("_calls", "_sessions", "_steps", "any", "times")

    def __init__(self) -> None:
        self._calls: dict[int, None] = {}
        self._steps: dict[int, None] = {}
        self._sessions: dict[str, None] = {}
        self.any = False
        self.times = 0

    def add(
        self, calls: Iterable[int] = (), steps: Iterable[int] = (), sessions: Iterable[str] = ()
    ) -> None:
        """Calls by their numbers, partial runs by their steps, sessions by their handles."""
        _remember(self._calls, calls)
        _remember(self._steps, steps)
        _remember(self._sessions, sessions)
        self.times += 1
        self.any = True

    def request(self, most: int | None = None) -> pb.GiveUpRequest:
        """All of it, or the newest numbers."""
        most = LIMITS.most_cancelled if most is None else most
        return pb.GiveUpRequest(
            call=list(self._calls)[-most:],
            step=list(self._steps)[-most:],
            session=list(self._sessions)[-most // 4 :],
        )

    def heard(self, told: pb.GiveUpRequest) -> None:
        """The server has answered a request that `told` went ahead of."""
        for call in told.call:
            self._calls.pop(call, None)
        for step in told.step:
            self._steps.pop(step, None)
        for session in told.session:
            self._sessions.pop(session, None)
        self.any = False  # first, and nothing but True afterwards: another thread may be adding
        if self._calls or self._steps or self._sessions:
            self.any = True


def _remember(known: dict[T, None], more: Iterable[T]) -> None:
    for each in more:
        known[each] = None
    while len(known) > LIMITS.most_cancelled:
        known.pop(next(iter(known)), None)


class ByServer:
    """What was given up of each server that was asked for steps lately, best of those of which there is something."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[int, str], CancelledCalls] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def of(self, address: str) -> CancelledCalls:
        """Of the server at ``host:port``, in this process."""
        key = os.getpid(), address
        with self._lock:
            found = self._found.pop(key, None) or CancelledCalls()
            self._found[key] = found
            if len(self._found) > LIMITS.most_servers:
                others = list(self._found)[:-1]
                silent = (each for each in others if not self._found[each].any)
                del self._found[next(silent, others[0])]
        return found


_servers = ByServer()


def cancelled_calls_of(address: str) -> CancelledCalls:
    """Of the server at ``host:port``, by whichever session of this process: one that is closed leaves it to the
    next.
    """
    return _servers.of(address)


def new_number() -> int:
    """Of a call, or of a connection: nobody else can guess it."""
    return int.from_bytes(os.urandom(8), "little") >> 1 | 1


class Calls:
    """The calls that a server's transports have under way, by their numbers."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._ends: dict[int, Callable[[], bool]] = {}
        self._ending: set[int] = set()
        self._refused: OrderedDict[int, None] = OrderedDict()

    def add(self, number: int, end: Callable[[], bool]) -> bool:
        """From now on.  False if it was given up before.  end(): cancel it; whether it is under way."""
        with self._lock:
            self._ends[number] = end
            return self._refused.pop(number, 0) == 0

    def forget(self, number: int) -> None:
        """There will be no such call any more."""
        with self._lock:
            self._ends.pop(number, None)
            self._left(number)

    def left(self, number: int) -> None:
        """A call that was given up has ended."""
        with self._lock:
            self._left(number)

    def _left(self, number: int) -> None:
        if number in self._ending:
            self._ending.discard(number)
            self._lock.notify_all()

    def cancel(self, numbers: Collection[int]) -> None:
        """Cancel calls; those that have not come yet are refused when they do."""
        for number in numbers:
            with self._lock:
                end = self._ends.get(number)
                if end is None:
                    self._refused[number] = None
                    if len(self._refused) > _MOST_REFUSED:
                        self._refused.popitem(last=False)
                else:
                    self._ending.add(number)
            if end is not None and not end():
                self.left(number)

    def wait(self, numbers: Collection[int]) -> None:
        """Return when the calls of those that were given up have ended, or after a moment."""
        with self._lock:
            self._lock.wait_for(lambda: self._ending.isdisjoint(numbers), _OTHERS_WAIT_S)


_changed = (
    threading.Condition()
)  # one for all sessions, of which each has had its own steps cancelled seldom


def _begin_anew() -> None:
    """In a fork's child nobody holds it."""
    global _changed
    _changed = threading.Condition()


os.register_at_fork(after_in_child=_begin_anew)


class CancelledSteps:
    """The steps of one session that have been cancelled and may still do something.

    any: whether there are such.
    """

    __slots__ = ("_leaving", "any")

    def __init__(self) -> None:
        self._leaving: set[object] = set()
        self.any = False

    def add(self, step: object) -> None:
        """A step that was cancelled; `left` follows."""
        with _changed:
            self._leaving.add(step)
            self.any = True

    def left(self, step: object) -> None:
        """It does nothing any more."""
        with _changed:
            self._leaving.discard(step)
            self.any = bool(self._leaving)
            _changed.notify_all()

    def go_first(self, scope: Scope) -> None:
        """Return when those that are leaving now have left; what computes for very long is not waited for.

        For a step of that scope, which is booked.  Raises the scope's error, if it was given up itself before that.
        """
        if self.any:
            self._wait(Scope(LIMITS.leaves_within_s, scope))
        scope.check()

    def wait_a_moment(self) -> None:
        """The same, for others than the session."""
        self._wait(Scope(_OTHERS_WAIT_S))

    def _wait(self, limit: Scope) -> None:
        with limit, _changed, contextlib.suppress(errors.OpError):
            before = set(self._leaving)
            limit.wait_for(_changed, lambda: self._leaving.isdisjoint(before))
