"""Staging areas on a device: what is put aside is there when it is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from tests.support.toy_device import ToyDevice, toy_devices

TOY, OTHER, CPU = "/device:TOY:0", "/device:TOY:1", "/device:CPU:0"
ROWS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def toys() -> Iterator[list[ToyDevice]]:
    with toy_devices() as devices, tf.Graph().as_default():
        yield devices


def moved(toy: ToyDevice) -> tuple[int, int]:
    """How many arrays were put there, and got from there."""
    return toy.transfers["put"], toy.transfers["got"]


def area(device: str, *kinds: Any, **more: Any) -> Any:
    with tf.device(device):
        return tf.contrib.staging.StagingArea(kinds or [tf.float32], **more)


def test_a_step_takes_what_an_earlier_one_has_copied(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    staged = area(TOY, shapes=[[2, 3]])
    with tf.device(TOY):
        put = staged.put([x])
        total = tf.reduce_sum(tf.square(staged.get()))
    with tf.Session() as session:
        session.run(put, {x: ROWS})
        for n in range(1, 4):
            before = moved(toys[0])
            found, _ = session.run([total, put], {x: ROWS + n})
            assert found == pytest.approx(np.square(ROWS + n - 1).sum(), 1e-5)
            assert moved(toys[0]) == (before[0] + 1, before[1] + 1)  # the next batch, and the sum


def test_whole_numbers_of_32_bits_stay_with_the_host(toys: list[ToyDevice]) -> None:
    staged = area(TOY, tf.float32, tf.int32, tf.int64)
    with tf.device(TOY):
        put = staged.put([tf.constant(1.5), tf.constant(2), tf.constant(3, tf.int64)])
        taken = staged.get()
        size = staged.size()
    with tf.Session() as session:
        session.run(put)
        put_then = toys[0].transfers["put"]
        assert session.run(size) == 1
        assert session.run(taken) == [1.5, 2, 3]
    assert put_then == 2


def test_whoever_takes_it_elsewhere_gets_a_copy(toys: list[ToyDevice]) -> None:
    def put(device: str) -> Any:
        with tf.device(device):
            return tf.raw_ops.Stage(values=[tf.constant(ROWS)], shared_name="area")

    def taken(device: str) -> Any:
        with tf.device(device):
            (found,) = tf.raw_ops.Unstage(dtypes=[tf.float32], shared_name="area")
            return tf.reduce_sum(tf.exp(found))

    for puts in (TOY, OTHER, CPU):
        for takes in (TOY, OTHER, CPU):
            ops = put(puts), taken(takes)
            with tf.Session() as session:
                session.run(ops[0])
                assert session.run(ops[1]) == pytest.approx(np.exp(ROWS).sum(), 1e-5)


def test_peeking_and_maps_work_alike(toys: list[ToyDevice]) -> None:
    with tf.device(TOY):
        staged = tf.contrib.staging.MapStagingArea([tf.float32, tf.int32], ordered=True)
        key = tf.placeholder(tf.int64, [])
        put = staged.put(key, [tf.constant(ROWS), tf.constant(7)], [0, 1])
        peeked = staged.peek(key)
        first, values = staged.get()
    with tf.Session() as session:
        for each in (5, 3):
            session.run(put, {key: each})
        for _ in range(2):
            found = session.run(peeked, {key: 5})
            np.testing.assert_array_equal(found[0], ROWS)
            assert found[1] == 7
        for each in (3, 5):
            number, found = session.run([first, values])
            assert number == each
            np.testing.assert_array_equal(found[0], ROWS)
    assert toys[0].transfers["put"]


def test_a_limit_of_memory_counts_what_is_there(toys: list[ToyDevice]) -> None:
    staged = area(TOY, memory_limit=20)
    with tf.device(TOY):
        put = staged.put([tf.placeholder_with_default(ROWS, [2, 3])])
    with (
        tf.Session() as session,
        pytest.raises(errors.ResourceExhaustedError, match="combined size of '24' bytes"),
    ):
        session.run(put)


def test_other_types_are_refused(toys: list[ToyDevice]) -> None:
    with tf.device(TOY):
        put = tf.raw_ops.Stage(values=[tf.constant(ROWS)], shared_name="area")
        taken = tf.raw_ops.Unstage(dtypes=[tf.float64], shared_name="area")
    with tf.Session() as session:
        session.run(put)
        with pytest.raises(errors.InvalidArgumentError, match="the node expects float64"):
            session.run(taken)


def test_the_general_executor_puts_and_takes_too(toys: list[ToyDevice]) -> None:
    staged = area(TOY)
    queue = tf.FIFOQueue(3, tf.float32, shapes=[[]])
    flag = tf.placeholder(tf.bool, [])
    with tf.device(TOY):
        put = staged.put([tf.cond(flag, queue.dequeue, lambda: tf.constant(1.0))])
        taken = tf.exp(staged.get())
    with tf.Session() as session:
        session.run(queue.enqueue(2.0))
        for way, wanted in ((True, 2.0), (False, 1.0)):
            session.run(put, {flag: way})
            assert session.run(taken) == pytest.approx(np.exp(wanted), 1e-5)
