"""One client session on a master: its steps.

The session's planner keeps the graph and makes the plans.  A step starts the remote partitions of one,
runs the master's own in the calling thread, and waits for the others.
Called by: serve.master.master.  Threads: any number of steps at once; no lock is held while a task is
asked for anything.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.plan.connect import check_callable
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.connect.peers import Peers
from headrace.serve.connect.retries import call_with_retries
from headrace.serve.master.callables import Callables
from headrace.serve.master.clocks import to_one_clock
from headrace.serve.master.lru import LruTable
from headrace.serve.master.partials import Partials
from headrace.serve.master.planner import Planner
from headrace.serve.master.plans import Plan, PreparedSignature, tensor_name
from headrace.serve.master.requests import GraphRequests, PartRequests
from headrace.serve.master.step import run_stages
from headrace.serve.observe.blocked import BlockedStep, of_tasks
from headrace.serve.observe.legacy_clients import LegacyClient
from headrace.serve.observe.overview import overview
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.cancelled_calls import CancelledSteps
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.status import ForgottenStepError, again, to_detail
from headrace.serve.rpc.waiting import follow

if TYPE_CHECKING:
    from headrace.serve.observe.meter import Meter

_random = random.Random(
    secrets.randbits(64)
)  # numbers of steps; one takes as much memory as a session
os.register_at_fork(after_in_child=lambda: _random.seed(secrets.randbits(64)))

Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Feeds, fetches and targets as a client writes them."""


