"""Tasks that a session asks for steps by itself, reached in the background, over the lane or not at all.

Called by: client.direct, client.scattered, client.routes.  Threads: any; tasks are reached on the session's pool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import OutstandingParts
from headrace.serve.connect.direct import DirectRoute
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.status import ForgottenStepError
from headrace.serve.rpc.transport import Channel

_AGAIN_AFTER_S = 60.0  # a task that could not be reached
_MOST_AT_ONCE = 4  # tasks that are being reached

_log = logging.getLogger("headrace")


class Task:
    """One start of a task.  channel: None until it is reached.  closed: there is another start of it, or no session.

    outstanding: of all the session's, see `cluster_view.OutstandingParts`.
    settled: the `CancelledCalls.times` of the session's master when a step last went through it to the task: what was
    given up of the master since, the task may not have heard of.
    """

    def __init__(
        self,
        offer: pb.DirectPart,
        security: Security | None,
        search: Search,
        session: Scope,
        outstanding: OutstandingParts,
        untold: dict[tuple[str, int], None],
    ) -> None:
        """untold: takes the number of each call that was given up, beside the task's name, for the master."""
        self.start = offer.start
        self.channel: Channel | None = None
        self.outstanding = outstanding
        self.settled = 0
        self._untold = untold
        self._task = offer.task
        self._way = DirectRoute(offer.address, offer.task, offer.start, security, self._gave_up)
        self._search = search
        self._session = session
        self._lock = threading.Lock()
        self._reaching = False
        self.closed = False
        self._again_at = 0.0
        self._told = False

    @property
    def silent(self) -> bool:
        """Whether it was found not to live, and has not been heard of since."""
        return self._way.silent

    def look(self) -> None:
        """There is no way there: have it looked for, for steps to come.  Raises as `Route.ways`."""
        if self.closed:
            raise ForgottenStepError.of("a task was started anew")
        if not self._reaching:
            self._begin()

    def leave(self) -> None:
        """Something went wrong: have it seen whether it is there before it is asked again."""
        self.channel = None

    def _begin(self) -> None:
        with self._lock:
            if self._reaching or self.closed or time.monotonic() < self._again_at:
                return
            self._reaching = True
            if not self._search.begin(self._reach):
                self._reaching = False

    def _reach(self) -> None:
        try:
            with Scope(LIMITS.reach_within_s, self._session) as scope:
                channel = self._way.reach(scope)
        except (errors.OpError, OSError) as error:
            self._again_at = time.monotonic() + _AGAIN_AFTER_S
            if not (self._told or self._session.error):
                self._told = True
                _log.info("steps on %s go through the session's master: %s", self._way.name, error)
        else:
            with self._lock:
                if not self.closed:
                    self.channel = channel
        finally:
            self._reaching = False
            if self.closed:
                self.close()

    def _gave_up(self, number: int) -> None:
        self._untold[self._task, number] = None

    def close(self) -> None:
        """Close the connections; those with a step when it has ended."""
        with self._lock:
            self.closed = True
            self.channel = None
        self._way.close()


class Search:
    """Reaches tasks on the session's pool, a few at a time, however many a step has."""

    def __init__(self, pool: GrowingPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._due: deque[Callable[[], None]] = deque()
        self._threads = 0

    def begin(self, reach: Callable[[], None]) -> bool:
        """Call it soon; False if the session is being closed, or there is no thread to be had."""
        with self._lock:
            self._due.append(reach)
            if self._threads == _MOST_AT_ONCE:
                return True
            try:
                self._pool.submit(self._work)
            except RuntimeError:
                if not self._threads:
                    self._due.pop()
                    return False
            else:
                self._threads += 1
            return True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._threads -= 1
                    return
                reach = self._due.popleft()
            reach()
