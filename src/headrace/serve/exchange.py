"""Exchange: the values of one step on one task; what other tasks send is asked of them.

Called by: serve.worker (makes it, hands out what was sent), run.program (sends, receives).
Threads: any.
"""

from __future__ import annotations

import secrets
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.keys import source_device, task_of
from headrace.run.partial import PartialRun
from headrace.run.pending import Pending
from headrace.run.rendezvous import Delivery, Rendezvous
from headrace.run.scope import Scope
from headrace.run.trace import StatsCollector
from headrace.serve import messages as m
from headrace.serve.peers import Peer, Peers
from headrace.serve.wire import GET_STATUS, RECV_TENSOR

_RECONNECT_WITHIN_S = 1.5  # more than the pause between two attempts to connect


class Exchange:
    """The rendezvous of one step on one task; `seen_from` adds what other tasks send.

    partitions: how many of the step run here now; partials: its partial runs, by graph handle, with
    their statistics.  Both are the worker's to keep, under its lock.
    """

    def __init__(self, step_id: int) -> None:
        self.local = Rendezvous()
        self.scope = Scope()
        self.partitions = 0
        self.partials: dict[str, tuple[PartialRun, StatsCollector | None]] = {}
        self.step_id = step_id

    def seen_from(self, task: str, peers: Peers) -> View:
        """The exchange for partitions that know this task as `task` and the others as `peers`."""
        return View(self, task, peers)

    def abort(self, error: errors.OpError) -> bool:
        """End the step on this task: whoever waits here or asks later gets `error`."""
        self.scope.cancel(error)
        return self.local.abort(error)


class View:
    """An exchange as the partitions of one session see it: receives from other tasks ask those."""

    def __init__(self, exchange: Exchange, own_task: str, peers: Peers) -> None:
        self._exchange = exchange
        self._own_task = own_task
        self._peers = peers

    def send(self, key: str, value: Any, dead: bool = False) -> None:
        """Leave a value for whoever asks this task."""
        self._exchange.local.send(key, value, dead)

    def recv(self, key: str) -> Pending[Delivery]:
        """Take a value from here or from its task."""
        task = task_of(source_device(key))
        if task == self._own_task:
            return self._exchange.local.recv(key)
        request = m.RecvTensorRequest(self._exchange.step_id, key, secrets.randbits(63))
        return _Asking(self._peers.get(task), request, self._exchange.scope).taken

    def abort(self, error: errors.OpError) -> bool:
        """See `Exchange.abort`."""
        return self._exchange.abort(error)


class _Asking:
    """A RecvTensor call.

    A task that was down is believed to be so only after one more attempt to reach it: the
    connection may just not have noticed that it is back.
    """

    def __init__(self, peer: Peer, request: m.RecvTensorRequest, scope: Scope) -> None:
        self._peer = peer
        self._request = request
        self._scope = scope
        self._lost: errors.OpError | None = None
        self._gave_up = False
        self._asked: Pending[Any] = peer.call(RECV_TENSOR, request, scope)
        self.taken: Pending[Delivery] = Pending(self._asked.wait_info, self._withdraw)
        self._asked.on_done(self._arrived)

    def _withdraw(self, _: Pending[Delivery]) -> bool:
        self._gave_up = True
        self._asked.abandon(errors.cancelled("the receiver gave up"))
        return True

    def _arrived(self, asked: Pending[Any]) -> None:
        error = asked.error
        if self._gave_up:
            return  # who gives up says so with an error of their own
        if error is None:
            reply = asked.result()
            self.taken.resolve((reply.value, reply.is_dead))
        elif isinstance(error, errors.UnavailableError) and self._lost is None:
            self._lost = error
            probing = Scope(_RECONNECT_WITHIN_S, self._scope)
            status = pb.GetStatusRequest()
            self._asked = self._peer.call(GET_STATUS, status, probing, wait_for_ready=True)
            self._asked.on_done(self._probed)
        else:
            self.taken.reject(error)

    def _probed(self, probe: Pending[Any]) -> None:
        if self._gave_up:
            return
        if probe.error is not None:
            assert self._lost is not None
            self.taken.reject(self._lost)
        else:
            self._asked = self._peer.call(RECV_TENSOR, self._request, self._scope)
            self._asked.on_done(self._arrived)
