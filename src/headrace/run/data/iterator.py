"""DataIterator: the resource that steps take elements from.

It pulls the last stage of its dataset's chain, some elements at a time where that cannot be told from one at a time,
and gives each to one step, in the order in which they asked.  The thread of a step that asks pulls by itself, if nobody
else does; whoever comes meanwhile is served by it, or has a `Pending`.  Where an element comes later (`Blocked`),
whoever completes what it waits for goes on.  A step that ends in the middle leaves the chain as it is: a thread of the
iterator's goes on for those who wait still.

Called by: ops.data.iterator_ops.  Threads: any; `_lock` guards the state and is never held while a stage is pulled.
`_serving` says that somebody pulls, or that what is `_blocked` on will.  Threads of stages belong to a group of the
iterator's, which ends with it.
Source: TF 1.15 core/kernels/data/iterator_ops.cc, for behaviour
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.run import interrupts
from headrace.run.data.chunks import Chunk, Element
from headrace.run.data.positions import (
    decoded,
    encoded,
    restore_position,
    saved_position,
    with_datasets,
)
from headrace.run.data.stage import (
    Blocked,
    Dataset,
    Interrupted,
    Iteration,
    Stage,
    typed,
    waited_for,
)
from headrace.run.exec import polling
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.readers.files import ANYWHERE, Files
from headrace.run.scope import Scope
from headrace.run.state.wait_queues import WaitingResource
from headrace.run.thread_group import ThreadGroup
from headrace.run.uninterrupted import changes

IGNORE: Final = 1
FAIL: Final = 2
"""Of positions without what functions remember; anything else warns."""

AHEAD_MOST: Final = 64
AHEAD_BYTES: Final = 1 << 18
AHEAD_S: Final = 1e-3
"""Elements that are taken from the chain before they are asked for: so many, so large, and as fast as that."""

log = logging.getLogger("headrace")

_SERVED: Final = 64  # others that a step's thread serves before it goes on with its step

Job = Callable[[], Any]


class _Waiter:
    """Who asked and has to wait.  job: None for the next element, else what is to be done while nobody pulls."""

    __slots__ = ("job", "pending")

    def __init__(self, job: Job | None, pending: Pending[Any]) -> None:
        self.job = job
        self.pending = pending


class _Pass:
    """An iteration of a dataset: its last stage, and what ends it."""

    def __init__(self, dataset: Dataset, owner: DataIterator, files: Files) -> None:
        self.dataset = dataset
        self.scope = Scope()
        self.run = Iteration(files, owner.check, self.scope, owner)
        self.run.root = dataset
        dataset.note_parts()
        self.root: Stage = dataset.stage(self.run)

    def end(self) -> None:
        """Its stages stop; those that nobody pulls let go of what they have."""
        self.scope.cancel(errors.cancelled("the iterator was initialized again, or has ended"))


@changes
class DataIterator(WaitingResource):
    """See the module header.  types, shapes: of the components; of none if any will do."""

    type_name = "N10tensorflow4data16IteratorResourceE"

    def __init__(
        self, name: str, types: Sequence[DType] = (), shapes: Sequence[Shape] = ()
    ) -> None:
        super().__init__(name)
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self._pass: _Pass | None = None
        self._files = ANYWHERE
        self._chunk: Chunk | None = None
        self._at = 0
        self._ahead = 1
        self._steady = False
        self._serving = False
        self._direct = False  # whoever pulls has no waiter
        self._blocked: Pending[Any] | None = None
        self._waiters: deque[_Waiter] = deque()
        self._stale: list[_Pass] = []  # over, to be closed by who pulls
        self._group: ThreadGroup | None = None
        self._given = 0
        self._at_end = False  # when it was pulled last

    # -- initializing -------------------------------------------------------------------------

    def initialize(self, dataset: Dataset, files: Files = ANYWHERE) -> None:
        """Begin an iteration of `dataset`.  Raises InvalidArgument if its elements are not the iterator's."""
        self._check_fits(dataset)
        begun = _Pass(dataset, self, files)
        with self._lock:
            self._files = files
            if self._gone is not None:
                raise errors.copied(self._gone)
            self._replace(begun)
            goes_on = self._serving and self._blocked is not None
            self._blocked = None
        if goes_on:
            self._serve_waiters()
        else:
            self._close_stale()

    def _replace(self, begun: _Pass | None) -> None:
        if self._pass is not None:
            self._pass.end()
            self._stale.append(self._pass)
        self._pass, self._chunk, self._at, self._ahead = begun, None, 0, 1
        self._steady = begun is not None and all(stage.steady for stage in begun.root.all())

    def _close_stale(self) -> None:
        with self._lock:
            if self._serving:
                return
            stale, self._stale = self._stale, []
        for each in stale:
            each.root.close()

    def _check_fits(self, dataset: Dataset) -> None:
        if not self.types:
            return
        if len(self.types) != len(dataset.types):
            raise errors.invalid_argument(
                f"Number of components does not match: expected {len(self.types)} types but got "
                f"{len(dataset.types)}: {self} and {dataset}"
            )
        for number, (mine, its) in enumerate(zip(self.types, dataset.types, strict=True)):
            if mine.base_dtype is not its.base_dtype:
                raise errors.invalid_argument(
                    f"Data type mismatch at component {number}: expected {mine.name} but got {its.name}: "
                    f"{self} and {dataset}"
                )
        for number, (known, found) in enumerate(zip(self.shapes, dataset.shapes, strict=True)):
            if not shape_rules.compatible(known, found):
                raise errors.invalid_argument(
                    f"Incompatible shapes at component {number}: expected {shape_rules.text(known)} but got "
                    f"{shape_rules.text(found)}: {self} and {dataset}"
                )

    # -- taking elements ----------------------------------------------------------------------

    def next(self) -> Any:
        """The next element, the caller's own; or a Pending, where it comes later.

        Raises FailedPrecondition (not initialized), OutOfRange (no more), and what its element failed with.
        """
        with self._lock:
            if not self._serving:
                chunk = self._chunk
                if chunk is not None:
                    return self._next_of(chunk)
                if self._pass is None:
                    raise self._uninitialized("GetNext", "getting the next element")
                self._serving = self._direct = True
            else:
                return self._ask(None)
        return self._first(None)

    def next_or_none(self) -> Element | None:
        """The next element, None at the end; for a job of `do`.  Raises as `next`."""
        try:
            return self._pulled()
        except errors.OutOfRangeError:
            if self._at_end:
                return None
            raise

    def do(self, job: Job) -> Any:
        """What `job` gives, or a Pending of it, as soon as nobody pulls."""
        with self._lock:
            if self._serving:
                return self._ask(job)
            self._serving = self._direct = True
        return self._first(job)

    def _next_of(self, chunk: Chunk) -> Element:
        at = self._at
        if at + 1 == chunk.count:
            self._chunk, self._at = None, 0
        else:
            self._at = at + 1
        self._given += 1
        return chunk.element(at)

    def _ask(self, job: Job | None, first: bool = False) -> Pending[Any]:
        """Under the lock."""
        kind = "get_next" if job is None else "save"
        pending: Pending[Any] = Pending(
            WaitInfo(kind, str(self), self._doing, self), self._withdraw_waiter
        )
        waiter = _Waiter(job, pending)
        if self._gone is not None:
            pending.settle_error(self._gone)
        elif first:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        return pending

    def _withdraw_waiter(self, pending: Pending[Any]) -> bool:
        with self._lock:
            for waiter in self._waiters:
                if waiter.pending is pending:
                    self._waiters.remove(waiter)
                    return True
        return False

    def _first(self, job: Job | None) -> Any:
        """Serve the caller, then those who came meanwhile."""
        try:
            result = self._pulled() if job is None else job()
        except (Blocked, Interrupted) as stopped:
            with self._lock:
                pending = self._ask(job, first=True)
                self._direct = False
            self._stopped(stopped)
            return pending
        except BaseException:
            self._release()
            raise
        self._release()
        return result

    def _release(self) -> None:
        with self._lock:
            self._direct = False
            if not self._waiters and not self._stale:
                self._serving = False
                return
        self._serve_waiters()

    def _serve_waiters(self, long: bool = False) -> None:
        """Go on until nobody waits, or, unless `long`, a thread has to.  Whoever calls has `_serving`."""
        for served in count():
            if served == _SERVED and not long:
                self.start(self._serve_waiters, True, name="serve")
                return
            with self._lock:
                if not self._waiters:
                    self._serving = False
                    break
                waiter = self._waiters[0]
            try:
                result = self._pulled() if waiter.job is None else waiter.job()
            except (Blocked, Interrupted) as stopped:
                self._stopped(stopped)
                return
            except Exception as error:
                self._settle(waiter, None, typed(error, str(self)))
            else:
                self._settle(waiter, result, None)
        self._close_stale()

    def _settle(self, waiter: _Waiter, result: Any, error: errors.OpError | None) -> None:
        pending, done = waiter.pending, False
        with self._lock:
            if self._waiters and self._waiters[0] is waiter:
                self._waiters.popleft()
                done = pending.settle(result) if error is None else pending.settle_error(error)
            elif error is None and waiter.job is None:  # withdrawn meanwhile: the element stays
                self._put_back(result)
        if done:
            pending.announce()

    def _put_back(self, element: Element) -> None:
        self._given -= 1
        rest = self._chunk
        elements = [element]
        if rest is not None:
            elements += rest.part(self._at, rest.count).elements()
        self._chunk, self._at = Chunk.of(elements, True), 0

    def _stopped(self, why: Blocked | Interrupted) -> None:
        """Whoever pulled cannot go on; `_serving` passes to who can."""
        if isinstance(why, Blocked):
            pending = why.pending
            with self._lock:
                self._blocked = pending
            pending.on_done(lambda _: self._unblocked(pending))
            return
        with self._lock:
            if not self._waiters or self._gone is not None:
                self._serving = False
                over = True
            else:
                over = False
        if over:
            self._close_stale()
        else:
            self.start(self._serve_waiters, True, name="serve")

    def _unblocked(self, pending: Pending[Any]) -> None:
        with self._lock:
            if self._blocked is not pending:
                return
            self._blocked = None
        self._serve_waiters()

    # -- pulling ------------------------------------------------------------------------------

    def check(self) -> None:
        """See `Iteration`: whoever pulls has a step that ended, or Ctrl-C to see to, or nobody to pull for."""
        step = polling.current()
        if (
            (step is not None and step.error is not None)
            or self._stale
            or self._gone is not None
            or interrupts.waits()
            or not (self._direct or self._waiters)
        ):
            raise Interrupted

    def _pulled(self) -> Element:
        """The next element, with `_serving`."""
        while True:
            with self._lock:
                if self._gone is not None:
                    raise errors.copied(self._gone)
                if self._chunk is not None:
                    return self._next_of(self._chunk)
                now = self._pass
                stale, self._stale = self._stale, []
            for each in stale:
                each.root.close()
            if now is None:
                raise self._uninitialized("GetNext", "getting the next element")
            began = time.perf_counter()
            try:
                chunk = now.root.pull(self._ahead if self._steady else 1)
            except Interrupted:
                if self._pass is now:
                    raise
                continue  # initialized again meanwhile
            self._at_end = chunk is None
            if chunk is None:
                raise errors.out_of_range(
                    f"End of sequence: {self} has given all its elements ({self._given}); run its initializer again "
                    "to begin anew"
                )
            with self._lock:
                if self._pass is now:
                    self._chunk, self._at = chunk, 0
                    self._tune(chunk, time.perf_counter() - began)

    def _tune(self, chunk: Chunk, took_s: float) -> None:
        """How many to take next."""
        by_size = AHEAD_BYTES * chunk.count // max(1, chunk.size)
        by_time = int(AHEAD_S * chunk.count / max(took_s, 1e-9))
        self._ahead = max(1, min(AHEAD_MOST, 2 * self._ahead, by_size, by_time))

    def _uninitialized(self, what: str, before: str) -> errors.OpError:
        return errors.failed_precondition(
            f"{what}() failed because the iterator has not been initialized. Ensure that you have run the initializer "
            f"operation for this iterator before {before}. It is {self}"
        )

    # -- position -----------------------------------------------------------------------------

    def save(self, policy: int = IGNORE) -> Any:
        """The position as bytes, or a Pending of it.  Raises FailedPrecondition, Unimplemented.

        policy: what is done if functions remember something, which is no part of it.
        """
        return self.do(lambda: self._save(policy))

    def _save(self, policy: int) -> bytes:
        now = self._pass
        if now is None:
            raise self._uninitialized("Save", "saving it")
        if now.run.stateful and policy != IGNORE:
            self._refuse_or_warn(now.run.stateful, policy)
        chunk = self._chunk
        held = [] if chunk is None else [chunk.part(self._at, chunk.count)]
        return encoded([held, self._given, saved_position(now.root)], now.dataset)

    def _refuse_or_warn(self, functions: set[str], policy: int) -> None:
        text = (
            f"{', '.join(sorted(functions))} of {self} is stateful: what it remembers (generators of random numbers, "
            "Python's state) is not saved with the iterator"
        )
        if policy == FAIL:
            raise errors.failed_precondition(
                f"{text}; with external_state_policy='warn' or 'ignore' the rest is"
            )
        log.warning("%s", text)

    def restore(self, data: bytes) -> Any:
        """Take up a position in an iteration of the same dataset; None, or a Pending.

        Raises InvalidArgument, DataLoss.
        """
        return self.do(lambda: self._restore(data))

    def _restore(self, data: bytes) -> None:
        now = self._pass
        if now is None:
            raise self._uninitialized("Restore", "restoring it")
        held, given, position = decoded(data)
        begun = _Pass(now.dataset, self, self._files)
        restore_position(begun.root, position)
        chunk = with_datasets(held[0], begun.run) if held else None
        with self._lock:
            self._replace(begun)
            self._chunk, self._given = chunk, given

    # -- threads, and its end -----------------------------------------------------------------

    def start(self, target: Callable[..., object], *args: Any, name: str = "") -> threading.Thread:
        """Run a thread that ends with the iterator.  Raises Cancelled."""
        with self._lock:
            if self._gone is not None:
                raise errors.copied(self._gone)
            if self._group is None:
                self._group = ThreadGroup(str(self))
            group = self._group
        return group.start(target, *args, name=name)

    def dropped(self) -> None:
        """Whoever waits is told; threads end."""
        error = errors.cancelled(
            f"{self} was removed from container {self.container!r}: the container was reset, or its owner has closed"
        )
        with self._lock:
            self._gone = error
            waiters, self._waiters = list(self._waiters), deque()
            settled = [each.pending for each in waiters if each.pending.settle_error(error)]
            self._replace(None)
            group, self._group = self._group, None
            if self._blocked is not None:
                self._blocked, self._serving = None, False
        announce_all(settled)
        self._close_stale()
        if group is not None:
            group.scope.cancel(error)
            group.__exit__(None, None, None)

    # -- for people ---------------------------------------------------------------------------

    def stages(self) -> list[StageState]:
        """Each, the last one first."""
        now = self._pass
        return [] if now is None else [_state_of(stage) for stage in now.root.all()]

    def _doing(self) -> str:
        """What whoever waits waits for."""
        blocked = self._blocked
        if blocked is not None:
            return f"waits for {waited_for(blocked)}"
        return "makes an element" if self._serving else ""

    def describe(self) -> dict[str, Any]:
        """See `WaitingResource`."""
        with self._lock:
            waiting = [each.pending.wait_info for each in self._waiters]
            given, begun = self._given, self._pass is not None
        stages = self.stages()
        state = "not initialized"
        if begun:
            state = f"{given} elements given; " + " <- ".join(map(str, stages))
        doing = self._doing() if waiting else ""
        return {
            "kind": type(self).__name__,
            "name": self.label,
            "container": self.container,
            "state": f"{state}; it {doing}" if doing else state,
            "waiting": waiting,
            "contributors": [],
            "takers": [],
            "stages": stages,
        }


class StageState(NamedTuple):
    """A stage for people: `held` elements of at most `most`, and bytes; None of what is not its business to hold."""

    label: str
    held: int | None
    most: int | None
    size: int

    def __str__(self) -> str:
        if self.held is None:
            return self.label
        of = "" if self.most is None else f" of {self.most}"
        return f"{self.label} ({self.held}{of} elements, {self.size} bytes)"


def _state_of(stage: Stage) -> StageState:
    held, size = stage.buffered() or (None, 0)
    return StageState(stage.label, held, stage.limit(), size)
