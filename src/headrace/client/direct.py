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
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.connect.peers import Peer
from headrace.serve.grpc.client import GrpcPeer, peer_name
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.connect import leads_here
from headrace.serve.lane.options import max_message_bytes
from headrace.serve.lane.wire import VERSION
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.cancelled_calls import cancelled_calls_of
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security, chosen

_REACH_WITHIN_S = 5.0
_AGAIN_AFTER_S = 60.0  # a task that could not be reached

_log = logging.getLogger("headrace")
_step_ids = random.Random(secrets.randbits(64))


class Route:
    """The way of a step to its task, of that name; makes: its fetches.

    timeout_ms: of steps without a limit of their own; 0: none.
    """

    __slots__ = (
        "_as_they_are", "_feeds", "_fetches", "_handle", "makes", "task", "timeout_ms", "to",
    )  # fmt: skip

    def __init__(self, offer: pb.DirectStep, to: Task, makes: Sequence[str]) -> None:
        self.task = offer.task
        self.makes = makes
        self.to = to
        self.timeout_ms = offer.timeout_ms
        self._handle = offer.graph_handle
        self._feeds = list(offer.feed)
        self._fetches = list(offer.fetch)
        self._as_they_are = self._fetches == list(range(len(self._fetches)))

    def run(self, lane: LanePeer, values: Sequence[Any], scope: Scope) -> list[Any]:
        """The fetches.  Raises Unreachable and ForgottenStepError, for which nothing was begun; else as a step does."""
        feeds = [values[index] for index in self._feeds] if self._feeds else []
        step_id = _step_ids.getrandbits(56) | 1
        request = m.RunDirectRequest(self._handle, step_id, feeds)
        outstanding = self.to.outstanding
        outstanding[step_id] = (self,), time.monotonic()
        try:
            found: list[Any] = lane.call_now(methods.RUN_DIRECT, request, scope).fetches
        finally:
            del outstanding[step_id]
        if self._as_they_are and len(found) == len(self._fetches):
            return found
        return [found[index] for index in self._fetches]


class Task:
    """One start of a task.  lane: None until it is reached.  closed: there is another start of it, or no session.

    outstanding: see `cluster_view.OutstandingParts`.
    settled: the `CancelledCalls.times` of the session's master when a step last went through it to the task: what was
    given up of the master since, the task may not have heard of.
    """

    def __init__(
        self, offer: pb.DirectStep, security: Security | None, pool: GrowingPool, session: Scope,
        untold: dict[tuple[str, int], None],
    ) -> None:  # fmt: skip
        """untold: takes the number of each call that was given up, beside the task's name, for the master."""
        self.start = offer.start
        self.lane: LanePeer | None = None
        self.outstanding: OutstandingParts = {}
        self.settled = 0
        self._untold = untold
        self._address = offer.address
        self._task = offer.task
        self._name = peer_name(offer.address, offer.task)
        self._security = trusting = chosen(security)
        self._pool = pool
        self._session = session
        self._lock = threading.Lock()
        self._reaching = False
        self.closed = False
        self._again_at = 0.0
        self._told = False
        self._reached: LanePeer | None = None  # once; the lane, if nothing has failed since

        def probe(answer_s: float) -> GrpcPeer:
            return GrpcPeer(offer.address, offer.task, connect_within_s=answer_s, trusting=trusting)

        self._rpcs = OutstandingRpcs(self._name, probe)

    @property
    def silent(self) -> bool:
        """Whether it was found not to live, and has not been heard of since."""
        return self._rpcs.silent

    def use(self) -> LanePeer | None:
        """The lane; if there is none, it is looked for, for steps to come."""
        lane = self.lane
        if lane is None and not self._reaching:
            self._begin()
        return lane

    def leave(self) -> None:
        """Something went wrong: have it seen whether it is there before the lane is used again."""
        self.lane = None

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
            with Scope(_REACH_WITHIN_S, self._session) as scope:
                lane = self._found(scope)
        except (errors.OpError, OSError) as error:
            self._again_at = time.monotonic() + _AGAIN_AFTER_S
            if not (self._told or self._session.error):
                self._told = True
                _log.info("steps on %s go through the session's master: %s", self._name, error)
        else:
            with self._lock:
                if not self.closed:
                    self.lane = lane
        finally:
            self._reaching = False
            if self.closed:
                self.close()

    def _found(self, scope: Scope) -> LanePeer:
        """Its lane, with a connection.  Raises OpError, Unreachable."""
        asked = GrpcPeer(self._address, self._task, trusting=self._security)
        try:
            status = asked.call(
                methods.GET_STATUS, pb.GetStatusRequest(), scope, wait_for_ready=True
            ).wait(scope)
        finally:
            asked.close()
        if all(device.incarnation != self.start for device in status.device_attributes):
            raise errors.failed_precondition("another server answers there")
        offered = status.headrace_lane
        if offered.version != VERSION or not leads_here(offered):
            raise errors.failed_precondition("it has no lane that leads there")
        if self._reached is None:
            host = self._address.rpartition(":")[0]
            self._reached = LanePeer(
                offered, host, self._name, max_message_bytes(), self._rpcs, self._security,
                cancelled_calls=cancelled_calls_of(self._address), gave_up=self._gave_up,
            )  # fmt: skip
        self._reached.call_now(methods.GET_STATUS, pb.GetStatusRequest(), scope)
        self._rpcs.answered()
        return self._reached

    def _gave_up(self, number: int) -> None:
        self._untold[self._task, number] = None

    def close(self) -> None:
        """Close the connections; those with a step when it has ended."""
        with self._lock:
            self.closed = True
            self.lane = None
        if self._reached is not None:
            self._reached.close()
        self._rpcs.close()


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
