"""Queues: bounded stores of elements that steps, sessions and processes share.

No thread waits inside a queue.  An operation that cannot be completed at once becomes an attempt in one of two wait
queues, enqueues (and closes) in one, dequeues in the other; each is served in the order of arrival by whichever thread
next changes the queue.  What an attempt waits for:
  enqueue       room.  Many elements go in as room comes; those stay when the rest is abandoned.
  dequeue       elements.  Many are set aside as they come, which makes room; abandoned, they go
                back to the front (TensorFlow loses them).  A priority queue sets nothing aside.
  close         the enqueues before it, unless it cancels them.
Closed: enqueues are Cancelled; dequeues go on until too few elements are left for them, which is
OutOfRange, or the short rest for dequeue_up_to.  min_after_dequeue holds only while open.

An operation that is settled has happened, whoever is left to hear of it: what was dequeued for a
remote caller that dies while the reply is under way is gone, as in TensorFlow.

Every error arrives in the returned Pending; nothing is raised, but by the forms `..._now`, which need no Pending
because they do nothing where they would have to wait.  Enqueued values are copied, dequeued ones are the caller's
own.  Elements are tuples with one value per component.

Sharing: queues of one container and shared_name are one queue.  Without a shared_name a queue belongs to one node of
one session on its task (two sessions on one server do not share it, unlike a variable): see resources.private_name.

Called by: ops (queue and reader kernels), through run.queues.fifo and run.queues.shuffle.
Threads: any; one lock per queue, never held while callbacks run.
Source: TF 1.15 core/kernels/queue_base.cc and queue_op.cc; moments and classes of errors as observed of 2.21
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.queues.columns import Batch, Element, Store, Swapping, own
from headrace.run.queues.element_check import ElementCheck
from headrace.run.queues.spec import QueueSpec
from headrace.run.state.resources import Resource, ResourceManager
from headrace.run.uninterrupted import changes

_DONE: Final[Pending[None]] = Pending.done_with(None)


class Attempt:
    """An operation in one of the wait queues."""

    __slots__ = ("components", "count", "owned", "kind", "pending", "position", "queue", "reason")

    def __init__(self, kind: str, components: Sequence[Any], count: int, queue: Queue) -> None:
        self.kind = kind
        self.components = components  # to be enqueued, copied; () for other kinds
        self.count = count  # elements to go in or out
        self.position = 0  # how many of an enqueue_many have gone in
        self.queue = queue
        self.reason: errors.OpError | None = None  # of a close
        self.owned: Sequence[bool] = ()  # see enqueue_many
        title = f"{kind}({count})" if kind in _BATCHED else kind
        self.pending: Pending[Any] = Pending(
            WaitInfo(title, str(queue), lambda: queue._state_for(self), self),
            lambda _: queue._withdraw(self),
        )


_BATCHED: Final = frozenset({"enqueue_many", "dequeue_many", "dequeue_up_to"})


@changes
class Queue(Resource):
    """The operations; a subclass says in which order elements leave, by the store that it makes."""

    gives_rest: ClassVar[bool] = True
    """Whether dequeue_up_to takes the last elements of a closed queue even if they are fewer."""

    def __init__(self, name: str, spec: QueueSpec, container: str = "") -> None:
        """An empty, open queue."""
        super().__init__(name, container)
        self.spec = spec
        self.capacity = spec.capacity
        self._check = ElementCheck(str(self), spec)
        self._store = self.make_store(spec)
        self._lock = threading.Lock()
        self._closed = False
        self._stay = spec.min_after_dequeue  # elements that may not leave now
        self._reason: errors.OpError | None = None  # why it was closed, if by a failure
        self._entered = 0  # elements that ever went in
        self._moved_at = 0.0  # when an operation that waited, or released one, last went on
        self._gone: errors.OpError | None = None
        self._enqueues: deque[Attempt] = deque()
        self._dequeues: deque[Attempt] = deque()

    @classmethod
    def make_store(cls, spec: QueueSpec) -> Store:
        """The storage of a new queue.  Raises InvalidArgument."""
        raise NotImplementedError(f"{cls.__name__} does not say how it stores its elements")

    @classmethod
    def open(cls, manager: ResourceManager, container: str, name: str, spec: QueueSpec) -> Queue:
        """The queue of that name, made if there is none.

        Raises: InvalidArgument (it exists and is not what is asked for).
        """
        found = manager.lookup_or_create(container, name, Queue, lambda: cls(name, spec))
        found.check_shared_with(cls, spec)
        return found

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    def check_shared_with(self, cls: type[Queue], wanted: QueueSpec) -> None:
        """Raise InvalidArgument, with both sides, unless a node that asks for that means this."""
        advice = f"in container {self.container!r}; make them agree, or give the queue another shared_name"
        if type(self) is not cls:
            raise errors.invalid_argument(
                f"Expected {type(self).__name__}, found {cls.__name__}: the first is what shared queue "
                f"{self.label!r} is, the second what the node asks for {advice}"
            )
        for what, mine, theirs, verb in self.spec.beside(wanted, self.shapes_agree(wanted)):
            if mine != theirs:
                raise errors.invalid_argument(
                    f"Shared queue '{self.label}' has {what} {mine} but requested "
                    f"{what.removeprefix('random ')} {verb} {theirs} {advice}"
                )

    def shapes_agree(self, wanted: QueueSpec) -> bool:
        """Whether nodes that ask for those shapes may mean this queue."""
        return self.spec.shapes == wanted.shapes

    # ---- operations -------------------------------------------------------------------------

    def enqueue(self, components: Sequence[Any]) -> Pending[None]:
        """Add one element.  Rejected with: InvalidArgument (types, shapes), Cancelled (closed)."""
        try:
            if self.enqueue_now(components):
                return _DONE
        except errors.OpError as error:
            return Pending.failed_with(error)
        return self._take_turn("enqueue", components, 1)

    def enqueue_now(self, components: Sequence[Any]) -> bool:
        """As `enqueue`, unless it would have to wait or the queue is closed: then False, and nothing is done.

        Raises InvalidArgument, ResourceExhausted.
        """
        bad = self._check.element(components)
        if bad is not None:
            raise bad
        store = self._store
        with self._lock:
            if self._enqueues or self._closed or store.size >= self.capacity:
                return False
            try:
                store.put(components)
            except MemoryError as error:
                raise self._too_large("enqueue", 1, error) from error
            self._entered += 1
            if not self._dequeues:
                return True
            settled = self._serve()
        announce_all(settled)
        return True

    def enqueue_many(self, components: Sequence[Any], owned: Sequence[bool] = ()) -> Pending[None]:
        """Add the elements along axis 0, as there is room.  Rejected with: as enqueue.

        owned: for each component whether nobody will ever change it, so that it need not be copied.
        """
        try:
            if self.enqueue_many_now(components, owned):
                return _DONE
        except errors.OpError as error:
            return Pending.failed_with(error)
        return self._take_turn("enqueue_many", components, len(components[0]), owned=owned)

    def enqueue_many_now(self, components: Sequence[Any], owned: Sequence[bool] = ()) -> bool:
        """As `enqueue_many`, unless some would have to wait or the queue is closed: then False, and nothing is done.

        Raises InvalidArgument, ResourceExhausted.
        """
        bad = self._check.batch(components)
        if bad is not None:
            raise bad
        count = len(components[0])
        if not count:
            return True
        store = self._store
        with self._lock:
            if self._enqueues or self._closed or store.size + count > self.capacity:
                return False
            try:
                store.put_many(components, 0, count, owned)
            except MemoryError as error:
                raise self._too_large("enqueue_many", count, error) from error
            self._entered += count
            if not self._dequeues:
                return True
            settled = self._serve()
        announce_all(settled)
        return True

    def room(self) -> int:
        """How many elements could be put in now; 0 if whoever comes now would have to wait or fail."""
        if self._enqueues or self._closed:
            return 0
        return self.capacity - self._store.size

    def enqueue_each(self, batch: Sequence[Any], count: int, settled: list[Pending[Any]]) -> int:
        """As `count` times `enqueue`, in one moment, as far as none of them has to wait: how many went in.

        batch: for each component an array with an element along axis 0, or a list of values; -1 if some do not fit.
        settled: receives what the caller announces when it holds no lock.
        """
        store = self._store
        loose = any(isinstance(values, list) for values in batch)
        if loose:
            elements = list(zip(*batch, strict=True))
            if any(self._check.element(element) is not None for element in elements):
                return -1
        elif self._check.explained("enqueue", batch, (count,)) is not None:
            return -1
        done = 0
        with self._lock:
            try:
                while done < count and self.room() > 0:
                    stop = min(count, done + self.room())
                    if loose:
                        stop = done + 1
                        store.put(elements[done])
                    elif self._dequeues and not store.in_order:
                        stop = self._put_for_waiting(batch, done, stop)
                    else:
                        store.put_many(batch, done, stop)
                    self._entered += stop - done
                    done = stop
                    if self._dequeues:
                        settled += self._serve()
            except MemoryError:
                pass  # for the next enqueue to report
        return done

    def _put_for_waiting(self, batch: Sequence[Any], start: int, stop: int) -> int:
        """Put one element in, or as many from `start` on as only make the first of the dequeues wait on; the new start.

        For stores whose elements do not leave in order: what leaves is drawn when each comes.
        """
        store, first = self._store, self._dequeues[0]
        many = first.count - store.gathered - 1 if first.kind != "dequeue" else 0
        if self._takeable() < 0:
            stop = min(stop, start - self._takeable())
            store.put_many(batch, start, stop)
        elif many > 0 and isinstance(store, Swapping):
            stop = min(stop, start + many)
            store.swap_many(batch, start, stop)
        else:
            stop = start + 1
            store.put_many(batch, start, stop)
        return stop

    def dequeue(self) -> Pending[Element]:
        """Remove one element.  Rejected with: OutOfRange (closed and empty)."""
        try:
            element = self.dequeue_now()
        except errors.OpError as error:
            return Pending.failed_with(error)
        if element is None:
            return self._take_turn("dequeue", (), 1)
        return Pending.done_with(element)

    def dequeue_now(self) -> Element | None:
        """As `dequeue`, unless it would have to wait or fail: then None.  Raises ResourceExhausted."""
        store = self._store
        with self._lock:
            if self._dequeues or store.size <= self._stay:
                return None
            try:
                element = store.take()
            except MemoryError as error:
                raise self._too_large("dequeue", 1, error) from error
            if not self._enqueues:
                return element
            settled = self._serve()
        announce_all(settled)
        return element

    def dequeue_many(self, count: int) -> Pending[Batch]:
        """Remove `count` elements and stack them along a new axis 0.

        Rejected with: OutOfRange (closed with fewer), InvalidArgument (count < 0, no shapes).
        """
        return self._dequeue_batch("dequeue_many", int(count))

    def dequeue_up_to(self, count: int) -> Pending[Batch]:
        """As dequeue_many, but a closed queue gives what is left, if anything is."""
        return self._dequeue_batch("dequeue_up_to", int(count))

    def _dequeue_batch(self, kind: str, count: int) -> Pending[Batch]:
        try:
            batch = self.dequeue_many_now(count, kind)
        except errors.OpError as error:
            return Pending.failed_with(error)
        if batch is None:
            return self._take_turn(kind, (), count)
        return Pending.done_with(batch)

    def dequeue_many_now(self, count: int, kind: str = "dequeue_many") -> Batch | None:
        """As `dequeue_many`, or another `kind` of it, unless it would have to wait or fail: then None.

        Raises InvalidArgument, ResourceExhausted.
        """
        if count <= 0 or self.spec.shapes is None:
            return self._no_batch(kind, count)
        store = self._store
        with self._lock:
            if self._dequeues or store.size - count < self._stay:
                return None
            try:
                batch = store.take_many(count)
            except MemoryError as error:
                raise self._too_large(kind, count, error) from error
            if not self._enqueues:
                return batch
            settled = self._serve()
        announce_all(settled)
        return batch

    def _no_batch(self, kind: str, count: int) -> Batch:
        """What a batch of no elements looks like.  Raises InvalidArgument."""
        shapes = self.spec.shapes
        if shapes is None:
            raise errors.invalid_argument(
                f"{type(self).__name__}'s DequeueMany and DequeueUpTo require the components to have specified shapes: "
                f"{self} has none; pass shapes= when making the queue, or dequeue one element at a time"
            )
        if count < 0:
            op = "DequeueManyOp" if kind == "dequeue_many" else "DequeueUpToOp"
            raise errors.invalid_argument(f"{op} requested {count} < 0 elements from {self}")
        return tuple(
            [
                np.empty((0, *[size or 0 for size in shape]), dtype.np)
                for dtype, shape in zip(self.spec.component_types, shapes, strict=True)
            ]
        )

    def close(
        self, cancel_pending_enqueues: bool = False, reason: errors.OpError | None = None
    ) -> Pending[None]:
        """No more enqueues; waits for those before it, or cancels them.

        reason: the failure that makes it close, which dequeues in vain will name.
        Rejected with: Cancelled (closed already, unless cancelling).
        """
        if not cancel_pending_enqueues:
            return self._take_turn("close", (), 0, reason)
        error = errors.cancelled(
            f"Enqueue operation was cancelled: {self} was closed with its pending enqueues"
        )
        with self._lock:
            if not self._closed:
                self._shut(reason)
            settled = _fail_all(self._enqueues, error)
            settled += self._serve()
        announce_all(settled)
        return _DONE

    def size(self) -> int:
        """Elements there for anyone: not those that a waiting dequeue_many has set aside."""
        return self._store.size

    def is_closed(self) -> bool:
        """Whether enqueues are refused: false while a close waits for enqueues before it."""
        return self._closed

    def dropped(self) -> None:
        """Cancels whoever waits.

        Steps that hold the queue may use it up, but never wait for it.
        """
        error = errors.cancelled(
            f"{self} was removed from container {self.container!r}: "
            "the container was reset, or the owner of the queue has closed"
        )
        with self._lock:
            self._gone = error
            self._store.restore()
            settled = _fail_all(self._enqueues, error) + _fail_all(self._dequeues, error)
        announce_all(settled)

    def describe(self) -> dict[str, Any]:
        """A snapshot for people: sizes, and who waits for what since when (WaitInfo)."""
        with self._lock:
            return {
                "kind": type(self).__name__,
                "name": self.label,
                "container": self.container,
                "size": self._store.size,
                "gathered": self._store.gathered,
                "entered": self._entered,
                "moved_at": self._moved_at,
                "capacity": self.capacity,
                "closed": self._closed,
                "min_after_dequeue": self.spec.min_after_dequeue,
                "pending_enqueues": [a.pending.wait_info for a in self._enqueues],
                "pending_dequeues": [a.pending.wait_info for a in self._dequeues],
            }

    # ---- the two wait queues ------------------------------------------------------------

    def _waiters_of(self, kind: str) -> deque[Attempt]:
        return self._dequeues if kind.startswith("dequeue") else self._enqueues

    def _take_turn(
        self,
        kind: str,
        components: Sequence[Any],
        count: int,
        reason: errors.OpError | None = None,
        owned: Sequence[bool] = (),
    ) -> Pending[Any]:
        """Join a wait queue; at its head, do at once what can be done."""
        attempt = Attempt(kind, components, count, self)
        attempt.reason, attempt.owned = reason, owned
        pending = attempt.pending
        settled: list[Pending[Any]] = []
        with self._lock:
            waiters = self._waiters_of(kind)
            waiters.append(attempt)
            if len(waiters) == 1:
                settled = self._serve()
            if not pending.done:
                if components:
                    owned = owned or [False] * len(components)
                    attempt.components = tuple(
                        [v if keep else own(v) for v, keep in zip(components, owned, strict=True)]
                    )
                    attempt.owned = [True] * len(components)
                if self._gone is not None:
                    settled += _fail_all(waiters, self._gone)
        announce_all(settled)
        return pending

    def _withdraw(self, attempt: Attempt) -> bool:
        """Take an abandoned attempt out of its line; those behind it may go on."""
        with self._lock:
            waiters = self._waiters_of(attempt.kind)
            if attempt not in waiters:
                return False
            was_first = waiters[0] is attempt
            waiters.remove(attempt)
            if was_first and waiters is self._dequeues:
                self._store.restore()
            settled = self._serve() if was_first else []
        announce_all(settled)
        return True

    def _serve(self) -> list[Pending[Any]]:
        """Do whatever can be done; returns what was settled, to be announced without the lock."""
        settled: list[Pending[Any]] = []
        while True:
            if self._enqueues:
                self._serve_waiters(self._enqueues, self._advance_enqueue, settled)
            if not self._dequeues or not self._serve_waiters(
                self._dequeues, self._advance_dequeue, settled
            ):
                return settled

    def _serve_waiters(
        self,
        waiters: deque[Attempt],
        advance: Callable[[Attempt], bool],
        settled: list[Pending[Any]],
    ) -> bool:
        """Serve from the head until one has to wait; returns whether anything has changed."""
        moved = False
        while waiters:
            attempt = waiters[0]
            size = self._store.size
            try:
                finished = advance(attempt)
            except MemoryError as error:
                self._store.restore()
                attempt.pending.settle_error(self._too_large(attempt.kind, attempt.count, error))
                finished = True
            if not finished:
                moved = moved or self._store.size != size
                break
            waiters.popleft()
            settled.append(attempt.pending)
            moved = True
        if moved:
            self._moved_at = time.monotonic()
        return moved

    def _advance_enqueue(self, attempt: Attempt) -> bool:
        """Let the first of the enqueues or closes go as far as it can; True if it is finished."""
        pending = attempt.pending
        if self._closed:
            again = f"Queue {self.label!r} is already closed: it is a {type(self).__name__}"
            text = again if attempt.kind == "close" else f"{self} is closed."
            pending.settle_error(errors.cancelled(text))
            return True
        if attempt.kind == "close":
            self._shut(attempt.reason)
            pending.settle(None)
            return True
        room = self.capacity - self._store.size
        if room <= 0:
            return False
        if attempt.kind == "enqueue":
            self._store.put(attempt.components)
            self._entered += 1
            pending.settle(None)
            return True
        start = attempt.position
        attempt.position = min(attempt.count, start + room)
        self._store.put_many(attempt.components, start, attempt.position, attempt.owned)
        self._entered += attempt.position - start
        return attempt.position == attempt.count and pending.settle(None)

    def _advance_dequeue(self, attempt: Attempt) -> bool:
        """Let the first of the dequeues go as far as it can; True if it is finished."""
        store, pending = self._store, attempt.pending
        missing = attempt.count - store.gathered
        if self._closed and store.size < missing:
            store.restore()
            if attempt.kind == "dequeue_up_to" and store.size and self.gives_rest:
                return pending.settle(store.take_many(store.size))
            return pending.settle_error(self._exhausted(attempt.count))
        takeable = self._takeable()
        if takeable <= 0:
            return False
        if attempt.kind == "dequeue":
            return pending.settle(store.take())
        if takeable >= missing == attempt.count:
            return pending.settle(store.take_many(attempt.count))
        if not store.gathers:
            return False
        store.gather(min(takeable, missing))
        return store.gathered == attempt.count and pending.settle(store.take_gathered())

    def _exhausted(self, wanted: int) -> errors.OpError:
        """The error of a dequeue that a closed queue cannot serve any more."""
        text = (
            f"{self} is closed and has insufficient elements "
            f"(requested {wanted}, current size {self._store.size})"
        )
        reason = self._reason
        if reason is None:
            return errors.out_of_range(text)
        found = errors.out_of_range(f"{text}; it was closed because of {errors.named(reason)}")
        found.__cause__ = reason
        return found

    def _shut(self, reason: errors.OpError | None) -> None:
        self._closed, self._reason, self._stay = True, reason, 0

    def _takeable(self) -> int:
        """Elements that may leave now."""
        return self._store.size - self._stay

    # ---- words ------------------------------------------------------------------------------

    def _too_large(self, kind: str, count: int, error: MemoryError) -> errors.OpError:
        made = errors.resource_exhausted(
            f"{kind} of {count} elements on {self}, which holds "
            f"{self._store.size}: out of memory ({error})"
        )
        made.__cause__ = error
        return made

    def _state_for(self, attempt: Attempt) -> str:
        """What an attempt that waits finds, and what would release it."""
        with self._lock:
            waiters = self._waiters_of(attempt.kind)
            if attempt not in waiters:
                return "being released"
            ahead = waiters.index(attempt)
            store = self._store
            text = f"it holds {store.size} of at most {self.capacity}" + (
                f", {ahead} more wait before this" if ahead else ""
            )
            if waiters is self._enqueues:
                if attempt.kind == "enqueue_many":
                    text += f", {attempt.position} of {attempt.count} went in"
                return f"{text}; a dequeue would make room"
            if not ahead and store.gathered:
                text += f", {store.gathered} of {attempt.count} set aside for this"
            if self.spec.min_after_dequeue and not self._closed:
                text += f", {self.spec.min_after_dequeue} must stay while it is open"
            return f"{text}; an enqueue or a close would release it"


def _fail_all(waiters: deque[Attempt], error: errors.OpError) -> list[Pending[Any]]:
    """Empty a wait queue; returns what is to be announced."""
    settled = [attempt.pending for attempt in waiters if attempt.pending.settle_error(error)]
    waiters.clear()
    return settled
