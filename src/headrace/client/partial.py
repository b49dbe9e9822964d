"""Partial runs of local sessions: the program runs in a thread, and is fed and fetched from.

Called by: client.local.  Threads: any; calls of one partial run should follow each other.
Ends by: `close`, which cancels the runs; their threads end by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import errors
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.compile import Compiled
from headrace.plan.partial import local_partial
from headrace.plan.progress import Progress, unknown_handle
from headrace.plan.wanted import wanted
from headrace.run.exec.kernel import Memos, Runtime, StepState
from headrace.run.exec.partial import PartialRun
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.scope import Scope
from headrace.run.thread_group import ThreadGroup

_MOST_PLANS = 256

_Plan = tuple[Compiled, dict[str, str], dict[str, str]]


@dataclass(slots=True)
class _Run:
    partial: PartialRun
    progress: Progress
    plan: _Plan
    scope: Scope


class LocalPartials:
    """The partial runs of one session."""

    def __init__(
        self,
        runtime: Runtime,
        memos: Memos,
        scope: Scope,
        place: Callable[[Sequence[Operation]], Mapping[Operation, str]],
        step_id: Callable[[], int],
    ) -> None:
        """scope: the session's.  place: devices of nodes.  step_id: of the next step."""
        self._runtime = runtime
        self._memos = memos
        self._scope = scope
        self._place = place
        self._step_id = step_id
        self._lock = threading.Lock()
        self._plans: dict[Any, _Plan] = {}
        self._runs: dict[str, _Run] = {}
        self._group: ThreadGroup | None = None

    def begin(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> str:
        """Start a run; its handle.  Raises InvalidArgument (nothing to run, feeds that are fetched)."""
        progress = Progress(feeds, fetches, bool(targets))
        plan = self._plan(feeds, fetches, targets)
        program, rendezvous, number = plan[0], Rendezvous(), self._step_id()
        runtime, scope = self._runtime, Scope(parent=self._scope)

        def run() -> None:
            program.run(StepState(runtime, scope, number, rendezvous), [])

        with self._lock:
            self._scope.check()
            if self._group is None:
                self._group = ThreadGroup("partial runs").__enter__()
            partial = PartialRun(rendezvous, run, self._group.start, scope.cancel)
            handle = (
                f"{','.join(t.name for t in feeds)}->{','.join(t.name for t in fetches)}/{number}"
            )
            self._runs[handle] = _Run(partial, progress, plan, scope)
        return handle

    def _plan(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> _Plan:
        signature = tuple(feeds), tuple(fetches), tuple(targets)
        plan = self._plans.get(signature)
        if plan is None:
            found = wanted(feeds, fetches, targets)
            devices = self._place(found.everything)
            plan = local_partial(found.pruned, found.feeds, found.fetches, devices, self._memos)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[signature] = plan
        return plan

    def step(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str], scope: Scope
    ) -> list[Any]:
        """Feed values, wait for fetches, by tensor name; the caller's own arrays.

        Raises InvalidArgument (no such run, or what it does not have to feed or fetch), and what the
        run's nodes raise; such an error ends the run.
        """
        with self._lock:
            run = self._runs.get(handle)
            if run is None:
                raise unknown_handle(handle)
            last = run.progress.advance(feeds, fetches)
        _, feed_keys, fetch_keys = run.plan
        keyed = [(feed_keys[name], value) for name, value in feeds.items()]
        try:
            found = run.partial.step(keyed, [fetch_keys[name] for name in fetches], last, scope)
        except BaseException:
            self._end(handle, run)
            raise
        if last:
            self._end(handle, run)
        return found

    def _end(self, handle: str, run: _Run) -> None:
        with self._lock:
            self._runs.pop(handle, None)
        run.scope.cancel(errors.cancelled("the partial run is over"))

    def close(self, wait: bool) -> None:
        """Forget the runs, which the session's scope has ended; `wait` for their threads."""
        with self._lock:
            self._runs.clear()
            group, self._group = self._group, None
        if group is not None and wait:
            group.__exit__(None, None, None)
