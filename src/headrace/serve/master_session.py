"""One client session on a master: its graph, its plans, its steps.

A plan is made once per (feeds, fetches, targets): pruned, placed, partitioned, registered on the
tasks that take part.  A step starts the remote partitions, runs the master's own in the calling
thread, and waits for the others.
Called by: serve.master.  Threads: any number of steps at once.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer
from headrace.graph.tensor import Tensor
from headrace.plan.partition import partition
from headrace.plan.place import place
from headrace.plan.prune import CONTROL_FLOW, needed
from headrace.run.keys import task_of
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve import messages as m
from headrace.serve import wire
from headrace.serve.cluster_view import ClusterView


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


class MasterSession:
    """See the module header."""

    def __init__(
        self, handle: str, config: pb.ConfigProto, cluster: ClusterView, own_task: str
    ) -> None:
        self.handle = handle
        self.graph_version = 0
        self._config = config
        self._cluster = cluster
        self._own_task = own_task
        self._graph = Graph()
        self._graph.infer_shapes = False
        self._importer = Importer(self._graph)
        self._lock = threading.Lock()
        self._plans: dict[Any, _Plan] = {}
        self._steps: set[Scope] = set()
        self._closed: errors.OpError | None = None

    def extend(self, graph_def: pb.GraphDef) -> int:
        """Add nodes; returns the new version.  Raises NotFound (unknown op), InvalidArgument."""
        with self._lock:
            self._check_open()
            try:
                self._importer.add(graph_def)
            except (ValueError, TypeError, KeyError) as error:
                raise errors.invalid_argument(f"the GraphDef cannot be used: {error}") from error
            self.graph_version += 1
            return self.graph_version

    def _check_open(self) -> None:
        if self._closed is not None:
            raise errors.make(self._closed.error_code, self._closed.message)

    # -- plans --------------------------------------------------------------------------------

    def _plan(self, request: m.RunStepRequest, scope: Scope) -> _Plan:
        # A traced step runs every node as the user wrote it, so it has a plan of its own.
        exact = request.options is not None and bool(request.options.trace_level)
        signature = (
            tuple(name for name, _ in request.feeds), tuple(request.fetches),
            tuple(request.targets), exact,
        )  # fmt: skip
        with self._lock:
            self._check_open()
            plan = self._plans.get(signature)
        if plan is not None:
            return plan
        plan = self._make_plan(*signature, scope)
        with self._lock:
            return self._plans.setdefault(signature, plan)

    def _make_plan(
        self,
        feed_names: Sequence[str],
        fetch_names: Sequence[str],
        target_names: Sequence[str],
        exact: bool,
        scope: Scope,
    ) -> _Plan:
        with self._lock:
            feeds = [self._tensor(name) for name in feed_names]
            fetches = [self._tensor(name) for name in fetch_names]
            targets = [self._operation(name) for name in target_names]
            pruned = needed(feeds, fetches, targets, exact=exact)
            everything = list(dict.fromkeys([*pruned.ops, *(tensor.op for tensor in feeds)]))
            devices = place(
                everything,
                self._cluster.devices,
                allow_soft_placement=self._config.allow_soft_placement,
            )
            for task in sorted({task_of(device) for device in devices.values()}):
                self._cluster.incarnation(task, scope)
            parts = partition(
                pruned,
                feeds,
                fetches,
                devices,
                lambda device: self._cluster.incarnation(task_of(device), scope),
            )
        asked = []
        has_control_flow = any(op.type in CONTROL_FLOW for op in pruned.ops)
        for part in parts:
            request = pb.RegisterGraphRequest(
                session_handle=self.handle,
                graph_def=part.graph_def,
                graph_options=self._config.graph_options,
                has_control_flow=has_control_flow,
            )
            asked.append(self._cluster.worker(part.task).call(wire.REGISTER_GRAPH, request, scope))
        return _Plan([
            _Part(
                part.task, reply.wait(scope).graph_handle,
                {tensor.name: key for tensor, key in part.feeds.items()},
                {tensor.name: key for tensor, key in part.fetches.items()},
            )
            for part, reply in zip(parts, asked, strict=True)
        ])  # fmt: skip

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
                return self._run_step(self._plan(request, running), request, options, running)
            finally:
                with self._lock:
                    self._steps.discard(running)

    def _run_step(
        self, plan: _Plan, request: m.RunStepRequest, options: pb.RunOptions, scope: Scope
    ) -> m.RunStepReply:
        traced = options.trace_level != pb.RunOptions.NO_TRACE
        step_id = secrets.randbits(56) | 1
        fed = dict(request.feeds)
        wanted = set(request.fetches)
        requests = [
            m.RunGraphRequest(
                part.graph_handle, step_id,
                [(key, fed[name]) for name, key in part.feeds.items()],
                [key for name, key in part.fetches.items() if name in wanted],
                self.handle, traced,
            )
            for part in plan.parts
        ]  # fmt: skip
        try:
            replies = self._run_parts(plan.parts, requests, scope)
        finally:
            self._clean_up(plan.parts, step_id)
        found: dict[str, Any] = {}
        for part, reply in zip(plan.parts, replies, strict=True):
            by_key = dict(reply.recv)
            found.update((name, by_key[key]) for name, key in part.fetches.items() if key in by_key)
        metadata = _metadata(replies) if traced else None
        return m.RunStepReply([(name, found[name]) for name in request.fetches], metadata)

    def _run_parts(
        self, parts: list[_Part], requests: list[m.RunGraphRequest], scope: Scope
    ) -> list[m.RunGraphReply]:
        """Remote partitions on their tasks, the master's own here; the first failure ends all."""
        step = Scope(parent=scope)
        failed: list[errors.OpError] = []

        def note(reply: Pending[Any]) -> None:
            if reply.error is not None:
                failed.append(reply.error)
                step.cancel(reply.error)

        asked: dict[int, Pending[Any]] = {}
        replies: dict[int, m.RunGraphReply] = {}
        own = next((i for i, part in enumerate(parts) if part.task == self._own_task), None)
        try:
            for index, part in enumerate(parts):
                if index != own:
                    asked[index] = self._cluster.worker(part.task).call(
                        wire.RUN_GRAPH, requests[index], step
                    )
            for pending in asked.values():
                pending.on_done(note)
            if own is not None:
                replies[own] = self._cluster.worker(self._own_task).call_now(
                    wire.RUN_GRAPH, requests[own], step
                )
            for index, pending in asked.items():
                replies[index] = pending.wait(step)
        except BaseException as error:
            first = failed[0] if failed else error
            reason = (
                first
                if isinstance(first, errors.OpError)
                else errors.cancelled("the step was interrupted")
            )
            step.cancel(reason)
            for pending in asked.values():
                pending.abandon(reason)
            if first is error:
                raise
            raise first from first.__cause__
        finally:
            step.close()
        return [replies[index] for index in range(len(parts))]

    def _clean_up(self, parts: list[_Part], step_id: int) -> None:
        request = pb.CleanupGraphRequest(step_id=step_id)
        for part in parts:
            worker = self._cluster.worker(part.task)
            if part.task == self._own_task:
                worker.call_now(wire.CLEANUP_GRAPH, request, self._cluster.scope)
            elif len(parts) > 1 or part.task != self._own_task:
                worker.call(wire.CLEANUP_GRAPH, request, self._cluster.scope)

    def close(self, error: errors.OpError) -> None:
        """Cancel the steps under way and forget the plans, here and on the tasks."""
        with self._lock:
            self._closed = error
            steps, plans = list(self._steps), list(self._plans.values())
            self._plans.clear()
        for scope in steps:
            scope.cancel(error)
        tasks = set()
        for plan in plans:
            for part in plan.parts:
                tasks.add(part.task)
                self._cluster.worker(part.task).call(
                    wire.DEREGISTER_GRAPH,
                    pb.DeregisterGraphRequest(
                        graph_handle=part.graph_handle, session_handle=self.handle
                    ),
                    self._cluster.scope,
                )
        for task in tasks:
            self._cluster.worker(task).call(
                wire.DELETE_WORKER_SESSION, pb.DeleteWorkerSessionRequest(session_handle=self.handle),
                self._cluster.scope,
            )  # fmt: skip


def _metadata(replies: Sequence[m.RunGraphReply]) -> pb.RunMetadata:
    metadata = pb.RunMetadata()
    for reply in replies:
        if reply.step_stats is not None:
            metadata.step_stats.MergeFrom(reply.step_stats)
    return metadata
