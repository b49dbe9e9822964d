"""Master: the service that clients talk to.  Keeps sessions, turns their steps into partitions.

Takes and returns messages; knows no transport.
Called by: the shells, and clients of this process.  Threads: any; `run_step` works in the calling
thread.  Ends by: `close`, which closes every session.
"""

from __future__ import annotations

import secrets
import threading

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve import messages as m
from headrace.serve import wire
from headrace.serve.cluster_view import ClusterView
from headrace.serve.master_session import MasterSession
from headrace.serve.worker import Worker


class Master:
    """The master of one server; it runs its own partitions on `worker`."""

    def __init__(self, worker: Worker, config: pb.ConfigProto) -> None:
        self._worker = worker
        self._config = config
        self._scope = Scope()
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}

    def _view(self, filters: list[str]) -> ClusterView:
        return ClusterView(self._worker.peers, self._worker.task, self._scope, filters)

    def create_session(
        self, request: pb.CreateSessionRequest, scope: Scope
    ) -> pb.CreateSessionResponse:
        """A new session with a graph.  Raises NotFound (unknown op), InvalidArgument."""
        config = pb.ConfigProto()
        config.CopyFrom(request.config)
        if not config.operation_timeout_in_ms:
            config.operation_timeout_in_ms = self._config.operation_timeout_in_ms
        if config.isolate_session_state:
            raise errors.unimplemented(
                "isolate_session_state is not supported yet: name a tf.container of your own instead"
            )
        handle = f"{secrets.randbits(64):016x}"
        view = self._view(list(config.device_filters or self._config.device_filters))
        session = MasterSession(handle, config, view, self._worker.task)
        version = session.extend(request.graph_def)
        with self._lock:
            self._sessions[handle] = session
        return pb.CreateSessionResponse(session_handle=handle, graph_version=version)

    def _session(self, handle: str) -> MasterSession:
        session = self._sessions.get(handle)
        if session is None:
            raise errors.aborted(
                f"session {handle!r} is not known to {self._worker.task}: it was closed, reset, or the server "
                "was restarted; make a new session"
            )
        return session

    def extend_session(
        self, request: pb.ExtendSessionRequest, scope: Scope
    ) -> pb.ExtendSessionResponse:
        """Add nodes to a session's graph.  Raises Aborted on a stale version."""
        session = self._session(request.session_handle)
        if request.current_graph_version != session.graph_version:
            raise errors.aborted(
                f"the graph of session {request.session_handle!r} is at version {session.graph_version}, the "
                f"client believes {request.current_graph_version}: another client extended it"
            )
        return pb.ExtendSessionResponse(new_graph_version=session.extend(request.graph_def))

    def run_step(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        """Run one step in this thread.  Raises what its nodes raise."""
        if request.partial_run_handle:
            raise errors.unimplemented(
                "partial runs are not supported yet; run the whole step at once"
            )
        return self._session(request.session_handle).run(request, scope)

    def close_session(
        self, request: pb.CloseSessionRequest, scope: Scope
    ) -> pb.CloseSessionResponse:
        """Cancel a session's steps and forget it."""
        with self._lock:
            session = self._sessions.pop(request.session_handle, None)
        if session is None:
            raise errors.aborted(
                f"session {request.session_handle!r} is not known to {self._worker.task}"
            )
        session.close(errors.cancelled("the session was closed"))
        return pb.CloseSessionResponse()

    def list_devices(self, request: pb.ListDevicesRequest, scope: Scope) -> pb.ListDevicesResponse:
        """The devices of all tasks, this one's first.  Raises Unavailable."""
        view = self._view([])
        reply = pb.ListDevicesResponse(local_device=[self._worker.device_attributes()])
        for task in view.tasks:
            if task != self._worker.task:
                reply.remote_device.extend(view.attributes(task, scope))
        return reply

    def reset(self, request: pb.ResetRequest, scope: Scope) -> pb.ResetResponse:
        """Close all sessions here and empty containers on every task (after device filters)."""
        self._close_all(
            errors.aborted("the session was closed by tf.Session.reset; make a new session")
        )
        view = self._view(list(request.device_filters))
        message = pb.CleanupAllRequest(container=request.container)
        asked = [
            (task, view.worker(task).call(wire.CLEANUP_ALL, message, scope)) for task in view.tasks
        ]
        for _, reply in asked:
            reply.wait(scope)
        return pb.ResetResponse()

    def _close_all(self, error: errors.OpError) -> None:
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.close(error)

    def close(self, error: errors.OpError) -> None:
        """Close all sessions with `error`."""
        self._close_all(error)
        self._scope.cancel(error)
