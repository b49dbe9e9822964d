"""One client session on a master: its graph, its plans, its steps.

A plan is made once per (feeds, fetches, targets): pruned, placed, partitioned, registered on the
tasks that take part.  A step starts the remote partitions, runs the master's own in the calling
thread, and waits for the others.
Called by: serve.master.  Threads: any number of steps at once; no lock is held while a task is
asked for anything.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer, graph_def
from headrace.graph.tensor import Tensor
from headrace.plan.connect import check_callable, check_names, connected, connections
from headrace.plan.partition import Partition, partition
from headrace.plan.place import Groups, place
from headrace.plan.progress import Progress
from headrace.plan.prune import CONTROL_FLOW, Pruned, needed
from headrace.plan.structure import all_alive
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.serve import messages as m
from headrace.serve import wire
from headrace.serve.callables import Callables
from headrace.serve.clocks import to_one_clock
from headrace.serve.cluster_view import ClusterView
from headrace.serve.partials import Partials
from headrace.serve.peers import Peers
from headrace.serve.placement_log import MASTER, log_placement
from headrace.serve.plans import Known, Part, Plan, Signature, tensor_name
from headrace.serve.step import run_parts
from headrace.serve.waiting import follow
from headrace.serve.worker_sessions import WorkerSessions

Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Feeds, fetches and targets as a client writes them."""


