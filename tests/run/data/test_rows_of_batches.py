"""Windows, and rows that become sparse: positions, and elements that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import errors
from headrace.run.data.batching import SparseBatch
from headrace.run.data.chunks import Chunk
from headrace.run.data.positions import decoded, encoded, restore_position, saved_position
from headrace.run.data.stage import Iteration, Position, Stage
from headrace.run.data.windowing import Window
from tests.run.data.stage_numbers import cycled, numbers, ones, some_sizes

LONG, DEEP, FAILED = 5, -1, -2
"""Lengths of rows that do not fit, and of one that fails by itself."""


class Rows(Stage):
    """Vectors of these lengths."""

    def __init__(self, run: Iteration, lengths: list[int]) -> None:
        super().__init__(run)
        self._lengths = lengths
        self._at = 0

    def pull(self, most: int) -> Chunk | None:
        made: list[tuple[Any]] = []
        while self._at < len(self._lengths) and len(made) < most:
            length = self._lengths[self._at]
            if length == FAILED and made:
                break
            self._at += 1
            if length == FAILED:
                raise errors.unavailable("a row fails")
            made.append((np.ones([1, 1] if length == DEEP else [length], np.int64),))
        return Chunk.of(made) if made else None

    def save(self) -> Position:
        return self._at

    def restore(self, position: Position) -> None:
        self._at = position


def drained(stage: Stage, sizes: Any, most: int = 99) -> list[Any]:
    found: list[Any] = []
    while len(found) < most:
        try:
            chunk = stage.pull(next(sizes))
        except errors.OpError as error:
            found.append(type(error).__name__)
            continue
        if chunk is None:
            break
        found += [[each.tolist() for each in sparse] for (sparse,) in chunk.elements()]
    return found


def model(lengths: list[int], size: int) -> list[Any]:
    """One element after the other."""
    found: list[Any] = []
    held: list[int] = []

    def give() -> None:
        indices = [[row, column] for row, length in enumerate(held) for column in range(length)]
        found.append([indices, [1] * len(indices), [len(held), 3]])
        held.clear()

    refusals = {LONG: "DataLossError", DEEP: "InvalidArgumentError", FAILED: "UnavailableError"}
    for length in lengths:
        if length in refusals:
            found.append(refusals[length])
            held.clear()
            continue
        held.append(length)
        if len(held) == size:
            give()
    if held:
        give()
    return found


some_lengths = st.lists(st.sampled_from([0, 1, 2, 3, LONG, DEEP, FAILED]), max_size=12)


@given(lengths=some_lengths, size=st.integers(1, 4), sizes=some_sizes, taken=st.integers(0, 6))
def test_a_row_that_does_not_fit_takes_along_what_was_gathered(
    lengths: list[int], size: int, sizes: list[int], taken: int
) -> None:
    def stage() -> Stage:
        run = Iteration()
        return SparseBatch(run, Rows(run, lengths), size, (3,))

    assert drained(stage(), cycled(sizes)) == model(lengths, size)
    first, second = stage(), stage()
    before = drained(first, cycled(sizes), taken)
    restore_position(second, decoded(encoded(saved_position(first))))
    assert before + drained(second, ones()) == model(lengths, size)


def test_windows_go_on_from_positions_of_older_versions() -> None:
    source = numbers([1, 2, 3, 4, 5])

    def stage() -> Window:
        run = Iteration()
        return Window(run, source.stage(run), source, (3, 1, 1), False)

    first, second = stage(), stage()
    assert first.pull(1) is not None
    own = first.save()
    assert own[3] == []
    second.inputs[0].restore(first.inputs[0].save())
    second.restore(decoded(encoded(own[:3])))
    for each in (first, second):
        window = each.pull(1)
        assert window is not None
        assert window.columns[0][0].column.tolist() == [2, 3, 4]
