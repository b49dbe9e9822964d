"""Datasets of plain numbers for tests of stages, and what they give in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from headrace.base import dtypes, errors
from headrace.run.data.chunks import Chunk
from headrace.run.data.stage import Blocked, Dataset, Iteration, Made, Position, Stage
from headrace.run.scope import Scope

FAILS = -1
"""A number that stands for an element that fails."""

some_values = st.lists(st.integers(FAILS, 6), max_size=14)
some_sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


class Failing(Stage):
    """Numbers, of which those below 0 fail."""

    def __init__(self, run: Iteration, numbers: list[int]) -> None:
        super().__init__(run)
        self._numbers = numbers
        self._at = 0

    def pull(self, most: int) -> Chunk | None:
        if self._at >= len(self._numbers):
            return None
        if self._numbers[self._at] < 0:
            self._at += 1
            raise errors.invalid_argument("it fails")
        found = []
        for number in self._numbers[self._at : self._at + most]:
            if number < 0:
                break
            found.append(number)
        self._at += len(found)
        return Chunk([np.array(found, np.int64)], len(found))

    def save(self) -> Position:
        return self._at

    def restore(self, position: Position) -> None:
        self._at = position


def numbers(values: list[int]) -> Dataset:
    return Made("Numbers", [dtypes.int64], [()], lambda run: Failing(run, values))


def over(source: Dataset, make: Callable[..., Stage]) -> Dataset:
    return Made("Stage", source.types, source.shapes, make, [source])


class Whole(Dataset):
    """A dataset whose stage iterates its inputs itself."""

    def __init__(self, make: Callable[[Iteration], Stage]) -> None:
        super().__init__([dtypes.int64], [()])
        self._make = make

    def stage(self, run: Iteration) -> Stage:
        return self._make(run)


def plain(chunk: Chunk) -> list[Any]:
    rows = [tuple(np.asarray(value).tolist() for value in each) for each in chunk.elements()]
    return [row[0] if len(row) == 1 else row for row in rows]


def drained(stage: Stage, most: Iterator[int], limit: int = 200) -> list[Any]:
    """All that it gives, "fails" for what fails."""
    found: list[Any] = []
    while len(found) < limit:
        wanted = next(most)
        try:
            chunk = stage.pull(wanted)
        except errors.InvalidArgumentError:
            found.append("fails")
            continue
        except Blocked as blocked:
            wait_for(blocked)
            continue
        if chunk is None:
            assert stage.pull(1) is None, "the end is the end"
            return found
        assert 1 <= chunk.count <= wanted
        found += plain(chunk)
    return found


def wait_for(blocked: Blocked) -> None:
    """Until it may be pulled again, whatever comes of it."""
    try:
        blocked.pending.wait(Scope(10))
    except errors.OpError:
        return


def cycled(sizes: list[int]) -> Iterator[int]:
    while True:
        yield from sizes


def ones() -> Iterator[int]:
    return cycled([1])
