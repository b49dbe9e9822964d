"""Batch dequeuer: many steps that read a record, compute on it and enqueue it, run as one.

Nobody can tell it from the steps one after the other: the records are those that the reader has in memory, or reads
next from the file that is open; they are computed together, and then as many go into the queue as find room without
waiting, in one moment in which the reader counts them as read.  The others stay with the reader as if nobody had
looked.  Where a step would wait, open a file or fail, nothing is done: the caller then runs that step by itself.

Registers are those of run.exec.program, but that what varies from record to record is a *column*: an array with a
record along axis 0, or a list with one value for each.
Called by: client.local, for the threads of queue runners.  Made by: plan.batch_dequeuer.
Threads: any.  Locks, in this order: the reader's, whatever `gate` takes, the queue's; callbacks run outside of all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.run.exec.instructions import Kernel, Registers
from headrace.run.exec.kernel import StepState
from headrace.run.pending import Pending, announce_all
from headrace.run.queues.column_work import Column, Draw, Runs, as_column
from headrace.run.queues.columns import Array
from headrace.run.queues.queue import Queue
from headrace.run.readers.reader import Reader
from headrace.run.uninterrupted import changes

Gate = Callable[[Callable[[], int]], int]
"""Calls what it is given, or not, and then gives 0; nobody who would change its mind comes between."""

Handle = tuple[Kernel, int]
"""What looks a reader or queue up for a step, and the register that it goes to."""

_MOST: Final = 128
"""Records at a time: enough that what is done once for all of them costs nothing, and done within a moment."""
_SOME: Final = 8
"""The same of work that takes long, before it is known how long."""
_MOMENT_S: Final = 1e-2
_LONG_S: Final = 1e-3
"""Of a record that takes longer than that (of its thread's time: what others take has nothing to do with it) threads of
queue runners that work side by side make no less."""
_ONE_BY_ONE, _MOST_ONE_BY_ONE = 64, 4096
"""Steps that are left to the caller then, twice as many each time."""


@changes
class BatchDequeuer:
    """See the module header."""

    def __init__(
        self,
        template: Registers,
        handles: Sequence[Handle],
        reader: int,
        names: int,
        key: int | None,
        value: int,
        work: Sequence[Runs],
        draws: Sequence[Draw],
        queue: int,
        components: Sequence[tuple[int, bool]],
        long: bool,
    ) -> None:
        """Registers of the reader, of its queue of work items, of a record's key (None: not wanted) and value, of the
        queue and of what goes in, with whether that is a column.  handles: look up reader and queues.
        draws: those of the work.  long: the work may take long.
        """
        self._template = template
        self._handles = handles
        self._reader = reader
        self._names = names
        self._key = key
        self._value = value
        self._work, self._draws = work, draws
        self._queue = queue
        self._components = components
        self._careful = 0  # steps to leave to the caller
        self._long = long
        self._most = _SOME if long else _MOST
        self._pause = _ONE_BY_ONE
        self._slow = 0  # batches in a row that took long

    def run(self, step: StepState, gate: Gate) -> int:
        """Run as many steps as can be run now, in one moment that `gate` allows; how many.

        0: the next step may have to wait, to open a file or to fail.  One thread at a time.
        """
        if self._careful:
            self._careful -= 1
            return 0
        registers = self._template.copy()
        registers[0] = step
        for look_up, register in self._handles:
            registers[register] = look_up(step)
        reader, queue, names = (registers[at] for at in (self._reader, self._queue, self._names))
        if not isinstance(reader, Reader) or not isinstance(queue, Queue) or queue is names:
            return 0
        room = min(self._most, queue.room())
        if room <= 0:
            return 0
        told: list[Pending[Any]] = []
        try:
            with step.runtime.workers:
                return reader.offer(
                    room,
                    lambda records: self._take(registers, reader, queue, records, gate, told),
                    names,
                    told,
                )
        finally:
            announce_all(told)

    def _take(
        self,
        registers: Registers,
        reader: Reader,
        queue: Queue,
        records: Sequence[bytes],
        gate: Gate,
        told: list[Pending[Any]],
    ) -> int:
        """Compute on records and enqueue; how many went in.  What is to be announced goes to `told`."""
        count, began, taken = len(records), time.thread_time(), 0
        try:
            batch = self._computed(registers, reader, records)
            if batch is None:
                self._careful = count
                return 0

            def put() -> int:
                fit = min(count, queue.room())
                if fit <= 0 or not reader.claim(fit):
                    return 0
                some = batch if fit == count else [values[:fit] for values in batch]
                return queue.enqueue_each(some, fit, told)

            taken = gate(put)
            if taken < 0:
                self._careful, taken = count, 0
            elif self._long:
                self._took((time.thread_time() - began) / count)
            return taken
        finally:
            if taken < count:
                for draw in self._draws:
                    draw.give_back(registers, taken)

    def _computed(
        self, registers: Registers, reader: Reader, records: Sequence[bytes]
    ) -> list[Column] | None:
        """What goes in; None if one of the steps fails, which will say so: those before it go one by one, too."""
        count = len(records)
        try:
            registers[self._value] = _strings(records)
            if self._key is not None:
                registers[self._key] = _strings(reader.keys_ahead(count))
            with np.errstate(all="ignore"):
                for work in self._work:
                    work.run(registers, count)
            return [
                as_column(registers[register], is_row, count)
                for register, is_row in self._components
            ]
        except Exception:
            return None

    def _took(self, each_s: float) -> None:
        """A record took so long; once that may be for something else that the machine had to do."""
        if each_s > _LONG_S:
            self._most = _SOME
            self._slow += 1
            if self._slow > 1:
                self._careful = self._pause
                self._pause = min(2 * self._pause, _MOST_ONE_BY_ONE)
        else:
            self._slow, self._pause = 0, _ONE_BY_ONE
            self._most = min(max(int(_MOMENT_S / each_s), _SOME), _MOST)


def _strings(values: Sequence[bytes]) -> Array:
    column: Array = np.empty(len(values), object)
    column[:] = values
    return column
