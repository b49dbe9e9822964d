"""Ends on a task what callers have cancelled, before what they ask for next is served: GiveUp (see
serve.rpc.cancelled_calls).

Called by: the transports, serve.connect.peers, serve.master.master.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.rpc.cancelled_calls import Calls
from headrace.serve.rpc.status import to_detail
from headrace.serve.worker.remote_rendezvous import StepRendezvous
from headrace.serve.worker.worker_session import Steps, WorkerSession


class CancelsCalls:
    """A part of `Worker`.

    calls: those of all the server's transports.  note_in_sessions: what the master does in `note_cancelled`'s place.
    """

    _running: dict[Scope, Steps]
    _sessions: dict[str, WorkerSession]
    _end_step: Callable[[int, errors.OpError | None], StepRendezvous | None]

    def __init__(self) -> None:
        self.calls = Calls()
        self.note_in_sessions: Callable[[], object] = lambda: None

    def give_up(self, request: pb.GiveUpRequest, scope: Scope) -> pb.GiveUpResponse:
        """End what the caller of a request that comes next has given up before: see serve.rpc.cancelled_calls."""
        self.calls.cancel(request.call)
        for step_id in request.step:
            self._end_step(step_id, None)
        over = errors.session_closed()
        closed = set(request.session)
        for handle in closed:
            session = self._sessions.get(handle)
            if session is not None and session.direct_over is None:
                session.direct_over = to_detail(over)
                session.wait_for_changes()
        left: set[WorkerSession] = set()
        for step, kind in list(self._running.items()) if closed else ():
            if kind.session.handle in closed:
                step.cancel(over)
                left.add(kind.session)
        self.note_cancelled()
        self.note_in_sessions()
        self.calls.wait(request.call)
        for session in left:
            session.leaving.wait_a_moment()
        return pb.GiveUpResponse()

    def note_cancelled(self) -> None:
        """Have steps that come wait for those of their sessions that have been cancelled."""
        for step, kind in list(self._running.items()):
            if step.cancelled:
                leaving = kind.session.leaving
                leaving.add(step)
                if step not in self._running:
                    leaving.left(step)
