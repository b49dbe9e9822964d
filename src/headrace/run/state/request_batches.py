"""Batches of requests: rows that steps bring are gathered, computed on together, and given back to who brought them.

A batch is computed on when it is full, or its time since its first request is over.  A request whose step gives up
leaves its batch, unless that is being computed on.
Called by: ops.flow.batch_functions.  Threads: any; one lock a scheduler.  Who computes is a callback thread, of which
there are as many as there are batches to wait for, and no more than asked for; the last one ends with the last batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import changes

Rows = tuple[Any, ...]
"""A value for each argument; all have the same number of rows."""
Compute = Callable[[Sequence[Any]], Sequence[Any]]
Start = Callable[[Callable[[], None]], object]
"""Has a thread of its own call what it is given."""


@dataclass(frozen=True)
class Limits:
    """threads: that compute at a time.  rows: of a request.  batch_rows: of a batch.  wait_s: for a batch to be full.
    waiting: batches that may wait.  sizes: that batches are filled up to, ascending; any, if there are none.
    """

    threads: int
    rows: int
    batch_rows: int
    wait_s: float
    waiting: int
    sizes: tuple[int, ...] = ()

    def filled(self, rows: int) -> int:
        """How many rows a batch of so many gets."""
        return next((size for size in self.sizes if size >= rows), rows)


@dataclass(eq=False)
class _Request:
    """parts: what each of its pieces gave; left: pieces that are not computed yet."""

    compute: Compute
    pending: Pending[list[Any]]
    left: int = 0
    parts: dict[int, Rows] = field(default_factory=dict)


@dataclass(eq=False)
class _Piece:
    request: _Request
    number: int
    rows: Rows
    count: int


class _Batch:
    """Pieces of requests that are computed on together."""

    def __init__(self, until: float) -> None:
        self.pieces: list[_Piece] = []
        self.until = until

    @property
    def count(self) -> int:
        return sum(piece.count for piece in self.pieces)


@changes
class RequestBatches(Resource):
    """The scheduler of one function; see the module header."""

    def __init__(self, name: str, limits: Limits, splits: bool) -> None:
        """splits: requests of more rows than a batch has left are computed in pieces."""
        super().__init__(name)
        self._limits, self._splits = limits, splits
        self._changed = threading.Condition()
        self._batches: deque[_Batch] = deque()  # the last one may be open
        self._threads = 0

    def __str__(self) -> str:
        return f"batches of {self.label!r}"

    def compute(self, rows: Rows, compute: Compute, start: Start) -> Pending[list[Any]]:
        """What `compute` gives of these rows, beside those of others, with as many rows.

        rows: at least one.  compute: that of the last request of a batch is called.
        Raises InvalidArgument (too many rows), Unavailable (too many batches wait).
        """
        count = len(rows[0])
        if count > self._limits.rows:
            raise errors.invalid_argument(
                f"Task size {count} is larger than maximum input batch size {self._limits.rows}: "
                "pass fewer rows at a time, or allow for more by max_batch_size"
            )
        pending: Pending[list[Any]] = Pending(
            WaitInfo("batch", str(self), self._detail), self._withdraw
        )
        with self._changed:
            self._add(_Request(compute, pending), rows, count)
            begin = self._threads < min(max(1, self._limits.threads), len(self._batches))
            self._threads += begin
            self._changed.notify_all()
        if begin:
            try:
                start(self._serve)
            except BaseException:  # no more threads are to be had
                with self._changed:
                    self._threads -= 1
                raise
        return pending

    def _detail(self) -> str:
        waiting = [batch.count for batch in self._batches]
        return (
            f"batches of {waiting} rows wait, for {self._limits.batch_rows} or {self._limits.wait_s:g} s; "
            f"{self._threads} threads compute"
        )

    def _add(self, request: _Request, rows: Rows, count: int) -> None:
        most = self._limits.batch_rows
        room = most - self._batches[-1].count if self._batches else 0
        first = count if count <= room else (room if self._splits else 0)
        new = -(-(count - first) // most)
        if len(self._batches) + new > self._limits.waiting:
            raise errors.unavailable(
                f"The batch scheduling queue to which this task was submitted is full: {len(self._batches)} batches "
                f"wait, of {self._limits.waiting} (max_enqueued_batches)"
            )
        until = time.monotonic() + self._limits.wait_s
        self._batches.extend(_Batch(until) for _ in range(new))
        at = 0
        for batch in list(self._batches)[-new - bool(first) :]:
            size = min(count - at, first if first and not at else most)
            piece = _Piece(
                request, request.left, tuple(each[at : at + size] for each in rows), size
            )
            batch.pieces.append(piece)
            request.left += 1
            at += size

    def _withdraw(self, pending: Pending[Any]) -> bool:
        with self._changed:
            self._leave({id(pending)})
            self._changed.notify_all()
        return True

    def _leave(self, gone: set[int]) -> None:
        for batch in self._batches:
            batch.pieces = [each for each in batch.pieces if id(each.request.pending) not in gone]
        self._batches = deque(batch for batch in self._batches if batch.pieces)

    def close(self) -> None:
        """Requests that are not computed on are Cancelled."""
        with self._changed:
            waiting = {
                piece.request.pending: None for batch in self._batches for piece in batch.pieces
            }
            self._batches.clear()
            error = errors.cancelled(f"{self} were deleted while requests waited")
            told = [pending for pending in waiting if pending.settle_error(error)]
            self._changed.notify_all()
        announce_all(told)

    # -- in a callback thread -----------------------------------------------------------------

    def _serve(self) -> None:
        while (batch := self._next()) is not None:
            _computed(batch, self._limits)

    def _next(self) -> _Batch | None:
        """The next batch that is full, or has waited long enough; None: there is none."""
        with self._changed:
            while self._batches:
                first = self._batches[0]
                left_s = first.until - time.monotonic()
                full = len(self._batches) > 1 or first.count >= self._limits.batch_rows
                if full or left_s <= 0:
                    return self._batches.popleft()
                self._changed.wait(left_s)
            self._threads -= 1
            return None


def _computed(batch: _Batch, limits: Limits) -> None:
    """Compute on all pieces of the batch and tell whose they are."""
    pieces = batch.pieces
    try:
        results = _results(pieces, limits.filled(batch.count))
    except errors.OpError as error:
        for piece in pieces:
            piece.request.pending.reject(error)
        return
    at = 0
    for piece in pieces:
        request, mine = piece.request, tuple(each[at : at + piece.count] for each in results)
        at += piece.count
        request.parts[piece.number] = mine
        if len(request.parts) == request.left:
            in_order = [request.parts[number] for number in range(request.left)]
            request.pending.resolve([_joined(each) for each in zip(*in_order, strict=True)])


def _results(pieces: list[_Piece], rows: int) -> Sequence[Any]:
    missing = rows - sum(piece.count for piece in pieces)
    columns = list(zip(*(piece.rows for piece in pieces), strict=True))
    for column in columns:
        if len({each.shape[1:] for each in column}) > 1:
            raise errors.invalid_argument(
                "Dimensions of inputs should match: requests of one batch have rows of shapes "
                f"{sorted({each.shape[1:] for each in column})}"
            )
    filled = [
        np.concatenate([*column, *[column[0][:1]] * missing])
        if missing or len(column) > 1
        else column[0]
        for column in columns
    ]
    found = [np.asarray(each) for each in pieces[-1].request.compute(filled)]
    for each in found:
        if not each.ndim:
            raise errors.failed_precondition(
                "Batched output tensor has 0 dimensions: the function is to give a row for each that it gets"
            )
        if len(each) != rows:
            raise errors.failed_precondition(
                "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input "
                f"tensors: it has {len(each)} rows and got {rows}"
            )
    return found


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if len(parts) > 1 else np.array(parts[0])
