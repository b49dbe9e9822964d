"""Stages that count elements: take, skip, shard, repeat, one dataset after another, several side by side.

Called by: ops.data (datasets).  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/{take,skip,shard,repeat,concatenate,zip}_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.base import errors
from headrace.run.data.chunks import Chunk
from headrace.run.data.stage import MANY, Dataset, Iteration, Position, Stage


class Take(Stage):
    """The first `count`; all of them if it is negative.  An element that failed does not count."""

    def __init__(self, run: Iteration, source: Stage, count: int) -> None:
        super().__init__(run, source)
        self._left: int | None = None if count < 0 else count

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        left = self._left
        if left is None:
            return self.inputs[0].pull(most)
        if left == 0:
            return None
        chunk = self.inputs[0].pull(min(most, left))
        self._left = 0 if chunk is None else left - chunk.count
        return chunk

    def save(self) -> Position:
        """How many are left; -1: all."""
        return -1 if self._left is None else self._left

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._left = None if position < 0 else int(position)


class Skip(Stage):
    """What comes after the first `count`; nothing if that is negative."""

    def __init__(self, run: Iteration, source: Stage, count: int) -> None:
        super().__init__(run, source)
        self._left = count

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while self._left > 0:
            chunk = self.inputs[0].pull(min(self._left, MANY))
            if chunk is None:
                self._left = 0
                return None
            self._left -= chunk.count
            self.run.check()
        return None if self._left < 0 else self.inputs[0].pull(most)

    def save(self) -> Position:
        """How many are still to be passed over."""
        return self._left

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._left = int(position)


class Shard(Stage):
    """Every `shards`-th element, from the one numbered `index` on."""

    def __init__(self, run: Iteration, source: Stage, shards: int, index: int) -> None:
        super().__init__(run, source)
        self._shards = shards
        self._before = index  # elements to be passed over

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while True:
            wanted = self._before + 1 + (most - 1) * self._shards
            chunk = self.inputs[0].pull(wanted)
            if chunk is None:
                return None
            first = self._before
            if first < chunk.count:
                last = first + (chunk.count - 1 - first) // self._shards * self._shards
                self._before = self._shards - (chunk.count - last)
                return chunk.part(first, last + 1, self._shards)
            self._before -= chunk.count
            self.run.check()

    def save(self) -> Position:
        """How many are to be passed over."""
        return self._before

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._before = int(position)


class Epochs(Stage):
    """A stage that runs datasets one after the other, each from its beginning, by `at`.  The base of two."""

    def __init__(self, run: Iteration) -> None:
        super().__init__(run)
        self._at = 0
        self._given = False  # anything since the latest began

    def dataset(self, at: int) -> Dataset | None:
        """The one numbered `at`; None: that was all."""
        raise NotImplementedError

    def number(self, at: int) -> int:
        """Which input that is."""
        return 0

    def empty(self, at: int) -> bool:
        """Whether it ends where the one numbered `at` gave nothing at all."""
        return False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while True:
            if not self.inputs:
                dataset = self.dataset(self._at)
                if dataset is None:
                    return None
                self.inputs = (self._stage_of(dataset),)
                self._given = False
            chunk = self.inputs[0].pull(most)
            if chunk is not None:
                self._given = True
                return chunk
            self._end()
            self.run.check()

    def _end(self) -> None:
        stage, self.inputs = self.inputs[0], ()
        stage.close()
        self._at = -1 if not self._given and self.empty(self._at) else self._at + 1

    def save(self) -> Position:
        """Which one it is at."""
        return [self._at, int(self._given), len(self.inputs)]

    def restore(self, position: Position) -> None:
        """See `save`; the input is made for its own position to be restored."""
        self._at, given, made = position
        self._given = bool(given)
        dataset = self.dataset(self._at) if made else None
        self.inputs = () if dataset is None else (self._stage_of(dataset),)

    def _stage_of(self, dataset: Dataset) -> Stage:
        return self.run.stage_of(dataset, self.number(self._at), self.place)


class Repeat(Epochs):
    """A dataset `count` times, for ever if that is negative.  What gives nothing at all is not tried for ever."""

    def __init__(self, run: Iteration, source: Dataset, count: int) -> None:
        super().__init__(run)
        self._source = source
        self._count = count

    def dataset(self, at: int) -> Dataset | None:
        """See `Epochs`."""
        if at < 0 or 0 <= self._count <= at:
            return None
        return self._source

    def empty(self, at: int) -> bool:
        """See `Epochs`."""
        return self._count < 0


class Concatenate(Epochs):
    """Datasets one after the other."""

    def __init__(self, run: Iteration, sources: Sequence[Dataset]) -> None:
        super().__init__(run)
        self._sources = sources

    def dataset(self, at: int) -> Dataset | None:
        """See `Epochs`."""
        return self._sources[at] if at < len(self._sources) else None

    def number(self, at: int) -> int:
        """See `Epochs`."""
        return at


class Zip(Stage):
    """Elements side by side, until one input has no more.  Where one of them failed, all go on behind that place."""

    def __init__(self, run: Iteration, *sources: Stage) -> None:
        super().__init__(run, *sources)
        self._held: list[Chunk | None] = [None] * len(sources)
        self._failed: list[errors.OpError | None] = [None] * len(
            sources
        )  # right behind what is held
        self._ended = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._ended:
            return None
        held, failed = self._held, self._failed
        for at, source in enumerate(self.inputs):
            if held[at] is None and failed[at] is None:
                try:
                    held[at] = source.pull(most)
                except errors.OpError as error:
                    failed[at] = errors.detached(error)
                else:
                    if held[at] is None:
                        self._ended = True
                        self._held = [None] * len(held)
                        return None
        count = min(most, min(0 if chunk is None else chunk.count for chunk in held))
        if count == 0:
            raise self._pass_over_failure()
        columns: list[object] = []
        fresh = True
        for at, chunk in enumerate(held):
            assert chunk is not None
            columns += chunk.part(0, count).columns
            fresh = fresh and chunk.fresh
            held[at] = _rest(chunk, count)
        return Chunk(columns, count, fresh)  # type: ignore[arg-type]

    def _pass_over_failure(self) -> errors.OpError:
        first: errors.OpError | None = None
        for at, chunk in enumerate(self._held):
            if chunk is not None:
                self._held[at] = _rest(chunk, 1)
            else:
                first = first or self._failed[at]
                self._failed[at] = None
        assert first is not None
        return errors.copied(first)

    def buffered(self) -> tuple[int, int] | None:
        """What some inputs have given and others not yet."""
        held = [chunk for chunk in self._held if chunk is not None]
        return sum(chunk.count for chunk in held), sum(chunk.size for chunk in held)

    def save(self) -> Position:
        """What is held; failures are met again by nobody."""
        return [int(self._ended), [[] if chunk is None else [chunk] for chunk in self._held]]

    def restore(self, position: Position) -> None:
        """See `save`."""
        ended, held = position
        self._ended = bool(ended)
        self._held = [each[0] if each else None for each in held]


def _rest(chunk: Chunk, count: int) -> Chunk | None:
    return chunk.part(count, chunk.count) if count < chunk.count else None
