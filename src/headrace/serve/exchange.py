"""Exchange: the values of one step on one task, and how they pass between tasks.

Tasks of ours send each other a value as soon as it is there; others are asked for it.

Called by: serve.worker (makes it, hands out what was sent), run.program (sends, receives).
Threads: any.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from headrace.base import errors
from headrace.run.keys import source_device, target_device, task_of
from headrace.run.partial import PartialRun
from headrace.run.pending import Pending
from headrace.run.rendezvous import Delivery, Rendezvous
from headrace.run.scope import Scope
from headrace.run.trace import StatsCollector
from headrace.run.variable import Lease, release
from headrace.serve import messages as m
from headrace.serve.peers import Peers
from headrace.serve.persistent import Persistent
from headrace.serve.wire import RECV_TENSOR, SEND_TENSOR


@dataclass(frozen=True, slots=True)
class Routes:
    """Tasks that are sent what a partition makes for them, and tasks that send what it receives from
    them.  With others the receiver asks.
    """

    pushes_to: frozenset[str] = frozenset()
    pushed_by: frozenset[str] = frozenset()


class Exchange:
    """The rendezvous of one step on one task; `seen_from` adds what other tasks send.

    partitions: how many of the step run here now; started: whether any has been; partials: its
    partial runs, by graph handle, with their statistics.  All are the worker's to keep, under its
    lock.
    """

    def __init__(self, step_id: int) -> None:
        self.local = Rendezvous()
        self.scope = Scope()
        self.partitions = 0
        self.started = False
        self.since = time.monotonic()
        self.partials: dict[str, tuple[PartialRun, StatsCollector | None]] = {}
        self.step_id = step_id

    def seen_from(self, task: str, peers: Peers, routes: Routes, scope: Scope) -> View:
        """The exchange for a partition that knows this task as `task` and the others as `peers`.

        scope: the partition's, which ends when the step here does.
        """
        return View(self, task, peers, routes, scope)

    def abort(self, error: errors.OpError) -> bool:
        """End the step on this task: whoever waits here or asks later gets `error`."""
        self.scope.cancel(error)
        return self.local.abort(error)


class View:
    """An exchange as one partition sees it: values pass to and from other tasks too."""

    def __init__(
        self, exchange: Exchange, own_task: str, peers: Peers, routes: Routes, scope: Scope
    ) -> None:
        self._exchange = exchange
        self._scope = scope
        self._own_task = own_task
        self._peers = peers
        self._routes = routes
        self._sent: list[Persistent] = []

    def send(self, key: str, value: Any, dead: bool = False) -> None:
        """Send a value to its task, or leave it for whoever asks this one.

        Raises Unavailable (the task is gone), and what the step ends with.
        """
        exchange = self._exchange
        if self._routes.pushes_to:
            task = task_of(target_device(key))
            if task in self._routes.pushes_to:
                request = m.SendTensorRequest(exchange.step_id, key, value, dead)
                peer = self._peers.get(task)
                try:
                    if not peer.tell(SEND_TENSOR, request, self._scope):
                        if isinstance(value, Lease):
                            request.value = value.detach()
                        self._sent.append(Persistent(peer, SEND_TENSOR, request, exchange.scope))
                finally:
                    release((value,))
                return
        exchange.local.send(key, value, dead)

    def recv(self, key: str) -> Pending[Delivery]:
        """Take a value that is here or comes, or ask its task for it."""
        task = task_of(source_device(key))
        if task == self._own_task or task in self._routes.pushed_by:
            return self._exchange.local.recv(key)
        request = m.RecvTensorRequest(self._exchange.step_id, key, secrets.randbits(63))
        asked = Persistent(self._peers.get(task), RECV_TENSOR, request, self._exchange.scope)
        taken: Pending[Delivery] = Pending(asked.wait_info, lambda _: asked.give_up())

        def arrived(reply: Pending[Any]) -> None:
            if reply.error is not None:
                taken.reject(reply.error)
            else:
                found = reply.result()
                taken.resolve((found.value, found.is_dead))

        asked.on_done(arrived)
        return taken

    def finish(self, scope: Scope) -> None:
        """Wait until what was sent has arrived, where that is not certain yet.  Raises Unavailable."""
        for sent in self._sent:
            sent.wait(scope)

    def abort(self, error: errors.OpError) -> bool:
        """See `Exchange.abort`."""
        return self._exchange.abort(error)
