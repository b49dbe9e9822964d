"""One client session on a master: its graph, its plans, its steps.

A plan is made once per (feeds, fetches, targets): pruned, placed, partitioned, registered on the
tasks that take part.  A step starts the remote partitions, runs the master's own in the calling
thread, and waits for the others.
Called by: serve.master.  Threads: any number of steps at once; no lock is held while a task is
asked for anything.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer, graph_def
from headrace.graph.tensor import Tensor
from headrace.plan.partition import Partition, partition
from headrace.plan.place import place
from headrace.plan.prune import CONTROL_FLOW, Pruned, needed
from headrace.run.keys import task_of
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.serve import messages as m
from headrace.serve import wire
from headrace.serve.clocks import to_one_clock
from headrace.serve.cluster_view import ClusterView
from headrace.serve.step import run_parts
from headrace.serve.waiting import follow


@dataclass(slots=True)
class _Part:
    """A registered partition: whom to ask, under which handle, and the keys of feeds and fetches."""

    task: str
    graph_handle: str
    feeds: dict[str, str]
    fetches: dict[str, str]


@dataclass(slots=True)
class _Plan:
    parts: list[_Part]


_Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool]
"""Names of feeds, fetches and targets, and whether every node runs as the user wrote it."""


class MasterSession:
    """See the module header."""

    def __init__(
        self, handle: str, config: pb.ConfigProto, cluster: ClusterView, own_task: str
    ) -> None:
        self.handle = handle
        self.graph_version = 0
        self.cluster = cluster
        self._config = config
        self._own_task = own_task
        self._new_graph(None)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._plans: dict[_Signature, _Plan] = {}
        self._planning: dict[_Signature, Pending[None]] = {}
        self._steps: set[Scope] = set()
        self._closed: errors.OpError | None = None

    def _new_graph(self, earlier: pb.GraphDef | None) -> None:
        self._graph = Graph()
        self._graph.infer_shapes = False
        self._importer = Importer(self._graph, origins=False)
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

    def _plan(self, signature: _Signature, scope: Scope) -> _Plan:
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

    def _make_plan(self, signature: _Signature, scope: Scope) -> _Plan:
        pruned, feeds, fetches, devices = self._place(signature)
        tasks = sorted({task_of(device) for device in devices.values()})
        incarnations = self.cluster.incarnations(tasks, scope)
        parts = partition(
            pruned, feeds, fetches, devices, lambda device: incarnations[task_of(device)]
        )
        has_control_flow = any(op.type in CONTROL_FLOW for op in pruned.ops)
        plan = _Plan(self._register(parts, has_control_flow, signature[-1], scope))
        with self._lock:
            if self._closed is None:
                self._plans[signature] = plan
                return plan
        self._deregister(plan.parts)
        self._check_open()
        raise AssertionError("a closed session stays closed")

    def _place(
        self, signature: _Signature
    ) -> tuple[Pruned, list[Tensor], list[Tensor], dict[Operation, str]]:
        feed_names, fetch_names, target_names, exact = signature
        with self._lock:  # the graph must not grow meanwhile
            feeds = [self._tensor(name) for name in feed_names]
            fetches = [self._tensor(name) for name in fetch_names]
            targets = [self._operation(name) for name in target_names]
            pruned = needed(feeds, fetches, targets, exact=exact)
            everything = list(dict.fromkeys([*pruned.ops, *(tensor.op for tensor in feeds)]))
            devices = place(
                everything,
                self.cluster.devices,
                allow_soft_placement=self._config.allow_soft_placement,
            )
        return pruned, feeds, fetches, devices

    def _register(
        self, parts: Sequence[Partition], has_control_flow: bool, exact: bool, scope: Scope
    ) -> list[_Part]:
        """Register every partition on its task; if one fails, none stays."""
        asked = []
        options = pb.GraphOptions()
        options.CopyFrom(self._config.graph_options)
        if exact:
            options.optimizer_options.opt_level = pb.OptimizerOptions.L0
        for part in parts:
            request = pb.RegisterGraphRequest(
                session_handle=self.handle,
                graph_def=part.graph_def,
                graph_options=options,
                has_control_flow=has_control_flow,
            )
            asked.append(self.cluster.worker(part.task).call(wire.REGISTER_GRAPH, request, scope))
        registered: list[_Part] = []
        failed: errors.OpError | None = None
        for part, reply in zip(parts, asked, strict=True):
            try:
                handle = reply.wait(scope).graph_handle
            except errors.OpError as error:
                failed = failed or error
                continue
            registered.append(
                _Part(
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

    def _deregister(self, parts: Iterable[_Part]) -> list[Pending[Any]]:
        return [
            self.cluster.worker(part.task).call(
                wire.DEREGISTER_GRAPH,
                pb.DeregisterGraphRequest(
                    graph_handle=part.graph_handle, session_handle=self.handle
                ),
                self.cluster.scope,
            )
            for part in parts
        ]

    def _tensor(self, name: str) -> Tensor:
        node, _, index = name.partition(":")
        op = self._operation(node)
        position = int(index or 0) if (index or "0").isdigit() else -1
        if not 0 <= position < len(op.outputs):
            raise errors.invalid_argument(
                f"tensor {name!r} does not exist: node {node!r} ({op.type}) has {len(op.outputs)} outputs",
                node=node, op_type=op.type,
            )  # fmt: skip
        return op.outputs[position]

    def _operation(self, name: str) -> Operation:
        op = self._graph._ops.get(name)
        if op is None:
            raise errors.not_found(
                f"the session's graph has no node {name!r}; was it extended?", node=name
            )
        return op

    # -- steps --------------------------------------------------------------------------------

    def run(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        """Run one step.  Raises what its nodes raise, Aborted on a closed session."""
        options = request.options or pb.RunOptions()
        timeout_ms = options.timeout_in_ms or self._config.operation_timeout_in_ms
        with Scope(timeout_ms / 1000 if timeout_ms else None, scope) as running:
            with self._lock:
                self._check_open()
                self._steps.add(running)
            try:
                return self._run_step(request, options, running)
            finally:
                with self._lock:
                    self._steps.discard(running)
                    if not self._steps:
                        self._idle.notify_all()

    def _run_step(
        self, request: m.RunStepRequest, options: pb.RunOptions, scope: Scope
    ) -> m.RunStepReply:
        traced = options.trace_level != pb.RunOptions.NO_TRACE
        fed = {_tensor_name(name): value for name, value in request.feeds}
        wanted = [_tensor_name(name) for name in request.fetches]
        # A traced step runs every node as the user wrote it, so it has a plan of its own.
        plan = self._plan((tuple(fed), tuple(wanted), tuple(request.targets), traced), scope)
        step_id = secrets.randbits(56) | 1
        requests = [
            m.RunGraphRequest(
                part.graph_handle, step_id,
                [(key, fed[name]) for name, key in part.feeds.items()],
                list(part.fetches.values()), self.handle, traced,
            )
            for part in plan.parts
        ]  # fmt: skip
        try:
            replies = run_parts(self.cluster, self._own_task, plan.parts, requests, scope)
        finally:
            self._clean_up(plan.parts, step_id)
        found: dict[str, Any] = {}
        for part, reply in zip(plan.parts, replies, strict=True):
            by_key = dict(reply.recv)
            found.update((name, by_key[key]) for name, key in part.fetches.items())
        if traced:
            told = [(p.task, r.step_stats) for p, r in zip(plan.parts, replies, strict=True)]
            to_one_clock(self.cluster, self._own_task, told, scope)
        metadata = _metadata(replies) if traced else None
        values = [(given, found[name]) for given, name in zip(request.fetches, wanted, strict=True)]
        return m.RunStepReply(values, metadata)

    def _clean_up(self, parts: list[_Part], step_id: int) -> None:
        request = pb.CleanupGraphRequest(step_id=step_id)
        for part in parts:
            worker = self.cluster.worker(part.task)
            if part.task == self._own_task:
                worker.call_now(wire.CLEANUP_GRAPH, request, self.cluster.scope)
            else:
                worker.call(wire.CLEANUP_GRAPH, request, self.cluster.scope)

    def wait_until_idle(self, scope: Scope) -> None:
        """Block until no step is under way.  Raises the scope's error."""
        with self._idle:
            scope.wait_for(self._idle, lambda: not self._steps, "the steps to end")

    def cancel(self, error: errors.OpError) -> None:
        """Refuse steps, and end those under way, with `error`."""
        with self._lock:
            self._closed = error
            steps = list(self._steps)
        for running in steps:
            running.cancel(error)

    def close(self, error: errors.OpError, scope: Scope) -> None:
        """Cancel the steps under way and forget the plans, here and on the tasks.

        Waits for that no longer than `scope`; a task that cannot be reached is left alone.
        """
        self.cancel(error)
        with self._lock:
            plans = list(self._plans.values())
            self._plans.clear()
        try:
            self.wait_until_idle(scope)
        finally:
            parts = [part for plan in plans for part in plan.parts]
            asked = self._deregister(parts)
            forget = pb.DeleteWorkerSessionRequest(session_handle=self.handle)
            for task in {part.task for part in parts}:
                worker = self.cluster.worker(task)
                asked.append(worker.call(wire.DELETE_WORKER_SESSION, forget, self.cluster.scope))
        for reply in asked:
            with contextlib.suppress(errors.OpError):
                reply.wait(scope)


def _tensor_name(name: str) -> str:
    """With its output number: ``x`` is ``x:0``."""
    return name if ":" in name else f"{name}:0"


def _metadata(replies: Sequence[m.RunGraphReply]) -> pb.RunMetadata:
    metadata = pb.RunMetadata()
    for reply in replies:
        if reply.step_stats is not None:
            metadata.step_stats.MergeFrom(reply.step_stats)
    return metadata
