"""Staging areas in sessions: tensors wait there from one step to another."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import headrace as tf
from headrace.contrib.staging import MapStagingArea, StagingArea
from tests.support.limits import deadline_that_says


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def test_a_tuple_waits_from_one_step_to_the_next() -> None:
    area = StagingArea([tf.int32, tf.string], shapes=[[2], []])
    put, (numbers, text), size = area.put([[1, 2], "a"]), area.get(), area.size()
    assert numbers.shape.as_list() == [2]
    with tf.Session() as session:
        session.run(put)
        assert session.run(size) == 1
        found, word = session.run([numbers, text])
        assert (found.tolist(), word, session.run(size)) == ([1, 2], b"a", 0)


def test_one_step_may_take_what_the_last_put_and_put_the_next() -> None:
    area, value = StagingArea([tf.int32]), tf.placeholder(tf.int32, [])
    (got,), put = area.get(), area.put([value])
    with tf.Session() as session:
        session.run(put, {value: 0})
        assert [session.run([got, put], {value: n})[0] for n in range(1, 4)] == [0, 1, 2]


def test_a_get_waits_for_another_thread() -> None:
    area, value = StagingArea([tf.int32], capacity=1), tf.placeholder(tf.int32, [])
    put, got = area.put([value]), area.get()
    with tf.Session() as session:

        def produce() -> None:
            for number in range(5):
                session.run(put, {value: number})

        thread = threading.Thread(target=produce)
        thread.start()
        assert [int(session.run(got)[0]) for _ in range(5)] == [0, 1, 2, 3, 4]
        thread.join(60)


def test_a_step_with_a_time_limit_takes_nothing() -> None:
    area, other = StagingArea([tf.int32], capacity=1), StagingArea([tf.int32])
    put, got, never = area.put([1]), area.get(), other.get()
    options = tf.RunOptions(timeout_in_ms=50)
    with tf.Session() as session:
        session.run(put)
        deadline_that_says(
            lambda limited: session.run(put, options=limited), r"put.*holds 1 of at most 1"
        )
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(never, options=options)
        session.run(other.put([2]))
        assert [session.run(got), session.run(never), session.run(area.size())] == [[1], [2], 0]


def test_a_variable_is_put_as_it_is_then() -> None:
    variable, area = tf.Variable([1.0, 2.0]), StagingArea([tf.float32])
    put, got = area.put([variable]), area.get()
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(put)
        session.run(variable.assign([9.0, 9.0]))
        assert session.run(got)[0].tolist() == [1.0, 2.0]


def test_tuples_by_key_come_in_parts_and_leave_in_parts() -> None:
    area = MapStagingArea([tf.int32, tf.string], names=["n", "s"], ordered=True)
    with tf.Session() as session:
        session.run(area.put(7, {"n": 70, "s": "x"}))
        session.run(area.put(3, {"s": "y"}))
        assert session.run([area.size(), area.incomplete_size()]) == [1, 1]
        session.run(area.put(3, {"n": 30}))
        assert session.run(area.peek(3, ["n"])) == {"n": 30}
        key, rest = area.get()
        assert session.run([key, rest["n"], rest["s"]]) == [3, 30, b"y"]
        assert session.run(area.get(7, ["s"])[1]) == {"s": b"x"}
        with pytest.raises(tf.errors.InvalidArgumentError, match="already been removed"):
            session.run(area.get(7)[1])
        session.run(area.clear())
        assert session.run(area.size()) == 0


def test_an_area_of_every_type() -> None:
    types = [tf.float32, tf.bool, tf.int8, tf.uint16, tf.complex64, tf.bfloat16, tf.string]
    values = [tf.as_string(1) if t == tf.string else tf.cast(1, t) for t in types]
    area = StagingArea(types)
    with tf.Session() as session:
        session.run(area.put(values))
        found = session.run(area.get())
        assert [np.asarray(v).dtype for v in found[:-1]] == [t.as_numpy_dtype for t in types[:-1]]
        assert found[-1] == b"1"
