"""Waiting: how the thread of a step sleeps until something that it waits for is done, whichever executor it runs on.

What is done puts its number into a queue; -1 says that the step's scope has ended.  Where a step has links, its thread
reads those connections meanwhile.
Called by: run.exec.program, run.exec.dataflow, run.exec.parked.  Threads: one waits, any may put.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.base import errors
from headrace.run import long_waits
from headrace.run.exec.kernel import NodeInfo, StepState
from headrace.run.exec.outcome import interrupted
from headrace.run.exec.worker_pool import let_blas_go
from headrace.run.pending import Pending
from headrace.run.uninterrupted import takes

LONG_WAIT_S = 0.005

Waits = Sequence[tuple[NodeInfo, Pending[Any]]]


def given_up(error: errors.OpError, waits: Waits, step: StepState) -> errors.OpError:
    """The scope's error, naming what the step was waiting for."""
    named = [
        f"{node.op} {node.name!r} ({info})"
        for node, pending in waits
        if (info := pending.wait_info) is not None
    ]
    text = error.message
    if named:
        begin = interrupted(error, waits[0][1].wait_info)
        text = f"{begin}; the step was waiting in {'; '.join(named[:4])}"
    found = errors.make(error.error_code, text)
    if waits:
        node = waits[0][0]
        found.with_context(
            node=node.name,
            op_type=node.op,
            device=node.device,
            step=step.step_id or None,
            built_at=node.built_at,
        )
    return found


class Waiting:
    """What an execution of a step waits with; `long_waits` asks it what for."""

    def __init__(self, step: StepState) -> None:
        self.step = self._step = step
        self._done: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._channels = step.channels
        self._waited_long = False

    def waits(self) -> list[tuple[NodeInfo, Pending[Any]]]:
        """See `long_waits.Waiting`."""
        raise NotImplementedError

    def _given_up(self, error: errors.OpError) -> errors.OpError:
        """The scope's error, naming what this step was waiting for."""
        raise NotImplementedError

    def _put(self, number: int, _: object = None) -> None:
        self._done.put(number)
        if self._channels is not None:
            self._channels.wake()

    def _next(self) -> int:
        """The number of one that is done.  Raises the scope's error."""
        done, scope = self._done, self._step.scope
        if not done.empty():  # this thread alone takes what is put there
            if (number := done.get_nowait()) >= 0:
                return number
            if (error := scope.error) is not None:
                raise self._given_up(error) from error
        let_blas_go()
        since, poll_s = time.monotonic(), long_waits.first_poll_s
        long_waits.waiting[self] = None
        over = None if long_waits.noted is None else long_waits.noted(self.waits())
        try:
            while True:
                number = -1
                patient = self._waited_long or scope.on_long_wait is None
                try:
                    limit_s = long_waits.sleep_limit(scope, poll_s) if patient else LONG_WAIT_S
                    if self._channels is None:
                        number = done.get(timeout=limit_s)
                    else:
                        number = self._channels.get(done, limit_s)
                except queue.Empty:
                    if not patient and scope.on_long_wait is not None:
                        self._waited_long = True
                        scope.on_long_wait()
                    poll_s = long_waits.tell(scope, since, poll_s)
                if number >= 0:
                    return number
                error = scope.error
                if error is not None:
                    raise self._given_up(error) from error
        finally:
            del long_waits.waiting[self]
            if over is not None:
                over()

    @takes
    def _abandon_all(self, pendings: Iterable[Pending[Any]], error: BaseException) -> None:
        """Nobody waits any more: the step has failed, or was interrupted."""
        reason = (
            error
            if isinstance(error, errors.OpError)
            else errors.cancelled("the step was interrupted")
        )
        long_waits.waiting.pop(self, None)  # a Ctrl-C may have come just before `_next` did that
        for pending in pendings:
            pending.abandon(reason)
        if self._step.rendezvous is not None:
            self._step.rendezvous.abort(reason)
