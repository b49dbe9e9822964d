"""Sessions on a cluster: the graph is shipped to a master once, steps name what they want of it.

Called by: client.session.  Threads: any number of steps at once; growing the graph is serialised.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from headrace.base import errors
from headrace.client.engine import StepFunction
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import graph_def
from headrace.graph.tensor import Tensor
from headrace.run.scope import Scope
from headrace.serve import messages as m
from headrace.serve import wire
from headrace.serve.peers import Peer, connect
from headrace.serve.pool import GrowingPool

_log = logging.getLogger("headrace")
_FIRST_NOTICE_S = 5.0
_CONNECT_TIMEOUT_S = 300.0
_CLOSE_TIMEOUT_S = 5.0


def _connect_timeout() -> float | None:
    """Seconds to wait for a server that is not up yet; None: no limit."""
    text = os.environ.get("HEADRACE_CONNECT_TIMEOUT_S", "")
    seconds = float(text) if text else _CONNECT_TIMEOUT_S
    return seconds if seconds > 0 else None


def _address(target: str) -> str:
    if not target.startswith("grpc://") or ":" not in target[len("grpc://") :]:
        raise errors.not_found(
            f"session target {target!r} is not understood; use '' for this process or 'grpc://host:port'"
        )
    return target[len("grpc://") :].rstrip("/")


def _master(target: str, pool: GrowingPool) -> Peer:
    address = _address(target)
    return connect(address, "master", pool, f"the server {target}")


def _reach(peer: Peer, target: str, scope: Scope) -> None:
    """Wait until the master can be reached, saying so if it takes long.

    Raises Unavailable naming the address, or the scope's own error.
    """
    wait = getattr(peer, "wait_until_reachable", None)
    if wait is None:
        return
    notice_s = _FIRST_NOTICE_S
    with Scope(None if scope.deadline is not None else _connect_timeout(), scope) as whole:
        while True:
            left = whole.remaining()
            last = left is not None and left <= notice_s
            try:
                with Scope(None if last else notice_s, whole) as part:
                    wait(part)
                return
            except errors.UnavailableError:
                if last or whole.error is not None:
                    raise
            _log.warning("still waiting for the server at %s to answer", target)
            notice_s = min(notice_s * 2, 60.0)


class RemoteEngine:
    """An `Engine` on a cluster."""

    def __init__(self, target: str, graph: Graph, config: pb.ConfigProto | None) -> None:
        _address(target)
        self._target = target
        self._graph = graph
        self._config = config if config is not None else pb.ConfigProto()
        self._pool = GrowingPool("headrace client")
        self._scope = Scope()
        self._lock = threading.Lock()
        self._master: Peer | None = None
        self._handle = ""
        self._version = 0
        self._shipped = 0
        _open_engines.add(self)

    def step(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> StepFunction:
        """See `Engine.step`.  The step is sent by names."""
        feed_names = [tensor.name for tensor in feeds]
        fetch_names = [tensor.name for tensor in fetches]
        target_names = [op.name for op in targets]

        def run(
            values: Sequence[Any], options: pb.RunOptions | None, metadata: pb.RunMetadata | None
        ) -> list[Any]:
            timeout_ms = (
                options.timeout_in_ms if options is not None else 0
            ) or self._config.operation_timeout_in_ms
            sent = options
            if timeout_ms and (sent is None or not sent.timeout_in_ms):
                sent = pb.RunOptions()
                if options is not None:
                    sent.CopyFrom(options)
                sent.timeout_in_ms = timeout_ms
            with Scope(timeout_ms / 1000 if timeout_ms else None, self._scope) as scope:
                master = self._synchronized(scope)
                request = m.RunStepRequest(
                    self._handle,
                    list(zip(feed_names, values, strict=True)),
                    fetch_names,
                    target_names,
                    sent,
                )
                reply: m.RunStepReply = master.call_now(wire.RUN_STEP, request, scope)
            if metadata is not None:
                metadata.Clear()
                if reply.metadata is not None:
                    metadata.CopyFrom(reply.metadata)
            found = dict(reply.tensors)
            return [found[name] for name in fetch_names]

        return run

    def _synchronized(self, scope: Scope) -> Peer:
        """The master, once it has every node of the graph."""
        if self._master is not None and self._shipped == len(self._graph) and self._handle:
            return self._master
        with self._lock:
            scope.check()
            if self._master is None:
                self._master = _master(self._target, self._pool)
                _reach(self._master, self._target, scope)
            if not self._handle:
                self._create(self._master, scope)
            elif self._shipped < len(self._graph):
                self._extend(self._master, scope)
            return self._master

    def _create(self, master: Peer, scope: Scope) -> None:
        ops = self._graph.get_operations()
        request = pb.CreateSessionRequest(
            graph_def=graph_def(self._graph, ops=ops), config=self._config, target=self._target
        )
        reply = master.call_now(wire.CREATE_SESSION, request, scope)
        self._handle, self._version, self._shipped = (
            reply.session_handle,
            reply.graph_version,
            len(ops),
        )

    def _extend(self, master: Peer, scope: Scope) -> None:
        ops = self._graph.operations_since(self._shipped)
        request = pb.ExtendSessionRequest(
            session_handle=self._handle,
            graph_def=graph_def(self._graph, ops=ops),
            current_graph_version=self._version,
        )
        reply = master.call_now(wire.EXTEND_SESSION, request, scope)
        self._version = reply.new_graph_version
        self._shipped += len(ops)

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """The devices of the cluster."""
        with Scope(parent=self._scope) as scope:
            master = self._synchronized(scope)
            reply = master.call_now(
                wire.LIST_DEVICES, pb.ListDevicesRequest(session_handle=self._handle), scope
            )
        return [*reply.local_device, *reply.remote_device]

    def close(self) -> None:
        """Cancel the steps under way and close the session on the master, if it can be reached."""
        self._close(_CLOSE_TIMEOUT_S)

    def release(self) -> None:
        """See `Engine.release`.  At interpreter exit nothing is sent: no thread would carry it."""
        if not sys.is_finalizing():
            self._close(0.0)

    def _close(self, wait_s: float) -> None:
        _open_engines.discard(self)
        self._scope.cancel(errors.cancelled("the session was closed"))
        with self._lock:
            handle, self._handle = self._handle, ""
            master, self._master = self._master, None
        if master is not None:
            if handle:
                self._send_close(master, handle, wait_s)
            master.close()
        self._pool.shutdown(wait=False)

    def _send_close(self, master: Peer, handle: str, wait_s: float) -> None:
        asked = master.call(
            wire.CLOSE_SESSION, pb.CloseSessionRequest(session_handle=handle), Scope(wait_s or 1.0)
        )
        try:
            if wait_s:
                asked.wait(Scope(wait_s))
        except errors.OpError as error:
            _log.debug("closing session %s on %s: %s", handle, self._target, error)


_open_engines: weakref.WeakSet[RemoteEngine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Sessions that the program leaves open are closed while threads still run."""
    for engine in list(_open_engines):
        engine._close(1.0)


def reset(target: str, containers: list[str], config: pb.ConfigProto | None) -> None:
    """Empty containers on the cluster and close the sessions of the master at `target`."""
    pool = GrowingPool("headrace reset")
    timeout_ms = config.operation_timeout_in_ms if config is not None else 0
    master = _master(target, pool)
    try:
        with Scope(timeout_ms / 1000 if timeout_ms else None) as scope:
            _reach(master, target, scope)
            filters = list(config.device_filters) if config is not None else []
            master.call_now(
                wire.RESET, pb.ResetRequest(container=containers, device_filters=filters), scope
            )
    finally:
        master.close()
        pool.shutdown(wait=False)
