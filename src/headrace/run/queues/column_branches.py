"""Branches of columns: the elements that take one branch of a condition, and how those of both come together again.

Where a branch is taken by some elements only, its nodes are run for those: a register holds their places, which all
columns of the branch go by.  What no element takes is not run, and its registers hold None.
Called by: run.queues.batch_dequeuer, plan.columns (which makes them).  Threads: any; they do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.run.exec.instructions import Registers
from headrace.run.queues.column_work import Column, OneByOne, Runs, row_of, stacked
from headrace.run.queues.columns import Array
from headrace.run.uninterrupted import changes


@changes
@dataclass(frozen=True, slots=True)
class Fork:
    """Registers: of a condition, and of the places of the elements for which it holds, and of the others.

    is_row: whether the condition is a column, of bools.
    """

    condition: int
    is_row: bool
    holds: int
    fails: int

    @property
    def outputs(self) -> Sequence[int]:
        """Both kinds of places."""
        return self.holds, self.fails

    def run(self, registers: Registers, count: int) -> None:
        """Raises ValueError."""
        condition = registers[self.condition]
        if not self.is_row:
            condition = np.broadcast_to(condition, count)
        elif isinstance(condition, list):
            condition = stacked(condition)
        if condition.shape != (count,) or condition.dtype != bool:
            raise ValueError(f"conditions of shape {condition.shape} for {count} elements")
        (registers[self.holds],) = condition.nonzero()
        (registers[self.fails],) = np.logical_not(condition).nonzero()


@changes
@dataclass(frozen=True, slots=True)
class Taken:
    """Registers: of a column, and of those of its elements that are at `places`."""

    column: int
    places: int
    output: int

    @property
    def outputs(self) -> Sequence[int]:
        """The one column."""
        return (self.output,)

    def run(self, registers: Registers, count: int) -> None:
        """Raises nothing."""
        column, places = registers[self.column], registers[self.places]
        if len(places) == count:
            registers[self.output] = column
        elif isinstance(column, list):
            registers[self.output] = [column[at] for at in places.tolist()]
        else:
            registers[self.output] = column[places]


@changes
@dataclass(frozen=True, slots=True)
class InBranch:
    """What is run for the elements that are at `places`, a register, if there are any."""

    work: Runs
    places: int

    def run(self, registers: Registers, count: int) -> None:
        """As `work`."""
        places = registers[self.places]
        if places is not None and len(places):
            self.work.run(registers, len(places))
        else:
            for output in self.work.outputs:
                registers[output] = None

    @property
    def outputs(self) -> Sequence[int]:
        """Those of what is run."""
        return self.work.outputs


@changes
@dataclass(frozen=True, slots=True)
class Joined:
    """Registers: for each of two branches the places and the values of its elements, and whether those are a column.

    number: of an int32 column, which of the branches each element has taken.
    """

    branches: tuple[tuple[int, int, bool], tuple[int, int, bool]]
    output: int
    number: int

    def run(self, registers: Registers, count: int) -> None:
        """Raises nothing."""
        numbers = np.zeros(count, np.int32)
        parts: list[tuple[Array, Column]] = []
        for number, (at, value, is_row) in enumerate(self.branches):
            places, values = registers[at], registers[value]
            numbers[places] = number
            if not len(places):
                continue
            if not is_row:
                values = np.broadcast_to(values, (len(places), *np.shape(values)))
            parts.append((places, values))
        registers[self.number] = numbers
        registers[self.output] = parts[0][1] if len(parts) == 1 else _together(parts, count)

    @property
    def outputs(self) -> Sequence[int]:
        """Both."""
        return self.output, self.number


@changes
@dataclass(frozen=True, slots=True)
class Asserted:
    """The register of what has to hold, and whether it is a column."""

    condition: int
    is_row: bool

    def run(self, registers: Registers, count: int) -> None:
        """Raises OneByOne: the element for which it does not hold says so by itself."""
        condition = registers[self.condition]
        if np.ndim(condition) != self.is_row or not np.all(condition):
            raise OneByOne

    @property
    def outputs(self) -> Sequence[int]:
        """None."""
        return ()


def _together(parts: Sequence[tuple[Array, Column]], count: int) -> Column:
    arrays = [(places, values) for places, values in parts if not isinstance(values, list)]
    kinds = {(values.shape[1:], values.dtype) for _, values in arrays}
    if len(arrays) == len(parts) and len(kinds) == 1:
        ((shape, kind),) = kinds
        made = np.empty((count, *shape), kind)
        for places, rows in arrays:
            made[places] = rows
        return made
    found: list[Any] = [None] * count
    for places, values in parts:
        for at, place in enumerate(places.tolist()):
            found[place] = row_of(values, at)
    return found