class MasterSession:
    """See the module header."""

    def __init__(
        self,
        handle: str,
        config: pb.ConfigProto,
        cluster: ClusterView,
        own_task: str,
        own_peers: Peers | None = None,
    ) -> None:
        """own_task: the master's, in this cluster.  own_peers: closed with the session."""
        self.handle = handle
        self.graph_version = 0
        self.cluster = cluster
        self._config = config
        self.own_task = own_task
        self._own_peers = own_peers
        self._groups = Groups()
        self._new_graph(None)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._plans: dict[Signature, Plan] = {}
        self._planning: dict[Signature, Pending[None]] = {}
        self._known_by_names: dict[Names, Known] = {}
        self._known_by_number: dict[int, Known] = {}
        self._placed: set[str] = set()  # nodes whose placement has been logged
        self._steps: dict[object, Scope] = {}
        self._step_ids = random.Random(secrets.randbits(64))
        self._awaited = False  # whether somebody waits for the steps to end
        self._closed: errors.OpError | None = None
        self._partials = Partials(handle, self._run_parts, self._clean_up)
        self._callables = Callables()
        self._own_workers = WorkerSessions(handle, config, cluster)

    def _new_graph(self, earlier: pb.GraphDef | None) -> None:
        self._graph = Graph()
        self._graph.infer_shapes = False
        self._importer = Importer(self._graph, origins=False)
        self._groups = Groups(self._groups.kept)
        if earlier is not None:
            self._importer.add(earlier)

    def extend(self, addition: pb.GraphDef) -> int:
        """Add nodes, all or none; returns the new version.

        Raises NotFound (unknown op), InvalidArgument.
        """
        with self._lock:
            self._check_open()
            before = self._graph.get_operations()
            try:
                self._importer.add(addition)
            except (ValueError, TypeError, KeyError, errors.OpError) as error:
                self._new_graph(graph_def(self._graph, ops=before))
                if isinstance(error, errors.OpError):
                    raise
                raise errors.invalid_argument(f"the GraphDef cannot be used: {error}") from error
            self.graph_version += 1
            return self.graph_version

    def _check_open(self) -> None:
        if self._closed is not None:
            raise errors.make(self._closed.error_code, self._closed.message)

    # -- plans --------------------------------------------------------------------------------

    def _plan(self, signature: Signature, scope: Scope) -> Plan:
        """The plan of a signature.  One step makes it; others of that signature wait for it."""
        while True:
            with self._lock:
                self._check_open()
                plan = self._plans.get(signature)
                if plan is not None:
                    return plan
                made = self._planning.get(signature)
                if made is None:
                    mine = self._planning[signature] = Pending(WaitInfo("plan", self.handle))
            if made is None:
                try:
                    return self._make_plan(signature, scope)
                finally:
                    with self._lock:
                        del self._planning[signature]
                    mine.resolve(None)
            follow(made).wait(scope)

    def _make_plan(self, signature: Signature, scope: Scope) -> Plan:
        plan = self._new_plan(self._graph, signature, scope)
        with self._lock:
            if self._closed is None:
                self._plans[signature] = plan
                return plan
        self._deregister(plan.parts)
        self._check_open()
        raise AssertionError("a closed session stays closed")

    def _new_plan(self, graph: Graph, signature: Signature, scope: Scope) -> Plan:
        with self._lock:  # the graph must not grow meanwhile
            pruned, feeds, fetches = _pruned(graph, signature)
            everything = list(dict.fromkeys([*pruned.ops, *(tensor.op for tensor in feeds)]))
            groups = self._groups if graph is self._graph else Groups(self._groups.kept)
            groups.add(graph.operations_since(groups.count))
            leaders = dict.fromkeys(groups.leader(op) for op in everything)
            asked = [op.device for leader in leaders for op in groups.members(leader)]
        available = self.cluster.devices_for(asked, scope)
        with self._lock:
            own_first = self._config.experimental.headrace_place_on_own_task
            devices = place(
                everything,
                available,
                allow_soft_placement=self._config.allow_soft_placement,
                own_task=self.own_task if own_first else None,
                groups=groups,
            )
            if self._config.log_device_placement:
                placed = ((op.name, op.type, devices[op]) for op in everything)
                log_placement(placed, self._placed, MASTER)
        incarnations = self.cluster.incarnations(devices.values(), scope)
        parts = partition(pruned, feeds, fetches, devices, incarnations.__getitem__)
        created = self._own_workers.create([part.task for part in parts], scope)
        has_control_flow = any(op.type in CONTROL_FLOW for op in pruned.ops)
        alive = len(parts) == 1 or all_alive(pruned, feeds, devices)
        tasks = {part.task for part in parts}
        starts = self.cluster.starts(tasks)
        try:
            registered = self._register(
                parts, has_control_flow, alive, signature[-1], created, scope
            )
        except errors.AbortedError as error:
            self._check_restarted(starts, error)
            raise
        return Plan(registered, created, tasks == self.cluster.pushing(tasks), starts)

    def _check_restarted(self, starts: dict[str, int], error: errors.OpError) -> None:
        """Find out whether `error` came of a task that was restarted since it had the incarnation in
        `starts`.  If so, forget the plans that it has a part in, and raise Aborted naming it.
        """
        gone = self.cluster.restarted(starts) if self._closed is None else []
        if not gone:
            return
        with self._lock:
            stale = [
                plan
                for plan in [*self._plans.values(), *self._callables.plans]
                if any(plan.starts.get(task) == starts[task] for task in gone)
            ]
            for plan in stale:
                plan.stale = True
            self._plans = {s: plan for s, plan in self._plans.items() if not plan.stale}
            for known in self._known_by_number.values():
                if known.plan is not None and known.plan.stale:
                    known.plan = None
        self._own_workers.forget(gone)
        self._deregister(part for plan in stale for part in plan.parts if part.task not in gone)
        raise errors.aborted(
            f"{', '.join(gone)} was restarted: another incarnation answers than the one that the session knew. "
            "Variables there are uninitialized, queues empty; the next step uses the new one"
        ) from error

    def _register(
        self, parts: Sequence[Partition], has_control_flow: bool, alive: bool, exact: bool,
        created: bool, scope: Scope,
    ) -> list[Part]:  # fmt: skip
        """Register every partition on its task; if one fails, none stays.

        alive: what passes between them is never dead.  exact: every node is to run as it is written.
        """
        asked = []
        options = pb.GraphOptions()
        options.CopyFrom(self._config.graph_options)
        if exact:
            options.optimizer_options.opt_level = pb.OptimizerOptions.L0
        pushing = self.cluster.pushing(part.task for part in parts)
        for part in parts:
            others = sorted(pushing - {part.task}) if part.task in pushing else []
            request = pb.RegisterGraphRequest(
                session_handle=self.handle,
                graph_def=part.graph_def,
                graph_options=options,
                has_control_flow=has_control_flow,
                headrace_all_alive=alive,
                headrace_pushes_to=others,
                headrace_pushed_by=others,
                headrace_feed_keys=part.feeds.values(),
                headrace_fetch_keys=part.fetches.values(),
                create_worker_session_called=created,
                config_proto=self._config,
            )
            asked.append(self.cluster.worker(part.task).call(wire.REGISTER_GRAPH, request, scope))
        registered: list[Part] = []
        failed: errors.OpError | None = None
        for part, reply in zip(parts, asked, strict=True):
            try:
                handle = reply.wait(scope).graph_handle
            except errors.OpError as error:
                failed = failed or error
                continue
            registered.append(
                Part(
                    part.task,
                    handle,
                    {tensor.name: key for tensor, key in part.feeds.items()},
                    {tensor.name: key for tensor, key in part.fetches.items()},
                )
            )
        if failed is not None:
            self._deregister(registered)
            raise failed
        return registered

    def _deregister(self, parts: Iterable[Part]) -> list[Pending[Any]]:
        return [
            self.cluster.worker(part.task).call(
                wire.DEREGISTER_GRAPH,
                pb.DeregisterGraphRequest(
                    graph_handle=part.graph_handle,
                    session_handle=self.handle,
                    create_worker_session_called=self._own_workers.wanted,
                ),
                self.cluster.scope,
            )
            for part in parts
        ]

    # -- steps --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _step(self, options: pb.RunOptions | None, scope: Scope) -> Iterator[Scope]:
        """The scope of a step, which counts as under way inside.  Raises Aborted if closed."""
        timeout_ms = options.timeout_in_ms if options is not None else 0
        timeout_ms = timeout_ms or self._config.operation_timeout_in_ms
        with Scope(timeout_ms / 1000 if timeout_ms > 0 else None, scope) as running:
            token = object()
            with self._lock:
                self._check_open()
                self._steps[token] = running
            try:
                yield running
            finally:
                with self._lock:
                    del self._steps[token]
                    if not self._steps:
                        self._idle.notify_all()

    def run(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        """Run one step, or a piece of a partial one.

        Raises what its nodes raise, Aborted on a closed session.
        """
        with self._step(request.options, scope) as running:
            if request.partial_run_handle:
                return self._run_partial(request, running)
            known = self._known(request)
            exact = request.options is not None and bool(request.options.trace_level)
            plan = self._plan(known.signature(exact), running)
            feeds = {
                name: value for name, (_, value) in zip(known.feeds, request.feeds, strict=True)
            }
            found, metadata = self._run_plan(
                plan, feeds, request.options, running, request.takes_leases
            )
        pairs = zip(known.given, known.fetches, strict=True)
        values = [(given, found[name]) for given, name in pairs]
        return m.RunStepReply(values, metadata, known.number)

    def run_known(self, request: m.RunKnownRequest, scope: Scope) -> m.ValuesReply:
        """Run a step by its number.  Raises as `run`."""
        known = self._numbered(request.signature, request.feeds)
        if self._config.operation_timeout_in_ms > 0:
            with self._step(None, scope) as running:
                return m.ValuesReply(self._run_numbered(known, request, running))
        token = object()
        self._steps[token] = scope
        try:
            self._check_open()
            return m.ValuesReply(self._run_numbered(known, request, scope))
        finally:
            del self._steps[token]
            if self._awaited:
                with self._lock:
                    self._idle.notify_all()

    def _run_numbered(self, known: Known, request: m.RunKnownRequest, scope: Scope) -> list[Any]:
        plan = known.plan
        if plan is None:
            plan = known.plan = self._plan(known.signature(False), scope)
        feeds = dict(zip(known.feeds, request.feeds, strict=True))
        leases = request.takes_leases
        if not plan.ends_itself:
            found, _ = self._run_plan(plan, feeds, None, scope, leases)
            return [found[name] for name in known.fetches]
        step_id = self._step_ids.getrandbits(56) | 1
        parts = plan.parts
        requests = [part.brief(step_id, feeds, leases) for part in parts]
        try:
            replies = run_parts(self.cluster, self.own_task, parts, wire.RUN_PART, requests, scope)
        except BaseException as error:
            self._failed(plan, step_id, error)
            raise
        values: dict[str, Any] = {}
        for part, reply in zip(parts, replies, strict=True):
            values.update(zip(part.fetches, reply.fetches, strict=True))
        return [values[name] for name in known.fetches]

    def _run_partial(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        feeds = {tensor_name(name): value for name, value in request.feeds}
        wanted = [tensor_name(name) for name in request.fetches]
        handle = request.partial_run_handle
        replies, plan = self._partials.step(handle, feeds, wanted, request, scope)
        found = _found(plan, replies)
        values = [(given, found[name]) for given, name in zip(request.fetches, wanted, strict=True)]
        return m.RunStepReply(values, _metadata(replies))

    def _known(self, request: m.RunStepRequest) -> Known:
        """The names of a request, and the number that stands for them from now on."""
        names = tuple(name for name, _ in request.feeds)
        key = (names, tuple(request.fetches), tuple(request.targets))
        known = self._known_by_names.get(key)
        if known is None:
            with self._lock:
                known = Known(len(self._known_by_number) + 1, request)
                self._known_by_number[known.number] = self._known_by_names[key] = known
        return known

    def _numbered(self, number: int, feeds: Sequence[Any]) -> Known:
        known = self._known_by_number.get(number)
        if known is None or len(known.feeds) != len(feeds):
            raise errors.invalid_argument(
                f"no step of session {self.handle!r} with {len(feeds)} feeds has the number {number}"
            )
        return known

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
        step_id = self._step_ids.getrandbits(56) | 1
        requests = [
            m.RunGraphRequest(
                part.graph_handle, step_id,
                [(key, feeds[name]) for name, key in part.feeds.items()],
                list(part.fetches.values()), self.handle, bool(options.trace_level), plan.created,
                record_partition_graphs=options.output_partition_graphs, takes_leases=takes_leases,
                ends_step=plan.ends_itself,
            )
            for part in plan.parts
        ]  # fmt: skip
        try:
            replies = self._run_parts(plan, requests, scope)
        except BaseException as error:
            self._failed(plan, step_id, error)
            raise
        if not plan.ends_itself:
            self._clean_up(plan, step_id)
        return _found(plan, replies), _metadata(replies)

    def _run_parts(
        self, plan: Plan, requests: Sequence[m.RunGraphRequest], scope: Scope
    ) -> list[m.RunGraphReply]:
        replies: list[m.RunGraphReply] = run_parts(
            self.cluster, self.own_task, plan.parts, wire.RUN_GRAPH, requests, scope
        )
        if any(reply.step_stats is not None for reply in replies):
            stats = [(part.task, r.step_stats) for part, r in zip(plan.parts, replies, strict=True)]
            try:
                to_one_clock(self.cluster, self.own_task, stats, scope)
            except BaseException:
                for reply in replies:
                    m.release(reply)
                raise
        return replies

    def _failed(self, plan: Plan, step_id: int, error: BaseException) -> None:
        """Clean up after a step.  Raises Aborted if it failed because a task was restarted."""
        self._clean_up(plan, step_id)
        if isinstance(error, (errors.AbortedError, errors.UnavailableError)):
            self._check_restarted(plan.starts, error)

    def _clean_up(self, plan: Plan, step_id: int) -> None:
        request = pb.CleanupGraphRequest(step_id=step_id)
        for part in plan.parts:
            worker = self.cluster.worker(part.task)
            if part.task == self.own_task:
                worker.call_now(wire.CLEANUP_GRAPH, request, self.cluster.scope)
            else:
                worker.call(wire.CLEANUP_GRAPH, request, self.cluster.scope)

    # -- partial runs and callables -------------------------------------------------------------

    def begin_partial(self, request: pb.PartialRunSetupRequest, scope: Scope) -> str:
        """Plan a partial run; its handle.  Raises InvalidArgument (nothing to run, feeds that are
        fetched), and as `run`.
        """
        with self._step(None, scope) as running:
            feeds = tuple(tensor_name(name) for name in request.feed)
            fetches = tuple(tensor_name(name) for name in request.fetch)
            with self._lock:
                progress = Progress(
                    [_tensor(self._graph, name) for name in feeds],
                    [_tensor(self._graph, name) for name in fetches],
                    bool(request.target),
                )
            plan = self._plan((feeds, fetches, tuple(request.target), False), running)
            return self._partials.begin(plan, progress)

    def make_callable(self, options: pb.CallableOptions, scope: Scope) -> int:
        """Plan a callable; its number.  Raises InvalidArgument, NotFound, and as `run`."""
        check_callable(options)
        wired = connections(options)
        with self._step(options.run_options, scope) as running:
            signature = (
                tuple(tensor_name(name) for name in options.feed),
                tuple(tensor_name(name) for name in options.fetch),
                tuple(options.target),
                bool(options.run_options.trace_level),
            )
            with self._lock:
                graph = connected(graph_def(self._graph), wired) if wired else self._graph
                check_names(graph, options)

            def make(within: Scope) -> Plan:
                return (
                    self._new_plan(graph, signature, within)
                    if wired
                    else self._plan(signature, within)
                )

            return self._callables.add(make(running), options, bool(wired), make)

    def run_callable(self, request: m.RunCallableRequest, scope: Scope) -> m.RunCallableReply:
        """Run a callable.  Raises InvalidArgument (unknown, wrong number of feeds), and as `run`."""
        called = self._callables.get(request.handle)
        if len(request.feeds) != len(called.feeds):
            raise errors.invalid_argument(
                f"the callable takes {len(called.feeds)} feeds, {', '.join(called.feeds) or 'none'}; "
                f"{len(request.feeds)} were given"
            )
        with self._step(called.options, scope) as running:
            if called.plan.stale:
                called.plan = called.make(running)
            feeds = dict(zip(called.feeds, request.feeds, strict=True))
            found, metadata = self._run_plan(
                called.plan, feeds, called.options, running, request.takes_leases
            )
        return m.RunCallableReply([found[name] for name in called.fetches], metadata)

    def release_callable(self, number: int) -> None:
        """Forget a callable.  Raises InvalidArgument if it is not known."""
        released = self._callables.release(number)
        if released.own:
            self._deregister(released.plan.parts)

    # -- the end --------------------------------------------------------------------------------

    def wait_until_idle(self, scope: Scope) -> None:
        """Block until no step is under way.  Raises the scope's error."""
        with self._idle:
            self._awaited = True
            scope.wait_for(self._idle, lambda: not self._steps, "the steps to end")

    def cancel(self, error: errors.OpError) -> None:
        """Refuse steps, and end those under way, with `error`."""
        with self._lock:
            self._closed = error
            steps = list(self._steps.values())
        for running in steps:
            running.cancel(error)

    def close(self, error: errors.OpError, scope: Scope) -> None:
        """Cancel the steps under way and forget the plans, here and on the tasks.

        Waits for that no longer than `scope`; a task that cannot be reached is left alone.
        """
        self.cancel(error)
        with self._lock:
            plans = [*self._plans.values(), *self._callables.close()]
            self._plans.clear()
        try:
            self.wait_until_idle(scope)
        finally:
            self._partials.close()
            parts = [part for plan in plans for part in plan.parts]
            asked = self._deregister(parts)
            forget = pb.DeleteWorkerSessionRequest(session_handle=self.handle)
            for task in {part.task for part in parts} | self._own_workers.tasks:
                worker = self.cluster.worker(task)
                asked.append(worker.call(wire.DELETE_WORKER_SESSION, forget, self.cluster.scope))
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


def _pruned(graph: Graph, signature: Signature) -> tuple[Pruned, list[Tensor], list[Tensor]]:
    """What a signature runs, its feeds and its fetches.  Raises NotFound, InvalidArgument."""
    feed_names, fetch_names, target_names, exact = signature
    feeds = [_tensor(graph, name) for name in feed_names]
    fetches = [_tensor(graph, name) for name in fetch_names]
    targets = [_operation(graph, name) for name in target_names]
    return needed(feeds, fetches, targets, exact=exact), feeds, fetches


def _tensor(graph: Graph, name: str) -> Tensor:
    node, _, index = name.partition(":")
    op = _operation(graph, node)
    position = int(index or 0) if (index or "0").isdigit() else -1
    if not 0 <= position < len(op.outputs):
        raise errors.invalid_argument(
            f"tensor {name!r} does not exist: node {node!r} ({op.type}) has {len(op.outputs)} outputs",
            node=node, op_type=op.type,
        )  # fmt: skip
    return op.outputs[position]


def _operation(graph: Graph, name: str) -> Operation:
    op = graph._ops.get(name)
    if op is None:
        raise errors.not_found(
            f"the session's graph has no node {name!r}; was it extended?", node=name
        )
    return op
