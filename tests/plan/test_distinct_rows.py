"""Rows of gradients whose numbers differ already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import compiled, run, together_and_apart

IDS = {
    "some again": np.array([3, 1, 3, 0, 1], np.int64),
    "none again": np.array([5, 2, 0], np.int64),
    "none": np.zeros(0, np.int64),
}


def groups(said: list[str]) -> int:
    """How many groups the pass made, of all that was said."""
    parts = "".join(said).split("distinct-rows: ")[1:]
    return sum(part.partition("\n")[0] != "no change" for part in parts)


def summed(ids: Any, rows: Any) -> tuple[Any, Any]:
    """As a sparse update adds up rows: the sums, and their numbers."""
    numbers, places = tf.unique(ids)
    return tf.unsorted_segment_sum(rows, places, tf.shape(numbers)[0]), numbers


@pytest.mark.parametrize("case", IDS)
def test_rows_that_differ_are_their_own_sums(runtime: Runtime, case: str) -> None:
    ids = IDS[case]
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        given, table = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [9, 2])
        once = tf.unique(given)[0]
        found, wanted, _ = together_and_apart(
            [
                *summed(tf.reshape(once, [-1]), tf.gather(table, once)),
                *summed(once, tf.gather(table, once)),
            ],
            {given: ids, table: np.arange(18, dtype=np.float32).reshape(9, 2)},
            runtime,
        )
    assert groups(said) == 1
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


def test_rows_of_other_numbers_are_summed(runtime: Runtime) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        given, rows = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
        found, wanted, _ = together_and_apart(
            list(summed(given, rows)),
            {given: IDS["some again"], rows: np.ones(5, np.float32)},
            runtime,
        )
    assert groups(said) == 0
    assert found[0].tolist() == wanted[0].tolist() == [2.0, 2.0, 1.0]


def test_numbers_that_are_fed_may_come_again(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        given, rows = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
        once = tf.unique(given)[0]
        fed = {once: IDS["some again"], rows: np.ones(5, np.float32)}
        program = compiled(list(summed(once, rows)), list(fed))
        assert run(program, runtime, list(fed.values()))[0].tolist() == [2.0, 2.0, 1.0]


def test_sums_of_another_number_of_rows_are_as_the_node_makes_them(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        given, count = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int32, [])
        numbers, places = tf.unique(tf.unique(given)[0])
        rows = tf.cast(numbers, tf.float32)
        fed = {given: IDS["some again"], count: np.int32(5)}
        found, wanted, _ = together_and_apart(
            [tf.unsorted_segment_sum(rows, places, count)], fed, runtime
        )
        assert found[0].tolist() == wanted[0].tolist() == [3.0, 1.0, 0.0, 0.0, 0.0]
        program = compiled([tf.unsorted_segment_sum(rows, places, count)], list(fed))
        with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
            run(program, runtime, [IDS["some again"], np.int32(2)])
