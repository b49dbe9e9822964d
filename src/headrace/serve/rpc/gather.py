"""Many tasks asked at once: every request goes out before any reply is read, and one thread reads all of them.

    with Gather(scope, patience_s) as gather:
        for peer, request in asked:
            gather.add(peer.begin(method, request, scope))
        replies = gather.replies()

Replies are read in turn, which costs a system call each.  When one keeps the thread waiting for longer than an instant,
whichever comes first is read, so that a failure is noticed however long the others take.  The first failure has all
others given up, and so has the end of the caller's scope; a deadline is kept by those who were asked, who know more
about it and get a moment longer to say so.
Called by: serve.master.step, serve.master.planner, client.scattered.  Threads: the caller's; none is started.
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

from headrace.base import errors
from headrace.base.traits import RECEIVE
from headrace.graph.registry import traits_of
from headrace.run import long_waits
from headrace.run.pending import Pending
from headrace.run.scope import Scope, sleep_limit
from headrace.run.uninterrupted import takes
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.status import ForgottenStepError
from headrace.serve.rpc.waiting import passed_deadline, patient

_AN_INSTANT_S = 0.004
_ENDS_WITHIN_S = 0.1  # what was given up; its connection has been cut by then


class Begun(Protocol):
    """A request that has been sent, by the thread that will read its reply.

    name: of whom was asked.  over: `reply` or `error` is there.
    """

    name: str
    over: bool
    reply: Any
    error: errors.OpError | None

    def fileno(self) -> int:
        """Readable when there is something to `read`."""

    def read(self, limit_s: float, scope: Scope) -> bool:
        """Read what comes until nothing more has come for `limit_s`, with 0 what is there; whether it is over."""

    def give_up(self) -> None:
        """Have the other side end it; what is read then is its end.  From any thread."""

    def close(self) -> None:
        """Give back what it took; if it is not over it is cut off."""


class Gather:
    """The replies to requests of one step; see the module header.

    failed: the errors of those that failed, as they were noticed.
    """

    def __init__(
        self,
        scope: Scope,
        patience_s: float,
        first_ends_all: bool = True,
        ends_scope: bool = False,
    ) -> None:
        """patience_s: past the deadline of `scope`, for those who were asked to say what they were waiting for.

        first_ends_all: the first failure has all others given up.  ends_scope: and `scope` cancelled, which is that of
        what the thread does itself before it reads their replies.
        """
        self._first_ends_all = first_ends_all
        self._ends_scope = ends_scope
        self.failed: list[errors.OpError] = []
        self._scope = scope
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._asked: list[Begun | Pending[Any]] = []
        self._begun: list[Begun] = []
        self._external: list[Pending[Any]] = []
        self._given_up: errors.OpError | None = None
        self._ends_at = math.inf  # when whatever was given up is cut off
        self._closed = False

    def __enter__(self) -> Gather:
        self._scope.attach(self, self._follow)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is not None and not self._given_up:  # Ctrl-C, say
                self._give_up(errors.cancelled("the step was interrupted"))
                self._read_as_they_come()
        finally:
            self._scope.detach(self)
            with self._lock:  # from now on nobody gives up what others may have
                self._closed = True
            for begun in self._begun:
                begun.close()
            if kind is not None:
                self._release()

    @takes
    def add(self, asked: Begun | Pending[Any]) -> None:
        """A request that has been begun; a Pending is one whose reply others read."""
        self._asked.append(asked)
        if isinstance(asked, Pending):
            self._external.append(asked)
            asked.on_done(self._note)
        else:
            self._begun.append(asked)
        if self._given_up:
            self._end(asked, self._given_up)

    def add_done(self, reply: Any) -> None:
        """What the thread has made itself meanwhile, as one more reply."""
        done: Pending[Any] = Pending.done_with(reply)
        self._asked.append(done)
        self._external.append(done)

    def watch(self) -> None:
        """Have replies that others read noticed as they come, since this thread will not look for long."""
        for pending in self._external:
            pending.watch()

    def fail(self, error: errors.OpError) -> None:
        """What the thread does itself has failed."""
        self._fail(error)

    def replies(self) -> list[Any]:
        """All of them, in the order in which they were asked for.

        Raises the scope's error, or the first failure; where `failed` has several, another may say more.
        """
        for begun in self._begun:
            if not begun.read(_AN_INSTANT_S, self._scope):
                self._read_as_they_come()
                break
            if begun.error is not None:
                self._fail(begun.error)
        if self._external:
            self._wait_for_others()
        if self.failed:
            raise errors.copied(self.failed[0])
        return self.found()

    def found(self) -> list[Any]:
        """The replies that have come, each in its place; None for the others."""
        if not self._external:
            return [begun.reply for begun in self._begun]
        found: list[Any] = []
        for asked in self._asked:
            if isinstance(asked, Pending):
                found.append(asked.result() if asked.done and asked.error is None else None)
            else:
                found.append(asked.reply)
        return found

    def _read_as_they_come(self) -> None:
        """Until all are over, or were given up and have had their time."""
        poll = select.poll()
        left: dict[int, Begun] = {}
        for begun in self._begun:
            if not begun.over:
                left[begun.fileno()] = begun
                poll.register(begun.fileno(), select.POLLIN)
        since, poll_s = time.monotonic(), long_waits.first_poll_s
        while left:
            limit_s = self._limit_s(poll_s)
            ready = poll.poll(math.ceil(limit_s * 1000))
            for fd, _ in ready:
                begun = left[fd]
                if begun.read(0.0, self._scope):
                    del left[fd]
                    poll.unregister(fd)
                    if begun.error is not None:
                        self._fail(begun.error)
            if not ready:
                if time.monotonic() >= self._ends_at:
                    return
                self._check_deadline(left)
                poll_s = long_waits.tell(self._scope, since, poll_s)

    def _limit_s(self, poll_s: float) -> float:
        """How long nothing may come before there is something to be looked at."""
        now = time.monotonic()
        limit_s = min(poll_s, self._ends_at - now)
        if self._scope.deadline is not None and not self._given_up:
            limit_s = min(limit_s, self._scope.deadline + self._patience_s - now)
        limit_s = max(0.0, limit_s)
        return sleep_limit(limit_s) or limit_s

    def _check_deadline(self, left: dict[int, Begun]) -> None:
        deadline = self._scope.deadline
        if deadline is None or self._given_up:
            return
        if time.monotonic() >= deadline + self._patience_s:
            late = next(iter(left.values())).name
            error = self._scope.deadline_error(f"an answer of {late}")
            self.failed.append(error)
            self._give_up(error)

    def _wait_for_others(self) -> None:
        """For those that are read elsewhere."""
        with patient(self._scope, self._patience_s) as late:
            for pending in self._external:
                try:
                    pending.wait(late)
                except errors.OpError as error:
                    if not self.failed:
                        self._fail(errors.detached(error))

    def _note(self, pending: Pending[Any]) -> None:
        """One that is read elsewhere is over."""
        if pending.error is not None:
            self._fail(pending.error)

    def _fail(self, error: errors.OpError) -> None:
        """The first failure ends all, but for a deadline, which each finds out by itself and says where."""
        with self._lock:
            if self._closed:
                return
            self.failed.append(error)
        if isinstance(error, ForgottenStepError):
            return  # nothing was begun there, and it may be so with all of them
        if self._first_ends_all and not passed_deadline(self._scope):
            self._give_up(error)

    def _follow(self) -> None:
        """The scope has ended."""
        error = self._scope.error
        if error is not None and not passed_deadline(self._scope):
            with self._lock:
                if not self.failed:
                    self.failed.append(error)
            self._give_up(error)

    def _give_up(self, error: errors.OpError) -> None:
        """Have all end that are not over."""
        with self._lock:
            if self._closed or self._given_up:
                return
            self._given_up = error
            self._ends_at = time.monotonic() + _ENDS_WITHIN_S
            asked = list(self._asked)
        if self._ends_scope:
            self._scope.cancel(error)
        for each in asked:
            self._end(each, error)

    def _end(self, asked: Begun | Pending[Any], error: errors.OpError) -> None:
        if isinstance(asked, Pending):
            asked.abandon(error)
            return
        with self._lock:
            if not (self._closed or asked.over):
                asked.give_up()

    def _release(self) -> None:
        """Nobody will get what some have replied, or will."""
        for asked in self._asked:
            if isinstance(asked, Pending):
                asked.on_done(lambda done: m.release(done.result()) if done.error is None else None)
            else:
                m.release(asked.reply)


def says_most(
    scope: Scope, error: errors.OpError, failed: Sequence[errors.OpError]
) -> errors.OpError:
    """What to report of parts that ran into the deadline: the one that says most.  error: what was raised here."""
    late_ones = [  # a task that only knows that it was to stop says Cancelled
        e for e in (error, *failed) if not isinstance(e, errors.CancelledError)
    ]
    told = [e for e in late_ones if e.node and RECEIVE not in traits_of(e.op_type)]
    return (told or late_ones or [scope.deadline_error()])[0]
