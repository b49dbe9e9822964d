"""What a worker says of itself: what it has, which steps wait, and, while somebody wants it, how many it has run.

Called by: serve.worker.worker (has it).  Threads: any.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.codec import protos as pb
from headrace.run.checkpoints.log import CheckpointNote
from headrace.run.exec.kernel import Runtime
from headrace.run.scope import Scope
from headrace.serve.connect.peers import Peers
from headrace.serve.observe.counting import renewed
from headrace.serve.observe.inspection import task_state
from headrace.serve.observe.process_state import device_states, process_state
from headrace.serve.worker.worker_session import Steps, WorkerSession

if TYPE_CHECKING:
    from headrace.serve.observe.meter import Meter


class Inspects:
    """A part of `Worker`.  meter: while steps are counted."""

    meter: Meter | None = None
    task: str
    incarnation: int
    runtime: Runtime
    peers: Peers
    _lock: threading.Lock
    _sessions: dict[str, WorkerSession]
    _running: dict[Scope, Steps]

    def __init__(self) -> None:
        self._since = time.monotonic()
        self.session_states: Callable[[], list[pb.SessionState]] = list
        self.mastered: Callable[[float], pb.StepCounts | None] = lambda for_s: None

    def inspect(self, request: pb.InspectRequest, scope: Scope) -> pb.InspectResponse:
        """What this task has, and which steps wait here."""
        began_s = time.thread_time()
        with self._lock:
            sessions = list(self._sessions.values())
        managers = {session.runtime.resources for session in sessions} | {self.runtime.resources}
        state = task_state(request, managers, lambda step: step.scope in self._running)
        state.task, state.incarnation = self.task, self.incarnation
        state.up_s, state.steps = time.monotonic() - self._since, len(self._running)
        state.session.extend(self.session_states())
        masters = {session.handle: session.master for session in sessions}
        shown = [*state.barrier, *state.resource, *(each.resource for each in state.blocked)]
        for resource in shown:
            for member in (*resource.contributor, *resource.taker):
                member.task = masters.get(member.session, "")
        for kind in list(self._running.values()):
            if kind.direct and kind.counted:
                state.direct_steps[kind.session.handle] += 1
        if not request.blocked_only:
            self._add_figures(state, request.count_for_s)
            state.told_in_s = time.thread_time() - began_s
        return pb.InspectResponse(task=[state])

    def _add_figures(self, state: pb.TaskState, count_for_s: float) -> None:
        """What programs that watch it want to know beside.  count_for_s: see `count_steps`."""
        state.process.CopyFrom(process_state())
        state.device.extend(device_states())
        state.traffic.extend(self.peers.traffic())
        state.restarts_seen = self.peers.restarts_seen
        state.checkpoint.extend(map(_checkpoint, self.runtime.checkpoints.latest()))
        mastered = self.mastered(count_for_s)
        if mastered is not None:
            state.mastered.CopyFrom(mastered)
        parts = self.count_steps(count_for_s)
        if parts is not None:
            state.parts.CopyFrom(parts)

    def count_steps(self, for_s: float) -> pb.StepCounts | None:
        """Count what runs here, for so long from now on; what has been counted, None if nothing is."""
        with self._lock:
            earlier = self.meter
            meter = renewed(earlier, for_s)
            if meter is not None and meter is not earlier:
                meter.put_in(self, "enter")
        return None if meter is None else meter.state()


def _checkpoint(note: CheckpointNote) -> pb.CheckpointRecord:
    return pb.CheckpointRecord(
        number=note.number,
        kind=note.kind,
        prefix=note.prefix,
        tensors=note.tensors,
        bytes=note.nbytes,
        took_s=note.ended_s - note.began_s,
        ago_s=time.monotonic() - note.ended_s,
        error=note.error,
    )
