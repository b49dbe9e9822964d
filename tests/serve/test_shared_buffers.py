"""Variables that other processes use where they are: whatever is done to them, what was lent stays as it was.

Lenders and borrowers of one process stand for two; the memory is mapped twice all the same.
"""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import headrace.ops  # noqa: F401  registers every op
from headrace.base import dtypes, errors
from headrace.graph.registry import OPS
from headrace.run.state import shared_buffers
from headrace.run.state.shared_buffers import GRAIN, READ_ONLY, SEALS, BufferPool, OutputPool
from headrace.run.state.variable import Variable
from headrace.serve.lane import shared_memory
from headrace.serve.lane.shared_memory import BOARD, Borrower, Lender

pytestmark = pytest.mark.skipif(
    not shared_buffers.AVAILABLE, reason="no memory files on this system"
)

SHAPE = (40, 500)
SIZE = -(-4 * 40 * 500 // GRAIN) * GRAIN
NUMBERS = st.integers(1, 9).map(np.float32)
PLACES = st.integers(0, 1)


def variable(number: Any = 1, shape: tuple[int, ...] = SHAPE) -> Variable:
    made = Variable("v", dtypes.float32, shape)
    made.assign(np.full(shape, number, np.float32))
    return made


class Connection:
    """Both ends of a connection."""

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self.lender = Lender(max_bytes)
        self.borrower = Borrower(max_bytes)

    def send(self, held: Variable) -> Any:
        """The array at the other end, None if it is to go by other means; the lease is over."""
        lease = held.lease()
        lent = self.lender.lend_variable(lease)
        for fd in self.lender.descriptors():
            self.borrower.accept(fd)
        got = lent and self.borrower.array(lent.number, lent.dtype, lent.shape)
        lease.release()
        return got

    def warm(self, held: Variable) -> Any:
        """The same for one that was sent before."""
        assert self.send(held) is None
        return self.send(held)

    def close(self) -> None:
        self.lender.close()
        self.borrower.close()


def place(value: Any) -> int:
    found: int = value.__array_interface__["data"][0]
    return found


def add(held: Variable, number: float = 1.0) -> None:
    kernel = OPS["AssignAdd"].kernel
    assert kernel is not None
    kernel(np, held, np.full(SHAPE, number, np.float32))


# -- a model --------------------------------------------------------------------------------------


class Lending(RuleBasedStateMachine):
    """Two variables, two connections, and all that was received and is still looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []
        self.held: list[Variable] = []
        self.connections = [Connection(), Connection()]
        self.looking: list[tuple[int, Any, Any, Any]] = []  # variable, array there, here, as it was
        self.closed: list[
            Any
        ] = []  # shared buffers of which something was out when their connection ended

    @initialize(number=NUMBERS)
    def begin(self, number: Any) -> None:
        self.values = [np.full(SHAPE, number), np.full(SHAPE, number + 1)]
        self.held = [variable(number), variable(number + 1)]

    @rule(which=PLACES, connection=PLACES)
    def lend(self, which: int, connection: int) -> None:
        got = self.connections[connection].send(self.held[which])
        if got is not None:
            self.looking.append((which, got, self.held[which].array, self.values[which]))

    @precondition(lambda self: self.looking)
    @rule(data=st.data())
    def look_away(self, data: st.DataObject) -> None:
        self.looking.pop(data.draw(st.integers(0, len(self.looking) - 1)))

    @rule(connection=PLACES)
    def connect_anew(self, connection: int) -> None:
        before = [held.buffer and held.buffer.is_lent for held in self.held]
        self.connections[connection].close()
        self.connections[connection] = Connection()
        assert [held.buffer and held.buffer.is_lent for held in self.held] == before
        self.closed += [held.buffer for held in self.held if held.buffer and held.buffer.is_lost]

    def changed(self, which: int, name: str, *inputs: Any, **attrs: Any) -> None:
        """Run an op that updates; it is in place exactly if nobody looks."""
        held = self.held[which]
        before, buffer = held.array, held.buffer
        looked_at = any(here is before for _, _, here, _ in self.looking) or buffer in self.closed
        kernel = OPS[name].kernel
        assert kernel is not None
        kernel(np, held, *inputs, **attrs)
        assert (held.array is before) == (not looked_at or buffer is None)
        assert (held.buffer is buffer) == (held.array is before)

    @rule(which=PLACES, number=NUMBERS)
    def assign(self, which: int, number: Any) -> None:
        self.values[which] = np.full(SHAPE, number)
        self.changed(which, "Assign", self.values[which], validate_shape=True)

    @rule(which=PLACES, number=NUMBERS)
    def assign_add(self, which: int, number: Any) -> None:
        self.values[which] = self.values[which] + number
        self.changed(which, "AssignAdd", np.full(SHAPE, number))

    @rule(which=PLACES, number=NUMBERS)
    def descend(self, which: int, number: Any) -> None:
        delta = np.full(SHAPE, number)
        self.values[which] = self.values[which] - 2 * delta
        self.changed(which, "ApplyGradientDescent", np.float32(2.0), delta)

    @rule(which=PLACES, columns=st.integers(1, 700), number=NUMBERS)
    def replace(self, which: int, columns: int, number: Any) -> None:
        """By a value of another shape, and back."""
        held = self.held[which]
        held.assign(np.full((3, columns), number), validate_shape=False)
        self.values[which] = np.full(SHAPE, number)
        held.assign(self.values[which], validate_shape=False)

    @rule(which=PLACES, number=NUMBERS)
    def reset(self, which: int, number: Any) -> None:
        self.held[which].reset()
        assert self.held[which].buffer is None
        self.values[which] = np.full(SHAPE, number)
        self.held[which].assign(self.values[which])

    @invariant()
    def nothing_is_torn(self) -> None:
        for held, value in zip(self.held, self.values, strict=True):
            assert np.array_equal(held.array, value)
        for _, there, _, value in self.looking:
            assert np.array_equal(there, value)
            assert not there.flags.writeable

    def teardown(self) -> None:
        for connection in self.connections:
            connection.close()


TestLending = Lending.TestCase
TestLending.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


# -- what is copied, and what is not ----------------------------------------------------------------


def test_a_variable_that_is_sent_again_is_not_copied() -> None:
    held, connection = variable(), Connection()
    assert connection.send(held) is None
    first = connection.send(held)
    buffer = held.buffer
    second = connection.send(held)
    assert place(first) == place(second)
    assert held.buffer is buffer
    add(held)
    assert held.buffer is not buffer
    assert first[0, 0] == second[0, 0] == 1
    assert connection.send(held)[0, 0] == 2


def test_homes_take_turns() -> None:
    held, connection = variable(), Connection()
    got = connection.warm(held)
    places = set()
    for number in range(2, 8):
        add(held)
        got = connection.send(held)
        assert got[0, 0] == number
        places.add((place(held.array), place(got)))
    assert len(places) == 2, "the one that is looked at, and the one that comes next"


def test_an_update_waits_for_the_last_of_several_that_look() -> None:
    held, connection = variable(), Connection()
    got = [connection.warm(held), connection.send(held), connection.send(held)]
    before = held.array
    assert before is not None
    got.pop()
    got.pop(0)
    view = got.pop()[3:, ::2].T
    add(held)
    assert held.array is not before
    assert np.all(view == 1)


def test_a_lease_that_has_moved_counts_until_its_release() -> None:
    held = variable()
    lease = held.lease()
    buffer = lease.move()
    assert buffer is held.buffer is lease.buffer
    before = held.array
    add(held)
    assert held.array is not before
    assert np.all(lease.array == 1)
    lease.release()
    before = held.array
    add(held)
    assert held.array is before
    lease = held.lease()
    lease.move()
    before = held.array
    del lease
    gc.collect()
    add(held)
    assert held.array is before


def test_what_has_changed_since_does_not_move() -> None:
    held = variable()
    lease = held.lease()
    add(held)
    assert lease.move() is None
    assert held.buffer is None
    assert np.all(lease.array == 1)


def test_tables_of_which_rows_are_updated_are_not_lent() -> None:
    held, connection = variable(), Connection()
    got = connection.warm(held)
    kernel = OPS["ScatterUpdate"].kernel
    assert kernel is not None
    kernel(np, held, np.int32([3]), np.float32(5))
    assert np.all(got == 1)
    assert connection.send(held) is None
    assert connection.send(held) is None


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.string])
def test_what_is_never_lent(dtype: Any) -> None:
    held = Variable("v", dtype, (9,))
    held.assign(np.zeros(9, bool) if dtype is dtypes.bool else np.full(9, b"x", object))
    connection = Connection()
    assert [connection.send(held) for _ in range(3)] == [None] * 3


def test_a_connection_that_ends_with_something_out_spoils_the_home() -> None:
    held, connection = variable(), Connection()
    got = connection.warm(held)
    connection.close()
    first = held.array
    add(held)
    assert held.array is not first
    assert np.all(got == 1)
    second, connection = held.array, Connection()
    del got
    assert connection.send(held) is not None  # and looks away at once
    connection.close()
    add(held)
    assert held.array is second


def test_variables_outlive_what_was_lent_of_them() -> None:
    held, connection = variable(), Connection()
    got = connection.warm(held)
    del held
    gc.collect()
    assert np.all(got == 1)


def test_memory_of_variables_that_are_gone_makes_room_on_both_sides() -> None:
    connection = Connection(2 * SIZE)
    for number in range(5):
        held = variable(number)
        if not number:
            connection.send(held)
        assert np.all(connection.send(held) == number)
        del held
    one, two, three = variable(1), variable(2), variable(3)
    assert connection.send(one) is not None
    assert connection.send(two) is not None
    assert connection.send(three) is None, "there is no room for a third"
    add(two)
    assert np.all(connection.send(one) == 1)


def test_no_more_homes_are_kept_than_are_used() -> None:
    held, connections = variable(), [Connection() for _ in range(6)]
    connections[0].send(held)
    kept = []
    for connection in connections:
        connection.lender._comes_again(SIZE)
        kept.append(connection.send(held))
        add(held)
    assert [got[0, 0] for got in kept] == [1, 2, 3, 4, 5, 6]
    kept.clear()
    kept.append(connections[0].send(held))
    add(held)
    assert held._buffers is not None
    assert len(held._buffers._all) <= 4
    assert kept[0][0, 0] == 7


def test_without_memory_for_a_home_nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "no space left")

    held, other, connection = variable(), variable(), Connection()
    assert connection.warm(other) is not None
    kept = connection.send(other)
    monkeypatch.setattr(os, "posix_fallocate", none_left)
    before = held.array
    assert [connection.send(held) for _ in range(3)] == [None] * 3
    assert held.array is before
    add(other)
    assert other.buffer is None
    assert np.all(other.require() == 2)
    assert np.all(kept == 1)
    assert BufferPool().free(100) is None


# -- results that are made where they are sent from -------------------------------------------------


def result(pool: OutputPool, number: float) -> Any:
    made = pool.array(np.dtype(np.float32), SHAPE)
    if made is not None:
        made[...] = number
    return made


def lent(connection: Connection, made: Any) -> Any:
    """It at the other end."""
    buffer = shared_buffers.buffer_of(made)
    assert buffer is not None
    found = connection.lender.lend_buffer(buffer, made)
    assert found is not None
    for fd in connection.lender.descriptors():
        connection.borrower.accept(fd)
    return connection.borrower.array(found.number, found.dtype, found.shape)


def test_a_result_has_the_memory_of_the_one_before_when_nobody_looks_at_that() -> None:
    pool, connection = OutputPool(), Connection()
    first = result(pool, 1)
    where = place(first)
    got = lent(connection, first)
    del first
    second = result(pool, 2)
    assert place(second) != where, "the receiver still has it"
    again = lent(connection, second)
    assert got.min() == got.max() == 1
    assert again.min() == again.max() == 2
    del got
    assert place(result(pool, 3)) == where
    del again
    assert place(result(pool, 4)) == where
    assert second.max() == 2, "the sender itself still has it"


def test_results_that_are_kept_take_other_memory_in_the_end() -> None:
    pool, connection = OutputPool(), Connection()
    kept = []
    while (made := result(pool, len(kept))) is not None:
        kept.append(lent(connection, made))
        del made
    assert len(kept) == 8
    assert [got.max() for got in kept] == list(range(8))
    del kept[3]
    assert result(pool, 9) is not None


def test_results_that_are_not_lent_take_other_memory_for_a_while() -> None:
    pool, connection = OutputPool(), Connection()
    assert result(pool, 1) is not None
    pause = 0
    while (made := result(pool, 2)) is None:
        pause += 1
    assert pause > 9
    lent(connection, made)
    del made
    assert all(lent(connection, result(pool, number)).max() == number for number in range(9))


def test_memory_of_results_goes_with_the_connection() -> None:
    pool, connection = OutputPool(), Connection()
    made = result(pool, 1)
    got, buffer = lent(connection, made), weakref.ref(shared_buffers.buffer_of(made))  # type: ignore[arg-type]
    del made
    assert buffer() is not None
    connection.close()
    assert buffer() is None
    assert got.max() == 1


def test_only_the_array_itself_lies_in_a_home() -> None:
    pool = OutputPool()
    made = result(pool, 1)
    assert shared_buffers.buffer_of(made) is not None
    assert shared_buffers.buffer_of(made[1:]) is None
    assert shared_buffers.buffer_of(made.copy()) is None
    assert shared_buffers.buffer_of(made.T) is None
    del pool
    assert shared_buffers.buffer_of(made) is None, "the program is gone, its result is not"
    assert made.max() == 1


def test_without_memory_results_are_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "posix_fallocate", none_left)
    assert result(OutputPool(), 1) is None


# -- what is refused ------------------------------------------------------------------------------


def sealed(size: int, seals: int) -> int:
    fd = shared_buffers.memory_file(size)
    shared_buffers.seal(fd, seals)
    return fd


def board() -> int:
    return sealed(BOARD, SEALS | shared_memory._FINAL)


def test_nobody_else_can_write_to_a_home() -> None:
    held, connection = variable(), Connection()
    got = connection.warm(held)
    with pytest.raises(ValueError, match="WRITEABLE"):
        got.flags.writeable = True
    assert held.buffer is not None
    with pytest.raises(PermissionError):
        shared_buffers.mapped(held.buffer.fd, SIZE)
    with pytest.raises(PermissionError):
        os.write(held.buffer.fd, b"x")
    with pytest.raises(PermissionError):
        os.ftruncate(held.buffer.fd, 0)


def test_boards_and_homes_that_do_not_belong_are_refused_and_closed() -> None:
    borrower = Borrower(3 * SIZE)
    with pytest.raises(errors.InvalidArgumentError, match="no board"):
        borrower.accept(sealed(SIZE, SEALS | READ_ONLY))
    with pytest.raises(errors.InvalidArgumentError, match="the only one"):
        borrower.accept(sealed(BOARD * 2, SEALS | shared_memory._FINAL))
    borrower.accept(board())
    with pytest.raises(errors.InvalidArgumentError, match="the only one"):
        borrower.accept(board())
    borrower.accept(sealed(2 * SIZE, SEALS | READ_ONLY))
    with pytest.raises(errors.ResourceExhaustedError, match=f"{SIZE} are left"):
        borrower.accept(sealed(2 * SIZE, SEALS | READ_ONLY))
    assert borrower.array(1, np.dtype(np.int8), (2 * SIZE,)).sum() == 0
    for number, size in ((1, 2 * SIZE + 1), (2, 1)):
        with pytest.raises(errors.InvalidArgumentError, match="said to be in shared memory"):
            borrower.array(number, np.dtype(np.int8), (size,))


def test_no_more_homes_than_the_board_has_places_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "BUFFERS", 2)
    monkeypatch.setattr(shared_memory, "BOARD", 32)
    with pytest.raises(errors.InvalidArgumentError, match="not one of a sealed memory file"):
        Borrower(1 << 30).accept(sealed(32, SEALS | shared_memory._FINAL))
    monkeypatch.setattr(shared_memory, "BOARD", BOARD)
    connection, kept = Connection(), [variable(number) for number in range(3)]
    connection.send(kept[0])
    assert [connection.send(held) is not None for held in kept] == [True, True, False]
    with pytest.raises(errors.InvalidArgumentError, match="no board"):
        connection.borrower.accept(sealed(SIZE, SEALS | READ_ONLY))
