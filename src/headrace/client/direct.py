"""Direct steps: a step that lies on one task as a whole is asked of that task, without its master.

The master offers that beside the number of a step (DirectStep).  The task is reached in the background, over the lane
or not at all; until it is, and where it cannot be, steps go to their master as ever.  A step that was to go to its task
goes to the master after all only if it certainly was not begun: nothing could be sent, or the task does not know it.
Called by: client.remote.  Threads: any; tasks are reached on the session's pool.
"""

from __future__ import annotations

import logging
import random
import secrets
import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import OutstandingParts
from headrace.serve.connect.direct import DirectRoute
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.transport import Channel

_AGAIN_AFTER_S = 60.0  # a task that could not be reached

_log = logging.getLogger("headrace")
_step_ids = random.Random(secrets.randbits(64))


class Route:
    """The way of a step to its task, of that name; makes: its fetches.

    timeout_ms: of steps without a limit of their own; 0: none.
    """

    __slots__ = (
        "_as_they_are",
        "_feeds",
        "_fetches",
        "_handle",
        "makes",
        "task",
        "timeout_ms",
        "to",
    )

    def __init__(self, offer: pb.DirectStep, to: Task, makes: Sequence[str]) -> None:
        self.task = offer.task
        self.makes = makes
        self.to = to
        self.timeout_ms = offer.timeout_ms
        self._handle = offer.graph_handle
        self._feeds = list(offer.feed)
        self._fetches = list(offer.fetch)
        self._as_they_are = self._fetches == list(range(len(self._fetches)))

    def run(self, channel: Channel, values: Sequence[Any], scope: Scope) -> list[Any]:
        """The fetches.  Raises Unreachable and ForgottenStepError, for which nothing was begun; else as a step does."""
        feeds = [values[index] for index in self._feeds] if self._feeds else []
        step_id = _step_ids.getrandbits(56) | 1
        request = m.RunPartRequest(self._handle, step_id, feeds, True)
        outstanding = self.to.outstanding
        outstanding[step_id] = (self,), time.monotonic()
        try:
            found: list[Any] = channel.call_now(methods.RUN_PART, request, scope)
        finally:
            del outstanding[step_id]
        if self._as_they_are and len(found) == len(self._fetches):
            return [*found]
        return [found[index] for index in self._fetches]


class Task:
    """One start of a task.  channel: None until it is reached.  closed: there is another start of it, or no session.

    outstanding: see `cluster_view.OutstandingParts`.
    settled: the `CancelledCalls.times` of the session's master when a step last went through it to the task: what was
    given up of the master since, the task may not have heard of.
    """

    def __init__(
        self,
        offer: pb.DirectStep,
        security: Security | None,
        pool: GrowingPool,
        session: Scope,
        untold: dict[tuple[str, int], None],
    ) -> None:
        """untold: takes the number of each call that was given up, beside the task's name, for the master."""
        self.start = offer.start
        self.channel: Channel | None = None
        self.outstanding: OutstandingParts = {}
        self.settled = 0
        self._untold = untold
        self._task = offer.task
        self._way = DirectRoute(offer.address, offer.task, offer.start, security, self._gave_up)
        self._pool = pool
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

    def use(self) -> Channel | None:
        """The way there; if there is none, it is looked for, for steps to come."""
        channel = self.channel
        if channel is None and not self._reaching:
            self._begin()
        return channel

    def leave(self) -> None:
        """Something went wrong: have it seen whether it is there before it is asked again."""
        self.channel = None

    def _begin(self) -> None:
        with self._lock:
            if self._reaching or self.closed or time.monotonic() < self._again_at:
                return
            self._reaching = True
            try:
                self._pool.submit(self._reach)
            except RuntimeError:  # the session is being closed, or there is no thread to be had
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


class Tasks:
    """The tasks that a session asks for steps by itself."""

    def __init__(self, security: Security | None, pool: GrowingPool, session: Scope) -> None:
        """session: ends with the session.  Raises InvalidArgument."""
        self._security = security
        self._pool = pool
        self._session = session
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        self.untold: dict[tuple[str, int], None] = {}  # what was given up, until the master knows

    def route(self, offer: pb.DirectStep, makes: Sequence[str]) -> Route:
        """The way that a master has offered for a step with those fetches."""
        earlier: Task | None = None
        with self._lock:
            task = self._tasks.get(offer.address)
            if task is None or task.start != offer.start:
                earlier = task
                task = Task(offer, self._security, self._pool, self._session, self.untold)
                self._tasks[offer.address] = task
        if earlier is not None:
            earlier.close()
        return Route(offer, task, makes)

    def outstanding(self) -> OutstandingParts:
        """The steps that are under way."""
        with self._lock:
            tasks = list(self._tasks.values())
        return {
            step_id: each for task in tasks for step_id, each in task.outstanding.copy().items()
        }

    def tell(self, master: Peer, handle: str, scope: Scope) -> None:
        """Tell the session's master what was given up, before it asks the tasks for more.  Raises as a call does."""
        calls: dict[str, list[int]] = {}
        told = list(self.untold)
        for task, number in told:
            calls.setdefault(task, []).append(number)
        for task, numbers in calls.items():
            request = pb.GiveUpElsewhereRequest(session_handle=handle, task=task, call=numbers)
            master.call_now(methods.GIVE_UP_ELSEWHERE, request, scope)
        for each in told:
            self.untold.pop(each, None)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            tasks = list(self._tasks.values())
        for task in tasks:
            task.close()