class MasterSession:
    """See the module header.  client: who made it, for people; "" if they did not say.

    closed: why it runs no steps any more.  leaving: its steps that were given up; those that come wait for them.
    prepared_by_number: what the numbers of steps stand for.  used: whether any was asked for since `was_used`.
    limited: whether they have a time limit of the session.  meter: while steps are counted.
    """

    meter: Meter | None = None

    def __init__(
        self,
        handle: str,
        config: pb.ConfigProto,
        cluster: ClusterView,
        own_task: str,
        own_peers: Peers | None = None,
        starts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """own_task: the master's, in this cluster.  own_peers: closed with the session.  starts: see `Incarnations`."""
        self.handle = handle
        self.cluster = cluster
        self._config = config
        self.limited = config.operation_timeout_in_ms > 0
        self.own_task = own_task
        self._own_peers = own_peers
        self._callables = Callables()
        self._planner = Planner(
            handle,
            config,
            cluster,
            own_task,
            self._after_steps,
            lambda: self._callables.own_plans,
            self._apart,
            starts,
        )
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._numbers = itertools.count(1)
        self._prepared_by_names: LruTable[Names, PreparedSignature] = LruTable(LIMITS.most_prepared)
        self.prepared_by_number: dict[int, PreparedSignature] = {}
        self._steps: dict[object, Scope] = {}
        self.leaving = CancelledSteps()
        self.used = True
        self._awaited = False  # whether somebody waits for steps to end, or has
        self._afterwards: list[tuple[set[object], Callable[[], object]]] = []
        self.closed: errors.OpError | None = None
        self._partials = Partials(handle, self._run_parts, self._end_partial, self._partial_failed)
        self._since = time.monotonic()
        self.client = ""
        self._offers_direct = False
        self._direct_tasks: set[str] = set()  # that its client may ask for steps by itself
        self._legacy_client: LegacyClient | None = None

    def made_by(self, client: str) -> None:
        """Who it is; one that does not say does not report blocked steps either, and this master does."""
        self.client = client
        if not client:
            self._legacy_client = LegacyClient(f"session {self.handle}", self._blocked_steps)

    def offer_direct(self) -> None:
        """Have its client, who keeps it alive, ask tasks for steps by itself where that is possible."""
        self._offers_direct = True

    def _blocked_steps(self) -> list[BlockedStep]:
        request = pb.InspectRequest(session_handle=self.handle, blocked_only=True)
        return of_tasks(overview(self.cluster, request, self.cluster.scope).task)

    def state(self) -> pb.SessionState:
        """What there is to be said of it."""
        return pb.SessionState(
            handle=self.handle,
            client=self.client,
            age_s=time.monotonic() - self._since,
            nodes=self._planner.nodes,
            steps=len(self._steps),
        )

    @property
    def graph_version(self) -> int:
        """Grows with every extension."""
        return self._planner.graph_version

    def extend(self, addition: pb.GraphDef) -> int:
        """Add nodes, all or none; returns the new version.

        Raises NotFound (unknown op), InvalidArgument.
        """
        self.used = True
        return self._planner.extend(addition)

    def was_used(self) -> bool:
        """Whether there is a step, or something has been asked of it since this was called last."""
        used, self.used = self.used, False
        return used or bool(self._steps)

    def _check_open(self) -> None:
        if self.closed is not None:
            raise again(self.closed)

    # -- steps --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _step(self, options: pb.RunOptions | None, scope: Scope) -> Iterator[Scope]:
        """The scope of a step, which counts as under way inside.  Raises Aborted if closed."""
        timeout_ms = options.timeout_in_ms if options is not None else 0
        timeout_ms = timeout_ms or self._config.operation_timeout_in_ms
        with Scope(timeout_ms / 1000 if timeout_ms > 0 else None, scope) as running:
            token = object()
            self.used = True
            with self._lock:
                self._check_open()
                self._steps[token] = running
            if self._legacy_client is not None:
                self._legacy_client.watch(running)
            try:
                self.leaving.go_first(running)
                yield running
            finally:
                self.unbook(token)

    def book(self, scope: Scope) -> None:
        """A step that has no thread is under way; who closes the session ends its scope."""
        self._steps[scope] = scope

    def unbook(self, token: object) -> None:
        """A step is over."""
        del self._steps[token]
        if self.leaving.any:
            self.leaving.left(token)
        if self._awaited:
            self._has_ended(token)

    def note_cancelled(self) -> None:
        """Have steps that come wait for those that have been cancelled."""
        for token, running in list(self._steps.items()):
            if running.cancelled:
                self.leaving.add(token)
                if token not in self._steps:
                    self.leaving.left(token)

    def _has_ended(self, token: object) -> None:
        """Tell who waits for it that a step is over."""
        with self._lock:
            self._idle.notify_all()
            for steps, _ in self._afterwards:
                steps.discard(token)
            due = [do for steps, do in self._afterwards if not steps]
            self._afterwards = [each for each in self._afterwards if each[0]]
        for do in due:
            do()

    def _after_steps(self, do: Callable[[], object]) -> None:
        """Have `do` called when the steps that are under way now have ended."""
        with self._lock:
            self._awaited = True
            steps = set(self._steps)
            if steps:
                self._afterwards.append((steps, do))
        if not steps:
            do()

    def _apart(self, do: Callable[[Scope], object]) -> None:
        """Have `do` called by a thread of the server, as a step that only the end of the session ends.

        Raises RuntimeError: there is no thread to be had; Aborted if closed.
        """
        scope = Scope(parent=self.cluster.scope)
        with self._lock:
            self._check_open()
            self._steps[scope] = scope

        def work() -> None:
            try:
                do(scope)
            finally:
                scope.close()
                self.unbook(scope)

        try:
            self.cluster.pool.submit(work)
        except RuntimeError:
            self.unbook(scope)
            raise

    def run(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        """Run one step, or a piece of a partial one.

        Raises what its nodes raise, Aborted on a closed session.
        """
        with self._step(request.options, scope) as running:
            if request.partial_run_handle:
                return self._run_partial(request, running)
            prepared = self._prepared(request)
            options = request.options
            exact = options is not None and bool(
                options.trace_level or options.output_partition_graphs
            )
            plan = self._planner.plan(prepared.signature(exact), running)
            feeds = {
                name: value for name, (_, value) in zip(prepared.feeds, request.feeds, strict=True)
            }
            found, metadata = self._run_plan(
                plan, feeds, request.options, running, request.takes_leases
            )
            direct = None if exact else self._direct(prepared, plan)
        pairs = zip(prepared.given, prepared.fetches, strict=True)
        values = [(given, found[name]) for given, name in pairs]
        return m.RunStepReply(values, metadata, prepared.number, direct, self._told(plan))

    def _told(self, plan: Plan) -> Mapping[str, int]:
        """The starts of the tasks of a step, for a client that makes its session anew if this master is restarted."""
        return plan.starts if self.client else {}

    def check_tasks(self, starts: Mapping[str, int], scope: Scope) -> None:
        """The client has lost tasks that had these starts in a step of its own.

        Raises Restarted if any was restarted and this is the first to tell.
        """
        with self._step(None, scope) as running:
            lost = errors.unavailable(f"the client has lost {', '.join(starts)}")
            self._planner.check_restarted(starts, lost, running)

    def _direct(self, prepared: PreparedSignature, plan: Plan) -> pb.DirectStep | None:
        """How the client may ask for such a step by itself, if its parts lie on other tasks of ours, and exchange
        nothing.
        """
        tasks = {part.task for part in plan.parts}
        if not (tasks and self._offers_direct and plan.ends_itself and plan.apart):
            return None
        if self.own_task in tasks:
            return None
        if len(tasks) > 1 and not self._planner.keep_for_client(plan):
            return None
        with self._lock:
            if not self._offers_direct:  # since this very moment
                return None
            self._direct_tasks |= tasks
        offer = prepared.bind(plan).direct()
        for part in offer.part:
            part.address = self.cluster.address(part.task)
        offer.timeout_ms = self._config.operation_timeout_in_ms
        return offer

    def end_direct(self, reason: errors.OpError, scope: Scope) -> list[Pending[Any]]:
        """Have the tasks refuse steps that the client asks them for by itself, with `reason`.

        They reply when those under way have ended.
        """
        with self._lock:
            self._offers_direct = False
            tasks = list(self._direct_tasks)
        request = pb.EndDirectRequest(session_handle=self.handle, reason=to_detail(reason))
        return [
            self.cluster.worker(task).call(methods.END_DIRECT, request, scope) for task in tasks
        ]

    def run_known(self, request: m.RunKnownRequest, scope: Scope) -> m.ValuesReply:
        """Run a step by its number.  Raises as `run`."""
        prepared = self.prepared_by_number.get(request.signature)
        if prepared is None or len(prepared.feeds) != len(request.feeds):
            raise self._no_such_step(prepared, request)
        prepared.used = self.used = True
        if self.limited and scope.deadline is None:  # else the step has a limit of its own
            with self._step(None, scope) as running:
                return self._run_numbered(prepared, request, running)
        token = object()
        self._steps[token] = scope
        try:
            if self.closed is not None:
                self._check_open()
            if self.leaving.any:
                self.leaving.go_first(scope)
            else:
                scope.check()
            return self._run_numbered(prepared, request, scope)
        finally:
            self.unbook(token)

    def _run_numbered(
        self, prepared: PreparedSignature, request: m.RunKnownRequest, scope: Scope
    ) -> m.ValuesReply:
        bound = prepared.bound
        if bound is None or bound.plan.stale:
            bound = prepared.bind(self._planner.plan(prepared.signature(False), scope))
        plan = bound.plan
        plan.used = True
        if not plan.ends_itself:
            named = dict(zip(prepared.feeds, request.feeds, strict=True))
            found, _ = self._run_plan(plan, named, None, scope, request.takes_leases)
            return m.ValuesReply([found[name] for name in prepared.fetches])
        step_id = _random.getrandbits(56) | 1
        requests = PartRequests(bound, step_id, request.feeds, request.takes_leases)
        try:
            values = run_stages(self.cluster, self.own_task, requests, scope)
        except BaseException as error:
            self._failed(plan, step_id, error, scope)
            raise
        return m.ValuesReply(bound.fetches(values))

    def _run_partial(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        feeds = {tensor_name(name): value for name, value in request.feeds}
        wanted = [tensor_name(name) for name in request.fetches]
        handle = request.partial_run_handle
        replies, plan = self._partials.step(handle, feeds, wanted, request, scope)
        found = _found(plan, replies)
        values = [(given, found[name]) for given, name in zip(request.fetches, wanted, strict=True)]
        return m.RunStepReply(values, _metadata(replies), starts=self._told(plan))

    def _prepared(self, request: m.RunStepRequest) -> PreparedSignature:
        """The names of a request, and the number that stands for them from now on."""
        names = tuple(name for name, _ in request.feeds)
        key = (names, tuple(request.fetches), tuple(request.targets))
        prepared = self._prepared_by_names.get(key)
        if prepared is None:
            with self._lock:
                prepared = self._prepared_by_names.get(key)
                if prepared is None:
                    prepared = PreparedSignature(next(self._numbers), request)
                    self.prepared_by_number[prepared.number] = prepared
                    for _, fallen in self._prepared_by_names.add(key, prepared):
                        del self.prepared_by_number[fallen.number]
        return prepared

    def _no_such_step(
        self, prepared: PreparedSignature | None, request: m.RunKnownRequest
    ) -> errors.OpError:
        number = request.signature
        if prepared is None:
            return ForgottenStepError.of(
                f"no step of session {self.handle!r} has the number {number} any more"
            )
        return errors.invalid_argument(
            f"step {number} of session {self.handle!r} takes {len(prepared.feeds)} feeds; {len(request.feeds)} came"
        )

    def _run_plan(
        self,
        plan: Plan,
        feeds: dict[str, Any],
        options: pb.RunOptions | None,
        scope: Scope,
        takes_leases: bool,
    ) -> tuple[dict[str, Any], pb.RunMetadata | None]:
        """The values of the plan's fetches by tensor name, and what `options` asks for beside."""
        options = options or pb.RunOptions()
        step_id = _random.getrandbits(56) | 1
        requests = [
            m.RunGraphRequest(
                part.graph_handle,
                step_id,
                [(key, feeds[name]) for name, key in part.feeds.items()],
                plan.wanted(part),
                self.handle,
                bool(options.trace_level),
                plan.created,
                record_partition_graphs=options.output_partition_graphs,
                takes_leases=takes_leases,
                ends_step=plan.ends_itself,
                close_reason=options.headrace_close_reason,
            )
            for part in plan.parts
        ]
        try:
            replies = self._run_parts(plan, requests, scope)
        except BaseException as error:
            self._failed(plan, step_id, error, scope)
            raise
        if not plan.ends_itself:
            self._clean_up(plan, step_id)
        return _found(plan, replies), _metadata(replies)

    def _run_parts(
        self, plan: Plan, requests: Sequence[m.RunGraphRequest], scope: Scope
    ) -> list[m.RunGraphReply]:
        asked = GraphRequests(plan, requests)
        replies: list[m.RunGraphReply] = run_stages(self.cluster, self.own_task, asked, scope)
        if any(reply.step_stats is not None for reply in replies):
            stats = [(part.task, r.step_stats) for part, r in zip(plan.parts, replies, strict=True)]
            try:
                to_one_clock(self.cluster, self.own_task, stats, scope)
            except BaseException:
                for reply in replies:
                    m.release(reply)
                raise
        return replies

    def _failed(
        self,
        plan: Plan,
        step_id: int,
        error: BaseException,
        scope: Scope,
        insists: bool = False,
    ) -> None:
        """Clean up after a step.  Raises as `Planner.check_restarted`."""
        self._clean_up(plan, step_id, insists)
        if isinstance(error, (errors.AbortedError, errors.UnavailableError)):
            self._planner.check_restarted(plan.starts, error, scope)

    def _clean_up(self, plan: Plan, step_id: int, insists: bool = False) -> None:
        """insists: the parts run by themselves, and no lost connection ends them; nor does the error that is to be
        raised, so they are given a moment to withdraw what they wait for.
        """
        request = pb.CleanupGraphRequest(step_id=step_id)
        tasks = dict.fromkeys(part.task for part in plan.parts)
        asked = []
        for task in tasks:
            worker = self.cluster.worker(task)
            if insists:
                worker.cancelled_calls.add(steps=(step_id,))
            if task != self.own_task and insists:
                asked.append(
                    call_with_retries(worker, methods.CLEANUP_GRAPH, request, self.cluster.scope)
                )
            elif task != self.own_task:
                worker.call(methods.CLEANUP_GRAPH, request, self.cluster.scope)
        if self.own_task in tasks:
            own = self.cluster.worker(self.own_task)
            own.call_now(methods.CLEANUP_GRAPH, request, self.cluster.scope)
        with Scope(LIMITS.partial_ends_within_s) as soon, contextlib.suppress(errors.OpError):
            for reply in asked:
                follow(reply).wait(soon)

    def _end_partial(self, plan: Plan, step_id: int) -> None:
        self._clean_up(plan, step_id, insists=True)
        self._planner.unpin(plan)

    def _partial_failed(
        self, plan: Plan, step_id: int, error: BaseException, scope: Scope, first: bool
    ) -> None:
        if first:
            self._planner.unpin(plan)
        self._failed(plan, step_id, error, scope, insists=True)

    # -- partial runs and callables -------------------------------------------------------------

    def begin_partial(self, request: pb.PartialRunSetupRequest, scope: Scope) -> str:
        """Plan a partial run; its handle.  Raises InvalidArgument (nothing to run, feeds that are
        fetched), and as `run`.
        """
        with self._step(None, scope) as running:
            progress = self._planner.progress(request)
            feeds = tuple(tensor_name(name) for name in request.feed)
            fetches = tuple(tensor_name(name) for name in request.fetch)
            signature = (feeds, fetches, tuple(request.target), True)  # nothing is relayed
            plan = self._planner.plan(signature, running, pinned=True)
            return self._partials.begin(plan, progress)

    def make_callable(self, options: pb.CallableOptions, scope: Scope) -> int:
        """Plan a callable; its number.  Raises InvalidArgument, NotFound, and as `run`."""
        check_callable(options)
        with self._step(options.run_options, scope) as running:
            make, own = self._planner.maker(options)
            return self._callables.add(make(running), options, own, make)

    def run_callable(self, request: m.RunCallableRequest, scope: Scope) -> m.RunCallableReply:
        """Run a callable.  Raises InvalidArgument (unknown, wrong number of feeds), and as `run`."""
        called = self._callables.get(request.handle)
        if len(request.feeds) != len(called.feeds):
            raise errors.invalid_argument(
                f"the callable takes {len(called.feeds)} feeds, {', '.join(called.feeds) or 'none'}; "
                f"{len(request.feeds)} were given"
            )
        with self._step(called.options, scope) as running:
            if called.plan.stale or self._planner.is_over(called.plan):
                called.plan = called.make(running)
            feeds = dict(zip(called.feeds, request.feeds, strict=True))
            found, metadata = self._run_plan(
                called.plan, feeds, called.options, running, request.takes_leases
            )
        values = [found[name] for name in called.fetches]
        return m.RunCallableReply(values, metadata, self._told(called.plan))

    def release_callable(self, number: int) -> None:
        """Forget a callable.  Raises InvalidArgument if it is not known."""
        released = self._callables.release(number)
        if released.own:
            self._planner.deregister(released.plan.parts)

    # -- the end --------------------------------------------------------------------------------

    def wait_until_idle(self, scope: Scope) -> None:
        """Block until no step is under way.  Raises the scope's error."""
        with self._idle:
            self._awaited = True
            scope.wait_for(self._idle, lambda: not self._steps, "the steps to end")

    def cancel(self, error: errors.OpError) -> None:
        """Refuse steps, and end those under way, with `error`."""
        with self._lock:
            self.closed = error
            steps = list(self._steps.values())
        self._planner.refuse(error)
        for running in steps:
            running.cancel(error)

    def close(self, error: errors.OpError, scope: Scope) -> None:
        """Cancel the steps under way and forget the plans, here and on the tasks.

        Waits for that no longer than `scope`; a task that cannot be reached is left alone.
        """
        self.cancel(error)
        try:
            self.wait_until_idle(scope)
        finally:
            self._partials.close()
            if self._legacy_client is not None:
                self._legacy_client.close()
            asked = self._planner.forget_all(self._callables.close(), self._direct_tasks, error)
        try:
            for reply in asked:
                with contextlib.suppress(errors.OpError):
                    reply.wait(scope)
        finally:
            if self._own_peers is not None:
                self._own_peers.close()


def _found(plan: Plan, replies: Sequence[m.RunGraphReply]) -> dict[str, Any]:
    """What the parts of a plan have given, by tensor name."""
    found: dict[str, Any] = {}
    for part, reply in zip(plan.parts, replies, strict=True):
        by_key = dict(reply.recv)
        found.update((name, by_key[key]) for name, key in part.fetches.items() if key in by_key)
    return found


def _metadata(replies: Sequence[m.RunGraphReply]) -> pb.RunMetadata | None:
    """None if no part has any."""
    if not any(reply.step_stats is not None or reply.partition_graphs for reply in replies):
        return None
    metadata = pb.RunMetadata()
    for reply in replies:
        if reply.step_stats is not None:
            metadata.step_stats.MergeFrom(reply.step_stats)
        metadata.partition_graphs.extend(reply.partition_graphs)
    return metadata
