"""Lists of tensors as values: they never change, share memory along a chain of changes, and travel as messages."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec.tensors import decode, encode
from headrace.run.state.optionals import Optional, RaggedRow
from headrace.run.state.tensor_lists import TensorList
from headrace.run.state.variants import Variant, arriving, as_array, single, total, zeros_like


def made(*values: Any) -> TensorList:
    return TensorList(dtypes.float32, None, [np.float32(value) for value in values])


def numbers(items: TensorList) -> list[Any]:
    return [None if item is None else float(item) for item in items.items()]


def test_every_version_of_a_list_stays_as_it_was() -> None:
    chance = random.Random(5)
    versions: list[tuple[TensorList, list[Any]]] = [(made(), [])]
    for step in range(2000):
        items, expected = chance.choice(versions[-3:] if step % 3 else versions)
        expected = list(expected)
        kind = chance.choice("push push push pop set get resize".split())
        if kind == "push":
            items = items.pushed(np.float32(step))
            expected.append(float(step))
        elif kind == "pop" and expected:
            items, value = items.popped()
            last = expected.pop()
            assert value == last or value is last
        elif kind == "set" and expected:
            at = chance.randrange(len(expected))
            items = items.changed(at, np.float32(step))
            expected[at] = float(step)
        elif kind == "get" and expected:
            at = chance.randrange(len(expected))
            found = items.item_at(at)
            assert found == expected[at] or found is expected[at]
        elif kind == "resize":
            size = chance.randrange(8)
            items = items.resized(size)
            expected = expected[:size] + [None] * (size - len(expected))
        versions.append((items, expected))
    chance.shuffle(versions)
    for items, expected in versions:
        assert items.length == len(expected)
        assert numbers(items) == expected


@pytest.mark.parametrize("kind", ["push", "set"])
def test_a_chain_of_changes_shares_one_memory(kind: str) -> None:
    first = items = made(*range(4))
    memory = items._items
    for number in range(100):
        items = items.pushed(np.float32(number)) if kind == "push" else items.changed(2, number)
    assert items._items is memory
    assert numbers(first) == [0, 1, 2, 3]
    assert items._items is memory


def test_what_only_older_lists_referred_to_goes_with_them() -> None:
    value = np.zeros(3, np.float32)
    items = TensorList(dtypes.float32, (3,), [value, value])
    count = sys.getrefcount(value)
    items, popped = items.popped()
    del popped
    assert sys.getrefcount(value) == count - 1


def test_an_empty_list_keeps_nothing_of_those_that_begin_with_it() -> None:
    empty = made()
    value = np.zeros(3, np.float32)
    count = sys.getrefcount(value)
    grown = empty.pushed(value)
    assert sys.getrefcount(value) == count + 1
    del grown
    assert sys.getrefcount(value) == count


def test_threads_that_change_one_list_each_get_their_own() -> None:
    start = made(*range(50))
    found: dict[int, list[Any]] = {}

    def change(number: int) -> None:
        items = start
        for _ in range(200):
            items = items.changed(number, np.float32(-number)).pushed(np.float32(number))
            items, _last = items.popped()
        found[number] = numbers(items)

    threads = [threading.Thread(target=change, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(start) == list(range(50))
    for number, values in found.items():
        assert values == [-n if n == number else n for n in range(50)]


# -- variants ---------------------------------------------------------------------------------------------------------


def test_a_variant_is_a_scalar_to_numpy() -> None:
    items = made(1)
    assert np.shape(items) == ()
    assert np.asarray(items).dtype == object
    assert np.stack([items, items]).shape == (2,)
    assert items.reshape(1)[0] is items
    assert single(as_array(items), TensorList, "", "") is items


def test_kinds_without_zero_or_sum_say_so() -> None:
    class Odd(Variant):
        type_name = "odd"

    with pytest.raises(errors.InternalError, match="No unary variant unary_op function found"):
        zeros_like(Odd())
    with pytest.raises(errors.InternalError, match="No unary variant binary_op function found"):
        total((Odd(), Odd()))
    with pytest.raises(errors.InternalError, match="have different type ids"):
        total((Odd(), made(1)))
    with pytest.raises(errors.InvalidArgumentError, match="cannot leave its task"):
        encode(as_array(Odd()), dtypes.variant)


def sent(value: Any) -> Any:
    message = pb.TensorProto.FromString(encode(value, dtypes.variant).SerializeToString())
    return arriving(decode(message))


def test_lists_travel_with_what_is_not_set_and_lists_inside() -> None:
    inner = TensorList(dtypes.string, (), [np.array(b"a", object), np.array(b"", object)], 7)
    outer = TensorList(dtypes.variant, None, [inner, None, as_array(inner)])
    found = single(sent(outer), TensorList, "", "")
    assert found.element_dtype is dtypes.variant
    assert found.element_shape is None
    first, unset, last = found.items()
    assert unset is None
    assert found.max_num_elements == -1
    for each in (first, last):
        again = single(each, TensorList, "", "")
        assert [item.item() for item in again.items()] == [b"a", b""]
        assert (again.element_shape, again.max_num_elements) == ((), 7)
    partly = TensorList(dtypes.int32, (None, 2), [None, np.zeros((1, 2), np.int32), None])
    again = sent(partly)
    assert [item if item is None else item.tolist() for item in again.items()] == [
        None,
        [[0, 0]],
        None,
    ]
    assert again.element_shape == (None, 2)


def test_optionals_and_ragged_rows_travel() -> None:
    some = Optional((np.float32(3), made(1)), (dtypes.float32, dtypes.variant))
    found = sent(np.array([some, Optional((), (), False)], object))
    assert [each.has_value for each in found] == [True, False]
    number, items = found[0].values
    assert number == 3
    assert numbers(single(items, TensorList, "", "")) == [1]
    row = sent(
        RaggedRow((np.array([0, 2]), np.array([5, 6], np.int32)), (dtypes.int64, dtypes.int32))
    )
    assert [value.tolist() for value in row.values] == [[0, 2], [5, 6]]


def test_kinds_that_nobody_knows_pass_as_messages() -> None:
    message = pb.VariantTensorDataProto(type_name="somebody's", metadata=b"x")
    (found,) = sent(np.array([message], object))
    assert found == message


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\x01", b"\xff" * 12, b"\x00\x63\x01", b"\x01\x05\x01\x01", b"\x00\x01\x01\xff\xff"],
)
def test_messages_that_hold_no_list_are_refused(metadata: bytes) -> None:
    message = pb.VariantTensorDataProto(type_name="tensorflow::TensorList", metadata=metadata)
    with pytest.raises(errors.InvalidArgumentError):
        arriving(np.array([message], object))
