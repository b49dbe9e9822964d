"""Work on columns: what a node does for many elements at once.

A column is an array with an element along axis 0, or a list with one value for each.
Called by: run.queues.batch_dequeuer, plan.columns (which makes it).  Threads: any; it does not change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headrace.run.exec.instructions import Registers
from headrace.run.queues.columns import Array, row
from headrace.run.uninterrupted import changes

Column = Array | list[Any]


class OneByOne(Exception):
    """Elements that are to be done one after the other, from the first node to the last."""


class Runs(Protocol):
    """Something that is done for many elements at once.  outputs: registers that it fills."""

    @property
    def outputs(self) -> Sequence[int]: ...

    def run(self, registers: Registers, count: int) -> None:
        """Do it for `count` elements.  Raises whatever; then they are to be done one by one."""


class Stream(Protocol):
    """Random numbers of a node.  seeded: whether they are fixed.  position: of those that come next."""

    seeded: bool

    @property
    def position(self) -> int: ...

    def ahead(self, first: int) -> Stream:
        """The same ones from a position on, without taking them."""

    def move(self, before: int, after: int) -> bool:
        """Have those at `after` come next, if those at `before` would."""


@changes
@dataclass(frozen=True, slots=True)
class Work:
    """A node: `together` for columns that are arrays, else, or if that fails, the `kernel` for each record; input and
    output registers.

    rows: which of the inputs are columns.
    """

    kernel: Callable[..., Any] | None
    together: Callable[..., Any] | None
    rows: tuple[bool, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    single: bool

    def run(self, registers: Registers, count: int) -> None:
        """Make the output columns of `count` records.  Raises whatever the kernel does, OneByOne and ValueError."""
        values = [registers[register] for register in self.inputs]
        made: Any
        try:
            if self.kernel is not None and not any(self.rows):
                made = self.kernel(*values)
            elif self.together is None:
                raise NotImplementedError
            else:
                made = self._together(values)
        except OneByOne:
            raise
        except Exception:  # whatever it was: the records may be of different shapes
            if self.kernel is None:
                raise
            rows = [self.kernel(*self._inputs_of(values, at)) for at in range(count)]
            made = rows if self.single else [list(column) for column in zip(*rows, strict=True)]
        if self.single:
            registers[self.outputs[0]] = made
        else:
            for register, column in zip(self.outputs, made, strict=True):
                registers[register] = column

    def _together(self, values: Sequence[Any]) -> Any:
        assert self.together is not None
        return self.together(
            *[
                stacked(value) if is_row and isinstance(value, list) else value
                for value, is_row in zip(values, self.rows, strict=True)
            ]
        )

    def _inputs_of(self, values: Sequence[Any], at: int) -> list[Any]:
        return [
            row_of(value, at) if is_row else value
            for value, is_row in zip(values, self.rows, strict=True)
        ]


@changes
@dataclass(frozen=True, slots=True)
class Draw:
    """A node that draws numbers at random, other ones for each element.

    stream: gives the node's.  draw(stream, count, *inputs) gives the output column, or all of several.  taken: the
    register of what says which numbers of a stream with seeds these are: elements that go nowhere give theirs back.
    branches: registers of the places of the elements that take the branch that the node is in, among those that take
    the one around it, from the outermost on.
    """

    stream: Callable[[], Stream]
    draw: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    taken: int
    branches: tuple[int, ...] = ()

    def run(self, registers: Registers, count: int) -> None:
        """Raises whatever `draw` does, and OneByOne if somebody else draws meanwhile."""
        values = [registers[register] for register in self.inputs]
        made = [stacked(each) if isinstance(each, list) else each for each in values]
        stream = self.stream()
        if not stream.seeded:
            self._put(registers, self.draw(stream, count, *made))
            return
        before = stream.position
        ahead = stream.ahead(before)
        self._put(registers, self.draw(ahead, count, *made))
        if not stream.move(before, ahead.position):
            raise OneByOne
        registers[self.taken] = before, ahead.position, count

    def _put(self, registers: Registers, drawn: Any) -> None:
        columns = (drawn,) if len(self.outputs) == 1 else drawn
        for output, column in zip(self.outputs, columns, strict=True):
            registers[output] = column

    def give_back(self, registers: Registers, used: int) -> None:
        """The numbers of all elements but the first `used` are those that come next, unless others have drawn since."""
        if registers[self.taken] is not None:
            before, after, count = registers[self.taken]
            for places in self.branches:
                used = int(np.searchsorted(registers[places], used))
            self.stream().move(after, before + (after - before) // count * used)
            registers[self.taken] = None


def row_of(column: Column, at: int) -> Any:
    """The value of one record."""
    return column[at] if isinstance(column, list) else row(column, at)


def stacked(values: Sequence[Any]) -> Array:
    """Values of one type and shape along a new axis 0.  Raises ValueError."""
    first = values[0]
    column: Array = np.empty((len(values), *first.shape), first.dtype)
    for at, value in enumerate(values):
        if value.shape != first.shape or value.dtype != first.dtype:
            raise ValueError(f"{value.dtype}{value.shape} among {first.dtype}{first.shape}")
        column[at] = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    return column


def as_column(value: Any, is_row: bool, count: int) -> Column:
    """A result for `count` elements: an array if that is possible."""
    if not is_row:
        return np.broadcast_to(value, (count, *np.shape(value)))
    if isinstance(value, list):
        with contextlib.suppress(ValueError):  # of different shapes
            return stacked(value)
    column: Column = value
    return column
