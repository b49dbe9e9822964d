"""The peers of a process: services of other tasks, by their names or addresses.

`InProcessPeer` calls a service of this process; `serve.connect.routed.RoutedPeer` one behind an address.
Called by: serve.master.master, serve.worker.worker, client.remote.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.cancelled_calls import CancelledCalls
from headrace.serve.rpc.gather import Begun
from headrace.serve.rpc.methods import Method
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.peer_call import PeerCall
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.status import as_op_error


class InProcessPeer:
    """A service object of this process."""

    remote = False

    def __init__(self, service: Any, pool: GrowingPool, name: str = "") -> None:
        self.name = name
        self.cancelled_calls = CancelledCalls()
        self._service = service
        self._pool = pool

    @property
    def stale(self) -> bool:
        """See `Peer`."""
        closed: bool = self._service.closed
        return closed

    def call(
        self,
        method: Method,
        request: Any,
        scope: Scope,
        wait_for_ready: bool = False,
        watched: bool = True,
    ) -> Pending[Any]:
        """See `Peer`.  A handler that gives a Pending is called right here, others on the pool."""
        handler = getattr(self._service, method.handler)
        if self.cancelled_calls.any and method.runs_steps:
            self._tell_ahead(scope)
        if getattr(handler, "gives_pending", False):
            try:
                result: Pending[Any] = handler(request, scope)
            except errors.OpError as error:
                return Pending.failed_with(error)
            return result
        inner = Scope(parent=scope)
        call = _InProcessCall(WaitInfo(method.name, self.name), inner, self._service)

        def work() -> None:
            try:
                reply = handler(request, inner)
                if not call.replied(reply):
                    m.release(reply)
            except BaseException as error:  # the caller gets it, whatever it is
                call.failed(as_op_error(error, method.name))
            finally:
                inner.close()

        try:
            self._pool.submit(work)
        except RuntimeError as error:  # shut down, or the system has no more threads
            call.failed(errors.unavailable(f"{method.name} on {self.name}: {error}"))
        return call

    def begin(self, method: Method, request: Any, scope: Scope) -> Begun | Pending[Any]:
        """See `Peer`."""
        return self.call(method, request, scope)

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """See `Peer`."""
        if self.cancelled_calls.any and method.runs_steps:
            self._tell_ahead(scope)
        result = getattr(self._service, method.handler)(request, scope)
        return result.wait(scope) if isinstance(result, Pending) else result

    def _tell_ahead(self, scope: Scope) -> None:
        told = self.cancelled_calls.request()
        self._service.give_up(told, scope)
        self.cancelled_calls.heard(told)

    def tell(self, method: Method, request: Any, scope: Scope) -> bool:
        """See `Peer`."""
        self.call_now(method, request, scope)
        return True

    def prepare(self, start: int = 0) -> None:
        """See `Peer`.  There is one way."""

    def listens(self, scope: Scope) -> bool:
        """See `Peer`.  It is here."""
        return not self.stale

    def why_silent(self, scope: Scope) -> str:
        """See `Peer`.  It answers."""
        return ""

    def close(self) -> None:
        """Nothing is held."""


class _InProcessCall(PeerCall):
    """A call whose handler runs on a pool, in a scope of its own."""

    __slots__ = ("_scope", "_service")

    def __init__(self, wait_info: WaitInfo, scope: Scope, service: Any) -> None:
        super().__init__(wait_info)
        self._scope = scope
        self._service = service

    def give_up(self) -> None:
        """See `PeerCall`."""
        self._scope.cancel(errors.cancelled("the call was cancelled"))
        self._service.note_cancelled()


class Peers:
    """The worker services of a cluster, by task name (``/job:J/replica:0/task:N``)."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        own_task: str,
        own_worker: Any,
        pool: GrowingPool,
        trusting: Security | None = None,
    ) -> None:
        """own_worker: a serve.worker.worker.Worker.  trusting: what is shown to them; None: as the environment says."""
        self.own_worker = own_worker
        self.trusting = trusting
        self._addresses = dict(addresses)
        self._peers: dict[str, Peer] = {own_task: InProcessPeer(own_worker, pool, own_task)}
        self._own_task = own_task
        self.pool = pool
        self._starts: dict[str, int] = {}
        self.restarts_seen = 0  # of other tasks
        self._closed = False

    @property
    def addresses(self) -> Mapping[str, str]:
        """host:port by task."""
        return self._addresses

    @cached_property
    def digest(self) -> bytes:
        """Of the addresses: the same where they are."""
        import hashlib  # which no client needs

        text = "\n".join(f"{task}\t{address}" for task, address in sorted(self._addresses.items()))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    @property
    def tasks(self) -> list[str]:
        """All tasks, in name order."""
        return sorted(self._addresses)

    def address(self, task: str) -> str:
        """host:port of a task of the cluster."""
        return self._addresses[task]

    def get(self, task: str) -> Peer:
        """The worker of `task`.  Raises InvalidArgument if the cluster has no such task."""
        peer = self._peers.get(task)
        if peer is not None and (task == self._own_task or not peer.stale):
            return peer
        self._peers.pop(task, None)
        address = self._addresses.get(task)
        if address is None:
            raise errors.invalid_argument(
                f"the cluster has no task {task}; it has {', '.join(self.tasks)}"
            )
        made = connect(address, "worker", self.pool, task, self.trusting)
        peer = self._peers.setdefault(task, made)
        if peer is not made or self._closed:  # meanwhile
            made.close()
        return peer

    def traffic(self) -> Iterator[pb.TrafficState]:
        """What has passed over connections to tasks of other processes."""
        for task, peer in self._peers.copy().items():
            if isinstance(peer, RoutedPeer):
                passed = peer.traffic
                yield pb.TrafficState(task=task, sent=passed.sent, received=passed.received)

    def has_start(self, task: str, start: int) -> None:
        """A task has said which start of it this is."""
        earlier = self._starts.get(task, start)
        self._starts[task] = start
        if earlier != start:
            self.restarts_seen += 1

    def close(self) -> None:
        """Close the connections, and those that somebody is just about to make."""
        self._closed = True
        for peer in list(self._peers.values()):
            peer.close()


def connect(
    address: str,
    service: str,
    pool: GrowingPool,
    name: str = "",
    trusting: Security | None = None,
) -> Peer:
    """A peer for the `service` (master or worker) at ``host:port``: direct if it is in this process.

    name: what errors call it, such as its task.  trusting: what is shown to it, if it is not.
    """
    server = local_servers.find(address)
    if server is not None:
        return InProcessPeer(getattr(server, service), pool, name)
    return RoutedPeer(address, name, trusting)
