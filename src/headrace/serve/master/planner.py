"""The graph of one session on its master, and the plans that were made of it.

A plan is made once per (feeds, fetches, targets): pruned, placed, partitioned, registered on the
tasks that take part.
Called by: serve.master.master_session.  Threads: any; no lock is held while a task is asked for anything.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.base.traits import CONTROL_FLOW
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer, graph_def
from headrace.plan.connect import check_names, connected, connections
from headrace.plan.partition import Partition, partition
from headrace.plan.place import Groups, fed_where_used, keep, place
from headrace.plan.progress import Progress
from headrace.plan.relay import Stages, relay
from headrace.plan.structure import all_alive
from headrace.plan.wanted import Wanted
from headrace.run.exec.keys import source_task, target_task
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.connect.retries import call_with_retries
from headrace.serve.master.incarnations import Incarnations, restarted
from headrace.serve.master.lru import LruTable
from headrace.serve.master.outlasting import Draft, Making, at_least
from headrace.serve.master.plans import PartitionHandle, Plan, Signature, tensor_name
from headrace.serve.master.signatures import tensor_of, wanted_of, without_meeting_points
from headrace.serve.master.worker_sessions import WorkerSessions
from headrace.serve.observe.placement_log import MASTER, log_placement
from headrace.serve.rpc import methods
from headrace.serve.rpc.encoding import serialized
from headrace.serve.rpc.gather import Begun, Gather
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.status import again, to_detail
from headrace.serve.rpc.waiting import follow


class Planner:
    """See the module header.  graph_version: grows with every extension."""

    def __init__(
        self,
        handle: str,
        config: pb.ConfigProto,
        cluster: ClusterView,
        own_task: str,
        after_steps: Callable[[Callable[[], object]], None],
        other_plans: Callable[[], Iterable[Plan]],
        apart: Callable[[Callable[[Scope], object]], None],
        known: Mapping[str, int],
    ) -> None:
        """own_task: the master's, in this cluster.  known: see `Incarnations`.

        after_steps(do): calls do() when the steps that are under way now have ended.  other_plans(): those that are
        kept elsewhere.  apart(do): has do(scope) called by another thread, which counts as a step; raises RuntimeError.
        """
        self._apart = apart
        self._after_steps = after_steps
        self._other_plans = other_plans
        self.graph_version = 0
        self._handle = handle
        self._config = config
        self._cluster = cluster
        self._own_task = own_task
        self._groups = Groups()
        self._new_graph(None)
        self._lock = threading.Lock()
        self._plans: LruTable[Signature, Plan] = LruTable(LIMITS.most_plans)
        self._kept_for_client: set[Plan] = set()
        self._planning: dict[Signature, Making] = {}
        self._placed: set[str] = set()  # nodes whose placement has been logged
        self._closed: errors.OpError | None = None
        self._workers = WorkerSessions(handle, config, cluster)
        self._starts = Incarnations(known)
        self._reached: set[str] = set()  # tasks that may know something of the session

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
            raise again(self._closed)

    # -- what is asked of the graph before there is a plan ----------------------------------------

    @property
    def nodes(self) -> int:
        """How many the graph has."""
        return len(self._graph)

    def progress(self, request: pb.PartialRunSetupRequest) -> Progress:
        """Of a partial run.  Raises NotFound, InvalidArgument."""
        with self._lock:
            return Progress(
                [tensor_of(self._graph, tensor_name(name)) for name in request.feed],
                [tensor_of(self._graph, tensor_name(name)) for name in request.fetch],
                bool(request.target),
            )

    def maker(self, options: pb.CallableOptions) -> tuple[Callable[[Scope], Plan], bool]:
        """What makes the plan of a callable, and whether nobody else gets that plan.

        Raises InvalidArgument, NotFound.
        """
        wired = connections(options)
        signature = (
            tuple(tensor_name(name) for name in options.feed),
            tuple(tensor_name(name) for name in options.fetch),
            tuple(options.target),
            bool(options.run_options.trace_level or options.run_options.output_partition_graphs),
        )
        with self._lock:
            graph = connected(graph_def(self._graph), wired) if wired else self._graph
            check_names(graph, options)
        if wired:
            return (lambda scope: self.new_plan(graph, signature, scope)), True
        return (lambda scope: self.plan(signature, scope)), False

    # -- plans --------------------------------------------------------------------------------

    def plan(self, signature: Signature, scope: Scope, pinned: bool = False) -> Plan:
        """The plan of a signature.  One step makes it; others of that signature wait for it.

        It may be used for the caller's step, or if it is pinned until `unpin`.
        """
        while True:
            with self._lock:
                self._check_open()
                plan = self._plans.get(signature)
                if plan is not None:
                    plan.pins += pinned
                    return plan
                made = self._planning.get(signature)
                if made is None:
                    mine = self._planning[signature] = Making(self._handle)
            if made is not None:
                follow(made.over).wait(scope)
            elif scope.deadline is not None:
                self._make_for_all(signature, mine, scope)
            else:
                try:
                    return self._make_plan(signature, scope, pinned)
                finally:
                    self._planned(signature, mine)

    def _make_for_all(self, signature: Signature, mine: Making, scope: Scope) -> None:
        """Make a plan that is found by this step, or by a later one: see serve.master.outlasting.  Raises as `plan`."""
        handed = False
        try:
            draft = self._draft(self._graph, signature, scope)

            def work(apart: Scope) -> None:
                error: BaseException | None = None
                try:
                    plan = self._of_draft(draft, signature[-1], apart, mine.asked)
                    if plan is not None:
                        self._keep(signature, plan, False)
                except errors.OpError as failed:
                    error = errors.detached(failed)
                except BaseException as failed:
                    error = failed.with_traceback(None)
                self._planned(signature, mine, error)

            try:
                self._apart(work)
            except RuntimeError as error:
                raise errors.resource_exhausted(f"no thread to register a step: {error}") from error
            handed = True
        finally:
            if not handed:
                self._planned(signature, mine)
        failed = follow(mine.over).wait(scope)
        if isinstance(failed, (errors.AbortedError, errors.UnavailableError)):
            if not self._may_be_made_anew(draft.starts, draft.version, failed, scope):
                raise errors.copied(failed)
        elif failed is not None:
            raise errors.copied(failed) if isinstance(failed, errors.OpError) else failed

    def _planned(
        self, signature: Signature, making: Making, error: BaseException | None = None
    ) -> None:
        """A plan is there, or was not to be had; those who wait look again."""
        with self._lock:
            del self._planning[signature]
        making.over.resolve(error)

    def keep_for_client(self, plan: Plan) -> bool:
        """Keep it as long as the session and its tasks last, whose client is going to ask for its parts by itself: of
        several tasks one might have forgotten its part already.  False if it is to go on by way of this master.
        """
        with self._lock:
            kept = self._kept_for_client
            if plan in kept:
                return True
            if plan.stale or len(kept) >= LIMITS.most_scattered:
                return False
            plan.pins += 1
            kept.add(plan)
            return True

    def unpin(self, plan: Plan) -> None:
        """It was pinned, and need not be any longer."""
        with self._lock:
            plan.pins -= 1

    def _make_plan(self, signature: Signature, scope: Scope, pinned: bool) -> Plan:
        return self._keep(signature, self.new_plan(self._graph, signature, scope), pinned)

    def _keep(self, signature: Signature, plan: Plan, pinned: bool) -> Plan:
        """Have it found from now on.  Raises why the session is closed."""
        fallen: list[Plan] | None = None
        with self._lock:
            if self._closed is None:
                plan.pins += pinned
                plan.stale = self.is_over(
                    plan
                )  # since a moment: one step of it fails as those under way do
                kept = [] if plan.stale else self._plans.add(signature, plan)
                fallen = [other for _, other in kept]
                for other in fallen:
                    other.stale = True
        if fallen is not None:
            for other in fallen:
                self._after_steps(functools.partial(self.deregister, other.parts))
            return plan
        self.deregister(plan.parts)
        self._check_open()
        raise AssertionError("a closed session stays closed")

    def is_over(self, plan: Plan) -> bool:
        """Whether a task of it was restarted and the session's client has been told."""
        return bool(self._starts.over(plan.starts))

    def new_plan(self, graph: Graph, signature: Signature, scope: Scope) -> Plan:
        """A plan that is not kept here.  Raises what `plan` raises.

        Its tasks take it in the very starts that the session uses from then on, however often they are restarted.
        """
        while True:
            draft = self._draft(graph, signature, scope)
            try:
                plan = self._of_draft(draft, signature[-1], scope)
            except (errors.AbortedError, errors.UnavailableError) as error:
                if not self._may_be_made_anew(draft.starts, draft.version, error, scope):
                    raise
            else:
                if plan is not None:
                    return plan

    def _draft(self, graph: Graph, signature: Signature, scope: Scope) -> Draft:
        """What a plan is made of.  Raises Restarted."""
        version, since = self._starts.version, time.monotonic()
        found, devices = self._placed_nodes(graph, signature, since, scope)
        asking = at_least(scope, since, self._cluster.scope)
        incarnations, starts = self._cluster.incarnations(devices.values(), asking)
        self._tell(self._starts.earlier(starts), scope)
        return Draft(version, found, devices, incarnations, starts)

    def _of_draft(
        self,
        draft: Draft,
        exact: bool,
        scope: Scope,
        asked: dict[str, Begun | Pending[Any]] | None = None,
    ) -> Plan | None:
        """The plan, whose tasks know it then; None if a restart was told meanwhile.  asked: see `Making`."""
        pruned, feeds, fetches = draft.found.pruned, draft.found.feeds, draft.found.fetches
        if not exact:
            pruned = without_meeting_points(pruned, draft.devices)
        parts = partition(pruned, feeds, fetches, draft.devices, draft.incarnations.__getitem__)
        has_control_flow = any(CONTROL_FLOW in op.traits for op in pruned.ops)
        alive = len(parts) == 1 or all_alive(pruned, feeds, draft.devices)
        how = has_control_flow, alive, exact
        plan = self._registered(parts, how, draft.starts, scope, {} if asked is None else asked)
        if self._starts.use(draft.starts, draft.version):
            return plan
        self.deregister(plan.parts)
        return None

    def _placed_nodes(
        self, graph: Graph, signature: Signature, since: float, scope: Scope
    ) -> tuple[Wanted, Mapping[Operation, str]]:
        """What a signature runs, and the devices of all.  since: when that was begun."""
        owner = self._cluster.scope
        with self._lock:  # the graph must not grow meanwhile
            found = wanted_of(graph, signature)
            pruned, everything = found.pruned, found.everything
            groups = self._groups if graph is self._graph else Groups(self._groups.kept)
            groups.add(graph.operations_since(groups.count))
            if found.copies:
                groups = groups.of_copies(everything, found.copies)
            leaders = dict.fromkeys(groups.leader(op) for op in everything)
            kept = groups.kept
            asked = [
                kept.get(op.name, op.device) for each in leaders for op in groups.members(each)
            ]
        available = self._cluster.devices_for(asked, at_least(scope, since, owner))
        own_first = self._config.experimental.headrace_place_on_own_task
        placing = functools.partial(
            place,
            everything,
            allow_soft_placement=self._config.allow_soft_placement,
            own_task=self._own_task if own_first else None,
            groups=groups,
            keeps=False,
        )
        with self._lock:
            devices: Mapping[Operation, str] = placing(available)
        asking = at_least(scope, since, owner)
        with_gpus = self._cluster.with_gpus(available, devices.values(), asking)
        with self._lock:
            if with_gpus is not None:
                devices = placing(with_gpus)
            keep(groups, devices)
            if self._config.log_device_placement:
                placed = ((op.name, op.type, devices[op]) for op in everything)
                log_placement(placed, self._placed, MASTER)
        if not signature[-1]:
            devices = fed_where_used(pruned, found.feeds, devices)
        return found, devices

    def _registered(
        self,
        parts: Sequence[Partition],
        how: tuple[bool, bool, bool],
        starts: Mapping[str, int],
        scope: Scope,
        asked: dict[str, Begun | Pending[Any]],
    ) -> Plan:
        """The plan of these partitions, which their tasks have then.  See `_register`, and `Making` for `asked`."""
        has_control_flow, alive, exact = how
        created = self._workers.create([part.task for part in parts], scope)
        tasks = {part.task for part in parts}
        pushing = tasks == self._cluster.pushing(tasks)
        stages: Stages | None = None
        if pushing and not (has_control_flow or exact):
            found = relay(parts, self._own_task)
            if found is not None:
                parts, stages = found
        linked = pushing and stages is None and len(tasks) > 1 and self._own_task in tasks
        used = {task: starts[task] for task in tasks if task in starts}
        registered = self._register(
            parts, has_control_flow, alive, linked, exact, created, used, scope, asked
        )
        apart = stages is None and not any(part.sends or part.receives for part in parts)
        return Plan(registered, created, pushing, linked, stages, used, apart=apart)

    def _may_be_made_anew(
        self, starts: Mapping[str, int], version: int, error: errors.OpError, scope: Scope
    ) -> bool:
        """Whether a plan failed because a task was restarted while it was made, and nothing is to be told of that.

        Raises as `check_restarted`.
        """
        if self._closed is not None:
            return False
        found = self._cluster.restarted(starts, scope)
        self._tell({task: starts[task] for task in found.restarted}, scope, error)
        if found.restarted or version != self._starts.version:
            scope.check()
            return True
        _raise_lost(found.silent, error, scope)
        return False

    def check_restarted(
        self, starts: Mapping[str, int], error: errors.OpError, scope: Scope
    ) -> None:
        """A step on these starts has failed with `error`: find out by its deadline whether that came of a restart.

        Raises Restarted if nobody has told the session's client of it; else Unavailable instead of an Aborted that
        came of a restart, of which another step tells, or nobody yet.
        """
        if self._closed is not None:
            return
        silent: list[str] = []
        if not self._starts.over(starts):
            found = self._cluster.restarted(starts, scope)
            self._tell({task: starts[task] for task in found.restarted}, scope, error)
            silent = found.silent
        _raise_lost(self._starts.over(starts) or silent, error, scope)

    def _tell(
        self, gone: Mapping[str, int], scope: Scope, error: errors.OpError | None = None
    ) -> None:
        """These starts are over: forget what was planned for them, and raise what tells the session's client, if it is
        the caller's to tell and there is time left to do so.
        """
        if not gone:
            return
        self._forget_plans(gone)
        scope.check()
        told = self._starts.take(gone)
        self._forget_plans(gone)  # those too that were finished just now
        if told:
            raise restarted(told) from error

    def _forget_plans(self, gone: Mapping[str, int]) -> None:
        """Use no plan again that was made for these starts."""
        others = self._other_plans()
        with self._lock:
            stale = [
                plan
                for plan in [*(plan for _, plan in self._plans.items()), *others]
                if any(plan.starts.get(task) == start for task, start in gone.items())
                and not plan.stale
            ]
            for plan in stale:
                plan.stale = True
            self._kept_for_client.difference_update(stale)
            for signature, plan in self._plans.items():
                if plan.stale:
                    self._plans.pop(signature)
        self._workers.forget(gone)
        self.deregister(part for plan in stale for part in plan.parts if part.task not in gone)

    def _register(
        self,
        parts: Sequence[Partition],
        has_control_flow: bool,
        alive: bool,
        linked: bool,
        exact: bool,
        created: bool,
        starts: Mapping[str, int],
        scope: Scope,
        asked: dict[str, Begun | Pending[Any]],
    ) -> list[PartitionHandle]:
        """Register every partition on its task; if one fails, none stays.

        alive: what passes between them is never dead.  linked: small values pass over the connections on which the
        parts are asked for.  exact: every node is to run as it is written.
        """
        options = pb.GraphOptions()
        options.CopyFrom(self._config.graph_options)
        if exact:
            options.optimizer_options.opt_level = pb.OptimizerOptions.L0
        pushing = self._cluster.pushing(part.task for part in parts)
        with self._lock:
            self._reached.update(part.task for part in parts)
        same = pb.RegisterGraphRequest(
            session_handle=self._handle,
            graph_options=options,
            has_control_flow=has_control_flow,
            headrace_all_alive=alive,
            headrace_reported=True,
            headrace_master=self._own_task,
            create_worker_session_called=created,
            config_proto=self._config,
        )
        common = serialized(same)
        with Gather(scope, 0.0, first_ends_all=False) as gather:
            for part in parts:
                to, by = _neighbours(part) if part.task in pushing else (set(), set())
                own = pb.RegisterGraphRequest(
                    graph_def=part.graph_def,
                    headrace_pushes_to=sorted(to & pushing),
                    headrace_pushed_by=sorted(by & pushing),
                    headrace_feed_keys=[*part.feeds.values(), *part.taken],
                    headrace_fetch_keys=[*part.fetches.values(), *part.given],
                    headrace_linked_to=self._own_task
                    if linked and part.task != self._own_task
                    else "",
                    headrace_starts={t: starts[t] for t in {part.task, *to} if t in starts},
                )
                if part.task in pushing:
                    own.headrace_common = common
                else:  # TensorFlow's
                    own.MergeFrom(same)
                worker = self._cluster.worker(part.task)
                asked[part.task] = worker.begin(methods.REGISTER_GRAPH, own, scope)
                gather.add(asked[part.task])
            try:
                return _as_registered(parts, gather.replies())
            except errors.OpError:
                self.deregister(_as_registered(parts, gather.found()))
                raise

    def deregister(self, parts: Iterable[PartitionHandle]) -> list[Pending[Any]]:
        """Have the tasks forget them; the replies."""
        return [
            self._cluster.worker(part.task).call(
                methods.DEREGISTER_GRAPH,
                pb.DeregisterGraphRequest(
                    graph_handle=part.graph_handle,
                    session_handle=self._handle,
                    create_worker_session_called=self._workers.wanted,
                ),
                self._cluster.scope,
            )
            for part in parts
        ]

    # -- the end --------------------------------------------------------------------------------

    def refuse(self, error: errors.OpError) -> None:
        """Make no more plans: `error` says why."""
        with self._lock:
            self._closed = error

    def forget_all(
        self, others: Iterable[Plan], direct_tasks: set[str], reason: errors.OpError
    ) -> list[Pending[Any]]:
        """Have the tasks forget the plans, those kept elsewhere too, and the session; the replies.

        reason: what steps end with that the session's client has asked `direct_tasks` for by itself.
        """
        with self._lock:
            plans = [*(plan for _, plan in self._plans.items()), *others]
            self._plans.clear()
        parts = [part for plan in plans for part in plan.parts]
        asked = self.deregister(parts)
        forget = pb.DeleteWorkerSessionRequest(
            session_handle=self._handle, headrace_reason=to_detail(reason)
        )
        for task in self._reached | self._workers.tasks | direct_tasks:
            worker = self._cluster.worker(task)
            worker.cancelled_calls.add(sessions=(self._handle,))
            asked.append(
                call_with_retries(
                    worker, methods.DELETE_WORKER_SESSION, forget, self._cluster.scope
                )
            )
        return asked


def _as_registered(
    parts: Sequence[Partition], replies: Sequence[pb.RegisterGraphResponse | None]
) -> list[PartitionHandle]:
    """Those of `parts` that were registered."""
    return [
        PartitionHandle(
            part.task,
            reply.graph_handle,
            {tensor.name: key for tensor, key in part.feeds.items()},
            {tensor.name: key for tensor, key in part.fetches.items()},
            part.taken,
            part.given,
        )
        for part, reply in zip(parts, replies, strict=True)
        if reply is not None
    ]


def _neighbours(part: Partition) -> tuple[set[str], set[str]]:
    """The other tasks that it sends values to, and those that it receives them from."""
    to, by = set(map(target_task, part.sends)), set(map(source_task, part.receives))
    return to - {part.task}, by - {part.task}


def _raise_lost(tasks: Sequence[str], error: errors.OpError, scope: Scope) -> None:
    """An Aborted of tasks that were restarted, or are gone again, is not the one that tells so."""
    if tasks and isinstance(error, errors.AbortedError):
        scope.check()
        raise errors.unavailable(
            f"{', '.join(f'{task} was restarted' for task in tasks)} while a step of the session was under way"
        ) from error
