"""Readers: records out of work items (file names), which come from a queue.

A reader has one work item at a time.  Reads are served in the order of arrival; when the one at the
head needs work, its reader asks the queue, and whichever thread puts the work there opens the file
and reads the record.  No thread waits inside a reader, several may share one, and a read that is
abandoned leaves no trace: work that arrives too late for it is the next one's.

Readers of files, which have records ahead, are in run.readers.file_readers and run.readers.record_readers.
Called by: ops.io.readers, run.queues.batch_dequeuer (`offer`).
Threads: any; `_lock` guards the state and is held while a record is read or offered, never while the queue is
asked or callbacks run.  `_serving` says that someone serves the wait queue, or that a dequeue is out whose completion
will.
Source: TF 1.15 core/framework/reader_base.cc and core/kernels/*_reader_op.cc, for behaviour.
On purpose otherwise: a work item that cannot be read is given up with its error, and the next read
goes on (TensorFlow's whole-file reader fails forever); a file shorter than its header and footer is
DataLoss (there OutOfRange, which ends the pipeline without a word).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.queue import Queue
from headrace.run.readers.files import ANYWHERE, Files, file_error
from headrace.run.state.resources import Resource

Array = np.ndarray[Any, Any]
Record = tuple[bytes, bytes]
"""Key and value."""
_FEWEST: Final = 4  # work items that are worth being read together
_READ_WITHIN_S: Final = 1e-3  # together; of slow files several threads read one each
_ONE_BY_ONE: Final = 64  # reads that are not offered after such slow ones


class Read:
    """A read in the wait queue: one record, or up to `count` of them."""

    __slots__ = ("count", "pending", "queue", "reader", "waiting")

    def __init__(self, reader: Reader, queue: Queue, count: int | None) -> None:
        self.reader = reader
        self.queue = queue
        self.count = count
        self.waiting: Pending[Any] | None = None
        kind = "read" if count is None else f"read_up_to({count})"
        self.pending: Pending[tuple[Array, Array]] = Pending(
            WaitInfo(kind, str(reader), self._detail, self), lambda _: reader._withdraw(self)
        )

    def _detail(self) -> str:
        waiting = self.waiting
        info = None if waiting is None else waiting.wait_info
        return f"needs a work item: {info}" if info is not None else "reads before it are not done"


class Reader(Resource):
    """The wait queue and the counters; a subclass reads one kind of file."""

    serializes = False

    def __init__(self, name: str, container: str = "", files: Files = ANYWHERE) -> None:
        """files: those that it may read."""
        super().__init__(name, container)
        self._files = files
        self._lock = threading.Lock()
        self._waiters: deque[Read] = deque()
        self._serving = False
        self._work: bytes | None = None  # what is being read
        self._latest = b""  # what was begun last
        self._come: deque[bytes] = deque()  # have come from the queue, and are to be read next
        self._started = 0
        self._finished = 0
        self._produced = 0

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    # -- what a kind of reader does, with the lock held ---------------------------------------

    def begin(self, work: bytes) -> None:
        """Open `work`.  Raises OpError, OSError."""

    def record(self) -> Record | None:
        """The next record of the work, None at its end.  Raises OpError, OSError."""
        raise NotImplementedError

    def end(self) -> None:
        """Let go of the work."""

    def at_end(self) -> bool:
        """Whether it is known, without looking, that no record is left."""
        return False

    def origin(self, value: bytes) -> bytes | None:
        """The key of a record of that content that was read lately, if it is remembered."""
        return None

    def ahead(self, most: int) -> Sequence[bytes]:
        """The values of the next records, as far as they are in memory, or at hand in the file that is open."""
        return ()

    def keys_ahead(self, count: int) -> list[bytes]:
        """The keys of the first `count` records that are `ahead`."""
        raise NotImplementedError

    def skip(self, count: int) -> None:
        """The first `count` of the records that are `ahead` have been read."""
        raise NotImplementedError

    # -- reading ------------------------------------------------------------------------------

    def read(self, queue: Queue) -> Pending[tuple[Array, Array]]:
        """The next record as (key [], value []).

        Rejected with: OutOfRange (no work left, and the queue is closed), InvalidArgument (the
        queue does not hold file names), NotFound and other errors of the file, which is given up.
        """
        with self._lock:
            if self._work is not None and not self._serving:
                try:
                    record = self.record()
                except (errors.OpError, OSError) as error:
                    return Pending.failed_with(self._given_up(error))
                if record is not None:
                    self._count(1)
                    return Pending.done_with((_boxed(record[0]), _boxed(record[1])))
                self._end_work()
        return self._submit(Read(self, queue, None))

    def read_up_to(self, queue: Queue, count: int) -> Pending[tuple[Array, Array]]:
        """Up to `count` records of one work item as (keys [n], values [n]).

        Empty work items are passed over.  Rejected with: as `read`.
        """
        if count < 0:
            return Pending.failed_with(
                errors.invalid_argument(f"{self}: num_records is {count}, and must be 0 or more")
            )
        if count == 0:
            return Pending.done_with((_vector([]), _vector([])))
        return self._submit(Read(self, queue, count))

    def offer(
        self,
        most: int,
        take: Callable[[Sequence[bytes]], int],
        queue: Queue,
        settled: list[Pending[Any]],
    ) -> int:
        """Let `take` have up to `most` records, as if it had asked for one after the other; how many it took.

        It is given the values of records that can be read without waiting for anything, and says how many of them
        have been read; `keys_ahead` gives their keys.  Before it does anything that cannot be undone it has to
        `claim` them.  Meanwhile nobody else reads, or sees the counters.
        queue: of work items.  settled: receives what the caller announces when it holds no lock.
        """
        with self._lock:
            if self._work is None or self._serving:
                return 0
            records = self.ahead(most)
            if not records:
                return 0
            taken = take(records)
            if taken:
                self.skip(taken)
                self._count(taken)
            return taken

    def claim(self, count: int) -> bool:
        """Whether the first `count` records that are offered are still to be had; those that are then not taken come
        next.  Called by who was offered them, once.
        """
        return True

    def _submit(self, read: Read) -> Pending[tuple[Array, Array]]:
        types = read.queue.spec.component_types
        if types != (dtypes.string,):
            return Pending.failed_with(
                errors.invalid_argument(
                    "Expected "
                    f"{'single component queue' if len(types) != 1 else 'queue with single string component'}: "
                    f"{self} takes work items from a queue of one string component, and {read.queue} holds "
                    f"({', '.join(t.name for t in types)})"
                )
            )
        with self._lock:
            self._waiters.append(read)
            if self._serving:
                return read.pending
            self._serving = True
        self._serve()
        return read.pending

    def _serve(self) -> None:
        """Go on until the wait queue is empty or the queue has to be waited for."""
        settled: list[Pending[Any]] = []
        while True:
            with self._lock:
                while self._waiters and self._advance(self._waiters[0]):
                    settled.append(self._waiters.popleft().pending)
                if not self._waiters:
                    self._serving = False
                    break
                read = self._waiters[0]
            work = read.queue.dequeue()
            if work.done:
                settled += self._take(read, work)
                continue
            with self._lock:
                read.waiting = work
                withdrawn = read not in self._waiters
            if withdrawn:
                work.abandon(errors.cancelled("the read was abandoned"))
            work.on_done(lambda done, read=read: self._work_came(read, done))  # type: ignore[misc]
            break
        announce_all(settled)

    def _work_came(self, read: Read, work: Pending[Any]) -> None:
        announce_all(self._take(read, work))
        self._serve()

    def _take(self, read: Read, work: Pending[Any]) -> list[Pending[Any]]:
        """Keep what a dequeue gave; its error is that of the read it was made for."""
        error = work.error
        item = b""
        if error is None:
            (value,) = work.result()
            if value.ndim == 0:
                item = value[()]
            else:
                error = errors.invalid_argument(
                    f"Expected to dequeue a one-element string tensor: {self} takes scalar work items, and "
                    f"{read.queue} gave one of shape "
                    f"{list(value.shape)}"
                )
        with self._lock:
            if error is None:
                self._come.append(item)
            elif self._waiters and self._waiters[0] is read:
                self._waiters.popleft()
                if read.pending.settle_error(error):
                    return [read.pending]
        return []

    def _advance(self, read: Read) -> bool:
        """Read for the head of the wait queue; False if it needs work."""
        records: list[Record] = []
        wanted = 1 if read.count is None else read.count
        try:
            while len(records) < wanted and self._has_work():
                record = self.record()
                if record is not None:
                    records.append(record)
                if record is None or self.at_end():
                    self._end_work()
                    if records:
                        break
        except (errors.OpError, OSError) as error:
            read.pending.settle_error(self._given_up(error))
            return True
        if not records:
            return False
        self._count(len(records))
        if read.count is None:
            key, value = records[0]
            read.pending.settle((_boxed(key), _boxed(value)))
        else:
            keys, values = zip(*records, strict=True)
            read.pending.settle((_vector(keys), _vector(values)))
        return True

    def _has_work(self) -> bool:
        if self._work is None:
            if not self._come:
                return False
            self._work = self._latest = self._come.popleft()
            self.begin(self._work)
            self._started += 1
        return True

    def _end_work(self) -> None:
        self.end()
        self._work = None
        self._finished += 1

    def _given_up(self, error: errors.OpError | OSError | ValueError) -> errors.OpError:
        """`error` as an OpError; the work it happened in is not tried again."""
        work, self._work = self._work, None
        self.end()
        self._started = self._finished
        if isinstance(error, errors.OpError):
            return error
        return file_error(work or b"", error)

    def _count(self, records: int) -> None:
        self._produced += records

    def _withdraw(self, read: Read) -> bool:
        """Take an abandoned read out of the wait queue; the dequeue made for it is abandoned too."""
        with self._lock:
            if read not in self._waiters:
                return False
            self._waiters.remove(read)
            waiting = read.waiting
        if waiting is not None:
            waiting.abandon(errors.cancelled("the read was abandoned"))
        return True

    # -- state --------------------------------------------------------------------------------

    def records_produced(self) -> int:
        """Since it was made or reset."""
        with self._lock:
            return self._produced

    def work_units_completed(self) -> int:
        """Since it was made or reset."""
        with self._lock:
            return self._finished

    def reset(self) -> None:
        """Back to the beginning: counters at 0, no work under way."""
        with self._lock:
            self._reset()

    def _reset(self) -> None:
        self._forget()
        self._latest = b""
        self._started = self._finished = self._produced = 0

    def _forget(self) -> None:
        if self._work is not None:
            self.end()
        self._work = None
        self._come.clear()

    def serialize(self) -> bytes:
        """The counters and the latest work.  Raises Unimplemented for readers of parts of files."""
        self._check_serializes("serialize")
        with self._lock:
            state = pb.ReaderBaseState(
                work_started=self._started,
                work_finished=self._finished,
                num_records_produced=self._produced,
                current_work=self._latest,
            )
        return state.SerializeToString()

    def restore(self, serialized: bytes) -> None:
        """Take up what `serialize` gave; what cannot be taken up leaves the reader as `reset` does.

        Raises Unimplemented, InvalidArgument.
        """
        self._check_serializes("restore")
        with self._lock:
            self._reset()
        try:
            state = pb.ReaderBaseState.FromString(serialized)
        except DecodeError:
            raise errors.invalid_argument(
                f"Could not parse state for {self}: {serialized[:80]!r}"
            ) from None
        if (
            min(state.work_started, state.work_finished, state.num_records_produced) < 0
            or state.work_started > state.work_finished
        ):
            raise errors.invalid_argument(
                f"inconsistent state for {self}: {state.work_started} work items were started, "
                f"{state.work_finished} finished, {state.num_records_produced} records produced"
            )
        with self._lock:
            self._started, self._finished = state.work_started, state.work_finished
            self._produced = state.num_records_produced
            self._latest = state.current_work

    def _check_serializes(self, what: str) -> None:
        if not self.serializes:
            raise errors.unimplemented(
                f"{self} cannot {what} its state; start over with reset() and a fresh queue"
            )

    def close(self) -> None:
        """Close the file under way."""
        with self._lock:
            self._forget()


class _Offered:
    """Work items that are still in their queue: `first` as `FIFOQueue.ahead` says."""

    __slots__ = ("claimed", "first", "names", "queue", "settled")

    def __init__(
        self, queue: FIFOQueue, first: int, names: list[bytes], settled: list[Pending[Any]]
    ) -> None:
        self.queue, self.first = queue, first
        self.names = names
        self.settled = settled
        self.claimed = 0


class _OnePerWork(Reader):
    """A reader that makes one record of a work item."""

    serializes = True

    def __init__(self, name: str, container: str = "", files: Files = ANYWHERE) -> None:
        super().__init__(name, container, files)
        self._offered: _Offered | None = None
        self._pause = 0  # offers that are not made

    def content(self, work: bytes) -> bytes:
        """Of a work item.  Raises OpError."""
        raise NotImplementedError

    def record(self) -> Record | None:
        """Of the work item in hand.  Raises what opening or reading the file raises."""
        assert self._work is not None
        return self._work, self.content(self._work)

    def at_end(self) -> bool:
        return True

    def offer(
        self,
        most: int,
        take: Callable[[Sequence[bytes]], int],
        queue: Queue,
        settled: list[Pending[Any]],
    ) -> int:
        """See Reader: of the work items that are in the queue, which stay there until they are claimed."""
        with self._lock:
            if self._pause:
                self._pause -= 1
                return 0
            busy = self._work is not None or self._come or self._serving
            if busy or not isinstance(queue, FIFOQueue):
                return 0
            if queue.spec.component_types != (dtypes.string,):
                return 0
            found = queue.ahead(most)
            if found is None or found[1][0].ndim != 1 or len(found[1][0]) < _FEWEST:
                return 0
            first, (names,) = found
            values = self._contents(names)
            if not values:
                return 0
            offered = self._offered = _Offered(queue, first, [*names[: len(values)]], settled)
            taken = 0
            try:
                taken = take(values)
            finally:
                self._offered = None
                self._come.extend(offered.names[taken : offered.claimed])
            if taken:
                self._latest = offered.names[taken - 1]
                self._started += taken
                self._finished += taken
                self._count(taken)
            return taken

    def _contents(self, names: Iterable[bytes]) -> list[bytes]:
        """Of these, as far as they can be read, and soon."""
        until = time.monotonic() + _READ_WITHIN_S
        values: list[bytes] = []
        for name in names:
            try:
                values.append(self.content(name))
            except errors.OpError:  # which a read of its own will say
                break
            if time.monotonic() >= until:
                if len(values) < _FEWEST:
                    self._pause = _ONE_BY_ONE
                break
        return values

    def keys_ahead(self, count: int) -> list[bytes]:
        """Names of work items that are offered."""
        assert self._offered is not None
        return self._offered.names[:count]

    def claim(self, count: int) -> bool:
        """Take their work items out of the queue, if they are the next ones there still."""
        offered = self._offered
        assert offered is not None
        if not offered.queue.take_ahead(offered.first, count, offered.settled):
            return False
        offered.claimed = count
        return True

    def read(self, queue: Queue) -> Pending[tuple[Array, Array]]:
        """See Reader; a finished record always needs the next work item."""
        return self._submit(Read(self, queue, None))


class IdentityReader(_OnePerWork):
    """The work item itself as key and value."""

    def content(self, work: bytes) -> bytes:
        """The work item."""
        return work


class WholeFileReader(_OnePerWork):
    """A file's whole content; the key is its name."""

    def content(self, work: bytes) -> bytes:
        """Of the file.  Raises what opening or reading it raises, as an OpError."""
        try:
            with self._files.open(work, "rb") as file:
                return file.read()
        except (OSError, ValueError) as error:
            raise file_error(work, error) from None


def _boxed(value: bytes) -> Array:
    box = np.empty((), object)
    box[()] = value
    return box


def _vector(values: Any) -> Array:
    vector = np.empty(len(values), object)
    vector[:] = values
    return vector
