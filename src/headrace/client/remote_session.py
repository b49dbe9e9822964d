"""A client's session on its master: the graph is shipped once, and what is added to it later.

Shipping belongs to the session, not to the step that happens to need it first: a step that gives up
waiting (its deadline, Ctrl-C) leaves it going on, and the next step finds it done.
Called by: client.remote.  Threads: any.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import graph_def
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.readiness import wait_for_server
from headrace.serve.rpc import methods
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.status import from_detail
from headrace.serve.rpc.waiting import follow

CLOSE_WITHIN_S = 5.0
_BACK_WITHIN_S = 0.3  # more than the pause between two attempts to connect


def _who() -> str:
    """This process, for people."""
    program = os.path.basename(sys.argv[0] if sys.argv else "") or "python"
    return f"{program}, pid {os.getpid()} on {socket.gethostname()}"


class RemoteSession:
    """A session on `master` with the nodes of `graph`; `handle` is "" until it is there.

    incarnation: of the server that has the session, 0 if it does not tell.
    direct: the scope of steps that are asked of their tasks without the master; None while there must be none: the
    session may have ended.
    """

    def __init__(
        self,
        master: Peer,
        target: str,
        graph: Graph,
        config: pb.ConfigProto,
        scope: Scope,
        pool: GrowingPool,
        starts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """scope: the session's.  starts: of tasks that were used in earlier sessions."""
        self._pool = pool
        self.master = master
        self.handle = ""
        self.incarnation = 0
        self.direct: Scope | None = None
        self._target = target
        self._graph = graph
        self._config = config
        self._scope = scope
        self._starts = starts
        self._lock = threading.RLock()  # a reply may come while its request is being sent
        self._version = 0
        self._shipped = 0
        self._shipping: Pending[None] | None = None
        self._keep_alive: Pending[Any] | None = None

    def ship(self, scope: Scope) -> None:
        """Return when the master has every node that the graph has now, however fast others make it grow.

        Raises Unavailable (nobody answers there, or nobody has yet when `scope` ends), what the master says, and what
        ends `scope`, also while another thread changes the graph.
        """
        if self.handle and self._shipped == len(self._graph):
            return
        with self._graph._session_run_lock(scope):
            wanted = len(self._graph)
        while not (self.handle and self._shipped >= wanted):
            with self._graph._session_run_lock(scope), self._lock:
                self._scope.check()
                shipping, is_there = self._shipping, bool(self.handle)
                if shipping is None:
                    shipping = (
                        self._extend() if is_there else self._create(self._graph.get_operations())
                    )
            if is_there:
                follow(shipping).wait(scope)
            else:
                wait_for_server(shipping, self.master, scope, self._pool)

    def open(self, scope: Scope) -> None:
        """Return when there is a session; if there was none, one without nodes.  Raises as `ship`."""
        while not self.handle:
            with self._lock:
                self._scope.check()
                shipping = self._shipping or self._create([])
            wait_for_server(shipping, self.master, scope, self._pool)

    def _create(self, ops: Sequence[Operation]) -> Pending[None]:
        request = pb.CreateSessionRequest(
            graph_def=graph_def(self._graph, ops=ops),
            config=self._config,
            target=self._target,
            headrace_client=_who(),
            headrace_attends=self.master.remote,
            headrace_starts=self._starts,
        )
        asked = self.master.call(methods.CREATE_SESSION, request, self._scope, wait_for_ready=True)

        def created(reply: Any) -> None:
            self.handle = reply.session_handle
            self.incarnation = reply.headrace_lane.server
            self._version = reply.graph_version
            self._shipped = len(ops)
            if self.incarnation and self.master.remote:
                self.direct = Scope(parent=self._scope)
                self._send_keep_alive(self.handle)
            elif self.master.remote:
                self._ask_for_incarnation()

        return self._when_done(asked, created)

    def _ask_for_incarnation(self) -> None:
        """TensorFlow's masters do not tell which start of theirs has a session; the worker beside them does."""

        def told(reply: Pending[pb.GetStatusResponse]) -> None:
            if reply.error is None:
                devices = reply.result().device_attributes
                self.incarnation = devices[0].incarnation if devices else 0

        self.master.call(methods.GET_STATUS, pb.GetStatusRequest(), self._scope).on_done(told)

    def _send_keep_alive(self, handle: str) -> None:
        """Have the master know that this client lives, for as long as the session lasts."""
        keep_alive = self._keep_alive = self.master.call(
            methods.ATTEND_SESSION,
            pb.AttendSessionRequest(session_handle=handle),
            self._scope,
            wait_for_ready=True,
        )

        def ended(reply: Pending[pb.AttendSessionResponse]) -> None:
            if self.handle != handle:
                return
            direct, self.direct = self.direct, None
            if isinstance(reply.error, errors.UnavailableError):
                self._send_keep_alive(handle)  # the connection broke; waits for another
                if direct is not None:
                    self._find_out(handle, direct)
            elif direct is not None:
                direct.cancel(reply.error or from_detail(reply.result().reason))

        keep_alive.on_done(ended)

    def _find_out(self, handle: str, direct: Scope) -> None:
        """See whether the master has the session still; end the steps that are under way without it if not."""

        def answered(reply: Pending[Any]) -> None:
            if reply.error is None:
                self._go_on(handle, direct)
                return
            lost = errors.unavailable(
                f"the connection to {self.master.name} broke: its process has ended, or the network between"
            )
            lost.__cause__ = reply.error
            direct.cancel(reply.error if isinstance(reply.error, errors.AbortedError) else lost)
            self._ask_whether_it_has(handle, self._scope).on_done(back)

        def back(reply: Pending[Any]) -> None:
            if reply.error is None:
                self._go_on(handle, Scope(parent=self._scope))

        asking = Scope(_BACK_WITHIN_S, self._scope)
        self._ask_whether_it_has(handle, asking).on_done(answered)

    def _ask_whether_it_has(self, handle: str, scope: Scope) -> Pending[Any]:
        request = pb.AttendSessionRequest(session_handle=handle, only_asks=True)
        return self.master.call(methods.ATTEND_SESSION, request, scope, wait_for_ready=True)

    def _go_on(self, handle: str, direct: Scope) -> None:
        """The master has the session, and is attended."""
        with self._lock:
            if self.handle == handle:
                self.direct = direct

    def _extend(self) -> Pending[None]:
        ops = self._graph.operations_since(self._shipped)
        request = pb.ExtendSessionRequest(
            session_handle=self.handle,
            graph_def=graph_def(self._graph, ops=ops),
            current_graph_version=self._version,
        )
        asked = self.master.call(methods.EXTEND_SESSION, request, self._scope)

        def extended(reply: Any) -> None:
            self._version = reply.new_graph_version
            self._shipped += len(ops)

        return self._when_done(asked, extended)

    def _when_done(self, asked: Pending[Any], take: Callable[[Any], None]) -> Pending[None]:
        shipping: Pending[None] = Pending(asked.wait_info)
        self._shipping = shipping

        def arrived(reply: Pending[Any]) -> None:
            with self._lock:
                self._shipping = None
                if reply.error is None:
                    take(reply.result())
            if reply.error is None:
                shipping.resolve(None)
            else:
                shipping.reject(reply.error)

        asked.on_done(arrived)
        return shipping

    def close(self) -> Pending[Any] | None:
        """Ask the master to close the session, if it is known there; the reply."""
        with self._lock:
            handle, self.handle = self.handle, ""
            keep_alive, self._keep_alive = self._keep_alive, None
            self.direct = None
        if keep_alive is not None:
            keep_alive.abandon(errors.session_closed())
        if not handle:
            return None
        return self.master.call(
            methods.CLOSE_SESSION,
            pb.CloseSessionRequest(session_handle=handle),
            Scope(CLOSE_WITHIN_S),  # of its own: the session's has ended
        )
