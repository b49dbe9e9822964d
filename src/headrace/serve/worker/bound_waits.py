"""Bound waits: partitions that are asked for again and again and do one thing with a queue: put a constant in, or take
elements out.

What need not wait holds its session's lock of changes meanwhile, for which those wait that end the session's steps.
What has to wait is booked as any other step is, without a thread.  What fails has done nothing: the request is then
answered as any other, which fails in the same way, and says where.
Called by: serve.worker.bound_parts (makes them).  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.run.exec import simple
from headrace.run.exec.kernel import StepState
from headrace.run.exec.program import Program
from headrace.run.pending import Pending
from headrace.run.queues.queue import Attempt, Queue
from headrace.run.scope import Scope
from headrace.run.state.variable import NUMBERS
from headrace.serve.observe.counting import NOW_AND_THEN
from headrace.serve.rpc.again import RunsAgain, WaitsAgain
from headrace.serve.worker.registered import RegisteredPartition

if TYPE_CHECKING:
    from headrace.serve.worker.worker import Worker


class BoundWait(WaitsAgain):
    """See the module header."""

    values: Sequence[Any] = ()

    def __init__(
        self,
        worker: Worker,
        registered: RegisteredPartition,
        direct: int,
        generation: int,
        queue: Queue,
        wait: simple.Wait,
        takes: int,
        otherwise: RunsAgain,
    ) -> None:
        """generation: of the task's resources, when the queue was found.

        takes: how many elements come out; 0: one goes in.
        """
        self._worker = worker
        self._log = worker.log
        self._registered = registered
        self._session = registered.session
        self._leaving = registered.session.leaving
        self._kind = registered.kind(direct)
        self._resources = registered.session.runtime.resources
        self._generation = generation
        self._queue = queue
        self._kernel, self._constants, self._given = wait
        self._takes = takes
        self._form: tuple[Any, Any] | None = None  # of the one value that it gave last
        self.otherwise = otherwise

    def holds(self) -> bool:
        """See `WaitsAgain`."""
        return not self._registered.forgotten and self._resources.generation == self._generation

    def _turned_away(self) -> bool:
        """Whether it is to be answered as any other is."""
        return (
            self._worker.turns_away is not None
            or self._registered.forgotten
            or self._leaving.any
            or (self._kind.direct and self._session.direct_over is not None)
            or self._resources.generation != self._generation
            or not self._log.off
        )

    def ready(self) -> bool:
        """See `WaitsAgain`."""
        queue = self._queue
        if self._takes:
            return queue.size() - queue.spec.min_after_dequeue >= self._takes
        return queue.room() > 0

    def begin(self, scope: Scope) -> bytes | Pending[Any] | None:
        """See `WaitsAgain`."""
        session = self._session
        if not session.change_lock.acquire(blocking=False):
            return None
        try:
            if self._turned_away():
                return None
            try:
                found = self._kernel(self._queue, *self._constants)
            except (
                Exception
            ):  # nothing has been done: the general way fails as well, and says where
                return None
            if found.__class__ is Pending:
                if not found.done:
                    self._worker.book(scope, self._kind)
                    scope.attach(found, lambda: _abandon(found, scope))
                    return found
                if found.error is not None:
                    return None
                found = found.result()
        finally:
            session.change_lock.release()
        return self._contents(found)

    def keeps_place(self, pending: Pending[Any]) -> bool:
        """See `WaitsAgain`.  A close waits for the enqueues before it: one that came again would find it closed."""
        if self._takes:
            return False
        infos = self._queue.describe()["pending_enqueues"]
        waiting = [info.subject for info in infos if info is not None]
        attempts = [each for each in waiting if isinstance(each, Attempt)]
        behind = any(each.kind == "close" for each in attempts)
        return behind and any(each.pending is pending for each in attempts)

    def end(self, pending: Pending[Any], scope: Scope) -> bytes | None:
        """See `WaitsAgain`."""
        self._worker.unbook(scope, self._session)
        scope.detach(pending)  # else the two would hold each other
        return None if pending.error is not None else self._contents(pending.result())

    def _contents(self, result: Any) -> bytes:
        """What leaves the task."""
        meter = self._worker.meter
        if meter is not None and not meter.tick() & NOW_AND_THEN:
            meter.check()
        values = self._given(result)
        if len(values) == 1:
            (value,) = values
            form = value.dtype, value.shape
            if form != self._form:
                self._form, self.values = form, values
            content: bytes = value.tobytes()
            return content
        if [(each.dtype, each.shape) for each in values] != [
            (each.dtype, each.shape) for each in self.values
        ]:
            self.values = values
        return b"".join([each.tobytes() for each in values])


def _abandon(pending: Pending[Any], scope: Scope) -> None:
    assert scope.ended_by is not None
    pending.abandon(scope.ended_by)


def bound_wait(
    worker: Worker, registered: RegisteredPartition, direct: int, otherwise: RunsAgain, most: int
) -> BoundWait | None:
    """The partition, if it does nothing but that, with no more than so many bytes of numbers."""
    program = registered.program
    if not (registered.as_they_are and isinstance(program, Program)):
        return None
    found = simple.wait(program)
    if found is None:
        return None
    find, wait = found
    session = registered.session
    generation = session.runtime.resources.generation
    queue = find(StepState(session.runtime, Scope(), owner=session.handle, lends=True))
    if not isinstance(queue, Queue):
        return None
    takes = 0
    if program.returns:
        takes = int(wait.constants[0]) if wait.constants else 1  # the size of a batch
    if not _is_small(queue, wait.constants, takes, most):
        return None
    return BoundWait(worker, registered, direct, generation, queue, wait, takes, otherwise)


def _is_small(queue: Queue, constants: Sequence[Any], takes: int, most: int) -> bool:
    """Whether the one element that goes in, or those that come out, are known to be numbers, and few."""
    shapes = queue.spec.fixed_shapes
    types = [dtype.np for dtype in queue.spec.component_types]
    if shapes is None or any(each.kind not in NUMBERS for each in types):
        return False
    element = sum(
        each.itemsize * int(np.prod(shape)) for each, shape in zip(types, shapes, strict=True)
    )
    if not takes:  # of what goes in by and by some stays when the rest is withdrawn
        put = tuple(each.shape for each in constants)
        return put == shapes and sum(each.nbytes for each in constants) <= most
    return element * takes <= most
