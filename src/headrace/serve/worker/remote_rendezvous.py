"""Remote rendezvous: the values of one step on one task, and how they pass between tasks.

Tasks of ours send each other a value as soon as it is there; others are asked for it.

Called by: serve.worker.worker (makes it, hands out what was sent), run.exec.program (sends, receives).
Threads: any.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.base import errors
from headrace.run.exec.keys import source_task, target_task
from headrace.run.exec.partial import PartialRun
from headrace.run.exec.rendezvous import Delivery, Rendezvous
from headrace.run.exec.trace import StatsCollector
from headrace.run.exec.worker_pool import let_blas_go
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.variable import Lease, release
from headrace.serve.connect.retries import RetriedCall
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.methods import RECV_TENSOR, SEND_TENSOR
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.step_channel import StepChannels
from headrace.serve.worker.worker_session import WorkerSession

_MOST_ON_THE_WAY = 16 << 20  # bytes that a partition has sent by calls without an answer yet
_CALL_BYTES = 4096  # what a call takes beside its value


@dataclass(frozen=True, slots=True)
class Routes:
    """Tasks that are sent what a partition makes for them, and tasks that send what it receives from
    them.  With others the receiver asks.
    """

    pushes_to: frozenset[str] = frozenset()
    pushed_by: frozenset[str] = frozenset()


class StepRendezvous:
    """The rendezvous of one step on one task; a `RemoteRendezvous` adds what other tasks send.

    partitions: how many of the step run here now; started: whether any has been; unclaimed: bytes that came before;
    partials: its partial runs, by graph handle, with their statistics.  All are the worker's to keep, under its lock.
    """

    def __init__(self, step_id: int) -> None:
        self.local = Rendezvous()
        self.scope = Scope()
        self.partitions = 0
        self.started = False
        self.unclaimed = 0
        self.since = time.monotonic()
        self.partials: dict[str, tuple[PartialRun, StatsCollector | None]] = {}
        self.step_id = step_id

    def deliver(self, request: m.SendTensorRequest) -> None:
        """Leave a value that another task has sent.

        Raises Internal for a key that has been sent already; when the step is over, nothing happens.
        """
        value = request.value
        if isinstance(value, Lease):  # of a task in this process
            value = value.detach()
        try:
            self.local.send(request.rendezvous_key, value, request.is_dead)
        except errors.OpError:
            if self.scope.error is None and self.local.error is None:
                raise

    def hand_over(
        self, request: m.RecvTensorRequest, given_up: Callable[[errors.OpError], object]
    ) -> Pending[m.RecvTensorReply]:
        """The value that is asked for, once; given_up(error): called if nobody wants it any more."""
        taken = self.local.recv(request.rendezvous_key)
        gone = errors.cancelled("the receiver gave up")

        def withdraw(_: Pending[m.RecvTensorReply]) -> bool:
            taken.abandon(gone)
            given_up(gone)
            return True

        replied: Pending[m.RecvTensorReply] = Pending(taken.wait_info, withdraw)

        def arrived(delivery: Pending[Delivery]) -> None:
            error = delivery.error
            if error is gone:
                return  # who gives up says so with an error of their own
            if error is not None:
                replied.reject(error)
            else:
                value, dead = delivery.result()
                if isinstance(value, Lease) and not request.takes_leases:
                    value = value.detach()
                reply = m.RecvTensorReply(value, dead)
                if not replied.resolve(reply):
                    m.release(reply)

        taken.on_done(arrived)
        return replied

    def abort(self, error: errors.OpError) -> bool:
        """End the step on this task: whoever waits here or asks later gets `error`."""
        self.scope.cancel(error)
        return self.local.abort(error)


class RemoteRendezvous:
    """A step's rendezvous as one partition sees it: values pass to and from other tasks too."""

    __slots__ = (
        "_rendezvous",
        "_channels",
        "_on_the_way",
        "_scope",
        "_sent",
        "_session",
        "_routes",
        "_step_id",
    )

    def __init__(
        self,
        rendezvous: StepRendezvous | None,
        step_id: int,
        session: WorkerSession,
        routes: Routes,
        scope: Scope,
        channels: StepChannels | None,
    ) -> None:
        """rendezvous: None for a partition that receives nothing, and sends only to tasks that it pushes to.

        session: whose names of tasks it uses.  scope: the partition's, which ends when the step here does.
        """
        self._rendezvous = rendezvous
        self._step_id = step_id
        self._scope = scope
        self._session = session
        self._routes = routes
        self._channels = channels
        self._sent: deque[tuple[RetriedCall, int]] = deque()  # over gRPC, with their sizes
        self._on_the_way = 0

    def send(self, key: str, value: Any, dead: bool = False) -> None:
        """Send a value to its task, or leave it for whoever asks this one.

        Raises Unavailable (the task is gone), and what the step ends with.
        """
        rendezvous = self._rendezvous
        if self._routes.pushes_to:
            task = target_task(key)
            if task in self._routes.pushes_to:
                self._push(task, m.SendTensorRequest(self._step_id, key, value, dead))
                return
        assert rendezvous is not None
        rendezvous.local.send(key, value, dead)

    def _push(self, task: str, request: m.SendTensorRequest) -> None:
        value = request.value
        if self._channels is not None and self._channels.send(task, request):
            release((value,))
            return
        peer = self._session.peers.get(task)
        try:
            if not peer.tell(SEND_TENSOR, request, self._scope):
                self._send_call(peer, request)
        finally:
            release((value,))

    def _send_call(self, peer: Peer, request: m.SendTensorRequest) -> None:
        """Send a value by a call, which does not wait until there is room for it: this does.  Raises as `send`."""
        if isinstance(request.value, Lease):
            request.value = request.value.detach()
        size = _CALL_BYTES + size_of(request.value)
        while self._sent and self._on_the_way + size > _MOST_ON_THE_WAY:
            oldest, its_size = self._sent[0]
            if not oldest.done:
                let_blas_go()
            oldest.wait(self._scope)
            self._sent.popleft()
            self._on_the_way -= its_size
        scope = self._scope if self._rendezvous is None else self._rendezvous.scope
        self._sent.append((RetriedCall(peer, SEND_TENSOR, request, scope), size))
        self._on_the_way += size

    def recv(self, key: str) -> Pending[Delivery]:
        """Take a value that is here or comes, or ask its task for it."""
        task = source_task(key)
        assert self._rendezvous is not None
        if task == self._session.task or task in self._routes.pushed_by:
            return self._rendezvous.local.recv(key)
        request = m.RecvTensorRequest(self._step_id, key, secrets.randbits(63))
        peer = self._session.peers.get(task)
        asked = RetriedCall(peer, RECV_TENSOR, request, self._rendezvous.scope)
        taken: Pending[Delivery] = Pending(asked.wait_info, lambda _: asked.give_up())

        def arrived(reply: Pending[Any]) -> None:
            if reply.error is not None:
                taken.reject(reply.error)
            else:
                found = reply.result()
                taken.resolve((found.value, found.is_dead))

        asked.on_done(arrived)
        return taken

    def finish(self, scope: Scope, values: list[Any]) -> None:
        """Wait until what was sent has arrived, where that is not certain yet.  Raises Unavailable.

        values: what the partition gives; leases among them are released if this fails.
        """
        try:
            for sent, _ in self._sent:
                sent.wait(scope)
        except BaseException:
            release(values)
            raise

    def abort(self, error: errors.OpError) -> bool:
        """See `StepRendezvous.abort`."""
        return self._rendezvous is not None and self._rendezvous.abort(error)


def size_of(value: Any) -> int:
    """Bytes that a value has on the wire, more or less."""
    if value is None:  # dead
        return 0
    if isinstance(value, Lease):
        return value.nbytes
    if value.dtype == object:
        return sum(len(each) if isinstance(each, bytes) else 64 for each in value.flat)
    return int(value.nbytes)
