"""Shuffle: elements in random order, TensorFlow's order for TensorFlow's seeds.

A buffer is filled before each element that leaves; that is drawn among those of the oldest pass that has any there, and
the first of that pass takes its place.  Elements do not move meanwhile: they stay in rows of a table, and what is drawn
and moved are the rows' numbers.  Many are drawn first, then their rows are taken by one fancy index a component.

Seeds: a dataset draws a pair for each pass from a generator of its own (`SeedGenerator`), which several may share.
Called by: ops.data (datasets).  Threads: as run.data.stage; `SeedGenerator` any.
Source: TF 1.15 core/kernels/data/shuffle_dataset_op.cc, for behaviour; seeds and orders compared with the oracle
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final

import numpy as np

from headrace.run.data.chunks import Array, Chunk, Column, column_bytes, column_of
from headrace.run.data.sources import skip
from headrace.run.data.stage import MANY, Dataset, Iteration, Position, Stage
from headrace.run.queues.philox import Philox

Seeds = tuple[int, int]

_MOST: Final = 256  # at a time: as many rows more than the buffer has are kept


class SeedGenerator:
    """The seeds of each pass over a dataset: the same for all, or drawn from a stream that the given ones begin."""

    def __init__(self, seed: int, seed2: int, reshuffle: bool, apart: bool = False) -> None:
        """reshuffle: each pass has its own.  apart: where a dataset is in several places of another, each has them from
        the beginning.  Two zeros: seeds that nobody knows.
        """
        self.reshuffle, self._apart = reshuffle, apart
        self._lock = threading.Lock()
        if not (seed or seed2):
            unknown = Philox(0, 0)
            seed, seed2 = unknown.next(), unknown.next()
        self._begun = self._seeds = seed, seed2
        self._random = Philox(seed, seed2)
        self._drawn = 0

    def at(self, run: Iteration) -> SeedGenerator:
        """Of the stage that is being made."""
        if not self._apart:
            return self
        places = run.seeds.setdefault(self, {})
        found: SeedGenerator | None = places.get(run.place)
        if found is None:
            found = SeedGenerator(*self._begun, self.reshuffle) if places else self
            places[run.place] = found
        return found

    def next(self) -> Seeds:
        """Of the pass that begins."""
        with self._lock:
            if not self.reshuffle:
                return self._seeds
            self._drawn += 2
            return self._random.next(), self._random.next()

    def save(self) -> list[int]:
        """Where its numbers are."""
        with self._lock:
            return [*self._begun, *self._seeds, self._drawn]

    def restore(self, position: list[int]) -> None:
        """See `save`."""
        seed, seed2, first, second, drawn = position
        with self._lock:
            self._begun, self._seeds, self._drawn = (seed, seed2), (first, second), drawn
            self._random = Philox(seed, seed2)
            skip(self._random, drawn)


class Shuffle(Stage):
    """`passes` passes over a dataset (for ever if negative), through a buffer of `size` elements.

    Elements of a pass leave before those of the next one that are in the buffer already.
    """

    def __init__(
        self, run: Iteration, source: Dataset, size: int, seeds: SeedGenerator, passes: int = 1
    ) -> None:
        super().__init__(run)
        self._source = source
        self._size = size
        self._generator = seeds.at(run)
        self._passes = passes
        self._pass = 0
        self._given = False  # anything in this pass
        self._began = False
        self._seeds: Seeds = (0, 0)
        self._random = Philox(1, 1)
        self._drawn = 0
        self._table = Table()
        self._ring: list[int] = [0] * min(size, MANY)  # rows; grows as it fills, up to `size`
        self._slices: deque[list[int]] = deque()  # [start, stop) in the ring, one a pass
        self._count = 0

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if not self._began:
            self._began = True
            self._reseed(self._generator.next())
        most = min(most, _MOST)
        while True:
            missing = self._size - 1 - self._count
            chunk = self._next(min(missing, MANY) if missing else most)
            if chunk is None:
                return self._drawn_out(most) if self._count else None
            if not missing:  # one more, and an element leaves
                return self._exchanged(chunk)
            for row in self._table.put(chunk):
                self._append(row)
            self.run.check()

    def _next(self, most: int) -> Chunk | None:
        """Elements of the pass that is under way, or of the next one; None where there are no more."""
        while True:
            if not self.inputs:
                if 0 <= self._passes <= self._pass or (self._pass and self._is_empty):
                    return None
                self.inputs = (self.run.stage_of(self._source, 0, self.place),)
                self._slices.append([self._end, self._end])
                self._given = False
            chunk = self.inputs[0].pull(most)
            if chunk is not None:
                self._given = True
                return chunk
            stage, self.inputs = self.inputs[0], ()
            stage.close()
            self._pass += 1
            self.run.check()

    @property
    def _is_empty(self) -> bool:
        """Whether the latest pass gave nothing, so that a pass without end would never give anything."""
        return not self._given and self._passes < 0

    @property
    def _end(self) -> int:
        return self._slices[-1][1] if self._slices else 0

    def _append(self, row: int) -> None:
        latest = self._slices[-1]
        at = latest[1] % self._size
        if at >= len(self._ring):
            self._ring.extend([0] * min(len(self._ring) + 1, self._size - len(self._ring)))
        self._ring[at] = row
        latest[1] += 1
        self._count += 1

    def _exchanged(self, chunk: Chunk) -> Chunk:
        """As many out as come in, one by one."""
        rows = self._table.put(chunk)
        start, stop = self._slices[0]
        alone = len(self._slices) == 1
        if len(self._ring) == self._size and (alone or stop - start >= len(rows)):
            return self._table.take(self._drawn_from_oldest(rows, alone))
        out = []
        for row in rows:
            self._append(row)
            out.append(self._leaves())
        return self._table.take(out)

    def _drawn_from_oldest(self, rows: list[int], alone: bool) -> list[int]:
        """What `_leaves` gives after each of `rows` was appended, where the oldest pass lasts for all of them.

        alone: it is the latest, too, so that it stays as long as the buffer.
        """
        ring, size, count = self._ring, self._size, len(rows)
        oldest, latest = self._slices[0], self._slices[-1]
        start, end = oldest[0], latest[1]
        lengths = size if alone else oldest[1] - start - np.arange(count)
        out = []
        for row, at in zip(rows, (self._random.many(count) % lengths).tolist(), strict=True):
            ring[end % size] = row
            first, drawn = start % size, (start + at) % size
            out.append(ring[drawn])
            ring[drawn] = ring[first]
            start += 1
            end += 1
        latest[1], oldest[0] = end, start
        self._drawn += count
        return out

    def _drawn_out(self, most: int) -> Chunk:
        return self._table.take([self._leaves() for _ in range(min(most, self._count))])

    def _leaves(self) -> int:
        """The row of the element that the next number draws.  With a pass its random numbers begin anew."""
        slices, ring, size = self._slices, self._ring, self._size
        oldest = slices[0]
        while oldest[0] == oldest[1]:
            slices.popleft()
            oldest = slices[0]
            self._reseed(self._generator.next())
        start, stop = oldest
        self._drawn += 1
        at = (start + self._random.next() % (stop - start)) % size
        first = start % size
        row = ring[at]
        ring[at] = ring[first]
        oldest[0] = start + 1
        self._count -= 1
        return row

    def _reseed(self, seeds: Seeds) -> None:
        self._seeds, self._drawn = seeds, 0
        self._random = Philox(*seeds)

    def buffered(self) -> tuple[int, int] | None:
        """What is in the buffer."""
        return self._count, self._table.size

    def limit(self) -> int | None:
        """See `Stage`."""
        return self._size

    def save(self) -> Position:
        """The buffer in the order of its ring, and where the random numbers and the passes are."""
        ring = [
            self._ring[at % self._size] for start, stop in self._slices for at in range(start, stop)
        ]
        held = [self._table.copy(ring)] if ring else []
        lengths = [stop - start for start, stop in self._slices]
        return {
            "held": held,
            "lengths": lengths,
            "start": self._slices[0][0] if self._slices else 0,
            "seeds": list(self._seeds),
            "drawn": self._drawn,
            "generator": self._generator.save(),
            "pass": [self._pass, int(self._given), int(self._began), len(self.inputs)],
        }

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._pass, given, began, made = position["pass"]
        self._given, self._began = bool(given), bool(began)
        seed, seed2 = position["seeds"]
        self._reseed((seed, seed2))
        self._drawn = position["drawn"]
        skip(self._random, self._drawn)
        self._generator.restore(position["generator"])
        rows = self._table.put(position["held"][0]) if position["held"] else []
        at = position["start"]
        for length in position["lengths"]:
            self._slices.append([at, at])
            for _ in range(length):
                self._append_at(rows.pop(0))
            at += length
        self.inputs = (self.run.stage_of(self._source, 0, self.place),) if made else ()

    def _append_at(self, row: int) -> None:
        place = self._slices[-1][1] % self._size
        if place >= len(self._ring):
            self._ring.extend([0] * (place + 1 - len(self._ring)))
        self._append(row)


class Table:
    """Rows of elements: columns that grow, and the numbers of those rows that are free."""

    def __init__(self) -> None:
        self._columns: list[Column] | None = None
        self._free: list[int] = []
        self._rows = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(column_bytes, list(self._columns or ())))

    def put(self, chunk: Chunk) -> list[int]:
        """Add elements; their rows, in their order."""
        count = chunk.count
        if len(self._free) < count:
            self._grow(chunk, count)
        rows = self._free[-count:]
        del self._free[-count:]
        assert self._columns is not None
        for number, (column, values) in enumerate(zip(self._columns, chunk.columns, strict=True)):
            if isinstance(column, np.ndarray) and not _fits(column, values):
                column = self._columns[number] = list(column)
            if isinstance(column, np.ndarray):
                column[rows] = values
            else:
                for row, value in zip(rows, values, strict=True):
                    column[row] = value
        return rows

    def take(self, rows: list[int]) -> Chunk:
        """Remove the elements in `rows`."""
        chunk = self.copy(rows)
        self._free += rows
        for column in self._columns or ():
            if (
                isinstance(column, list) or column.dtype == object
            ):  # what it refers to need not stay
                for row in rows:
                    column[row] = None
        return chunk

    def copy(self, rows: list[int]) -> Chunk:
        """The elements in `rows`."""
        where = np.array(rows, np.intp)
        columns = [_picked(column, rows, where) for column in self._columns or ()]
        return Chunk(columns, len(rows), True)

    def _grow(self, chunk: Chunk, count: int) -> None:
        more = max(count, self._rows)
        if self._columns is None:
            self._columns = [
                np.empty((more, *values.shape[1:]), values.dtype)
                if isinstance(values, np.ndarray)
                else [None] * more
                for values in chunk.columns
            ]
        else:
            self._columns = [_grown(column, more) for column in self._columns]
        self._free += range(self._rows + more - 1, self._rows - 1, -1)
        self._rows += more


def _fits(column: Array, values: Column) -> bool:
    return isinstance(values, np.ndarray) and values.shape[1:] == column.shape[1:]


def _grown(column: Column, more: int) -> Column:
    if isinstance(column, list):
        return column + [None] * more
    larger = np.empty((len(column) + more, *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger


def _picked(column: Column, rows: list[int], where: Array) -> Column:
    if isinstance(column, np.ndarray):
        return column[where]
    values: list[Any] = [column[row] for row in rows]
    if all(isinstance(value, np.ndarray) for value in values):
        return column_of(values)
    return values
