"""Prefetch: elements are made ahead, by a thread, where making them takes longer than handing them over would.

The first ones are pulled by whoever wants them, and the time is taken.  Only when an element has cost more than
`WORTH_S` a thread takes over: it keeps up to `size` elements in a buffer, and stops until there is room.  So a chain of
cheap stages costs no hand-over, and what is slow is done while the consumer does something else.  Either way elements
and errors come in the same order.  A buffer that is tuned by itself holds as many elements as fit into `TUNED_BYTES`.

Called by: ops.data (datasets).  Threads: one of its own, which the iterator owns, and the consumer's; `_lock` guards
the buffer and is never held while a stage is pulled.  Ends by: the scope of its iteration, or `close`.
Source: TF 1.15 core/kernels/data/prefetch_dataset_op.cc, for behaviour
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final

from headrace.base import errors
from headrace.run.data.chunks import Chunk
from headrace.run.data.stage import (
    Blocked,
    Dataset,
    Interrupted,
    Iteration,
    Position,
    Stage,
    typed,
    waited_for,
)
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope

WORTH_S: Final = 500e-6
"""Seconds an element: from there on a thread is worth its hand-overs."""
TUNED_BYTES: Final = 1 << 24
TUNED_MOST: Final = 64
_SMOOTHING: Final = 0.25

AUTOTUNE: Final = -1


class Prefetch(Stage):
    """See the module header."""

    def __init__(
        self, run: Iteration, source: Stage, size: int, scope: Scope, worth_s: float = WORTH_S
    ) -> None:
        """size: AUTOTUNE, or elements; 0: none are made ahead.  scope: the one that `source` was made with."""
        super().__init__(run, source)
        self._size = size
        self._scope = scope
        self._worth_s = worth_s
        self._cost_s = 0.0
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._buffer: deque[Chunk | errors.OpError] = deque()
        self._count = self._bytes = 0
        self._running = self._ended = False
        self._pausing = 0  # who wants the thread to stand still
        self._pulling = False
        self._waiting: Pending[None] | None = None
        self._behind: Pending[object] | None = None  # what the thread waits for

    @classmethod
    def over(
        cls, run: Iteration, dataset: Dataset, size: int, worth_s: float = WORTH_S
    ) -> Prefetch:
        """Of a dataset, whose stages end with this one."""
        scope = Scope(parent=run.scope)
        source = run.within(scope).stage_of(dataset, 0)
        return cls(run, source, size, scope, worth_s)

    # -- the consumer -------------------------------------------------------------------------

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        with self._lock:
            if self._buffer:
                return self._taken(most)
            if self._ended:
                return None
            if self._running:
                raise Blocked(self._wait())
        if self._size == 0:
            return self.inputs[0].pull(most)
        if self._cost_s > self._worth_s and self.run.threads is not None:
            with self._lock:
                self._running = True
            self.run.threads.start(self._produce, name=self.label)
            return self.pull(most)
        return self._pulled_here(most)

    def _pulled_here(self, most: int) -> Chunk | None:
        self.run.check()
        began = time.perf_counter()
        chunk = self.inputs[0].pull(most)
        if chunk is None:
            self._ended = True
            return None
        cost_s = (time.perf_counter() - began) / chunk.count
        self._cost_s += (cost_s - self._cost_s) * (_SMOOTHING if self._cost_s else 1.0)
        return chunk

    def _taken(self, most: int) -> Chunk:
        first = self._buffer.popleft()
        self._room.notify_all()
        if isinstance(first, errors.OpError):
            raise errors.copied(first)
        if first.count > most:
            self._buffer.appendleft(first.part(most, first.count))
            first = first.part(0, most)
        self._count -= first.count
        self._bytes -= first.size
        return first

    def _wait(self) -> Pending[None]:
        if self._waiting is None or self._waiting.done:
            self._waiting = Pending(WaitInfo("get_next", self.label, self._why_empty, self))
        return self._waiting

    def _why_empty(self) -> str:
        behind = self._behind
        if behind is None:
            return "its buffer is empty, and its thread makes an element"
        return f"its buffer is empty, and its thread waits for {waited_for(behind)}"

    # -- the thread ---------------------------------------------------------------------------

    def _produce(self) -> None:
        """Fill the buffer until the end."""
        while True:
            with self._lock:
                room = self._wait_for_room()
                if room == 0:
                    self._running = False
                    break
                self._pulling = True
            made: Chunk | errors.OpError | None = None
            blocked: Pending[object] | None = None
            ended = False
            try:
                made = self.inputs[0].pull(room)
                ended = made is None
            except Blocked as found:
                blocked = found.pending
            except Interrupted:
                ended = self._scope.error is not None
            except Exception as error:  # the consumer's to see, in its place
                made = errors.detached(typed(error, self.label))
            self._note(made, ended)
            if ended:
                break
            if blocked is not None and not self._waited(blocked):
                break
        if self._scope.error is not None:
            super().close()
        self._wake()

    def _waited(self, pending: Pending[object]) -> bool:
        """Wait until a stage before this one can go on; False if it is over."""
        self._behind = pending
        try:
            pending.wait(self._scope)
        except errors.OpError:
            return self._scope.error is None
        finally:
            self._behind = None
        return True

    def _wait_for_room(self) -> int:
        """How many elements there is room for; 0 if it is over.  Under the lock."""
        try:
            self._scope.wait_for(
                self._room, lambda: not self._pausing and self._free() > 0, "room in a buffer"
            )
        except errors.OpError:
            return 0
        return self._free()

    def _free(self) -> int:
        if self._size != AUTOTUNE:
            return self._size - self._count
        if self._count == 0:
            return 1
        return min(
            TUNED_MOST - self._count,
            (TUNED_BYTES - self._bytes) * self._count // max(1, self._bytes),
        )

    def _note(self, made: Chunk | errors.OpError | None, ended: bool) -> None:
        with self._lock:
            self._pulling = False
            if made is not None:
                self._buffer.append(made)
            if isinstance(made, Chunk):
                self._count += made.count
                self._bytes += made.size
            if ended:
                self._ended, self._running = True, False
            self._room.notify_all()
        if made is not None or ended:
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.resolve(None)

    # -- for all ------------------------------------------------------------------------------

    def buffered(self) -> tuple[int, int] | None:
        """What is there."""
        return self._count, self._bytes

    def limit(self) -> int | None:
        """See `Stage`; None: as many as fit into some memory."""
        return None if self._size == AUTOTUNE else self._size

    def save(self) -> Position:
        """What is in the buffer.  The thread stands still until `saved`."""
        with self._lock:
            self._pausing += 1
            self._scope.wait_for(
                self._room, lambda: not self._pulling, "a thread that makes elements"
            )
            return {
                "held": [each for each in self._buffer if isinstance(each, Chunk)],
                "ended": int(self._ended),
            }

    def saved(self) -> None:
        """See `Stage`."""
        with self._lock:
            self._pausing -= 1
            self._room.notify_all()

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._buffer = deque(position["held"])
        self._count = sum(chunk.count for chunk in position["held"])
        self._bytes = sum(chunk.size for chunk in position["held"])
        self._ended = bool(position["ended"])

    def close(self) -> None:
        """The thread ends; whoever waits is told."""
        self._scope.cancel(errors.cancelled("the iteration has ended"))
        with self._lock:
            ended = not self._running
            self._ended = True
            self._room.notify_all()
        if ended:
            super().close()
        self._wake()
