"""Clocks: how far those of the tasks are from this one's, for traces on one clock.

A round trip of GetStatus is timed here; the task's clock, read on the way, is taken to be that of
its middle.  What lies within half a round trip cannot be told from nothing.
Called by: serve.master.master_session, tools.profiling.  Threads: any.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.exec.trace import shift
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.rpc import methods
from headrace.serve.rpc.peer import Peer

_ROUND_TRIPS = 5  # the quickest counts
_WITHIN_S = 2.0


def offsets(
    cluster: ClusterView, tasks: Iterable[str], own_task: str, scope: Scope
) -> dict[str, int]:
    """Nanoseconds by which each task's clock is ahead of `own_task`'s.

    0 for those that do not tell their time (TensorFlow's) or do not answer.
    """
    reference = ahead_of_here(cluster.worker(own_task), scope)
    found = {}
    for task in tasks:
        ahead = reference if task == own_task else ahead_of_here(cluster.worker(task), scope)
        found[task] = ahead - reference if ahead is not None and reference is not None else 0
    return found


def ahead_of_here(peer: Peer, scope: Scope) -> int | None:
    """Nanoseconds by which the clock of a task is ahead of this process's; None if unknown."""
    best: tuple[int, int] | None = None
    with contextlib.suppress(errors.OpError), Scope(_WITHIN_S, scope) as asking:
        for _ in range(_ROUND_TRIPS):
            began = time.perf_counter_ns()
            here = time.time_ns()
            reply = peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), asking)
            took = time.perf_counter_ns() - began
            if not reply.headrace_clock_ns:
                return None
            ahead = reply.headrace_clock_ns - (here + took // 2)
            best = min(best, (took, ahead)) if best is not None else (took, ahead)
    if best is None:
        return None
    took, ahead = best
    return ahead if abs(ahead) > took // 2 else 0


def to_one_clock(
    cluster: ClusterView,
    own_task: str,
    stats: Iterable[tuple[str, pb.StepStats | None]],
    scope: Scope,
) -> None:
    """Move the times of each task's statistics, given as (task, statistics), to `own_task`'s clock."""
    told = [(task, found) for task, found in stats if found is not None]
    ahead = offsets(cluster, {task for task, _ in told}, own_task, scope)
    for task, found in told:
        shift(found, -ahead[task])
