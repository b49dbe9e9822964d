"""Worker: the service of one task.  Keeps its state, runs partitions, hands out what they send.

Takes and returns messages; knows no transport.  A step is known by its id from the first RunGraph
or RecvTensor that names it until CleanupGraph.
Called by: the transports, and masters of this process.  Threads: any; `run_graph` runs the partition in
the calling thread.  Ends by: `close`, which cancels every step and drops the state.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.plan.compile import Compiled
from headrace.run.devices import table as device_table
from headrace.run.devices.listed import attributes
from headrace.run.exec.close_reasons import note_close_reason
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.keys import source_task
from headrace.run.exec.partial import PartialRun
from headrace.run.exec.program import Program
from headrace.run.exec.trace import StatsCollector
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.pending import Pending
from headrace.run.readers.files import ANYWHERE, Files
from headrace.run.scope import Scope
from headrace.run.state.variable import release
from headrace.serve.connect.peers import Peers
from headrace.serve.observe.blocked import of_tasks
from headrace.serve.observe.legacy_clients import LegacyClient
from headrace.serve.observe.step_log import Logged
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.again import Bound
from headrace.serve.rpc.messages import ValuesReply
from headrace.serve.rpc.peer import gives_pending
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.status import again, from_bytes, from_detail, to_detail
from headrace.serve.rpc.step_channel import PLAIN, Caller, StepChannels, takes_caller
from headrace.serve.worker import unclaimed
from headrace.serve.worker.bound_parts import bound_part
from headrace.serve.worker.cancels_calls import CancelsCalls
from headrace.serve.worker.ended_steps import EndedSteps, over
from headrace.serve.worker.inspects import Inspects
from headrace.serve.worker.no_collectives import NoCollectives
from headrace.serve.worker.registered import Asked, RegisteredPartition, checked, unknown
from headrace.serve.worker.remote_rendezvous import RemoteRendezvous, StepRendezvous
from headrace.serve.worker.worker_session import Steps, WorkerSession

_ENDS_WITHIN_S = 1.0  # a partial run that is over, if it only waits


class Worker(CancelsCalls, Inspects, Logged, NoCollectives):
    """See the module header.  `task`: full name such as ``/job:ps/replica:0/task:0``.  view_of: see `enter`."""

    view_of = RemoteRendezvous

    def __init__(
        self,
        task: str,
        peers_of: Mapping[str, str],
        pool: Any,
        config: pb.ConfigProto | None = None,
        files: Files = ANYWHERE,
        trusting: Security | None = None,
        threads: int = 0,
    ) -> None:
        """peers_of: addresses (host:port) of all tasks of the cluster by name.  config: see `run.devices.table`.

        files: those that graphs may use here.  trusting: what is shown to other tasks.
        threads: that share a large operation, the step's own included; 0 for as many as there are processors.
        """
        self.task = task
        self.devices = device_table.configured(task, config or pb.ConfigProto())
        self.incarnation = secrets.randbits(64) | 1
        self.clock_ns = time.time_ns
        self.runtime = Runtime(self.devices[0], files=files, workers=WorkerPool(threads))
        self.peers = Peers(peers_of, task, self, pool, trusting)
        self.pool = pool
        self.lane: pb.LaneAddress | None = None
        self._lock = threading.Lock()
        Logged.__init__(self)
        CancelsCalls.__init__(self)
        Inspects.__init__(self)
        self._graphs: dict[str, RegisteredPartition] = {}
        self._steps: dict[int, StepRendezvous] = {}
        self._sessions: dict[str, WorkerSession] = {}
        self._ended_steps = EndedSteps()
        self._running: dict[Scope, Steps] = {}
        self._idle = threading.Condition(self._lock)
        self._awaited = False  # whether somebody waits for steps to end
        self._refusing: errors.OpError | None = None
        self._closed: errors.OpError | None = None
        self.turns_away: errors.OpError | None = None  # any of the two
        self.stopping = ""  # why it is about to be closed; while steps under way may end

    # -- sessions and graphs ------------------------------------------------------------------

    def get_status(self, request: pb.GetStatusRequest, scope: Scope) -> pb.GetStatusResponse:
        """The devices of this task, and how it is best reached."""
        disagree = request.headrace_cluster not in (b"", self.peers.digest)
        return pb.GetStatusResponse(
            device_attributes=self.device_attributes(),
            headrace_clock_ns=self.clock_ns(),
            headrace_lane=self.lane,
            headrace_pushes=True,
            headrace_addresses=self.peers.addresses if disagree else None,
            headrace_stopping=self.stopping,
        )

    def device_attributes(self) -> list[pb.DeviceAttributes]:
        """This task's devices."""
        return attributes(self.devices, self.incarnation)

    def create_worker_session(
        self, request: pb.CreateWorkerSessionRequest, scope: Scope
    ) -> pb.CreateWorkerSessionResponse:
        """Begin a master's session: with state or a cluster of its own, if that is asked for.

        Raises InvalidArgument, AlreadyExists.
        """
        session = WorkerSession.created(
            request, self.task, self.runtime, self.peers, self, self.pool
        )
        with self._lock:
            if self._sessions.setdefault(request.session_handle, session) is session:
                return pb.CreateWorkerSessionResponse()
        session.close()
        raise errors.already_exists(
            f"session {request.session_handle!r} has been created on {self.task} already"
        )

    def delete_worker_session(
        self, request: pb.DeleteWorkerSessionRequest, scope: Scope
    ) -> pb.DeleteWorkerSessionResponse:
        """Forget a session, its partitions and what is its own, when its last step has left."""
        reason = to_detail(errors.session_closed())
        if request.HasField("headrace_reason"):
            reason = request.headrace_reason
        with self._lock:
            session = self._sessions.pop(request.session_handle, None)
            for handle, graph in list(self._graphs.items()):
                if graph.session is session:
                    graph.forgotten = True
                    del self._graphs[handle]
        if session is not None:
            session.direct_over = reason
            session.wait_for_changes()
            for step, kind in list(self._running.items()):
                if kind.session is session:
                    step.cancel(from_detail(reason))
            try:
                with self._idle:
                    self._wait_for_steps(session, scope)
            finally:
                session.close()
        return pb.DeleteWorkerSessionResponse()

    def _session(self, handle: str, created: bool) -> WorkerSession:
        """A session; one that needs nothing of its own need not have been created.

        created: it was, says its master.  Raises Aborted if it is not known here then.
        """
        with self._lock:
            session = self._sessions.get(handle)
            if session is None and not created:
                own = self.runtime
                shared = own.files, own.workers, own.checkpoints
                session = WorkerSession(handle, self.task, own.resources, self.peers, *shared)
                self._sessions[handle] = session
        if session is None:
            raise errors.aborted(
                f"session {handle!r} is not known to {self.task}: the task has been restarted since, or the "
                "session was closed; make a new session"
            )
        return session

    def register_graph(
        self, request: pb.RegisterGraphRequest, scope: Scope
    ) -> pb.RegisterGraphResponse:
        """Compile a partition.

        Raises NotFound (unknown op), InvalidArgument, Unimplemented, Aborted (unknown session; another start is meant).
        """
        request = checked(request, self.incarnation, self.task)
        session = self._session(request.session_handle, request.create_worker_session_called)
        session.master = session.master or request.headrace_master
        registered = RegisteredPartition(request, session)
        if not request.headrace_reported and session.legacy_client is None:
            asked = pb.InspectRequest(session_handle=session.handle, blocked_only=True)
            session.legacy_client = LegacyClient(
                f"session {session.handle}", lambda: of_tasks(self.inspect(asked, Scope()).task)
            )
        handle = f"{secrets.randbits(64):016x}"
        with self._lock:
            self._graphs[handle] = registered
        return pb.RegisterGraphResponse(graph_handle=handle)

    def deregister_graph(
        self, request: pb.DeregisterGraphRequest, scope: Scope
    ) -> pb.DeregisterGraphResponse:
        """Forget a partition.  Raises Aborted if it is not known."""
        with self._lock:
            registered = self._graphs.pop(request.graph_handle, None)
        if registered is None:
            raise unknown(request.graph_handle, self.task)
        registered.forgotten = True
        return pb.DeregisterGraphResponse()

    # -- steps --------------------------------------------------------------------------------

    def run_graph(self, request: m.RunGraphRequest, scope: Scope) -> m.RunGraphReply:
        """Run a registered partition in this thread.  Raises what its nodes raise."""
        registered = self._graphs.get(request.graph_handle)
        if registered is None:
            raise unknown(request.graph_handle, self.task)
        registered.check_fetches(request.recv_keys)
        if request.is_partial:
            return self._run_partial(registered, request, scope)
        args = registered.arguments(request.send)
        if request.close_reason:
            note_close_reason(scope, from_bytes(request.close_reason))
        asked = Asked(registered, registered.steps, args, request.step_id, request.takes_leases)
        values, stats = self._run_whole(asked, scope, request.record_timeline)
        if request.ends_step:
            self._leave_step(registered, request.step_id)
        recv = [(name, values[registered.returns[name]]) for name in request.recv_keys]
        if len(recv) < len(values):  # not every fetch was asked for
            fetched = {registered.returns[name] for name in request.recv_keys}
            release(value for index, value in enumerate(values) if index not in fetched)
        return registered.reply(request, recv, stats if request.record_timeline else None)

    def _run_whole(
        self, asked: Asked, scope: Scope, traced: bool = False
    ) -> tuple[list[Any], StatsCollector | None]:
        """Run a partition from beginning to end; its values, and what is known of its nodes."""
        scope.check()
        rendezvous = self._rendezvous(asked.step_id)
        logged = self.log.recording
        stats = StatsCollector(self.clock_ns) if traced or logged else None
        try:
            with Scope(parent=scope) as running:
                values = self._run_in(rendezvous, asked, running, stats)
        finally:
            if logged and stats is not None:
                self.log.add(asked.step_id, stats.proto())
        return values, stats

    @takes_caller
    def run_part(
        self, request: m.RunPartRequest, scope: Scope, caller: Caller = PLAIN
    ) -> m.ValuesReply:
        """Run a partition that ends its step on this task: its fetches, of its feeds, in order.

        Raises what its nodes raise, Aborted if it is not known; of a direct step that is ForgottenStepError.
        """
        handle, step_id, feeds, direct = request
        registered = self._graphs.get(handle)
        if registered is None:
            raise unknown(handle, self.task, direct != 0)
        channels = caller.channels
        if registered.linked_to and (channel := caller.channel()) is not None:
            channels = StepChannels({registered.linked_to: channel})
        kind = registered.kind(direct) if direct else registered.steps
        args = feeds
        if feeds or registered.args:
            args = registered.arguments_in_order(feeds)
            if args is not feeds:
                feeds.clear()
        if registered.alone and (self.log.off or not self.log.recording):
            # It receives nothing: it needs no rendezvous, no scope of its own.
            values = self.enter(registered, kind, args, step_id, scope, caller.lends, channels)
        else:
            asked = Asked(registered, kind, args, step_id, caller.lends, channels)
            values, _ = self._run_whole(asked, scope)
            self._leave_step(registered, step_id)
        return ValuesReply(
            values if registered.as_they_are else registered.fetches_in_order(values)
        )

    def bind_part(self, request: m.RunPartRequest) -> Bound | None:
        """See `rpc.again.Binder`."""
        registered = self._graphs.get(request.graph_handle)
        return None if registered is None else bound_part(self, registered, request.direct)

    def end_direct(self, request: pb.EndDirectRequest, scope: Scope) -> pb.EndDirectResponse:
        """Refuse steps that a session's client asks for itself; returns when none of the session's runs."""
        session = self._sessions.get(request.session_handle)
        if session is not None:
            session.direct_over = request.reason
            session.wait_for_changes()
            with self._idle:
                self._wait_for_steps(session, scope)
        return pb.EndDirectResponse()

    def _wait_for_steps(self, session: WorkerSession, scope: Scope) -> None:
        """Return when none of a session's is under way; the lock is held.  Raises the scope's error."""
        self._awaited = True
        scope.wait_for(
            self._idle,
            lambda: all(kind.session is not session for kind in list(self._running.values())),
            "the session's steps to end",
        )

    def enter(
        self,
        registered: RegisteredPartition,
        kind: Steps,
        args: list[Any],
        step_id: int,
        scope: Scope,
        lends: bool | int,
        channels: StepChannels | None,
        rendezvous: StepRendezvous | None = None,
        stats: StatsCollector | None = None,
        program: Compiled | None = None,
        /,
    ) -> list[Any]:
        """The one way into a step: it is booked, runs and is over; its values.

        args: is emptied.  scope: its own, or that of its call.  rendezvous: None if it receives nothing.
        program: None for that of whole steps.
        """
        session = kind.session
        self._running[scope] = kind  # from now on, who ends the session ends this
        try:
            if self.turns_away is not None and (rendezvous is None or self._closed is not None):
                raise again(self.turns_away)
            if kind.direct and session.direct_over is not None:
                raise from_detail(session.direct_over)
            if session.leaving.any:
                session.leaving.go_first(scope)
            elif scope.ended_by is not None or scope.deadline is not None:
                scope.check()
            view = None
            if rendezvous is not None or registered.sends:
                routes = registered.routes
                view = self.view_of(rendezvous, step_id, session, routes, scope, channels)
            else:
                channels = None
            step = StepState(
                session.runtime, scope, step_id, view, stats, session.handle, lends, channels
            )
            if program is None:
                program = registered.program
            if args and isinstance(program, Program):
                values = program.run(step, args, spent=args)
            else:
                values = program.run(step, args)
            if view is not None:
                view.finish(scope, values)
        finally:
            self.unbook(scope, session)
        return values

    def book(self, scope: Scope, kind: Steps) -> None:
        """A step that has no thread is under way; who ends its session ends its scope."""
        self._running[scope] = kind

    def unbook(self, scope: Scope, session: WorkerSession) -> None:
        """A step is over."""
        del self._running[scope]
        if session.leaving.any:
            session.leaving.left(scope)
        if self._awaited:
            with self._lock:
                self._idle.notify_all()

    def _run_partial(
        self, registered: RegisteredPartition, request: m.RunGraphRequest, scope: Scope
    ) -> m.RunGraphReply:
        """Feed and fetch what is named; the first of a step's requests starts the partition."""
        registered.check_feeds(request.send)
        program = registered.partial()
        step_id = request.step_id
        rendezvous = self._rendezvous(step_id)
        with self._lock:
            if request.graph_handle not in rendezvous.partials:
                stats = StatsCollector(self.clock_ns) if request.record_timeline else None

                def run() -> None:
                    with Scope() as running:
                        asked = Asked(registered, registered.steps, [], step_id)
                        self._run_in(rendezvous, asked, running, stats, program)

                started = PartialRun(rendezvous.local, run, self.pool.submit, rendezvous.abort)
                rendezvous.partials[request.graph_handle] = started, stats
            partial, stats = rendezvous.partials[request.graph_handle]
        last = request.is_last_partial_run
        values = partial.step(request.send, request.recv_keys, last, scope)
        recv = list(zip(request.recv_keys, values, strict=True))
        return registered.reply(request, recv, stats if last else None)

    def _run_in(
        self,
        rendezvous: StepRendezvous,
        asked: Asked,
        running: Scope,
        stats: StatsCollector | None,
        program: Compiled | None = None,
    ) -> list[Any]:
        """As `enter`, of a partition to which values come, or which is recorded: its failure ends the step here."""
        registered, kind, args, step_id, lends, channels = asked
        if kind.session.legacy_client is not None:
            kind.session.legacy_client.watch(running)
        with self._lock:
            self._check_open()
            rendezvous.partitions += 1
            rendezvous.started = True
        unregister = rendezvous.scope.on_cancel(
            lambda: running.cancel(rendezvous.scope.error or over(step_id))
        )
        try:
            if channels is not None:
                channels.deliver_to(rendezvous.deliver)
            how = channels, rendezvous, stats, program
            return self.enter(registered, kind, args, step_id, running, lends, *how)
        except errors.OpError as error:
            self._end_step(step_id, error)
            if self._closed is not None and isinstance(error, errors.CancelledError):
                raise again(self._closed) from error  # what it used has gone with the server
            raise
        except BaseException:  # Ctrl-C in a client of this process
            self._end_step(step_id, errors.cancelled("the step was interrupted"))
            raise
        finally:
            unregister()
            with self._lock:
                rendezvous.partitions -= 1

    def _rendezvous(self, step_id: int) -> StepRendezvous:
        """The rendezvous of a step.  Raises the step's error if it has ended."""
        with self._lock:
            rendezvous = self._steps.get(step_id)
            if rendezvous is None:
                self._check_open()
                if step_id in self._ended_steps:
                    raise self._ended_steps.error(step_id)
                if self._refusing is not None:
                    raise again(self._refusing)
                rendezvous = self._steps[step_id] = StepRendezvous(step_id)
            return rendezvous

    def _check_open(self) -> None:
        if self._closed is not None:
            raise again(self._closed)

    def _end_step(self, step_id: int, error: errors.OpError | None) -> StepRendezvous | None:
        """Forget a step; whoever waits in it, or asks for it later, gets `error`.  Its rendezvous, if it was known.

        None: it is over, and nobody should.
        """
        with self._lock:
            rendezvous = self._steps.pop(step_id, None)
            self._ended_steps.add(step_id, error)
        if rendezvous is not None:
            rendezvous.abort(error or over(step_id))
        return rendezvous

    def _leave_step(self, registered: RegisteredPartition, step_id: int) -> None:
        """A partition has run that ends its step here, but for another one that exchanges nothing either."""
        if not registered.alone:
            self._end_step(step_id, None)
            return
        with self._lock:
            self._steps.pop(step_id, None)

    def _is_own(self, task: str) -> bool:
        """Whether this is a name of this task, for whichever session."""
        if task == self.task:
            return True
        with self._lock:
            return any(session.task == task for session in self._sessions.values())

    @gives_pending
    def recv_tensor(self, request: m.RecvTensorRequest, scope: Scope) -> Pending[m.RecvTensorReply]:
        """The value of a key that a partition here sends; waits for it.  Handed over once."""
        if not self._is_own(source_task(request.rendezvous_key)):
            raise errors.invalid_argument(
                f"{request.rendezvous_key!r} is not sent by this task, {self.task}"
            )
        rendezvous = self._rendezvous(request.step_id)

        def given_up(error: errors.OpError) -> None:
            if not rendezvous.partitions:  # nobody will come any more: the step has failed
                self._end_step(request.step_id, error)

        return rendezvous.hand_over(request, given_up)

    def send_tensor(self, request: m.SendTensorRequest, scope: Scope) -> pb.SendTensorResponse:
        """Take a value of a step that another task has made; of a step that is over it is dropped."""
        rendezvous: StepRendezvous | None = None
        with self._lock:
            if request.step_id not in self._ended_steps:
                self._check_open()
                rendezvous = self._steps.get(request.step_id)
                if rendezvous is None:  # its partition here has not been started yet
                    unclaimed.forget_old(self._steps)
                    rendezvous = self._steps[request.step_id] = StepRendezvous(request.step_id)
                if not rendezvous.started:
                    try:
                        unclaimed.count(self._steps, rendezvous, request.value, self.task)
                    except errors.ResourceExhaustedError as error:
                        del self._steps[request.step_id]
                        self._ended_steps.add(request.step_id, error)
                        raise
        if rendezvous is not None:
            rendezvous.deliver(request)
        return pb.SendTensorResponse()

    def pushes_lost(self, request: pb.PushesLostRequest, scope: Scope) -> pb.PushesLostResponse:
        """End the steps for which values may have been lost, if they are not over."""
        for step_id in request.step_id:
            error = errors.unavailable(
                f"a connection from {request.source} to {self.task} broke, and what was sent over it for this step "
                "may be lost"
            )
            self._end_step(step_id, error)
        return pb.PushesLostResponse()

    def cleanup_graph(
        self, request: pb.CleanupGraphRequest, scope: Scope
    ) -> pb.CleanupGraphResponse:
        """Forget a step; whoever still waits in it is aborted.  Of a partial run nothing waits any more, unless it
        computes for long.
        """
        ended = self._end_step(request.step_id, None)
        for partial, _ in list(ended.partials.values()) if ended is not None else ():
            with contextlib.suppress(errors.OpError):
                partial.wait(Scope(_ENDS_WITHIN_S, scope))
        return pb.CleanupGraphResponse()

    def cleanup_all(self, request: pb.CleanupAllRequest, scope: Scope) -> pb.CleanupAllResponse:
        """Empty containers; the default one if none is named."""
        self.runtime.resources.cleanup(request.container)
        return pb.CleanupAllResponse()

    def mark_recv_finished(
        self, request: pb.MarkRecvFinishedRequest, scope: Scope
    ) -> pb.MarkRecvFinishedResponse:
        """Nothing to do: a value is handed over once, and its reply asks for no acknowledgement."""
        return pb.MarkRecvFinishedResponse()

    @property
    def closed(self) -> bool:
        """Whether the server has stopped."""
        return self._closed is not None

    def drain(self, error: errors.OpError, scope: Scope) -> None:
        """Take no more steps; wait for those under way, no longer than `scope`.

        Raises DeadlineExceeded.
        """
        with self._idle:
            self._refusing = error
            self.turns_away = self._closed or error
            self._awaited = True
            sessions = list(self._sessions.values())
        for session in sessions:
            session.wait_for_changes()
        with self._idle:
            scope.wait_for(self._idle, lambda: not self._running, "the steps to end")

    def close(self, error: errors.OpError) -> None:
        """Cancel every step with `error`, refuse new ones, drop the state."""
        with self._lock:
            self._closed = self.turns_away = error
            running, steps = list(self._running), list(self._steps.values())
            self._steps.clear()
        for scope in running:
            scope.cancel(error)
        for rendezvous in steps:
            rendezvous.abort(error)
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.close()
        self.runtime.resources.close()
        self.runtime.workers.close()
        self.peers.close()
