"""Sessions on a cluster: the graph is shipped to a master once, steps name what they want of it.

Called by: client.session.  Threads: any number of steps at once.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import errors
from headrace.client import interpreter_exit
from headrace.client.engine import BatchFunction, CallFunction, Release, Step, StepFunction
from headrace.client.in_flight import StepsInFlight
from headrace.client.missing_tasks import MissingTasks
from headrace.client.remote_session import CLOSE_WITHIN_S, RemoteSession
from headrace.client.run_requests import asks_for_more, fill, limit, writable
from headrace.client.target import address_of, master_at
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers
from headrace.serve.connect.readiness import limited_ms
from headrace.serve.connect.restart_check import check_restarts
from headrace.serve.connect.retries import call_with_retries
from headrace.serve.connect.transports import direct_steps
from headrace.serve.observe.overview import add_outstanding
from headrace.serve.observe.placement_log import log_placement
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.status import ForgottenStepError, RestartedError, SessionExpiredError
from headrace.serve.rpc.waiting import follow

if TYPE_CHECKING:
    from headrace.client.direct import Route
    from headrace.client.routes import Tasks

_CHECK_WITHIN_S = 10.0  # longer than the master asks the task


class RemoteEngine:
    """An `Engine` on a cluster."""

    def __init__(
        self,
        target: str,
        graph: Graph,
        config: pb.ConfigProto | None,
        security: Security | None = None,
    ) -> None:
        address_of(target)
        self._security = security
        self._target = target
        self._graph = graph
        self._config = config if config is not None else pb.ConfigProto()
        self._timeout_ms = self._config.operation_timeout_in_ms  # 0: none
        self._pool = GrowingPool("headrace client")
        self.scope = self._scope = Scope()
        self._missing = MissingTasks(self._pool, self._scope)
        self._in_flight = StepsInFlight()
        self._lock = threading.Lock()
        self._current: RemoteSession | None = None
        self._starts: dict[
            str, int
        ] = {}  # of tasks that were used, for a master that is started anew
        self._valid = object()  # another one after each restart; steps are named again then
        self._closed = False
        self._goes_direct = direct_steps()
        self._tasks: Tasks | None = None  # that are asked for steps without the master
        self._placed: set[str] = set()  # nodes whose placement has been logged
        self._logs_placement = self._config.log_device_placement and (
            local_servers.find(address_of(target))
            is None  # else the master does, for the same reader
        )
        _open_engines.add(self)

    def step(
        self,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        options: pb.RunOptions | None = None,
    ) -> StepFunction:
        """See `Engine.step`.  The step is sent by names, so that nothing waits here."""
        return self._step(
            [tensor.name for tensor in feeds],
            [tensor.name for tensor in fetches],
            [op.name for op in targets],
        )

    def _step(
        self, feed_names: Sequence[str], fetch_names: list[str], target_names: list[str]
    ) -> Step:
        logged: list[bool] = []  # not empty: its placement has been logged
        prepared: _PreparedStep | None = None
        in_flight = self._in_flight
        steps = in_flight.steps

        def plain(values: Sequence[Any], options: pb.RunOptions | None = None) -> list[Any]:
            nonlocal prepared
            now = prepared
            if now is None or now.valid is not self._valid:
                return run(values, options, None)
            step = object()
            steps[step] = get_ident()
            try:
                found = self._run_known(now, values, options)
            except ForgottenStepError:  # then by its names, as for the first time
                prepared = None
                return run(values, options, None)
            except (errors.AbortedError, errors.UnavailableError):
                prepared = None
                raise
            finally:
                del steps[step]
                if in_flight.awaited:
                    in_flight.tell()
            for value in found:
                if value.__class__ is np.ndarray and not value.flags.writeable:
                    return [*map(writable, found)]
            return found

        def run(
            values: Sequence[Any], options: pb.RunOptions | None, metadata: pb.RunMetadata | None
        ) -> list[Any]:
            nonlocal prepared
            remote = self._remote()
            is_plain = metadata is None and not (options and asks_for_more(options))
            if is_plain and prepared is not None and prepared.valid is self._valid:
                return plain(values, options)
            log_now = self._logs_placement and not logged
            valid = self._valid
            fed = list(zip(feed_names, values, strict=True))
            request = m.RunStepRequest("", fed, fetch_names, target_names)
            reply = self._run_by_names(remote, request, options, log_now)
            if log_now and reply.metadata is not None:
                self._log_placement(reply.metadata)
                logged.append(True)
                if options is None or not options.output_partition_graphs:
                    del reply.metadata.partition_graphs[:]
            fill(metadata, reply.metadata)
            if reply.signature and is_plain and not log_now:
                known = m.RunKnownRequest(remote.handle, reply.signature, [])
                route = self._route(reply.direct, fetch_names)
                prepared = _PreparedStep(remote, valid, known, route)
            found = dict(reply.tensors)
            return [writable(found[name]) for name in fetch_names]

        return Step(run, plain)

    def _run_by_names(
        self,
        remote: RemoteSession,
        request: m.RunStepRequest,
        options: pb.RunOptions | None,
        with_graphs: bool,
    ) -> m.RunStepReply:
        """Run a step by names, of a graph that is sent first as far as the master has not got it.

        request: without the session's handle and options.  with_graphs: the reply is to show where nodes were placed.
        """
        with self._in_flight, self._limited(options) as scope, self._guarded(remote, scope):
            remote.ship(scope)
            sent = self._sent_options(options, scope)
            if with_graphs:
                sent = sent or pb.RunOptions()
                sent.output_partition_graphs = True
            request.session_handle, request.options = remote.handle, sent
            reply: m.RunStepReply = self._ask(remote, methods.RUN_STEP, request, scope)
            self._uses(remote, reply.starts)
        return reply

    def _run_known(
        self, prepared: _PreparedStep, values: Sequence[Any], options: pb.RunOptions | None
    ) -> list[Any]:
        """Run a step by its number, or direct.  Raises ForgottenStepError if it was not begun."""
        remote, route, scope = prepared.remote, prepared.route, self._scope
        timeout_ms = options.timeout_in_ms if options is not None else 0
        timeout_ms = timeout_ms or self._timeout_ms
        try:
            if route is not None:
                ways, direct = route.ways(remote.master.cancelled_calls.times), remote.direct
                if ways is not None and direct is not None:
                    scope = direct
                    if timeout_ms or route.timeout_ms:
                        scope = limit(timeout_ms or route.timeout_ms, direct)
                    return self._run_direct(remote, route, ways, values, scope)
            if timeout_ms or not remote.master.remote:
                scope = limit(timeout_ms, self._scope)
            request = prepared.request
            if values:
                request = m.RunKnownRequest(request.session_handle, request.signature, list(values))
            before = remote.master.cancelled_calls.times
            done: m.ValuesReply = self._ask(remote, methods.RUN_KNOWN, request, scope)
            if route is not None:
                route.settle(before)
        except (errors.AbortedError, errors.UnavailableError) as error:
            self._check_restarted(remote, error, scope)
            raise
        return [*done]

    def _ask(
        self, remote: RemoteSession, method: methods.Method, request: Any, scope: Scope
    ) -> Any:
        """The master's reply to a request that runs something; see serve.rpc.cancelled_calls."""
        tasks = self._tasks
        if tasks is not None and tasks.untold:
            tasks.tell(remote.master, remote.handle, scope)
        return remote.master.call_now(method, request, scope)

    def _run_direct(
        self,
        remote: RemoteSession,
        route: Route,
        ways: Any,
        values: Sequence[Any],
        scope: Scope,
    ) -> list[Any]:
        try:
            return route.run(ways, values, scope)
        except errors.UnavailableError:
            self._have_checked(remote, route.lost(), scope)
            raise

    def _have_checked(self, remote: RemoteSession, lost: Mapping[str, int], scope: Scope) -> None:
        """Have the master see whether tasks that were lost in direct steps, in these starts, were restarted.  Raises
        Restarted if so, and the session has not been told yet.
        """
        if not lost:
            return
        left_s = scope.remaining()
        within_s = _CHECK_WITHIN_S if left_s is None else min(left_s, _CHECK_WITHIN_S)
        request = pb.CheckTasksRequest(session_handle=remote.handle, starts=lost)
        with Scope(within_s, self._scope) as asking:
            try:
                remote.master.call_now(methods.CHECK_TASKS, request, asking)
            except RestartedError:
                raise
            except errors.OpError:  # the master is gone, say, which is found out elsewhere
                return

    def _route(self, offer: pb.DirectStep | None, makes: Sequence[str]) -> Route | None:
        """The way to its tasks that the master offers for a step, if it is to be gone."""
        if offer is None or not self._goes_direct:
            return None
        with self._lock:
            if self._tasks is None:
                from headrace.client.routes import Tasks

                self._tasks = Tasks(self._security, self._pool, self._scope)
        return self._tasks.route(offer, makes)

    def _limited(self, options: pb.RunOptions | None) -> Scope:
        timeout_ms = options.timeout_in_ms if options is not None else 0
        return limit(limited_ms(timeout_ms or self._timeout_ms), self._scope)

    @staticmethod
    def _sent_options(options: pb.RunOptions | None, scope: Scope) -> pb.RunOptions | None:
        """The options of a step with what is left of its time."""
        remaining = scope.remaining()
        sent = pb.RunOptions() if options is not None or remaining is not None else None
        if sent is not None and options is not None:
            sent.CopyFrom(options)
        if sent is not None and remaining is not None:
            sent.timeout_in_ms = max(1, round(remaining * 1000))
        return sent

    def _log_placement(self, metadata: pb.RunMetadata) -> None:
        in_graph = self._graph._ops
        log_placement(
            (
                (node.name, node.op, node.device)
                for graph in metadata.partition_graphs
                for node in graph.node
                if node.name in in_graph
            ),
            self._placed,
        )

    def batch_dequeuer(self, target: Operation) -> BatchFunction | None:
        """None: every step is a message."""
        return None

    def begin_partial(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> str:
        """See `Engine.begin_partial`."""
        remote = self._remote()
        with self._in_flight, self._limited(None) as scope, self._guarded(remote, scope):
            remote.ship(scope)
            request = pb.PartialRunSetupRequest(
                session_handle=remote.handle,
                feed=[tensor.name for tensor in feeds],
                fetch=[tensor.name for tensor in fetches],
                target=[op.name for op in targets],
            )
            reply = remote.master.call_now(methods.PARTIAL_RUN_SETUP, request, scope)
        handle: str = reply.partial_run_handle
        return handle

    def partial_step(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]
    ) -> list[Any]:
        """See `Engine.partial_step`."""
        remote = self._remote()
        with self._in_flight, self._limited(None) as scope, self._guarded(remote, scope):
            remote.ship(scope)
            fed, options = list(feeds.items()), self._sent_options(None, scope)
            request = m.RunStepRequest(remote.handle, fed, list(fetches), [], options, handle)
            reply: m.RunStepReply = self._ask(remote, methods.RUN_STEP, request, scope)
            self._uses(remote, reply.starts)
        found = dict(reply.tensors)
        return [writable(found[name]) for name in fetches]

    def callable(self, graph: Graph, options: pb.CallableOptions) -> tuple[CallFunction, Release]:
        """See `Engine.callable`."""
        number = 0
        remote: RemoteSession | None = None
        asked = options.run_options
        step: Step | None = None  # the same as one that may go straight to its task
        if not (options.tensor_connection or asks_for_more(asked)):
            step = self._step(list(options.feed), list(options.fetch), list(options.target))

        def make(scope: Scope) -> RemoteSession:
            nonlocal number, remote
            current = self._remote()
            if current is not remote:  # at first, and when the master has been restarted
                with self._guarded(current, scope):
                    current.ship(scope)
                    making = pb.MakeCallableRequest(session_handle=current.handle, options=options)
                    number = current.master.call_now(methods.MAKE_CALLABLE, making, scope).handle
                remote = current
            return current

        with self._in_flight, self._limited(asked) as scope:
            make(scope)

        def call(values: Sequence[Any], metadata: pb.RunMetadata | None) -> list[Any]:
            ours = remote is not None and remote is self._current and remote.direct is not None
            if step is not None and ours and len(values) == len(options.feed):
                found = step(values, asked, None)
                fill(metadata, None)
                return found
            with self._in_flight, self._limited(asked) as scope:
                scope.check()
                current = make(scope)
                request = m.RunCallableRequest(current.handle, number, list(values))
                with self._guarded(current, scope):
                    reply: m.RunCallableReply = self._ask(
                        current, methods.RUN_CALLABLE, request, scope
                    )
                    self._uses(current, reply.starts)
            fill(metadata, reply.metadata)
            return [writable(value) for value in reply.fetches]

        return call, lambda: self._release_callable(remote, number) if remote is not None else None

    def _release_callable(self, remote: RemoteSession, number: int) -> None:
        """Ask the master to forget a callable; nobody waits for the reply."""
        if self._scope.error is None and remote.handle and not sys.is_finalizing():
            request = pb.ReleaseCallableRequest(session_handle=remote.handle, handle=number)
            call_with_retries(remote.master, methods.RELEASE_CALLABLE, request, self._scope)

    def _remote(self) -> RemoteSession:
        """The session on the master; it need not be up yet."""
        remote = self._current
        if remote is None:
            with self._lock:
                if self._closed:  # who closes it may have seen that there was none
                    raise errors.session_closed()
                remote = self._current
                if remote is None:
                    master = master_at(self._target, self._pool, self._security)
                    remote = self._current = self._new_remote(master)
        return remote

    def _new_remote(self, master: Peer) -> RemoteSession:
        return RemoteSession(
            master, self._target, self._graph, self._config, self._scope, self._pool, self._starts
        )

    def _uses(self, remote: RemoteSession, starts: Mapping[str, int]) -> None:
        """A step has run on tasks in these starts."""
        if starts and self._current is remote:
            self._starts.update(starts)

    def _guarded(self, remote: RemoteSession, scope: Scope) -> _RestartGuard:
        """Around a call: see `_check_restarted`."""
        return _RestartGuard(self, remote, scope)

    def _check_restarted(self, remote: RemoteSession, error: errors.OpError, scope: Scope) -> None:
        """If `error` came of the master's having been restarted, or having given the session up, raise Aborted
        that says so: once, and Unavailable instead of what else is Aborted because of that.  That is found out by the
        step's deadline, if at all.

        The session is made anew by the next step.
        """
        if isinstance(error, RestartedError):  # as the master tells
            for task in error.tasks:
                self._starts.pop(task, None)
            self._valid = object()
            raise errors.aborted(error.message) from error.__cause__
        told: errors.OpError | None = None
        lost = self._current is not remote  # of which another step has told
        if not lost and isinstance(error, SessionExpiredError):
            told = errors.aborted(
                f"{error.message}. Steps that were under way were cancelled, queues of this session alone are gone; "
                "variables are as they were, and the next step makes the session anew"
            )
        elif not lost:
            found = self._master_was_restarted(remote, scope)
            if found is True:
                told = errors.aborted(
                    f"the server at {address_of(self._target)} was restarted: it does not know the session any more. "
                    "Variables there are uninitialized, queues empty; the next step makes the session anew"
                )
            lost = found is None
        if told is not None:
            if self._renew(remote):
                raise told from error
            lost = True
        if lost and isinstance(error, errors.AbortedError):
            raise errors.unavailable(
                f"the session on {remote.master.name} was lost while a step was under way"
            ) from error

    def _master_was_restarted(self, remote: RemoteSession, scope: Scope) -> bool | None:
        """Whether the master was restarted; None: it does not answer."""
        master = remote.master
        if not master.remote:
            return master.stale and local_servers.find(address_of(self._target)) is not None
        if not remote.incarnation:
            return False  # TensorFlow's, or the session was never there
        name = master.name
        found = check_restarts({name: master}, {name: remote.incarnation}, scope, self._scope)
        if found.restarted:
            return True
        return None if found.silent else False

    def _renew(self, remote: RemoteSession) -> bool:
        """Have the next step make the session anew; false if another one has it already."""
        with self._lock:
            if self._current is not remote or self._closed:
                return False
            master = remote.master
            if master.stale:
                master = master_at(self._target, self._pool, self._security)
            for task, start in list(self._starts.items()):
                if start == remote.incarnation:  # the master's own: it is told of now
                    self._starts.pop(task, None)
            self._current = self._new_remote(master)
            self._valid = object()
        return True

    @property
    def handle(self) -> str:
        """See `Engine.handle`."""
        remote = self._current
        return remote.handle if remote is not None else ""

    def inspect(self) -> pb.InspectResponse:
        """See `Engine.inspect`."""
        remote = self._current
        if remote is None or not remote.handle:
            return pb.InspectResponse()
        request = pb.InspectRequest(session_handle=remote.handle, blocked_only=True)
        with self._in_flight, Scope(LIMITS.inspect_within_s, self._scope) as scope:
            asked = remote.master.call(methods.INSPECT_CLUSTER, request, scope)
            found: pb.InspectResponse = asked.wait(scope)
        if self._tasks is not None:
            add_outstanding(found, self._tasks.outstanding, remote.handle)
        return found

    def waits_long(self, waited_s: float) -> None:
        """See `Engine.waits_long`."""
        remote = self._current
        if remote is not None and remote.handle and remote.master.remote:
            self._missing.ask(remote.master, remote.handle)

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """The devices of the cluster."""
        remote = self._remote()
        with self._in_flight, self._limited(None) as scope, self._guarded(remote, scope):
            remote.open(scope)  # whatever is wrong with the graph is none of its business
            request = pb.ListDevicesRequest(session_handle=remote.handle)
            reply = remote.master.call_now(methods.LIST_DEVICES, request, scope)
        return [*reply.local_device, *reply.remote_device]

    def close(self) -> None:
        """Cancel the steps under way, close the session on the master if it can be reached.

        Waits for both, for some seconds at most.
        """
        self._close(CLOSE_WITHIN_S)

    def release(self) -> None:
        """See `Engine.release`.  At interpreter exit nothing is sent: no thread would carry it."""
        if not sys.is_finalizing():
            self._close(0.0)

    def _close(self, wait_s: float) -> None:
        _open_engines.discard(self)
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        self._scope.cancel(errors.session_closed())
        remote = self._current
        asked = remote.close() if remote is not None else None
        if asked is not None and wait_s:
            with contextlib.suppress(errors.OpError):  # a master that is gone has no session either
                follow(asked).wait(Scope(wait_s))
        if wait_s:
            self._in_flight.wait_until_none(wait_s)
        if asked is None or asked.done:
            self._disconnect(wait=wait_s > 0)
        else:
            asked.on_done(self._disconnect_soon)

    def _disconnect_soon(self, _: object) -> None:
        """From a thread that may be gRPC's own, which must not close its channel."""
        with contextlib.suppress(RuntimeError):  # no thread is to be had; the interpreter ends
            self._pool.submit(self._disconnect, wait=False)

    def _disconnect(self, wait: bool) -> None:
        if self._tasks is not None:
            self._tasks.close()
        if self._current is not None:
            self._current.master.close()
        self._pool.shutdown(wait)


@dataclass(slots=True)
class _PreparedStep:
    """A step that has been named once: how its master is asked for it, and the way to its tasks, if it has one.

    request: without feeds; never changed.  valid: the engine's, as long as it is.
    """

    remote: RemoteSession
    valid: object
    request: m.RunKnownRequest
    route: Route | None


class _RestartGuard:
    """A context manager; a generator would cost every step some microseconds."""

    __slots__ = ("_engine", "_remote", "_scope")

    def __init__(self, engine: RemoteEngine, remote: RemoteSession, scope: Scope) -> None:
        self._engine = engine
        self._remote = remote
        self._scope = scope

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(value, (errors.AbortedError, errors.UnavailableError)):
            self._engine._check_restarted(self._remote, value, self._scope)


_open_engines: weakref.WeakSet[RemoteEngine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Sessions that the program leaves open are closed while threads still run."""
    interpreter_exit.begin()
    for engine in list(_open_engines):
        engine._close(1.0)
