"""Master: the service that clients talk to.  Keeps sessions, turns their steps into partitions.

Takes and returns messages; knows no transport.
Called by: the transports, and clients of this process.  Threads: any; `run_step` works in the calling
thread.  Ends by: `close`, which closes every session.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.cluster import ClusterSpec
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.connect.local_servers import normal
from headrace.serve.connect.peers import Peers
from headrace.serve.connect.transports import direct_steps
from headrace.serve.master.at_once import step_at_once
from headrace.serve.master.master_session import MasterSession
from headrace.serve.master.session_reaper import SessionReaper
from headrace.serve.observe.counting import renewed
from headrace.serve.observe.overview import overview
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.again import AtOnceOrLater, Bound, RunsByNumber
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import gives_pending
from headrace.serve.rpc.status import again, to_detail
from headrace.serve.worker.worker import Worker

if TYPE_CHECKING:
    from headrace.serve.observe.meter import Meter

_STEPS = ("run", "run_known", "run_callable")
_MOST_ENDED = 1024  # sessions that were closed without a word of their clients


_log = logging.getLogger("headrace")


class Master:
    """The master of one server; it runs its own partitions on `worker`."""

    def __init__(self, worker: Worker, config: pb.ConfigProto) -> None:
        self._worker = worker
        self._config = config
        self._scope = Scope()
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}
        self._ended: OrderedDict[str, errors.AbortedError] = OrderedDict()
        self._session_reaper = SessionReaper(self._close_unused)
        self.refusing: errors.OpError | None = None
        self._offers_direct = direct_steps()
        self._meter: Meter | None = None  # while steps are counted
        worker.session_states = self.session_states
        worker.mastered = self.count_steps
        worker.note_in_sessions = self.note_cancelled

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
        handle = f"{secrets.randbits(64):016x}"
        if self._config.experimental.headrace_place_on_own_task:
            config.experimental.headrace_place_on_own_task = True
        filters = list(config.device_filters or self._config.device_filters)
        own_cluster = bool(config.cluster_def.job)
        task, peers = self._worker.task, self._worker.peers
        if own_cluster:
            task, peers = self._other_cluster(config.cluster_def, request.target)
        view = ClusterView(peers, task, self._scope, filters, renames=own_cluster)
        session = MasterSession(
            handle, config, view, task, peers if own_cluster else None, request.headrace_starts
        )
        session.made_by(request.headrace_client)
        if request.headrace_attends and self._offers_direct:
            session.offer_direct()
        version = session.extend(request.graph_def)
        with self._lock:
            self._check_serving()
            self._sessions[handle] = session
            if self._meter is not None:
                self._meter.put_in(session, *_STEPS)
        self._session_reaper.take(session, request.headrace_attends)
        # Without a lane it tells the client at least which start of the server has the session.
        lane = self._worker.lane or pb.LaneAddress(server=self._worker.incarnation)
        return pb.CreateSessionResponse(
            session_handle=handle, graph_version=version, headrace_lane=lane
        )

    def _other_cluster(self, cluster: pb.ClusterDef, target: str) -> tuple[str, Peers]:
        """This task's name in a cluster that a client brings, and the tasks of that.

        Raises InvalidArgument if `target`, the client's address of this task, is not exactly one of them, or the task
        has the name there that it has anyway: its state in the two clusters is not the same.
        """
        addresses = ClusterSpec(cluster).task_names()
        own = normal(target.removeprefix("grpc://"))
        found = [task for task, address in addresses.items() if normal(address) == own]
        if len(found) != 1:
            raise errors.invalid_argument(
                f"the cluster_def must name the session's target {target!r} as one of its tasks; "
                f"it has it {len(found)} times"
            )
        if found[0] == self._worker.task:
            raise errors.invalid_argument(
                f"the cluster_def names this task {found[0]}, and so does the server's own cluster: a session with a "
                "cluster of its own has state of its own; give the task another job name or index in the cluster_def, "
                "or leave out the cluster_def to share the server's variables and queues"
            )
        return found[0], Peers(
            addresses, found[0], self._worker, self._worker.pool, self._worker.peers.trusting
        )

    @property
    def closed(self) -> bool:
        """Whether the server has stopped."""
        return self._scope.error is not None

    def _check_serving(self) -> None:
        if self.refusing is not None:
            raise again(self.refusing)

    def _session(self, handle: str) -> MasterSession:
        session = self._sessions.get(handle)
        if session is None:
            self._check_serving()
            ended = self._ended.get(handle)
            if ended is not None:
                raise type(ended).of(ended.message)
            raise errors.aborted(
                f"Session {handle} is not found: {self._worker.task} does not know it; it was closed, reset, "
                "or the server "
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

    def partial_run_setup(
        self, request: pb.PartialRunSetupRequest, scope: Scope
    ) -> pb.PartialRunSetupResponse:
        """Begin a partial run.  Raises InvalidArgument, NotFound."""
        self._check_serving()
        handle = self._session(request.session_handle).begin_partial(request, scope)
        return pb.PartialRunSetupResponse(partial_run_handle=handle)

    def run_step(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        """Run one step, or a piece of a partial one, in this thread.  Raises what its nodes raise."""
        self._check_serving()
        return self._session(request.session_handle).run(request, scope)

    def run_known(self, request: m.RunKnownRequest, scope: Scope) -> m.ValuesReply:
        """Run a step by its number, in this thread.  Raises what its nodes raise."""
        session = self.serving(request.session_handle)
        if session is None:
            self._check_serving()
            session = self._session(request.session_handle)
        return session.run_known(request, scope)

    def serving(self, handle: str) -> MasterSession | None:
        """A session whose steps this master runs; None if it does not, which may have many reasons."""
        return None if self.refusing is not None else self._sessions.get(handle)

    def bind_known(self, request: m.RunKnownRequest) -> Bound | None:
        """See `rpc.again.Binder`."""
        return _KnownSteps(self, request.session_handle)

    def give_up_elsewhere(
        self, request: pb.GiveUpElsewhereRequest, scope: Scope
    ) -> pb.GiveUpElsewhereResponse:
        """Have a task hear, before the next step that it is asked for, what a client has given up of it by itself.

        Raises Aborted, InvalidArgument (no such task).
        """
        cluster = self._session(request.session_handle).cluster
        cluster.worker(request.task).cancelled_calls.add(calls=request.call)
        return pb.GiveUpElsewhereResponse()

    def note_cancelled(self) -> None:
        """Have steps that come wait for those of their sessions that have been cancelled."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.note_cancelled()

    def make_callable(
        self, request: pb.MakeCallableRequest, scope: Scope
    ) -> pb.MakeCallableResponse:
        """Plan a step that is run by number.  Raises InvalidArgument, NotFound."""
        self._check_serving()
        session = self._session(request.session_handle)
        return pb.MakeCallableResponse(handle=session.make_callable(request.options, scope))

    def run_callable(self, request: m.RunCallableRequest, scope: Scope) -> m.RunCallableReply:
        """Run such a step in this thread.  Raises what its nodes raise."""
        self._check_serving()
        return self._session(request.session_handle).run_callable(request, scope)

    def release_callable(
        self, request: pb.ReleaseCallableRequest, scope: Scope
    ) -> pb.ReleaseCallableResponse:
        """Forget such a step.  Raises InvalidArgument."""
        self._session(request.session_handle).release_callable(request.handle)
        return pb.ReleaseCallableResponse()

    def close_session(
        self, request: pb.CloseSessionRequest, scope: Scope
    ) -> pb.CloseSessionResponse:
        """Cancel a session's steps and forget it.  Returns when they have ended."""
        with self._lock:
            session = self._sessions.pop(request.session_handle, None)
        if session is None:
            raise errors.aborted(
                f"Session {request.session_handle} is not found: {self._worker.task} does not know it"
            )
        closed = errors.session_closed()
        self._session_reaper.forget(request.session_handle, closed)
        session.close(closed, scope)
        return pb.CloseSessionResponse()

    def check_tasks(self, request: pb.CheckTasksRequest, scope: Scope) -> pb.CheckTasksResponse:
        """See whether tasks that a session's client has lost were restarted.  Raises Aborted that tells so, once."""
        self._check_serving()
        session = self._session(request.session_handle)
        session.check_tasks(dict(request.starts), scope)
        return pb.CheckTasksResponse()

    @gives_pending
    def attend_session(
        self, request: pb.AttendSessionRequest, scope: Scope
    ) -> Pending[pb.AttendSessionResponse]:
        """Has the session as long as it lasts; who gives up waiting gives up the session.

        Raises Aborted if it is not known.
        """
        self._session(request.session_handle)
        if request.only_asks:
            return Pending.done_with(pb.AttendSessionResponse())
        keep_alive = self._session_reaper.keep_alive(request.session_handle)
        left = errors.cancelled("the client left")
        replied: Pending[pb.AttendSessionResponse] = Pending(
            keep_alive.wait_info, lambda _: keep_alive.abandon(left) or True
        )

        def ended(done: Pending[errors.OpError]) -> None:
            if done.error is None:
                replied.resolve(pb.AttendSessionResponse(reason=to_detail(done.result())))
            elif done.error is not left:
                replied.reject(done.error)

        keep_alive.on_done(ended)
        return replied

    def _close_unused(self, handle: str, error: errors.AbortedError) -> None:
        """Close a session that its client has left without a word."""
        with self._lock:
            session = self._sessions.pop(handle, None)
            self._ended[handle] = error
            if len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)
        self._session_reaper.forget(handle, error)
        if session is not None:
            _log.warning("%s", error.message)
            with contextlib.suppress(errors.OpError):
                session.close(error, Scope(LIMITS.close_within_s))

    def list_devices(self, request: pb.ListDevicesRequest, scope: Scope) -> pb.ListDevicesResponse:
        """The devices that a session sees, or without one all; this task's first.

        Raises Unavailable naming a task that does not answer.
        """
        handle = request.session_handle
        session = self._session(handle) if handle else None
        view = session.cluster if session is not None else self._view([])
        own = session.own_task if session is not None else self._worker.task
        found = view.attributes(view.tasks, scope)
        reply = pb.ListDevicesResponse(local_device=found.pop(own))
        for attributes in found.values():
            reply.remote_device.extend(attributes)
        return reply

    def inspect(self, request: pb.InspectRequest, scope: Scope) -> pb.InspectResponse:
        """What every task of the cluster has, or what it knows of one session; see serve.observe.overview.

        Or, of a session, only whom its steps wait for.
        """
        handle = request.session_handle
        cluster = self._session(handle).cluster if handle else self._view([])
        if request.awaited_only:
            return pb.InspectResponse(awaited=cluster.awaited())
        return overview(cluster, request, scope)

    def session_states(self) -> list[pb.SessionState]:
        """The sessions that have this master."""
        with self._lock:
            sessions = list(self._sessions.values())
        return [session.state() for session in sessions]

    def count_steps(self, for_s: float) -> pb.StepCounts | None:
        """Count the steps of sessions that have this master, for so long from now on; what has been counted, None if
        nothing is.
        """
        with self._lock:
            earlier, self._meter = self._meter, renewed(self._meter, for_s)
            meter, sessions = self._meter, list(self._sessions.values())
            if meter is None:
                return None
            meter.keep(sessions)
            for session in sessions if meter is not earlier else ():
                meter.put_in(session, *_STEPS)
        return meter.state()

    def reset(self, request: pb.ResetRequest, scope: Scope) -> pb.ResetResponse:
        """Close all sessions here and empty containers on every task (after device filters).

        A task that cannot be reached is reported when the others are done: Unavailable.
        """
        closed = errors.aborted("the session was closed by tf.Session.reset; make a new session")
        self._close_all(closed, scope)
        view = self._view(list(request.device_filters))
        message = pb.CleanupAllRequest(container=request.container)
        asked = [view.worker(task).call(methods.CLEANUP_ALL, message, scope) for task in view.tasks]
        failed: errors.OpError | None = None
        for reply in asked:
            try:
                reply.wait(scope)
            except errors.OpError as error:
                failed = failed or errors.detached(error)
        if failed is not None:
            raise errors.copied(failed)
        return pb.ResetResponse()

    def _close_all(self, error: errors.OpError, scope: Scope) -> None:
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            self._session_reaper.forget(session.handle, error)
            session.cancel(error)
        for session in sessions:
            session.close(error, scope)

    def drain(self, error: errors.OpError, scope: Scope) -> None:
        """Take no more sessions and steps; wait for the steps under way, no longer than `scope`.

        Raises DeadlineExceeded.
        """
        self.refusing = error
        with self._lock:
            sessions = list(self._sessions.values())
        asked = [reply for session in sessions for reply in session.end_direct(error, scope)]
        for session in sessions:
            session.wait_until_idle(scope)
        for reply in asked:
            with contextlib.suppress(errors.OpError):  # a task that is gone runs nothing
                reply.wait(scope)
        scope.check()

    def close(self, error: errors.OpError, scope: Scope) -> None:
        """Close all sessions with `error`; waits for their steps no longer than `scope`."""
        self.refusing = error
        with contextlib.suppress(errors.DeadlineExceededError):
            self._close_all(error, scope)
        self._scope.cancel(error)


class _KnownSteps(RunsByNumber):
    """The steps of a session that have a number and no feeds, asked for over one connection."""

    def __init__(self, master: Master, handle: str) -> None:
        self._master = master
        self._handle = handle
        self._requests: dict[int, m.RunKnownRequest] = {}  # by the step's number

    def at_once(self, number: int) -> AtOnceOrLater | None:
        """See `RunsByNumber`."""
        self._requests[number] = m.RunKnownRequest(self._handle, number, [], True)
        session = self._master.serving(self._handle)
        return None if session is None else step_at_once(self._master, session, number, self)

    def run(self, number: int, scope: Scope) -> Sequence[Any] | None:
        """See `RunsAgain`."""
        session = self._master.serving(self._handle)
        request = self._requests.get(number)
        if session is None or request is None:
            return None
        return session.run_known(request, scope)
