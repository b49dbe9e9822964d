"""Replicas in step: the mean of their gradients is applied, stragglers are dropped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


class Model:
    """v -= mean of x over the replicas."""

    def __init__(self, aggregate: int, total: int, **options: Any) -> None:
        self.step = tf.train.get_or_create_global_step()
        self.v = tf.Variable([0.0])
        self.x = tf.placeholder(tf.float32, [])
        inner = tf.train.GradientDescentOptimizer(1.0)
        self.optimizer = tf.train.SyncReplicasOptimizer(inner, aggregate, total, **options)
        self.train = self.optimizer.minimize(tf.reduce_sum(self.v * self.x), self.step)


def begin(model: Model, session: tf.Session, coord: tf.train.Coordinator, tokens: int = -1) -> None:
    hook = model.optimizer.make_session_run_hook(is_chief=True, num_tokens=tokens)
    hook.begin()
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    hook.after_create_session(session, coord)


def test_two_replicas_apply_the_mean_of_their_gradients_once_a_step() -> None:
    """Which replica's gradients a mean is of is open: one may be twice as fast."""
    server = tf.train.Server.create_local_server()
    model, coord = Model(2, 2), tf.train.Coordinator()
    far_enough = threading.Event()

    def work(value: float) -> None:
        with tf.Session(server.target, graph=model.v.graph) as session:
            try:
                while True:
                    session.run(model.train, {model.x: value})
                    if session.run(model.step) >= 5:
                        far_enough.set()
            except tf.errors.OpError:  # the server has stopped
                return

    threads = [threading.Thread(target=work, args=(value,)) for value in (1.0, 3.0)]
    with server, tf.Session(server.target) as chief:
        begin(model, chief, coord)
        for thread in threads:
            thread.start()
        assert far_enough.wait(60)
        coord.request_stop()
        step = None
        while step is None or step != chief.run(model.step):  # they go on: how far is one moment's
            step = chief.run(model.step)
            found = chief.run(model.v)
    for thread in threads:
        thread.join(60)
    coord.join()
    assert step >= 5
    assert -3.0 * (step + 1) <= found[0] <= -1.0 * (step - 1)  # another update may be under way


def test_an_average_of_the_variables_is_kept_if_asked_for() -> None:
    averages = tf.train.ExponentialMovingAverage(0.5)
    step = tf.train.get_or_create_global_step()
    v, x = tf.Variable([0.0]), tf.placeholder(tf.float32, [])
    inner = tf.train.GradientDescentOptimizer(1.0)
    optimizer = tf.train.SyncReplicasOptimizer(
        inner, 1, variable_averages=averages, variables_to_average=[v]
    )
    train = optimizer.minimize(tf.reduce_sum(v * x), step)
    hook, coord = optimizer.make_session_run_hook(is_chief=True), tf.train.Coordinator()
    hook.begin()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        hook.after_create_session(session, coord)
        for _ in range(3):
            session.run(train, {x: -8.0})
        average = session.run(averages.average(v))
        coord.request_stop()
    coord.join()
    assert np.isfinite(average).all()
    assert average[0] > 0


def test_a_worker_that_is_no_chief_starts_no_runner() -> None:
    model = Model(1, 1)
    hook = model.optimizer.make_session_run_hook(is_chief=False)
    hook.begin()
    before = set(threading.enumerate())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        session.run(model.step.assign(7))
        hook.after_create_session(session, tf.train.Coordinator())
        assert set(threading.enumerate()) <= before  # who is left over of before may end
        assert session.run(tf.local_variables())[0] == 7


def test_before_the_variables_are_initialized_the_hook_says_which() -> None:
    model = Model(1, 1)
    hook = model.optimizer.make_session_run_hook(is_chief=True)
    hook.begin()
    with tf.Session() as session, pytest.raises(RuntimeError, match="global_step"):
        hook.after_create_session(session, tf.train.Coordinator())


def test_too_few_tokens_to_start_with_are_refused() -> None:
    model = Model(4, 2)
    with pytest.raises(ValueError, match=r"1 \(given\) vs 2 \(needed\)"):
        model.optimizer.get_init_tokens_op(1)
    assert model.optimizer.get_init_tokens_op(2).type == "QueueEnqueueManyV2"
