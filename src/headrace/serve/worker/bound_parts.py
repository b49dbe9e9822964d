"""Bound parts: partitions that are asked for again and again, by requests that differ in the step alone.

One that does nothing but read small variables takes no time in which it could be ended, so its steps are not booked: it
is answered out of the variables, as long as those, the partition, its session and the task are as they were.  So it is
with one that changes a scalar by a constant; instead of being booked it holds the variable's lock, for which those wait
that end the session's steps.
Called by: serve.worker.worker.  Threads: any.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.base import errors
from headrace.run.exec import simple
from headrace.run.exec.float_warnings import restore_warnings, suppress_warnings
from headrace.run.exec.instructions import Kernel
from headrace.run.exec.kernel import BARE, StepState
from headrace.run.exec.program import Program
from headrace.run.scope import Scope
from headrace.run.state.variable import NUMBERS, PYTHON_NUMBERS, ResourceVariable, State, Variable
from headrace.serve.observe.counting import NOW_AND_THEN
from headrace.serve.rpc.again import Array, Bound, ChangesAgain, CopiesAgain, ReadsAgain, RunsAgain
from headrace.serve.worker.bound_waits import bound_wait
from headrace.serve.worker.registered import RegisteredPartition

if TYPE_CHECKING:
    from headrace.serve.worker.worker import Worker

MOST_BYTES = 1 << 12  # of all values; copying more takes longer than what is saved
COPIED_BYTES = range(1 << 15, 1 << 20 | 1)
"""Of a variable that is read by itself: from there on memory is shared, and up to there copying is no long work."""
_OF_NUMBERS: Final[Mapping[Any, Callable[[Any, Any], Any]]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
}
"""What some ufuncs are of two Python numbers."""


class BoundReads(ReadsAgain):
    """See the module header."""

    def __init__(
        self,
        worker: Worker,
        registered: RegisteredPartition,
        direct: int,
        generation: int,
        variables: Sequence[State],
    ) -> None:
        """generation: of the task's resources, when the variables were found."""
        self._worker = worker
        self._log = worker.log
        self._registered = registered
        self._session = registered.session
        self._leaving = registered.session.leaving
        self._direct = direct != 0
        self._resources = registered.session.runtime.resources
        self._generation = generation
        self.values: list[Any] = [variable.require() for variable in variables]
        self._each: list[tuple[State, Any, Callable[[], bytes]]] = [
            (variable, array, array.tobytes)
            for variable, array in zip(variables, self.values, strict=True)
        ]
        # Of a scalar alone: one read of it cannot be torn.
        self._only = self._each[0] if len(variables) == 1 and not self.values[0].ndim else None

    def contents(self) -> bytes | None:
        """See `ReadsAgain`."""
        if (
            self._worker.turns_away is not None
            or self._registered.forgotten
            or self._leaving.any
            or (self._direct and self._session.direct_over is not None)
            or self._resources.generation != self._generation
            or not self._log.off
        ):
            return None
        if self._only is not None:
            variable, array, read = self._only
            if variable.array is not array:
                return None
            meter = self._worker.meter
            if meter is not None and not meter.tick() & NOW_AND_THEN:
                meter.check()
            return read()
        parts: list[bytes] = []
        for variable, array, read in self._each:
            if not variable.lock.acquire(blocking=False):
                return None
            try:
                if variable.array is not array:
                    return None
                parts.append(read())
            finally:
                variable.lock.release()
        meter = self._worker.meter
        if meter is not None and not meter.tick() & NOW_AND_THEN:
            meter.check()
        return b"".join(parts)

    def holds(self) -> bool:
        """See `AtOnce`.  Nothing is read, and so nothing counted."""
        return (
            not self._registered.forgotten
            and self._resources.generation == self._generation
            and all(variable.array is array for variable, array, _ in self._each)
        )


class BoundConstants(BoundReads):
    """Values that are the same in every step."""

    def __init__(
        self, worker: Worker, registered: RegisteredPartition, direct: int, values: list[Any]
    ) -> None:
        generation = registered.session.runtime.resources.generation
        super().__init__(worker, registered, direct, generation, [])
        self.values = values
        self._content = b"".join([value.tobytes() for value in values])

    def contents(self) -> bytes | None:
        """See `ReadsAgain`."""
        return None if super().contents() is None else self._content


