"""ExponentialMovingAverage: averages follow, forget that they started at 0, and are found in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def run(update: Any, times: int, *fetches: Any) -> list[Any]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(times):
            session.run(update)
        return list(session.run(list(fetches)))


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "handle"])
def test_an_average_starts_where_its_variable_does_and_follows_it(resource: bool) -> None:
    v = tf.Variable([1.0, 2.0], use_resource=resource)
    ema = tf.train.ExponentialMovingAverage(0.75)
    with tf.control_dependencies([v.assign_add([4.0, 8.0])]):
        update = ema.apply([v])
    average = ema.average(v)
    assert run(update, 2, v, average) == [
        pytest.approx([9.0, 18.0]),
        pytest.approx([1 + 0.75 * 1 + 0.25 * 8, 2 + 0.75 * 2 + 0.25 * 16]),
    ]
    assert not any(item is average for item in tf.trainable_variables())


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "handle"])
def test_without_its_bias_the_average_of_a_tensor_is_a_weighted_mean(resource: bool) -> None:
    count = tf.Variable(0.0, trainable=False)
    value = count.assign_add(1.0) * 1.0
    tf.get_variable_scope().set_use_resource(resource)
    ema = tf.train.ExponentialMovingAverage(0.5, zero_debias=True)
    update = ema.apply([value])
    (average,) = run(update, 3, ema.average(value))
    assert average == pytest.approx((0.25 * 1 + 0.5 * 2 + 1 * 3) / 1.75)


def test_with_a_count_of_updates_an_average_moves_faster_at_first() -> None:
    v = tf.Variable(0.0)
    done = tf.placeholder(tf.int64, [])
    ema = tf.train.ExponentialMovingAverage(0.9, num_updates=done)
    update = ema.apply([v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        v.load(1.0, session)
        session.run(update, {done: 2})
        assert session.run(ema.average(v)) == pytest.approx(1 - 3 / 12)
        session.run(update, {done: 10**6})
        assert session.run(ema.average(v)) == pytest.approx(1 - 0.9 * 3 / 12)


def test_a_second_apply_uses_the_averages_of_the_first() -> None:
    v = tf.Variable([1.0])
    ema = tf.train.ExponentialMovingAverage(0.9)
    ema.apply([v])
    ema.apply()
    assert len(tf.global_variables()) == 2
    assert [item is v for item in tf.moving_average_variables()] == [True]


def test_what_to_restore_is_averages_under_the_names_of_averages() -> None:
    with tf.variable_scope("net"):
        v, n = tf.get_variable("v", [2]), tf.Variable(1, trainable=False, name="n")
    t = tf.reduce_sum(v, name="t")
    ema = tf.train.ExponentialMovingAverage(0.9, name="Avg")
    before = ema.variables_to_restore()
    assert {key: var.op.name for key, var in before.items()} == {
        "net/v/Avg": "net/v", "net/n": "net/n",
    }  # fmt: skip
    ema.apply([t])
    after = ema.variables_to_restore([v])
    assert {key: var.op.name for key, var in after.items()} == {
        "net/v/Avg": "net/v", "net/n": "net/n", "t/Avg": "t/Avg",
    }  # fmt: skip
    assert (ema.average(v), ema.average(n), ema.average_name(n)) == (None, None, "net/n/Avg")


def test_only_floating_types_have_averages() -> None:
    with pytest.raises(TypeError, match=r"float, or double: count.*int32"):
        tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable(1, name="count")])
    w = tf.Variable(np.ones(2), dtype=tf.float64)
    assert tf.train.ExponentialMovingAverage(0.9).apply([w]).type == "NoOp"
