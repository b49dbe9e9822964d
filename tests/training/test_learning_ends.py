"""`slim.learning.train` that could not end: it says so, where tf-slim's goes on for ever without a word."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf

learning = tf.contrib.slim.learning
SAID = "have left the global step at 0; the training ends at 3"


def train(train_op: Any, **how: Any) -> Any:
    """Of three steps, which nothing is kept of."""
    return learning.train(train_op, None, **{"number_of_steps": 3, "log_every_n_steps": 0} | how)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("how", [{}, {"number_of_steps": None}, {"log_every_n_steps": 1}])
@pytest.mark.parametrize("empty", [tf.no_op, lambda: tf.group(tf.no_op()), lambda: tf.zeros([])])
def test_a_train_op_that_changes_nothing_is_refused(empty: Any, how: dict[str, Any]) -> None:
    train_op = empty()
    with pytest.raises(ValueError, match=f"train_op '{train_op.name}' changes nothing"):
        train(train_op, **how)


def test_one_that_ends_by_its_own_function_is_not() -> None:
    steps = []

    def step(sess: Any, train_op: Any, *_: Any) -> tuple[Any, bool]:
        steps.append(sess.run(train_op))
        return 7.0, len(steps) == 2

    assert train(tf.no_op(), train_step_fn=step) == 7.0


def test_one_that_comes_to_the_end_of_its_input_is_not() -> None:
    elements = tf.data.Dataset.range(5).make_one_shot_iterator().get_next()
    assert train(elements) == 4


def test_one_that_fails_is_not() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        train(tf.check_numerics(tf.log(0.0), "infinite"))


def test_one_whose_global_step_others_increment_is_not() -> None:
    step = tf.train.get_or_create_global_step()
    runner = tf.train.QueueRunner(
        tf.FIFOQueue(1, tf.int64), [tf.group(tf.assign_add(step, 1), tf.no_op())]
    )
    tf.train.add_queue_runner(runner)
    assert train(tf.no_op()) is None


def test_a_global_step_that_stays_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Of 450 steps one increments it: a training like that may take long, and ends."""
    step = tf.train.get_or_create_global_step()
    calls = tf.Variable(0, dtype=tf.int64, trainable=False)
    with tf.control_dependencies([tf.assign_add(calls, 1)]):
        now = calls.read_value()
    with tf.control_dependencies([tf.assign(step, now // 450)]):
        loss = tf.identity(1.0)
    assert train(loss) == 1.0
    told = [record.getMessage() for record in caplog.records if SAID in record.getMessage()]
    assert [each.split()[0] for each in told] == ["100", "200", "400"]


def test_one_that_moves_is_not(caplog: pytest.LogCaptureFixture) -> None:
    step = tf.train.get_or_create_global_step()
    assert train(tf.assign_add(step, 1)) == 3
    assert "have left the global step" not in caplog.text
