"""Local sessions: steps run in the calling thread, on state that is the session's own.

Called by: client.session.  Threads: any number of steps at once.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.base import dtypes, errors
from headrace.client.engine import (
    BatchFunction,
    CallFunction,
    Release,
    Step,
)
from headrace.client.in_flight import StepsInFlight
from headrace.client.local_callable import local_callable
from headrace.client.run_requests import limit
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor
from headrace.plan.compile import Compiled, compile_program
from headrace.plan.place import place
from headrace.plan.prune import needed
from headrace.plan.wanted import wanted
from headrace.run.devices import table as device_table
from headrace.run.devices.listed import attributes
from headrace.run.exec.close_reasons import note_close_reason
from headrace.run.exec.kernel import Memos, Runtime, StepState
from headrace.run.exec.program import Program
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.readers.files import Files, named_roots
from headrace.run.scope import Scope
from headrace.run.state import handles

if TYPE_CHECKING:
    from headrace.client.partial import LocalPartials
    from headrace.run.queues.batch_dequeuer import Gate

_TASK = "/job:localhost/replica:0/task:0"
_CLOSE_WITHIN_S = 5.0


class LocalEngine:
    """An `Engine` in this process."""

    def __init__(self, graph: Graph, config: pb.ConfigProto | None) -> None:
        """Of `config`: device_count, gpu_options, allow_soft_placement, operation_timeout_in_ms,
        log_device_placement, intra_op_parallelism_threads, graph_options.optimizer_options.opt_level (L0: every node
        runs, as in traced steps).
        """
        self._graph = graph
        self._config = config if config is not None else pb.ConfigProto()
        level = self._config.graph_options.optimizer_options.opt_level
        self._optimizes = level >= pb.OptimizerOptions.L1
        self._devices = device_table.configured(_TASK, self._config)
        self._runtime = Runtime(
            self._devices[0],
            files=Files(named_roots(), "this process"),
            workers=WorkerPool(self._config.intra_op_parallelism_threads),
        )
        self.scope = self._scope = Scope()
        self._in_flight = StepsInFlight()  # but for steps that never wait
        self._memos: Memos = {}
        self._step_ids = itertools.count(1)
        self._incarnation = int.from_bytes(os.urandom(8), "little") >> 1 | 1
        self._placed: set[str] = set()  # nodes whose placement has been logged
        self._partials: LocalPartials | None = None
        self._lock = threading.Lock()
        _open_engines.add(self)

    def step(
        self,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        options: pb.RunOptions | None = None,
    ) -> Step:
        """Prune, place and compile; see `Engine.step`."""
        with self._limited(options) as scope, self._graph._session_run_lock(scope):
            program = self._compile(feeds, fetches, targets)
        signature = feeds, fetches, targets
        exact: list[Compiled] = []  # for traced steps, made when one is asked for
        timeout_ms = self._config.operation_timeout_in_ms
        runtime, session_scope, ids = self._runtime, self._scope, self._step_ids
        in_flight = self._in_flight
        has_handles = any(tensor._dtype.base_dtype is dtypes.resource for tensor in feeds)

        def run(
            values: Sequence[Any], options: pb.RunOptions | None, metadata: pb.RunMetadata | None
        ) -> list[Any]:
            if session_scope.error is not None:
                session_scope.check()
            fed = values
            if has_handles:
                fed = [
                    handles.arriving(value, runtime) if tensor._dtype is dtypes.resource else value
                    for tensor, value in zip(feeds, values, strict=True)
                ]
            if options is not None or metadata is not None:
                if metadata is None or options is None or not options.trace_level:
                    found = self._run_with_options(program, fed, options, metadata)
                else:
                    found = self._run_traced(signature, exact, fed, options, metadata)
                if metadata is not None and options is not None and options.output_partition_graphs:
                    metadata.partition_graphs.extend(self._partition_graphs(*signature))
                return found
            return plain(fed)

        limit_s = timeout_ms / 1000 if timeout_ms > 0 else None
        may_wait = program.may_wait or limit_s is not None
        never_waits = program if isinstance(program, Program) and program.stays else None
        if limit_s is not None:
            never_waits = None

        def plain(values: Sequence[Any]) -> list[Any]:
            if session_scope.error is not None:  # by tf.Session.reset
                session_scope.check()
            if not may_wait:
                return program.run(StepState(runtime, session_scope, next(ids)), values)
            if never_waits is not None:
                step = StepState(runtime, session_scope, next(ids))
                return never_waits.run(step, values, in_flight)
            with in_flight, Scope(limit_s, session_scope) as scope:
                return program.run(StepState(runtime, scope, next(ids), Rendezvous()), values)

        return Step(run, None if has_handles else plain)

    def _run_traced(
        self,
        signature: tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Operation]],
        exact: list[Compiled],
        values: Sequence[Any],
        options: pb.RunOptions,
        metadata: pb.RunMetadata,
    ) -> list[Any]:
        """Run a step and say of every node when it ran.

        signature: feeds, fetches, targets.  exact: the program in which every node runs, once it has been made.
        """
        feeds, fetches, _ = signature
        if not exact:
            with self._limited(options) as scope, self._graph._session_run_lock(scope):
                exact.append(self._compile(*signature, exact=True))
        stats = _collector()
        fed = [(t.op.name, t.value_index, v) for t, v in zip(feeds, values, strict=True)]
        stats.feeds(self._devices[0], fed)
        found = self._run_with_options(exact[0], values, options, metadata, stats)
        stats.fetches(self._devices[0], [(t.op.name, t.value_index) for t in fetches])
        metadata.step_stats.CopyFrom(stats.proto())
        return found

    def batch_dequeuer(self, target: Operation) -> BatchFunction | None:
        """See `Engine.batch_dequeuer`."""
        from headrace.plan.batch_dequeuer import compile_batch_dequeuer

        with self._limited() as scope, self._graph._session_run_lock(scope):
            pruned = needed((), (), [target])
            batch_dequeuer = compile_batch_dequeuer(
                pruned, target, self._place(pruned.ops), self._memos
            )
        if batch_dequeuer is None:
            return None

        def run(gate: Gate) -> int:
            if self._scope.error is not None:
                return 0
            with self._in_flight:
                made = batch_dequeuer.run(
                    StepState(self._runtime, self._scope, next(self._step_ids)), gate
                )
            for _ in range(made - 1):
                next(self._step_ids)
            return made

        return run

    def _limited(self, options: pb.RunOptions | None = None) -> Scope:
        """The scope of a run with these options, or of making one."""
        timeout_ms = options.timeout_in_ms if options is not None else 0
        return limit(timeout_ms or self._config.operation_timeout_in_ms, self._scope)

    def _compile(
        self,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        *,
        exact: bool = False,
    ) -> Compiled:
        found = wanted(feeds, fetches, targets, exact=exact)
        devices = self._place(found.pruned.ops)
        return compile_program(
            found.pruned,
            found.feeds,
            found.fetches,
            devices=devices,
            memos=self._memos,
            fold=self._optimizes and not exact,
        )

    def _place(self, ops: Sequence[Operation]) -> dict[Operation, str]:
        devices = place(ops, self._devices, allow_soft_placement=self._config.allow_soft_placement)
        if self._config.log_device_placement:
            from headrace.serve.observe.placement_log import log_placement  # loads logging

            log_placement(((op.name, op.type, devices[op]) for op in ops), self._placed)
        return devices

    def _partition_graphs(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> list[pb.GraphDef]:
        from headrace.plan.partition import shown

        with self._limited() as scope, self._graph._session_run_lock(scope):
            found = wanted(feeds, fetches, targets)
            devices = self._place(found.everything)
            return shown(found.pruned, found.feeds, found.fetches, devices, self._incarnation)

    def begin_partial(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> str:
        """See `Engine.begin_partial`."""
        with self._limited() as scope, self._graph._session_run_lock(scope):
            return self._partial_runs().begin(feeds, fetches, targets)

    def _partial_runs(self) -> LocalPartials:
        """Made when they are first wanted: most sessions have none."""
        from headrace.client.partial import LocalPartials

        with self._lock:
            if self._partials is None:
                self._partials = LocalPartials(
                    self._runtime, self._memos, self._scope, self._place, self._step_ids.__next__
                )
            return self._partials

    def partial_step(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]
    ) -> list[Any]:
        """See `Engine.partial_step`."""
        timeout_ms = self._config.operation_timeout_in_ms
        limit_s = timeout_ms / 1000 if timeout_ms > 0 else None
        with self._in_flight, Scope(limit_s, self._scope) as scope:
            scope.check()
            return self._partial_runs().step(handle, feeds, fetches, scope)

    def callable(self, graph: Graph, options: pb.CallableOptions) -> tuple[CallFunction, Release]:
        """See `Engine.callable`."""
        self._scope.check()
        return local_callable(graph, options, self.step), lambda: None

    def _run_with_options(
        self,
        program: Compiled,
        values: Sequence[Any],
        options: pb.RunOptions | None,
        metadata: pb.RunMetadata | None,
        stats: Any = None,
    ) -> list[Any]:
        timeout_ms = self._config.operation_timeout_in_ms
        if options is not None:
            timeout_ms = options.timeout_in_ms or timeout_ms
            pools = len(self._config.session_inter_op_thread_pool) if self._config else 0
            if not -1 <= options.inter_op_thread_pool < max(pools, 1):
                raise errors.invalid_argument(
                    f"Invalid inter_op_thread_pool: {options.inter_op_thread_pool}; the ConfigProto names {pools}"
                )
        limit_s = timeout_ms / 1000 if timeout_ms > 0 else None
        with self._in_flight, Scope(limit_s, self._scope) as scope:
            if options is not None and options.headrace_close_reason:
                from headrace.serve.rpc.status import from_bytes

                note_close_reason(scope, from_bytes(options.headrace_close_reason))
            step = StepState(self._runtime, scope, next(self._step_ids), Rendezvous(), stats)
            found = program.run(step, values)
        if metadata is not None:
            metadata.Clear()
        return found

    @property
    def handle(self) -> str:
        """See `Engine.handle`."""
        return ""

    def waits_long(self, waited_s: float) -> None:
        """See `Engine.waits_long`.  There are no servers."""

    def inspect(self) -> pb.InspectResponse:
        """See `Engine.inspect`."""
        from headrace.serve.observe.inspection import task_state

        request = pb.InspectRequest(blocked_only=True)
        state = task_state(
            request, [self._runtime.resources], lambda step: step.runtime is self._runtime
        )
        state.task = _TASK
        return pb.InspectResponse(task=[state])

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """This session's devices."""
        return attributes(self._devices, self._incarnation)

    def close(self) -> None:
        """Cancel the steps under way, wait for them, drop the session's variables and queues."""
        self._close(_CLOSE_WITHIN_S)

    def release(self) -> None:
        """See `Engine.release`."""
        self._close(0.0)

    def _close(self, wait_s: float) -> None:
        _open_engines.discard(self)
        self._scope.cancel(errors.session_closed())
        if wait_s:
            self._in_flight.wait_until_none(wait_s)
        if self._partials is not None:
            self._partials.close(wait_s > 0)
        self._runtime.resources.close()
        self._runtime.workers.close()


def _collector() -> Any:
    from headrace.run.exec.trace import StatsCollector  # for traced steps only

    return StatsCollector()


_open_engines: weakref.WeakSet[LocalEngine] = weakref.WeakSet()


def reset() -> None:
    """Close every local session of this process: their containers are their own."""
    for engine in list(_open_engines):
        engine.close()
