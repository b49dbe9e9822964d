"""Ops of datasets with functions, by their own names; the numbers that they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.registry import get
from headrace.library.data.specs import DatasetSpec
from headrace.library.data.structured_functions import StructuredFunction
from headrace.library.data.structures import DatasetLeaf, TensorLeaf

NUMBER = TensorLeaf(tf.int64, [])
ELEMENTS: dict[str, Any] = {"output_types": [tf.int64], "output_shapes": [[]]}
Range = tf.data.Dataset.range


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def function(call: Callable[..., Any], *arguments: Any) -> pb.NameAttrList:
    return StructuredFunction(call, "call()", arguments or (NUMBER,)).reference


def five() -> Any:
    return Range(5)._variant_tensor


def elements(variant: Any) -> list[Any]:
    handle = get("IteratorV2")(
        shared_name="", container="", output_types=[tf.int64], output_shapes=[None]
    )
    begin = get("MakeIterator")(variant, handle)
    (element,) = get("IteratorGetNext")(handle, output_types=[tf.int64], output_shapes=[None])
    found = []
    with tf.Session() as session:
        session.run(begin)
        while True:
            try:
                found.append(np.asarray(session.run(element)).tolist())
            except tf.errors.OutOfRangeError:
                return found


def twice(x: Any) -> Any:
    return x * 2


def mapped(op: str, *numbers: Any, **attrs: Any) -> Any:
    attrs = {**ELEMENTS, **attrs}
    return get(op)(five(), [], *numbers, f=function(twice), **attrs)


def nested(op: str, *numbers: Any, **attrs: Any) -> Any:
    return get(op)(five(), [], *numbers, f=function(Range), **ELEMENTS, **attrs)


def of_states(op: str) -> Any:
    f = function(lambda state, x: (state + x, state), NUMBER, NUMBER)
    return get(op)(five(), [np.int64(1)], [], f=f, **ELEMENTS)


def windows(op: str) -> Any:
    return get(op)(
        five(),
        [],
        [],
        [],
        key_func=function(lambda x: x % 2),
        reduce_func=function(
            lambda key, held: held.batch(2), NUMBER, DatasetLeaf(DatasetSpec(NUMBER.spec))
        ),
        window_size_func=function(lambda key: key + 2),
        output_types=[tf.int64],
        output_shapes=[[None]],
    )


def reductions(op: str) -> Any:
    return get(op)(
        five(),
        [],
        [],
        [],
        [],
        key_func=function(lambda x: x % 2),
        init_func=function(lambda key: key * 100),
        reduce_func=function(lambda state, x: state + x, NUMBER, NUMBER),
        finalize_func=function(twice),
        **ELEMENTS,
    )


def below(op: str, attr: str = "predicate") -> Any:
    return get(op)(five(), [], **{attr: function(lambda x: x < 3)}, **ELEMENTS)


DOUBLED = [0, 2, 4, 6, 8]
BATCHED = [[0, 2], [4, 6], [8]]
FLAT = [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
IN_TURN = [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
CASES: dict[str, tuple[Callable[[str], Any], list[Any]]] = {
    "MapDataset": (mapped, DOUBLED),
    "ParallelMapDataset": (lambda op: mapped(op, np.int32(2)), DOUBLED),
    "ParallelMapDatasetV2": (lambda op: mapped(op, 2), DOUBLED),
    "MapAndBatchDataset": (lambda op: mapped(op, 2, 1, False, output_shapes=[[None]]), BATCHED),
    "ExperimentalMapAndBatchDataset": (
        lambda op: mapped(op, 2, -1, True, output_shapes=[[None]]),
        BATCHED[:2],
    ),
    "FilterDataset": (below, [0, 1, 2]),
    "TakeWhileDataset": (below, [0, 1, 2]),
    "ExperimentalTakeWhileDataset": (below, [0, 1, 2]),
    "FlatMapDataset": (nested, FLAT),
    "InterleaveDataset": (lambda op: nested(op, 1, 2), FLAT),
    "ParallelInterleaveDatasetV2": (lambda op: nested(op, 1, 2, 1), FLAT),
    "ParallelInterleaveDatasetV3": (lambda op: nested(op, 1, 2, 1), FLAT),
    "ParallelInterleaveDatasetV4": (lambda op: nested(op, 1, 2, 1, 1, 1), FLAT),
    "LegacyParallelInterleaveDatasetV2": (lambda op: nested(op, 1, 2, 1, 1), FLAT),
    "ParallelInterleaveDataset": (lambda op: nested(op, 1, 2, False, 1, 1), FLAT),
    "ExperimentalParallelInterleaveDataset": (lambda op: nested(op, 1, 2, True, 1, 1), FLAT),
    "ScanDataset": (of_states, [1, 1, 2, 4, 7]),
    "ExperimentalScanDataset": (of_states, [1, 1, 2, 4, 7]),
    "GroupByWindowDataset": (windows, [[0, 2], [1, 3], [4]]),
    "ExperimentalGroupByWindowDataset": (windows, [[0, 2], [4], [1, 3]]),
    "GroupByReducerDataset": (reductions, [12, 208]),
    "ExperimentalGroupByReducerDataset": (reductions, [12, 208]),
}


@pytest.mark.parametrize("op", CASES)
def test_elements(op: str) -> None:
    make, expected = CASES[op]
    found = elements(make(op))
    assert found == expected if "Window" not in op else sorted(found) == sorted(expected)


def test_a_reduction_gives_its_last_state() -> None:
    f = function(lambda state, x: (state + x,), NUMBER, NUMBER)
    (total,) = get("ReduceDataset")(five(), [np.int64(1)], [], f=f, **ELEMENTS)
    with tf.Session() as session:
        assert session.run(total) == 11


def test_a_generator_goes_on_to_its_end() -> None:
    more = tf.FIFOQueue(9, tf.int64, [[]], shared_name="more")

    following = StructuredFunction(lambda state: more.dequeue() + state, "next()", (NUMBER,))
    made = get("GeneratorDataset")(
        [],
        list(following.captured),
        [],
        init_func=StructuredFunction(lambda: tf.constant(10, tf.int64), "init()", ()).reference,
        next_func=following.reference,
        finalize_func=function(twice),
        **ELEMENTS,
    )
    handle = get("IteratorV2")(shared_name="", container="", **ELEMENTS)
    begin = get("MakeIterator")(made, handle)
    (element,) = get("IteratorGetNext")(handle, **ELEMENTS)
    with tf.Session() as session:
        session.run(begin)
        session.run(more.enqueue_many([[1, 2, 3]]))
        session.run(more.close())
        assert [session.run(element) for _ in range(3)] == [11, 12, 13]
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)


def test_a_one_shot_iterator_begins_by_itself() -> None:
    factory = StructuredFunction(lambda: Range(2), "make()", ()).reference
    handle = get("OneShotIterator")(dataset_factory=factory, **ELEMENTS)
    (element,) = get("IteratorGetNext")(handle, **ELEMENTS)
    with tf.Session() as session:
        assert [session.run(element) for _ in range(2)] == [0, 1]
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            session.run(element)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: get("MapDataset")(five(), [1], f=function(twice), **ELEMENTS),
            "takes 1 arguments and was given 2",
        ),
        (
            lambda: mapped("ParallelMapDataset", np.int32(0)),
            "num_parallel_calls must be greater than zero",
        ),
        (
            lambda: mapped("ParallelMapDatasetV2", -2),
            "num_parallel_calls must be greater than zero",
        ),
        (lambda: mapped("MapAndBatchDataset", 0, 1, False), "batch_size must be greater than zero"),
        (lambda: nested("InterleaveDataset", 0, 1), "`cycle_length` must be > 0"),
        (lambda: nested("InterleaveDataset", 1, 0), "`block_length` must be > 0"),
        (
            lambda: nested("ParallelInterleaveDatasetV2", 1, 1, 0),
            "num_parallel_calls must be greater than zero",
        ),
    ],
)
def test_numbers_that_are_refused(make: Any, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        elements(make())
