"""Joined loops: several loops and what is between them as one program of XLA's, beside the nodes one by one.

Stacks and TensorArrays that nobody looks at afterwards are the program's own, and so are gradients of TensorArrays.
How much room they have to have is seen by the loops' own programs when those run node by node (`Learner`).  While this
one may still be compiled, those are not.  A call makes a bounded number of iterations of each loop, more of them if
they are not enough: where it takes so long that Ctrl-C would be late the loops' own programs run instead, for good.
Called by: plan.joined_loops, plan.emit.  Threads: any; all state of a run is in the registers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import shapes as shape_rules
from headrace.run.devices.device import HOST
from headrace.run.exec.branches import several
from headrace.run.exec.instructions import Kernel, Registers
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.outcome import cause, explain
from headrace.run.exec.straight import Code
from headrace.run.exec.whole_loops import (
    LONG_S,
    MOST,
    Form,
    Given,
    LoopProgram,
    Taken,
    with_values,
)
from headrace.run.state import cells
from headrace.run.state.cells import Cells, Kept, Seen
from headrace.run.state.stacks import Stack
from headrace.run.state.tensor_arrays import EMPTY, TensorArray

_MOST_IN_VAIN: Final = 8
"""Calls in a row that do not hold, after which the loops have programs of their own."""
_MOST_LONG: Final = 3
"""Calls in a row that take so long that Ctrl-C is late, after which it is so, too."""


class Learner(NamedTuple):
    """The program of one of the loops; places: of its slots, those of the group."""

    program: LoopProgram
    places: dict[int, int]


class _Gradient:
    """Stands for the gradient of a TensorArray, which the program makes."""

    __slots__ = ("of",)

    def __init__(self, of: TensorArray) -> None:
        self.of = of


class JoinedProgram(LoopProgram):
    """make: (form) -> a function as `plan.loop_tracing.joined_program` has it.  left: slots that it gives back."""

    def __init__(
        self,
        make: Callable[[Form], Callable[..., Any]],
        taken: Taken,
        left: Sequence[int],
        learners: Sequence[Learner],
    ) -> None:
        super().__init__(make, taken, HOST)
        self._left, self._learners = left, learners
        self._in_vain = self._long = 0
        self._given_up = False
        self._exact = True  # stacks have as much room as they need
        for each in learners:
            each.program.waits_for = self

    @property
    def is_over(self) -> bool:
        """Whether its loops are to have programs of their own."""
        return self._given_up or self.failed or self.hopeless

    def _given_of(self, values: Sequence[Any]) -> Given | None:
        found = None if self._given_up else super()._given_of(values)
        if found is None:
            self._count(holds=False)
        return found

    # -- stores -------------------------------------------------------------------------------------------------------

    def _stores_of(self, values: Sequence[Any]) -> list[Any] | None:
        found: list[Any] = []
        gradients: dict[Any, _Gradient] = {}
        for place, sources in self._taken.slots:
            store = values[place]
            if not isinstance(store, (TensorArray, Stack)) or store.is_closed:
                return None
            if not sources:
                found.append(store)
                continue
            if len(sources) > 1 or isinstance(store, Stack) or store.dynamic:
                return None
            key = id(store), sources
            found.append(gradients.setdefault(key, _Gradient(store)))
        return found

    def _kept_of(self, at: int, store: Any, seen: dict[int, Seen]) -> Kept | None:
        if isinstance(store, Stack):
            how = super()._kept_of(at, store, seen)
            return how._replace(room=seen[at].room) if how is not None and self._exact else how
        if not isinstance(store, _Gradient):
            return super()._kept_of(at, store, seen)
        of, slots = store.of, [*self._taken.slots]
        source = slots[at][0], ()
        how = super()._kept_of(slots.index(source), of, seen) if source in slots else None
        if how is None:
            return None
        known = shape_rules.is_fully_defined(of.shape) and tuple(of.shape or ()) == how.shape
        return how._replace(clears=False, adds_up=True, zeros=known, grows=False)

    def _packed_of(self, store: Any, how: Kept, bare: bool) -> Cells | None:
        if not isinstance(store, _Gradient):
            return super()._packed_of(store, how, bare)
        return Cells(None, np.full(how.room, EMPTY, np.int8), np.int32(store.of.size()))

    def _changes_rooms(self, given: Given) -> bool:
        if self._exact and self._forms:
            self._exact = False  # stacks may become longer and longer
            return True
        return super()._changes_rooms(given)

    # -- running --------------------------------------------------------------------------------------------------

    def _finished(
        self, given: Given, values: Sequence[Any], scope: Any, there: Sequence[bool]
    ) -> list[Any] | None:
        form = self._form_of(given)
        if form is None:
            return None
        kept = [*given.cells, *given.streams, *given.held]
        began = time.perf_counter()
        ends, left, said = form(np.int64(self._per_call), [], given.rest, kept)
        holds, *lengths = np.asarray(said).tolist()
        took = time.perf_counter() - began
        self._has_taken(took, bool(holds))
        if not holds:
            return None
        numbers = [given.form.same[at] for at in self._left]
        count = len(numbers)
        if not self._has_committed(given, left[count:]):
            return None
        for number, cells_left, length in zip(numbers, left[:count], lengths, strict=True):
            store, how = given.stores[number], given.form.kept[number]
            after = with_values(cells_left, given.cells[number])
            cells.unpack(store, after, how, self._device, length)  # type: ignore[arg-type]
        return [*map(np.asarray, ends)]

    def _has_taken(self, took_s: float, holds: bool) -> None:
        """Note how long a call took, and whether it holds: it may not because it may make too few iterations."""
        if not holds:
            self._per_call = min(4 * self._per_call, MOST)
        self._long = self._long + 1 if took_s > LONG_S else 0
        self._count(holds)

    def _count(self, holds: bool) -> None:
        self._in_vain = 0 if holds else self._in_vain + 1
        if self._long >= _MOST_LONG or self._in_vain >= _MOST_IN_VAIN:
            self._given_up = True

    # -- what is learnt -------------------------------------------------------------------------------------------

    def before(self, values: Sequence[Any]) -> dict[int, Seen]:
        """Nothing: its loops see what there is."""
        return {}

    def learn(self, values: Sequence[Any]) -> None:
        """Remember what its loops have seen, which have just run node by node, for what was given."""
        found: dict[int, Seen] = {}
        for program, places in self._learners:
            for at, place in places.items():
                seen = program.latest.get(at)
                if seen is not None:
                    found[place] = cells.larger(found[place], seen) if place in found else seen
        self._remember(self._shapes(values), found)


def kernel(
    node: NodeInfo, code: Code, program: JoinedProgram, given: Sequence[int], wanted: Sequence[int]
) -> Kernel:
    """The group as one kernel, of the program where that is ready.

    given: registers of what it takes; wanted: of what it gives.
    """
    pick = several(given)

    def run(r: Registers) -> None:
        values = pick(r)
        try:
            ends = program.run(values, r[0].scope, ())
        except Exception as error:  # as if a node of it had failed
            raise explain(error, node, [], r[0]) from cause(error)
        if ends is None:
            code.run(r)
            program.learn(values)
            return
        for register, value in zip(wanted, ends, strict=True):
            r[register] = value

    return run