class BoundCopy(CopiesAgain):
    """A partition that does nothing but read one variable, of some size.

    It is copied while its lock is held: an update that finds it leased has to copy as much.
    """

    def __init__(
        self,
        worker: Worker,
        registered: RegisteredPartition,
        direct: int,
        generation: int,
        variable: State,
        otherwise: RunsAgain,
    ) -> None:
        self._reads = BoundReads(worker, registered, direct, generation, [])
        array = variable.require()
        self.dtype, self.shape = array.dtype, array.shape
        self._variable = variable
        self.otherwise = otherwise

    def copy_to(self, target: Array) -> bool:
        """See `CopiesAgain`."""
        if not self._reads.holds():
            return False
        lock = self._variable.lock
        if not lock.acquire(blocking=False):
            return False
        try:
            array = self._variable.array
            if array is None or array.shape != self.shape or array.dtype != self.dtype:
                return False
            np.copyto(target, array)
        finally:
            lock.release()
        self._reads.contents()  # which counts it
        return True

    def holds(self) -> bool:
        """See `CopiesAgain`."""
        array = self._variable.array
        return self._reads.holds() and array is not None and array.shape == self.shape


class BoundRun(RunsAgain):
    """Any other that exchanges nothing while it runs."""

    def __init__(self, worker: Worker, registered: RegisteredPartition, direct: int) -> None:
        self._worker = worker
        self._log = worker.log
        self._registered = registered
        self._kind = registered.kind(direct)
        program = registered.program
        self._gives_variable = isinstance(program, Program) and program.gives_variable
        self._array: Any = None  # of a scalar that it has given
        self._read: Callable[[], bytes] = bytes

    def run(self, step_id: int, scope: Scope) -> Sequence[Any] | bytes | None:
        """See `RunsAgain`."""
        registered = self._registered
        if registered.forgotten or not self._log.off:
            return None
        if self._gives_variable:
            (value,) = self._worker.enter(registered, self._kind, [], step_id, scope, BARE, None)
            return self._left(value, step_id, scope)
        values = self._worker.enter(registered, self._kind, [], step_id, scope, True, None)
        return values if registered.as_they_are else registered.fetches_in_order(values)

    def _left(self, value: Any, step_id: int, scope: Scope) -> Sequence[Any] | bytes:
        """A variable that was updated, as it leaves the task."""
        if value.__class__ is not Variable or value.array is not self._array:
            array = value.array if value.__class__ is Variable else None
            if array is None or array.ndim or array.dtype.kind not in NUMBERS:
                session, program = self._registered.session, self._registered.program
                assert isinstance(program, Program)
                return program.lent([value], StepState(session.runtime, scope, step_id))
            self._array, self._read, self.values = array, array.tobytes, (array,)
        return self._read()


class BoundChange(ChangesAgain):
    """A partition that does nothing but change one scalar variable by a constant, and may give it."""

    values: Sequence[Any] = ()

    def __init__(
        self,
        worker: Worker,
        registered: RegisteredPartition,
        direct: int,
        generation: int,
        variable: State,
        change: simple.Change,
    ) -> None:
        """generation: of the task's resources, when the variable was found."""
        self._worker = worker
        self._log = worker.log
        self._registered = registered
        self._session = registered.session
        registered.session.changed.add(variable)
        self._leaving = registered.session.leaving
        self._direct = direct != 0
        self._resources = registered.session.runtime.resources
        self._generation = generation
        self._variable = variable
        self._take, self._give_back = variable.lock.acquire, variable.lock.release
        self._kernel = change.kernel
        is_number = change.operand.dtype.char in PYTHON_NUMBERS
        self._of_numbers = _OF_NUMBERS.get(change.ufunc) if is_number else None
        # Made once: making a scalar touches as much memory as all the rest.
        self._operand = change.operand.item() if self._of_numbers else change.operand[()]
        self._gives = change.gives
        if change.gives:
            self.values = (np.zeros((), variable.dtype.np),)
        self._array: Any = None  # of the variable, as `_read` reads it
        self._read: Callable[[], bytes] = bytes

    def holds(self) -> bool:
        """See `AtOnce`."""
        return not self._registered.forgotten and self._resources.generation == self._generation

    def contents(self) -> bytes | None:
        """See `AtOnce`.  One function: each more touches as much memory as the change."""
        of_numbers, variable = self._of_numbers, self._variable
        if of_numbers is None:
            return self._by_kernel()
        if not self._take(False):
            return None
        try:
            if (
                self._worker.turns_away is not None
                or self._registered.forgotten
                or self._leaving.any
                or (self._direct and self._session.direct_over is not None)
                or self._resources.generation != self._generation
                or not self._log.off
            ):
                return None
            number = variable.number
            if number is None or variable.is_read():
                return None
            if variable.array is not self._array:
                self._have(variable.array)
            number[()] = of_numbers(number[()], self._operand)
            variable.updates += 1
            meter = self._worker.meter
            if meter is not None and not meter.tick() & NOW_AND_THEN:
                meter.check()
            return self._read()
        except ValueError:  # an integer that is too large: nothing has been changed
            return None
        finally:
            self._give_back()

    def _have(self, array: Any) -> None:
        """Read that one from now on."""
        self._array, self._read = array, array.tobytes if self._gives else bytes

    def _by_kernel(self) -> bytes | None:
        """What takes the variable's lock by itself."""
        variable = self._variable
        if not self._session.change_lock.acquire(blocking=False):
            return None
        try:
            before = variable.array
            if (
                self._worker.turns_away is not None
                or not self.holds()
                or self._leaving.any
                or (self._direct and self._session.direct_over is not None)
                or not self._log.off
                or before is None
                or before.ndim
            ):
                return None
            was = suppress_warnings()
            try:
                self._kernel(variable, self._operand)
            except (
                Exception
            ):  # of an assignment that has not been made: the general way says the same
                return None
            finally:
                restore_warnings(was)
        finally:
            self._session.change_lock.release()
        meter = self._worker.meter
        if meter is not None and not meter.tick() & NOW_AND_THEN:
            meter.check()
        if variable.array is not self._array:
            self._have(variable.array)
        return self._read()


