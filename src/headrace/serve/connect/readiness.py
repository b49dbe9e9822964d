"""Waiting for servers that may not be up yet: whom, why, and for how long.

Processes of a cluster start in any order, so the first question to each is one that waits.  While it
does, the servers that have not answered are probed, at growing intervals, so that the log and in the end
the error can say why each is missing.
Called by: serve.connect.cluster_view, client.remote_session, client.remote.  Threads: any; what is found out about a
server is found out on the caller's pool.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from headrace.base import errors
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.rpc.env_seconds import seconds_of
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.status import as_op_error
from headrace.serve.rpc.waiting import passed_deadline

T = TypeVar("T")

_CONNECT_TIMEOUT_S = 300.0
_NO_ANSWER = "no answer"

_log = logging.getLogger("headrace")


def connect_timeout_s() -> float | None:
    """How long to wait for a server that is not up yet; None: no limit.

    The environment's HEADRACE_CONNECT_TIMEOUT_S, else 300 s; 0 there means no limit.  Raises InvalidArgument.
    """
    return seconds_of(
        "HEADRACE_CONNECT_TIMEOUT_S", _CONNECT_TIMEOUT_S, "servers are waited for for ever"
    )


_limits = threading.local()


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """In the block, by its thread, no server is waited for longer than until then; None: no limit.

    Nor does a step last longer that runs for the first time in a session: what makes sessions is such steps.
    """
    before: float | None = getattr(_limits, "until", None)
    until = before
    if seconds is not None and math.isfinite(seconds):
        until = time.monotonic() + seconds
        if before is not None:
            until = min(until, before)
    _limits.until = until
    try:
        yield
    finally:
        _limits.until = before


def _time_left_s() -> float | None:
    """Until what `within` has set for this thread, 1 ms at least; None: there is no limit."""
    until: float | None = getattr(_limits, "until", None)
    return None if until is None else max(0.001, until - time.monotonic())


def limited_ms(timeout_ms: int) -> int:
    """A time limit of a step (0: none), or what `within` leaves of it."""
    left_s = _time_left_s()
    if left_s is None:
        return timeout_ms
    left_ms = round(left_s * 1000)
    return min(timeout_ms, left_ms) if timeout_ms else left_ms


class ServerReadiness(Generic[T]):
    """A server that has not answered yet.

    reason: why it has not come, as far as is known.
    """

    def __init__(
        self,
        peer: Peer,
        ask: Callable[[], Pending[T]],
        wrong: Callable[[T], str] | None = None,
    ) -> None:
        """ask: for a reply that waits for the server to be ready.

        wrong(reply): why it is not the server that was meant; "" if it is.  None: the question is
        asked once, and the reply believed.
        """
        self.peer = peer
        self.reason = _NO_ANSWER
        self.error: errors.OpError | None = None
        self.answered = False
        self._value: T
        self._ask = ask
        self._wrong = wrong
        self._asks_again = False
        self._looking = False
        self._changed: threading.Condition

    @property
    def result(self) -> T:
        """What it answered."""
        return self._value

    @property
    def over(self) -> bool:
        """Whether nothing more is to come of it."""
        return self.answered or self.error is not None

    def begin(self, changed: threading.Condition) -> None:
        """Ask; `changed` is notified when it is over."""
        self._changed = changed
        self._ask().on_done(self._arrived)

    def _arrived(self, reply: Pending[T]) -> None:
        error = reply.error
        if error is None:
            self._believe(reply.result())
        elif self._wrong is not None and isinstance(error, errors.UnavailableError):
            self._asks_again = True  # it was there for a moment
        else:
            if isinstance(error, errors.UnauthenticatedError):
                self.reason = f"it refused our credentials: {error.message}"
            self.error = error
        with self._changed:
            self._changed.notify_all()

    def _believe(self, value: T) -> None:
        """Take the answer, if it is of the server that was meant."""
        try:
            wrong = self._wrong(value) if self._wrong is not None else ""
        except Exception as error:  # an answer that cannot be understood
            self.error = as_op_error(error, f"the status of {self.peer.name}")
            return
        if not wrong:
            self._value = value
            self.answered = True
        else:
            self.reason, self._asks_again = wrong, True

    def probe(self, pool: GrowingPool, scope: Scope) -> None:
        """Find out why it does not answer, or ask it again if it was the wrong one."""
        if self._asks_again:
            self._asks_again = False
            self._ask().on_done(self._arrived)
        elif not self._looking:
            self._looking = True
            try:
                pool.submit(self._find_out, scope)
            except RuntimeError:  # shut down, or no thread to be had
                self._looking = False

    def _find_out(self, scope: Scope) -> None:
        remaining = scope.remaining()
        within_s = (
            LIMITS.probe_for_s if remaining is None else min(LIMITS.probe_for_s, remaining / 2)
        )
        try:
            with Scope(within_s, scope) as looking:
                found = self.peer.why_silent(looking)
        except errors.UnauthenticatedError as error:  # no time will mend it
            self.reason = error.message
            with self._changed:
                if not self.answered:
                    self.error = errors.unauthenticated(f"{self.peer.name}: {error.message}")
                    self._changed.notify_all()
            return
        except errors.OpError:
            return  # the wait has ended
        finally:
            self._looking = False
        if found:
            self.reason = found

    def __str__(self) -> str:
        return f"{self.peer.name} ({self.reason})"


def wait_for_server(reply: Pending[T], peer: Peer, scope: Scope, pool: GrowingPool) -> T:
    """Wait for the reply to a question that waits for its server; see `wait_for_all`.

    `reply` itself goes on when this gives up.
    """
    (result,) = wait_for_all([ServerReadiness(peer, lambda: reply)], scope, pool)
    return result


def wait_for_all(awaited: Sequence[ServerReadiness[T]], scope: Scope, pool: GrowingPool) -> list[T]:
    """The answers of all, in order.  Says whom it waits for if it takes long.

    Raises Unavailable that says of every server that has not answered why, at the scope's deadline or
    after `connect_timeout_s`, or what `within` sets; DeadlineExceeded at a deadline before anything could be found out;
    else the first error that is an answer, or the scope's.
    """
    changed = threading.Condition()
    started = time.monotonic()
    notice_s, next_notice = LIMITS.first_notice_s, started + LIMITS.first_notice_s
    limits = [limit for limit in (connect_timeout_s(), _time_left_s()) if limit is not None]
    with _ending(Scope(min(limits, default=None), scope)) as whole:
        for each in awaited:
            each.begin(changed)
        probe_s = LIMITS.first_probe_s
        while True:
            remaining = whole.remaining()
            if remaining is not None:
                probe_s = max(0.01, min(probe_s, remaining / 4))
            pause_s = max(0.0, min(probe_s, next_notice - time.monotonic()))
            with Scope(pause_s, whole) as part:
                try:
                    with changed:
                        part.wait_for(changed, lambda: _settled(awaited), "servers")
                    return _answers(awaited)
                except (
                    errors.DeadlineExceededError
                ) as error:  # also of a question, which has the same limit
                    if passed_deadline(whole) and not _answered(awaited):
                        waited_s = time.monotonic() - started
                        if passed_deadline(scope) and _nobody_looked(awaited, waited_s):
                            raise scope.deadline_error(f"an answer of {_names(awaited)}") from error
                        raise errors.unavailable(_report(awaited, waited_s)) from error
                    if _settled(awaited):  # at that very moment, or it is a question's error
                        return _answers(awaited)
            now = time.monotonic()
            for each in awaited:
                if not each.over:
                    each.probe(pool, whole)
            if now >= next_notice:
                _log.warning("still waiting, for %.0f s, for %s", now - started, _names(awaited))
                notice_s = min(notice_s * 2, LIMITS.last_notice_s)
                next_notice = now + notice_s
            probe_s = min(probe_s * 2, LIMITS.last_probe_s)


@contextmanager
def _ending(scope: Scope) -> Iterator[Scope]:
    """The scope, which does not outlast the block: nor does what looks at servers."""
    with scope:
        try:
            yield scope
        finally:
            scope.cancel(errors.cancelled("the wait is over"))


def _answered(awaited: Sequence[ServerReadiness[Any]]) -> bool:
    return all(each.answered for each in awaited)


def _nobody_looked(awaited: Sequence[ServerReadiness[Any]], waited_s: float) -> bool:
    """Whether the time was too short to find out anything of those that have not answered."""
    missing = [each for each in awaited if not each.answered]
    return waited_s < LIMITS.first_probe_s and all(each.reason is _NO_ANSWER for each in missing)


def _settled(awaited: Sequence[ServerReadiness[Any]]) -> bool:
    return _answered(awaited) or any(each.error for each in awaited)


def _answers(awaited: Sequence[ServerReadiness[T]]) -> list[T]:
    """Raises the first error, which says of the others too what is known if it is about credentials."""
    failed = next((each for each in awaited if each.error is not None), None)
    if failed is None:
        return [each.result for each in awaited]
    error = failed.error
    assert error is not None
    missing = [each for each in awaited if not each.answered]
    if len(missing) == 1 or not isinstance(error, errors.UnauthenticatedError):
        raise errors.copied(error)
    raise errors.unauthenticated(f"these do not serve us: {_names(awaited)}") from error


def _names(awaited: Sequence[ServerReadiness[Any]]) -> str:
    return "; ".join(str(each) for each in awaited if not each.answered)


def _report(awaited: Sequence[ServerReadiness[Any]], waited_s: float) -> str:
    missing = [each for each in awaited if not each.answered]
    advice = "a server was started there (tf.train.Server or `headrace serve`)"
    if len(missing) == 1:
        (one,) = missing
        return (
            f"{one.peer.name} has not answered for {waited_s:.1f} s, {one.reason}: check the address, and that "
            f"{advice}"
        )
    return (
        f"{len(missing)} servers have not answered for {waited_s:.1f} s: {_names(awaited)}. Check the addresses, and "
        f"that for each of them {advice}"
    )
