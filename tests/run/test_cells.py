"""What loops keep, as arrays: there and back again, and what there is no room for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.devices.device import HOST
from headrace.run.state import cells
from headrace.run.state.cells import Seen
from headrace.run.state.rows import whole_of
from headrace.run.state.stacks import Stack
from headrace.run.state.tensor_arrays import TensorArray
from headrace.run.state.tensor_lists import TensorList

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def array(size: int = 3, **more: Any) -> TensorArray:
    return TensorArray("array", dtypes.float32, None, size, **more)


def test_an_array_of_tensors_becomes_what_a_program_leaves() -> None:
    one = array()
    one.write(0, ROWS[0])
    how = cells.kept(one, None, False)
    assert how is not None
    assert (how.room, how.shape, how.zeros) == (3, (2,), False)
    packed = cells.packed(one, how, HOST)
    assert packed is not None
    packed = packed._replace(values=ROWS, marks=np.array([1, 1, 0], np.int8))
    cells.unpack(one, packed, how, HOST, 3)
    np.testing.assert_array_equal(one.read(1), ROWS[1])
    with pytest.raises(errors.InvalidArgumentError, match="already been read"):
        one.write(1, ROWS[1])
    with pytest.raises(errors.InvalidArgumentError, match="not been written"):
        one.read(2)
    one.write(2, ROWS[0])


def test_what_a_program_leaves_goes_on_whole() -> None:
    one = array(clear_after_read=False)
    how = cells.kept(one, Seen(3, (2,)), False)
    assert how is not None
    written = cells.Cells(ROWS, np.ones(3, np.int8), np.int32(3))
    cells.unpack(one, written, how, HOST, 3)
    again = cells.packed(one, how, HOST)
    assert again is not None
    assert again.values is ROWS
    assert one.read_whole([0, 1, 2]) is ROWS
    assert one.read_whole([0, 2, 1]) is None
    gradient = one.gradient("gradients")
    gradient.write(1, ROWS[0])
    gradient.write(1, ROWS[0])
    np.testing.assert_array_equal(gradient.read(1), 2 * ROWS[0])


def test_a_stack_has_room_for_as_many_as_there_were() -> None:
    stack = Stack("stack", dtypes.float32, -1)
    assert cells.kept(stack, None, False) is None
    how = cells.kept(stack, Seen(3, (2,)), False)
    assert how is not None
    assert how.room == 4
    left = cells.Cells(np.concatenate([ROWS, ROWS[:1]]), None, np.int32(3))
    cells.unpack(stack, left, how, HOST, 3)
    assert whole_of(stack.contents()) is left.values
    np.testing.assert_array_equal(stack.pop(), ROWS[2])
    stack.push(ROWS[0])
    packed = cells.packed(stack, how, HOST)
    assert packed is not None
    np.testing.assert_array_equal(packed.values, [*ROWS[:2], ROWS[0], [0, 0]])
    limited = Stack("limited", dtypes.float32, 3)
    how = cells.kept(limited, Seen(3, (2,)), False)
    assert how is not None
    assert how.room == 3


def test_what_is_empty_may_be_left_to_the_program() -> None:
    stack = Stack("stack", dtypes.float32, -1)
    how = cells.kept(stack, Seen(3, (2,)), False)
    assert how is not None
    bare = cells.packed(stack, how, HOST, bare=True)
    assert bare is not None
    assert bare.values is None
    stack.push(ROWS[0])
    full = cells.packed(stack, how, HOST, bare=True)
    assert full is not None
    np.testing.assert_array_equal(full.values, [ROWS[0], [0, 0], [0, 0], [0, 0]])


def test_a_list_keeps_what_was_never_set() -> None:
    items = TensorList(dtypes.float32, (2,), [ROWS[0], None])
    how = cells.kept(items, None, False)
    assert how is not None
    packed = cells.packed(items, how, HOST)
    assert packed is not None
    assert packed.length is None
    made = cells.list_of(packed, how, HOST, items)
    np.testing.assert_array_equal(made.item_at(0), ROWS[0])
    assert made.item_at(1) is None


def test_what_differs_cannot_be_kept() -> None:
    several = TensorList(dtypes.float32, None, [ROWS[0], ROWS])
    assert cells.kept(several, None, False) is None
    text = TensorList(dtypes.string, (), [np.array(b"a", object)])
    assert cells.kept(text, None, False) is None
    alike = Stack("alike", dtypes.int32, -1)
    for _ in range(2):
        alike.push(np.array([2, 3], np.int32))
    how = cells.kept(alike, Seen(2, (2,)), False)
    assert how is not None
    known = cells.with_alike(how, alike)
    assert known is not None
    assert known.element.tolist() == [2, 3]
    alike.push(np.array([2, 4], np.int32))
    assert cells.with_alike(how, alike) is None
