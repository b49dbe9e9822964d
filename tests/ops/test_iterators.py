"""Ops of iterators and optionals, by their own names; what they raise for values that are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.graph.registry import get

ELEMENTS: dict[str, Any] = {"output_types": [tf.int64], "output_shapes": [[]]}
NAMES: dict[str, Any] = {"shared_name": "", "container": ""}


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def numbers() -> Any:
    return tf.data.Dataset.range(3)._variant_tensor


@pytest.mark.parametrize("make", ["Iterator", "IteratorV2"])
@pytest.mark.parametrize("take", ["IteratorGetNext", "IteratorGetNextSync"])
@pytest.mark.parametrize("back", ["IteratorFromStringHandle", "IteratorFromStringHandleV2"])
def test_an_iterator_is_made_begun_and_found_by_its_handle(
    make: str, take: str, back: str, numbers: Any
) -> None:
    handle = get(make)(**NAMES, **ELEMENTS)
    begin = get("MakeIterator")(numbers, handle)
    text = get("IteratorToStringHandle")(handle)
    (element,) = get(take)(handle, **ELEMENTS)
    (other,) = get(take)(get(back)(text, **ELEMENTS), **ELEMENTS)
    with tf.Session() as session:
        session.run(begin)
        assert [session.run(each) for each in (element, other, element)] == [0, 1, 2]
        device = session.run(get("IteratorGetDevice")(handle))
        assert device.endswith(b"CPU:0")


def test_a_deleted_iterator_is_gone(numbers: Any) -> None:
    handle = get("IteratorV2")(**NAMES, **ELEMENTS)
    begin = get("MakeIterator")(numbers, handle)
    (element,) = get("IteratorGetNext")(handle, **ELEMENTS)
    delete = get("DeleteIterator")(handle, get("OptionalNone")())
    with tf.Session() as session:
        session.run(begin)
        assert session.run(element) == 0
        session.run(delete)
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            session.run(element)


def test_an_optional_has_an_element_or_none(numbers: Any) -> None:
    handle = get("IteratorV2")(**NAMES, **ELEMENTS)
    begin = get("MakeIterator")(numbers, handle)
    optional = get("IteratorGetNextAsOptional")(handle, **ELEMENTS)
    has = get("OptionalHasValue")(optional)
    (value,) = get("OptionalGetValue")(optional, **ELEMENTS)
    with tf.Session() as session:
        session.run(begin)
        for expected in range(3):
            assert session.run([has, value]) == [True, expected]
        assert not session.run(has)
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
            session.run(value)


def test_an_optional_is_made_of_tensors() -> None:
    optional = get("OptionalFromValue")([tf.constant([1, 2]), tf.constant("x")])
    made = get("OptionalGetValue")(
        optional, output_types=[tf.int32, tf.string], output_shapes=[[2], []]
    )
    none = get("OptionalHasValue")(get("OptionalNone")())
    with tf.Session() as session:
        numbers, text = session.run(made)
        assert (numbers.tolist(), text) == ([1, 2], b"x")
        assert not session.run(none)


def test_how_many_elements_there_are(numbers: Any) -> None:
    ops = ("DatasetCardinality", "ExperimentalDatasetCardinality")
    counts = [get(each)(numbers) for each in ops]
    single = get("DatasetToSingleElement")(numbers, **ELEMENTS)
    with tf.Session() as session:
        assert session.run(counts) == [3, 3]
        with pytest.raises(tf.errors.InvalidArgumentError, match="had more than one element"):
            session.run(single)


def test_what_is_no_position_is_refused(numbers: Any) -> None:
    handle = get("IteratorV2")(**NAMES, **ELEMENTS)
    restore = get("DeserializeIterator")(handle, get("OptionalNone")())
    save = get("SerializeIterator")(handle)
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="position of an iterator"):
            session.run(restore)
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            session.run(save.op)


def test_what_is_no_dataset_or_iterator_is_refused(numbers: Any) -> None:
    variable = tf.get_variable("v", [], use_resource=True)
    for wrong in (
        get("MakeIterator")(numbers, variable.handle),
        get("MakeIterator")(get("OptionalNone")(), get("IteratorV2")(**NAMES, **ELEMENTS)),
        get("OptionalHasValue")(numbers).op,
    ):
        with (
            tf.Session() as session,
            pytest.raises(
                tf.errors.InvalidArgumentError,
                match=r"expected|Dataset object|OptionalVariant object",
            ),
        ):
            session.run(wrong)
