"""Datasets whose seeds or caches are resources, as functions of TensorFlow 2 have them; datasets of parsed Examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.graph.registry import get

ELEMENTS: dict[str, Any] = {"output_types": [tf.int64], "output_shapes": [[]]}


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def numbers() -> Any:
    return tf.data.Dataset.range(12)._variant_tensor


def passes(dataset: Any, count: int = 2) -> list[list[int]]:
    """The elements of several iterations of one dataset."""
    handle = get("IteratorV2")(shared_name="", container="", **ELEMENTS)
    begin = get("MakeIterator")(dataset, handle)
    (element,) = get("IteratorGetNext")(handle, **ELEMENTS)
    found = []
    with tf.Session() as session:
        for _ in range(count):
            session.run(begin)
            found.append([])
            while True:
                try:
                    found[-1].append(int(session.run(element)))
                except tf.errors.OutOfRangeError:
                    break
    return found


@pytest.mark.parametrize("again", [False, True], ids=["the same order", "other orders"])
def test_a_generator_of_seeds_is_what_the_seeds_would_be(again: bool) -> None:
    plain = get("ShuffleDataset")(numbers(), 5, 3, 4, reshuffle_each_iteration=again, **ELEMENTS)
    expected = passes(plain)
    handle, deleter = get("AnonymousSeedGenerator")(3, 4, again)
    assert passes(get("ShuffleDatasetV2")(numbers(), 5, handle, **ELEMENTS)) == expected
    for seeds in ((0, 0, handle), (3, 4, get("DummySeedGenerator")())):
        made = get("ShuffleDatasetV3")(
            numbers(), 5, *seeds, reshuffle_each_iteration=again, **ELEMENTS
        )
        assert passes(made) == expected
    with tf.Session() as session:
        session.run(get("DeleteSeedGenerator")(handle, deleter))


def test_the_next_pass_may_be_read_while_the_last_ends() -> None:
    plain = get("ShuffleAndRepeatDataset")(numbers(), 5, 3, 4, 2, **ELEMENTS)
    handle, deleter = get("AnonymousRandomSeedGenerator")(3, 4)
    made = get("ShuffleAndRepeatDatasetV2")(numbers(), 5, 0, 0, 2, handle, **ELEMENTS)
    assert passes(made, 1) == passes(plain, 1)
    with tf.Session() as session:
        session.run(get("DeleteRandomSeedGenerator")(handle, deleter))


def test_two_datasets_share_a_cache() -> None:
    handle, deleter = get("AnonymousMemoryCache")()
    first = get("CacheDatasetV2")(numbers(), "", handle, **ELEMENTS)
    other = tf.data.Dataset.range(3)._variant_tensor
    second = get("CacheDatasetV2")(other, "", handle, **ELEMENTS)
    both = get("ConcatenateDataset")(first, second, **ELEMENTS)
    assert passes(both, 1) == [[*range(12), *range(12)]]
    alone = get("CacheDatasetV2")(other, "", get("DummyMemoryCache")(), **ELEMENTS)
    assert passes(alone) == [[0, 1, 2]] * 2
    with tf.Session() as session:
        session.run(get("DeleteMemoryCache")(handle, deleter))


def test_what_is_no_such_resource_is_refused() -> None:
    iterator = get("IteratorV2")(shared_name="", container="", **ELEMENTS)
    for wrong in (
        get("ShuffleDatasetV2")(numbers(), 5, iterator, **ELEMENTS),
        get("CacheDatasetV2")(numbers(), "", get("DummySeedGenerator")(), **ELEMENTS),
    ):
        with (
            tf.Session() as session,
            pytest.raises(tf.errors.InvalidArgumentError, match="must be the handle of a"),
        ):
            session.run(wrong.op)


# -- examples -------------------------------------------------------------------------------------


def example(**values: list[int]) -> bytes:
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                key: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
                for key, value in values.items()
            }
        )
    ).SerializeToString()


def parsed(op: str, serialized: list[list[bytes]], **more: Any) -> Any:
    return get(op)(
        tf.data.Dataset.from_tensor_slices(serialized)._variant_tensor, 2, [tf.constant([7], tf.int64)],
        sparse_keys=["a"], dense_keys=["b"], sparse_types=[tf.int64], dense_shapes=[[1]],
        output_types=[tf.variant, tf.int64], output_shapes=[None, [None, 1]], **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    "op", ["ParseExampleDatasetV2", "ParseExampleDataset", "ExperimentalParseExampleDataset"]
)
def test_features_come_in_the_order_of_their_keys_and_a_bad_example_fails_alone(op: str) -> None:
    elements = {"output_types": [tf.variant, tf.int64], "output_shapes": [None, [None, 1]]}
    handle = get("IteratorV2")(shared_name="", container="", **elements)
    rows = [[example(a=[1, 2], b=[3])], [b"no example"], [example()]]
    begin = get("MakeIterator")(parsed(op, rows), handle)
    sparse, dense = get("IteratorGetNext")(handle, **elements)
    wanted = [*get("DeserializeSparse")(sparse, dtype=tf.int64), dense]
    with tf.Session() as session:
        session.run(begin)
        first = [each.tolist() for each in session.run(wanted)]
        assert first == [[[0, 0], [0, 1]], [1, 2], [1, 2], [[3]]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse example"):
            session.run(wanted)
        last = [each.tolist() for each in session.run(wanted)]
        assert last == [[], [], [1, 0], [[7]]]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(wanted)


def test_ragged_features_are_refused() -> None:
    ragged = {
        "ragged_keys": ["r"],
        "ragged_value_types": [tf.int64],
        "ragged_split_types": [tf.int64],
    }
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.UnimplementedError, match="use VarLenFeature"),
    ):
        session.run(parsed("ParseExampleDatasetV2", [[b""]], **ragged).op)
