"""Stages that begin a chain, of what is in memory: tensors, slices of tensors, ranges, random numbers.

Called by: ops.data (datasets).  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/{tensor,tensor_slice,sparse_tensor_slice,range}_dataset_op.cc and
experimental/random_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from headrace.run.data.chunks import Array, Chunk
from headrace.run.data.stage import Iteration, Position, Stage
from headrace.run.queues.philox import Philox

_NUMBERS: Final = 1 << 16  # of a range, at a time


class Tensors(Stage):
    """One element."""

    def __init__(self, run: Iteration, components: Sequence[Any]) -> None:
        super().__init__(run)
        self._components = tuple(components)
        self._given = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._given:
            return None
        self._given = True
        return Chunk.of([self._components])

    def save(self) -> Position:
        """Whether it was given."""
        return int(self._given)

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._given = bool(position)


class Slices(Stage):
    """The rows of arrays of one length; they are views, nothing is copied here."""

    def __init__(self, run: Iteration, components: Sequence[Array]) -> None:
        super().__init__(run)
        self._components = tuple(components)
        self._count = len(components[0])
        self._at = 0

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        start = self._at
        if start >= self._count:
            return None
        stop = self._at = min(self._count, start + most)
        return Chunk([column[start:stop] for column in self._components], stop - start)

    def save(self) -> Position:
        """How many were given."""
        return self._at

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._at = int(position)


class SparseSlices(Stage):
    """(indices, values, shape) of each row of a sparse tensor, whose indices are in order along its first axis."""

    def __init__(self, run: Iteration, indices: Array, values: Array, shape: Array) -> None:
        super().__init__(run)
        self._indices, self._values, self._shape = indices, values, shape
        self._count = int(shape[0])
        self._at = 0

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        start = self._at
        if start >= self._count:
            return None
        stop = self._at = min(self._count, start + most)
        bounds = np.searchsorted(self._indices[:, 0], np.arange(start, stop + 1))
        inner = self._shape[1:]
        rows = [
            (self._indices[first:last, 1:], self._values[first:last], inner)
            for first, last in pairwise(bounds.tolist())
        ]
        return Chunk.of(rows)

    def save(self) -> Position:
        """How many were given."""
        return self._at

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._at = int(position)


class Range(Stage):
    """start, start + step, … before stop."""

    def __init__(
        self, run: Iteration, start: int, stop: int, step: int, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(run)
        self._numbers = range(start, stop, step)
        self._dtype = dtype
        self._at = 0

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        part = self._numbers[self._at : self._at + min(most, _NUMBERS)]
        if not part:
            return None
        self._at += len(part)
        column = np.arange(part.start, part.stop, part.step, dtype=np.int64)
        return Chunk([column.astype(self._dtype, copy=False)], len(part), True)

    def save(self) -> Position:
        """How many were given."""
        return self._at

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._at = int(position)


class RandomNumbers(Stage):
    """Numbers below 2**32, as int64, without end."""

    def __init__(self, run: Iteration, seed: int, seed2: int) -> None:
        super().__init__(run)
        self._seeds = seed, seed2
        self._random = Philox(seed, seed2)
        self._given = 0

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        most = min(most, _NUMBERS)
        self._given += most
        return Chunk([self._random.many(most).astype(np.int64)], most, True)

    def save(self) -> Position:
        """The seeds, and how many were given."""
        return [*self._seeds, self._given]

    def restore(self, position: Position) -> None:
        """See `save`."""
        seed, seed2, self._given = position
        self._seeds = seed, seed2
        self._random = Philox(seed, seed2)
        skip(self._random, self._given)


def skip(random: Philox, count: int) -> None:
    """Draw so many numbers for nothing."""
    while count > 0:
        some = min(count, _NUMBERS)
        random.many(some)
        count -= some