def bound_part(worker: Worker, registered: RegisteredPartition, direct: int) -> Bound | None:
    """The partition, if it takes nothing and exchanges nothing."""
    if registered.args or registered.linked_to or not registered.alone:
        return None
    run = BoundRun(worker, registered, direct)
    return (
        _bound_reads(worker, registered, direct, run)
        or _bound_change(worker, registered, direct)
        or bound_wait(worker, registered, direct, run, MOST_BYTES)
        or run
    )


def _bound_change(
    worker: Worker, registered: RegisteredPartition, direct: int
) -> BoundChange | None:
    """The partition, if it does nothing but change one scalar variable, which has a value, by a constant."""
    program = registered.program
    found = simple.change(program) if isinstance(program, Program) else None
    if found is None:
        return None
    find, change = found
    session = registered.session
    generation = session.runtime.resources.generation
    step = StepState(session.runtime, Scope(), owner=session.handle, lends=True)
    variable = _found(find, step)
    if variable is None or (array := variable.array) is None:
        return None
    if array.ndim or array.dtype.kind not in NUMBERS or array.dtype != change.operand.dtype:
        return None
    return BoundChange(worker, registered, direct, generation, variable, change)


def _found(find: Kernel, step: StepState) -> State | None:
    """A variable in the host's memory; None if it is another one, or there is none."""
    try:
        found = find(step)
    except errors.OpError:  # the step says so
        return None
    return found if type(found) in (Variable, ResourceVariable) else None


def _are_small(values: list[Any]) -> bool:
    return (
        all(isinstance(value, np.ndarray | np.generic) for value in values)
        and all(value.dtype.kind in NUMBERS for value in values)
        and sum(value.nbytes for value in values) <= MOST_BYTES
    )


def _is_copied(array: Array) -> bool:
    dtype = array.dtype
    return array.nbytes in COPIED_BYTES and dtype.isnative and dtype.kind != "b"


def _bound_reads(
    worker: Worker, registered: RegisteredPartition, direct: int, otherwise: RunsAgain
) -> BoundReads | BoundCopy | None:
    """The partition, if it does nothing but read a few small variables that have values, or a larger one."""
    program = registered.program
    if not (registered.as_they_are and isinstance(program, Program)):
        return None
    constants = simple.constants(program)
    if constants is not None and _are_small(constants):
        return BoundConstants(worker, registered, direct, constants)
    finders = simple.finders(program)
    if not finders:
        return None
    session = registered.session
    generation = session.runtime.resources.generation
    step = StepState(session.runtime, Scope(), owner=session.handle, lends=True)
    found: list[State] = []
    for find in finders:
        variable = _found(find, step)
        if variable is None or (array := variable.array) is None:
            return None
        if array.dtype.kind not in NUMBERS:
            return None
        found.append(variable)
    if sum(variable.require().nbytes for variable in found) > MOST_BYTES:
        if len(found) > 1 or not _is_copied(found[0].require()):
            return None
        return BoundCopy(worker, registered, direct, generation, found[0], otherwise)
    return BoundReads(worker, registered, direct, generation, found)
