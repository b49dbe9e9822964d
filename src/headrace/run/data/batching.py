"""Stages that join elements, and cut them again: batch, padded batch, dense to sparse, unbatch.

Called by: ops.data (datasets).  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/{batch,padded_batch,unbatch}_dataset_op.cc and
experimental/{unbatch,dense_to_sparse_batch}_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.run.data.chunks import (
    Array,
    Chunk,
    Column,
    column_of,
    joined,
    total_bytes,
    values_of,
)
from headrace.run.data.positions import failure_of, failure_tree
from headrace.run.data.stage import Iteration, Position, Stage


class Gathering(Stage):
    """Takes `size` elements for one.  What was gathered goes with an element that failed."""

    def __init__(self, run: Iteration, source: Stage, size: int, drop_remainder: bool) -> None:
        super().__init__(run, source)
        self._size = size
        self._drop = drop_remainder
        self._held: list[Chunk] = []
        self._count = 0
        self._failed: errors.OpError | None = None  # behind what was given last
        self._ended = False

    def made(self, chunk: Chunk, batches: int) -> Chunk:
        """So many batches of a chunk that has their elements, all of one size.  Raises OpError."""
        raise NotImplementedError

    def next_of(self, most: int) -> Chunk | None:
        """Elements for batches, as `pull` of the source."""
        return self.inputs[0].pull(most)

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise errors.copied(failed)
        size = self._size
        while self._count < size and not self._ended:
            try:
                chunk = self.next_of(most * size - self._count)
            except errors.OpError:
                self._held, self._count = [], 0
                raise
            if chunk is None:
                self._ended = True
            else:
                self._held.append(chunk)
                self._count += chunk.count
            self.run.check()
        batches = min(most, self._count // size)
        if batches == 0:
            return self._remainder()
        return self._of(self._taken(batches * size), batches)

    def _taken(self, count: int) -> Chunk:
        whole = joined(self._held)
        self._count -= count
        self._held = [whole.part(count, whole.count)] if self._count else []
        return whole.part(0, count)

    def _remainder(self) -> Chunk | None:
        if self._count == 0:
            return None
        rest = self._taken(self._count)
        return None if self._drop else self._of(rest, 1)

    def _of(self, chunk: Chunk, batches: int) -> Chunk:
        """As `made`; where one of several batches fails, those before it are given first."""
        if batches == 1:
            return self.made(chunk, 1)
        try:
            return self.made(chunk, batches)
        except errors.OpError:
            size = self._size
            good: list[Chunk] = []
            for at in range(batches):
                try:
                    good.append(self.made(chunk.part(at * size, (at + 1) * size), 1))
                except errors.OpError as error:
                    rest = chunk.part((at + 1) * size, chunk.count) if at + 1 < batches else None
                    if rest is not None:
                        self._held = [rest, *self._held]
                        self._count += rest.count
                    if not good:
                        raise
                    self._failed = errors.detached(error)
                    break
            return joined(good)

    def buffered(self) -> tuple[int, int] | None:
        """What is gathered for the next batch."""
        return self._count, total_bytes(list(self._held))

    def limit(self) -> int | None:
        """See `Stage`."""
        return self._size

    def save(self) -> Position:
        """What is gathered."""
        return [int(self._ended), list(self._held)]

    def restore(self, position: Position) -> None:
        """See `save`."""
        ended, held = position
        self._ended = bool(ended)
        self._held = list(held)
        self._count = sum(chunk.count for chunk in self._held)


class Batch(Gathering):
    """`size` elements of one shape along a new first axis."""

    def made(self, chunk: Chunk, batches: int) -> Chunk:
        """See `Gathering`."""
        columns: list[Column] = []
        each = chunk.count // batches
        for number, column in enumerate(chunk.columns):
            if isinstance(column, list):
                column = _stacked(column, number, each)
            columns.append(column.reshape(batches, each, *column.shape[1:]))
        return Chunk(columns, batches, chunk.fresh)


class BatchOfMapped(Batch):
    """As `Batch`, of a map: an element that failed counts, and takes all of its batch along."""

    def __init__(self, run: Iteration, source: Stage, size: int, drop_remainder: bool) -> None:
        super().__init__(run, source, size, drop_remainder)
        self._failure: errors.OpError | None = None
        self._lost = 0  # elements of its batch, so far

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._failure is None and self._failed is None:
            self._gather(most)
        if self._failure is not None:
            self._pass_over()
            failure, self._failure = self._failure, None
            raise errors.copied(failure)
        return super().pull(most)

    def _gather(self, most: int) -> None:
        """Take a batch or more, or note what failed in it."""
        while self._count < self._size and not self._ended:
            try:
                chunk = self.inputs[0].pull(most * self._size - self._count)
            except errors.OpError as error:
                self._failure = errors.detached(error)
                self._lost = self._count + 1
                self._held, self._count = [], 0
                return
            if chunk is None:
                self._ended = True
            else:
                self._held.append(chunk)
                self._count += chunk.count
            self.run.check()

    def _pass_over(self) -> None:
        """What else is in the batch."""
        while self._lost < self._size and not self._ended:
            try:
                chunk = self.inputs[0].pull(self._size - self._lost)
            except errors.OpError:
                self._lost += 1
                continue
            if chunk is None:
                self._ended = True
            else:
                self._lost += chunk.count

    def save(self) -> Position:
        """What is gathered, and what failed."""
        return [super().save(), self._lost, failure_tree(self._failure)]

    def restore(self, position: Position) -> None:
        """See `save`."""
        super().restore(position[0])
        self._lost, self._failure = position[1], failure_of(position[2])


def _stacked(values: list[Any], number: int, each: int) -> Array:
    shape = getattr(values[0], "shape", ())
    for at, value in enumerate(values):
        if getattr(value, "shape", ()) != shape:
            if (
                at % each == 0
            ):  # another batch may have another shape, but is then no array with this one
                shape = getattr(value, "shape", ())
                raise errors.invalid_argument(
                    f"component {number}: the batches have different shapes"
                )
            raise errors.invalid_argument(
                f"Cannot batch tensors with different shapes in component {number}. First element had shape "
                f"{shape_rules.text(shape)} and element {at} had shape {shape_rules.text(value.shape)}: use "
                "padded_batch, or give all elements one shape before"
            )
    column = column_of(values)
    if isinstance(column, list):  # datasets and the like
        array = np.empty(len(column), object)
        array[:] = column
        return array
    return column


class PaddedBatch(Gathering):
    """`size` elements along a new first axis, each padded at its ends to a shape."""

    def __init__(
        self,
        run: Iteration,
        source: Stage,
        size: int,
        drop_remainder: bool,
        shapes: Sequence[tuple[int, ...]],
        paddings: Sequence[Any],
    ) -> None:
        """shapes: -1 for what the largest element of the batch has."""
        super().__init__(run, source, size, drop_remainder)
        self._shapes = tuple(shapes)
        self._paddings = tuple(paddings)

    def made(self, chunk: Chunk, batches: int) -> Chunk:
        """See `Gathering`."""
        each = chunk.count // batches
        made = []
        for at in range(batches):
            part = chunk.part(at * each, (at + 1) * each)
            columns = zip(part.columns, self._shapes, self._paddings, strict=True)
            made.append([_padded(column, wanted, fill) for column, wanted, fill in columns])
        return Chunk([column_of(found) for found in zip(*made, strict=True)], batches, True)


def _padded(column: Column, wanted: tuple[int, ...], fill: Any) -> Array:
    values = values_of(column)
    rank = len(wanted)
    for value in values:
        if np.ndim(value) != rank:
            raise errors.invalid_argument(
                "All elements in a batch must have the same rank as the padded shape for component: "
                f"expected rank {rank} got element with rank {np.ndim(value)}"
            )
    sizes = tuple(
        max(np.shape(value)[axis] for value in values) if size < 0 else size
        for axis, size in enumerate(wanted)
    )
    first = values[0]
    out = np.empty((len(values), *sizes), first.dtype)
    out[...] = fill if np.ndim(fill) == 0 and out.dtype != object else np.asarray(fill)[()]
    for at, value in enumerate(values):
        shape = np.shape(value)
        if any(size > room for size, room in zip(shape, sizes, strict=True)):
            raise errors.data_loss(
                "Attempted to pad to a smaller size than the input element: "
                f"one of shape {shape_rules.text(shape)} does not fit into {shape_rules.text(sizes)}"
            )
        where: tuple[Any, ...] = (at, *map(slice, shape))
        out[where] = value[()] if rank == 0 and isinstance(value, np.ndarray) else value
    return out


class SparseBatch(Gathering):
    """`size` arrays of one rank as one sparse tensor, three variants: indices, values, shape.

    An element whose shape is not that of a row fails when it is taken, with those that are gathered.
    """

    def __init__(self, run: Iteration, source: Stage, size: int, row: tuple[int, ...]) -> None:
        """row: the shape of a row, -1 for what the largest element has."""
        super().__init__(run, source, size, False)
        self._row = row
        self._rest: Chunk | None = None  # that one, and elements behind it

    def next_of(self, most: int) -> Chunk | None:
        """See `Gathering`.  Raises InvalidArgument, DataLoss."""
        chunk, self._rest = self._rest, None
        if chunk is None:
            chunk = self.inputs[0].pull(most)
        if chunk is None:
            return None
        for at, value in enumerate(values_of(chunk.columns[0])):
            error = self._refusal(np.shape(value))
            if error is not None:
                start = at or 1
                self._rest = chunk.part(start, chunk.count) if start < chunk.count else None
                if at:
                    return chunk.part(0, at)
                raise error
        return chunk

    def _refusal(self, shape: tuple[int, ...]) -> errors.OpError | None:
        """What is wrong with an element of that shape."""
        row = self._row
        if len(shape) != len(row):
            return errors.invalid_argument(
                f"Input element had shape ({shape_rules.text(shape)}) that is incompatible with the row shape "
                f"({shape_rules.text(row)})."
            )
        if any(0 <= room < size for size, room in zip(shape, row, strict=True)):
            return errors.data_loss(
                f"Input element had shape ({shape_rules.text(shape)}) that is larger than the row shape "
                f"({shape_rules.text(row)})."
            )
        return None

    def save(self) -> Position:
        """What is gathered, and what stands behind that."""
        rest = [] if self._rest is None else [self._rest]
        return [*super().save(), *rest]

    def restore(self, position: Position) -> None:
        """See `save`."""
        super().restore(position[:2])
        self._rest = position[2] if len(position) > 2 else None

    def made(self, chunk: Chunk, batches: int) -> Chunk:
        """See `Gathering`."""
        each = chunk.count // batches
        parts = [chunk.part(at * each, (at + 1) * each).columns[0] for at in range(batches)]
        return Chunk([column_of([self._sparse(values_of(part)) for part in parts])], batches, True)

    def _sparse(self, values: list[Any]) -> Array:
        row = self._row
        sizes = [
            max(np.shape(value)[axis] for value in values) if size < 0 else size
            for axis, size in enumerate(row)
        ]
        indices = [
            np.insert(np.indices(value.shape).reshape(len(row), -1).T, 0, at, axis=1)
            for at, value in enumerate(values)
        ]
        found = np.empty(3, object)
        found[0] = np.concatenate(indices).astype(np.int64)
        found[1] = np.concatenate([value.reshape(-1) for value in values])
        found[2] = np.array([len(values), *sizes], np.int64)
        return found


class Unbatch(Stage):
    """The rows of each element, one by one."""

    def __init__(self, run: Iteration, source: Stage) -> None:
        super().__init__(run, source)
        self._held: Chunk | None = None

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while self._held is None:
            chunk = self.inputs[0].pull(1)
            if chunk is None:
                return None
            self._held = _rows(chunk)
            self.run.check()
        held = self._held
        self._held = held.part(most, held.count) if most < held.count else None
        return held.part(0, most)

    def buffered(self) -> tuple[int, int] | None:
        """The rows of an element that were not given yet."""
        held = self._held
        return (0, 0) if held is None else (held.count, held.size)

    def save(self) -> Position:
        """See `buffered`."""
        return [] if self._held is None else [self._held]

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._held = position[0] if position else None


def _rows(chunk: Chunk) -> Chunk | None:
    """The rows of one element; None if there are none."""
    columns = [values_of(column)[0] for column in chunk.columns]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise errors.invalid_argument(
            "Input element must have the same batch size in each component. "
            f"Component sizes are {sorted(counts)}"
        )
    count = counts.pop()
    return Chunk(columns, count, chunk.fresh) if count else None


__all__ = ["Batch", "Gathering", "PaddedBatch", "SparseBatch", "Unbatch"]
