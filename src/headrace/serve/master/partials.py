"""Partial runs of a session on its master: one step whose feeds and fetches come piece by piece.

The partitions run by themselves from the first request on; every request feeds and fetches what it
names, and the one with the last feed and fetch waits for their end.  An error ends the run.
Called by: serve.master.master_session.  Threads: any; requests of one partial run should follow each other.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import errors
from headrace.base.limits import PARTIAL_RUNS
from headrace.plan.progress import Progress, unknown_handle
from headrace.run.scope import Scope
from headrace.serve.master.plans import Plan
from headrace.serve.rpc import messages as m

RunParts = Callable[[Plan, Sequence[m.RunGraphRequest], Scope], list[m.RunGraphReply]]
Failed = Callable[[Plan, int, BaseException, Scope, bool], None]


@dataclass(slots=True)
class _Partial:
    plan: Plan
    progress: Progress
    step_id: int


class Partials:
    """The partial runs under way in one session."""

    def __init__(
        self,
        session_handle: str,
        run: RunParts,
        clean_up: Callable[[Plan, int], None],
        failed: Failed,
    ) -> None:
        """run(plan, a request per part, scope) -> replies; clean_up(plan, step_id) ends a step, and so does
        failed(plan, step_id, its error, scope, whether it is the run's first), which may raise what explains the error.
        """
        self._session_handle = session_handle
        self._run_parts = run
        self._clean_up = clean_up
        self._failed = failed
        self._lock = threading.Lock()
        self._runs: dict[str, _Partial] = {}

    def begin(self, plan: Plan, progress: Progress) -> str:
        """A new run; its handle.  Raises ResourceExhausted if too many have not ended."""
        PARTIAL_RUNS.check(
            len(self._runs) + 1,
            "a partial run ends with its last feed and fetch, or with an error; this session would have begun and not "
            "ended",
        )
        handle = f"{secrets.randbits(64):016x}"
        with self._lock:
            self._runs[handle] = _Partial(plan, progress, secrets.randbits(56) | 1)
        return handle

    def step(
        self,
        handle: str,
        feeds: dict[str, Any],
        fetches: list[str],
        request: m.RunStepRequest,
        scope: Scope,
    ) -> tuple[list[m.RunGraphReply], Plan]:
        """Feed and fetch some, by tensor name; the replies of the plan's parts, and the plan.

        Raises InvalidArgument (no such run, feeds and fetches that are not its own or whose turn is
        over), and what the nodes of the step raise.
        """
        with self._lock:
            run = self._runs.get(handle)
            if run is None:
                raise unknown_handle(handle)
            if request.targets:
                raise errors.invalid_argument(
                    "operations of a partial run are given to partial_run_setup, not to partial_run"
                )
            last = run.progress.advance(feeds, fetches)
        options = request.options
        traced = options is not None and bool(options.trace_level)
        requests = [
            m.RunGraphRequest(
                part.graph_handle,
                run.step_id,
                [(key, feeds[name]) for name, key in part.feeds.items() if name in feeds],
                [key for name, key in part.fetches.items() if name in fetches],
                self._session_handle,
                traced,
                run.plan.created,
                True,
                last,
                record_partition_graphs=options is not None and options.output_partition_graphs,
            )
            for part in run.plan.parts
        ]
        try:
            replies = self._run_parts(run.plan, requests, scope)
        except BaseException as error:
            first = self._forget(handle) is not None
            self._failed(run.plan, run.step_id, error, scope, first)
            raise
        if last:
            self._end(handle)
        return replies, run.plan

    def _forget(self, handle: str) -> _Partial | None:
        with self._lock:
            return self._runs.pop(handle, None)

    def _end(self, handle: str) -> None:
        run = self._forget(handle)
        if run is not None:
            self._clean_up(run.plan, run.step_id)

    def close(self) -> None:
        """End every run."""
        with self._lock:
            handles = list(self._runs)
        for handle in handles:
            self._end(handle)
