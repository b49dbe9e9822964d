"""tf.contrib.opt's replicas with variables of their own, over a cluster in this process, beside the rules in NumPy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import Cluster, in_process

opt = tf.contrib.opt
RATE = 0.1
TARGETS = (np.array([1.0, -2.0], np.float32), np.array([3.0, 4.0], np.float32))
Build = Callable[[Any, int], tuple[Any, Any]]


def averaged(getter: Any, index: int) -> tuple[Any, Any]:
    sgd = tf.train.GradientDescentOptimizer(RATE)
    made = opt.ModelAverageOptimizer(sgd, 2, index == 0, getter, interval_steps=2)
    return made, made.make_session_run_hook()


def work(
    tasks: Cluster, index: int, kind: Any, build: Build, steps: int, turn: Any, seen: list[Any]
) -> None:
    """A worker with a graph of its own, which pulls the variable to its target."""
    worker = f"/job:worker/task:{index}"
    with tf.Graph().as_default():
        getter = kind(worker_device=worker)
        setter = tf.train.replica_device_setter(1, worker_device=worker)
        with tf.device(setter), tf.variable_scope("", custom_getter=getter):
            step = tf.train.get_or_create_global_step()
            w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
            loss = 0.5 * tf.reduce_sum(tf.square(w - TARGETS[index]))
        made, hook = build(getter, index)
        with tf.device(setter):
            train = made.minimize(loss, step)
        centers = getattr(getter, "_global_map", None) or getter._local_2_global
        (center,) = centers.values()
        with tf.train.MonitoredTrainingSession(
            tasks.target(f"worker:{index}"), is_chief=index == 0, hooks=[hook]
        ) as session:
            for at in range(steps):
                with turn(at, index):
                    session.run(train)
                seen.append([np.array(each) for each in session.run([w, center, step])])
            turn.ended.wait(60)


class AtOnce:
    """Steps that begin together."""

    def __init__(self) -> None:
        self.together, self.ended = threading.Barrier(2), threading.Barrier(2)

    def __call__(self, at: int, index: int) -> AtOnce:
        self.together.wait(60)
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


class InTurn:
    """Steps of one worker after the other's."""

    def __init__(self) -> None:
        self.changed, self.next, self.ended = threading.Condition(), 0, threading.Barrier(2)
        self.mine = 0

    def __call__(self, at: int, index: int) -> InTurn:
        with self.changed:
            assert self.changed.wait_for(lambda: self.next == 2 * at + index, 60)
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        with self.changed:
            self.next += 1
            self.changed.notify_all()


def trained(kind: Any, build: Build, steps: int, turn: Any) -> list[list[Any]]:
    seen: list[list[Any]] = [[], []]
    with in_process({"ps": 1, "worker": 2}) as tasks:
        threads = [
            threading.Thread(target=work, args=(tasks, n, kind, build, steps, turn, seen[n]))
            for n in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
            assert not thread.is_alive()
    return seen


def test_workers_variables_become_their_mean_after_every_second_step() -> None:
    seen = trained(opt.ModelAverageCustomGetter, averaged, 4, AtOnce())
    local = [np.zeros(2), np.zeros(2)]
    for at in range(4):
        local = [w - RATE * (w - target) for w, target in zip(local, TARGETS, strict=True)]
        if at % 2:
            local = [np.mean(local, axis=0)] * 2
            for index in range(2):
                np.testing.assert_allclose(seen[index][at][1], local[0], rtol=1e-5)
        for index in range(2):
            np.testing.assert_allclose(seen[index][at][0], local[index], rtol=1e-5)
    assert int(seen[0][-1][2]) == 2


def elastic(synchronous: bool) -> Build:
    def build(getter: Any, index: int) -> tuple[Any, Any]:
        sgd = tf.train.GradientDescentOptimizer(RATE)
        made = opt.ElasticAverageOptimizer(
            sgd, 2, getter, 2, moving_rate=0.3, rho=0.0, synchronous=synchronous
        )
        return made, made.make_session_run_hook(index == 0, index)

    return build


def test_workers_and_the_center_draw_each_other_nearer() -> None:
    seen = trained(opt.ElasticAverageCustomGetter, elastic(False), 4, InTurn())
    local, center = [np.zeros(2), np.zeros(2)], np.zeros(2)
    for at in range(4):
        for index, target in enumerate(TARGETS):
            local[index] = local[index] - RATE * (local[index] - target)
            if at % 2:
                apart = 0.3 * (local[index] - center)
                local[index], center = local[index] - apart, center + apart
            np.testing.assert_allclose(seen[index][at][0], local[index], rtol=1e-5)
    np.testing.assert_allclose(seen[1][-1][1], center, rtol=1e-5)
    assert int(seen[1][-1][2]) == 4


def test_the_center_moves_when_all_have_come_if_it_is_to() -> None:
    seen = trained(opt.ElasticAverageCustomGetter, elastic(True), 2, InTurn())
    local = [-RATE * (0 - target) for target in TARGETS]
    local = [w - RATE * (w - target) for w, target in zip(local, TARGETS, strict=True)]
    center = 0.3 * (local[0] + local[1])
    np.testing.assert_allclose(seen[0][1][0], 0.7 * local[0], rtol=1e-5)
    np.testing.assert_allclose(seen[1][1][1], center, rtol=1e-5)


def accumulating(optimizer: Any) -> Build:
    def build(getter: Any, index: int) -> tuple[Any, Any]:
        made = opt.AGNOptimizer(optimizer(), 2, getter, communication_period=2)
        return made, made.make_session_run_hook(index == 0, index)

    return build


def test_the_center_goes_along_the_mean_of_a_workers_gradients() -> None:
    sgd = accumulating(lambda: tf.train.GradientDescentOptimizer(RATE))
    seen = trained(opt.AGNCustomGetter, sgd, 4, InTurn())
    local, center = [np.zeros(2), np.zeros(2)], np.zeros(2)
    sums = [np.zeros(2), np.zeros(2)]
    for at in range(4):
        for index, target in enumerate(TARGETS):
            gradient = local[index] - target
            sums[index] = sums[index] + gradient
            local[index] = local[index] - RATE * gradient
            if at % 2:
                center = center - RATE * sums[index] / 2
                local[index], sums[index] = center, np.zeros(2)
            np.testing.assert_allclose(seen[index][at][0], local[index], rtol=1e-5)
    np.testing.assert_allclose(seen[1][-1][1], center, rtol=1e-5)
    assert int(seen[1][-1][2]) == 4


def test_an_optimizer_with_slots_moves_the_center_too() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        getter = opt.AGNCustomGetter(worker_device="/cpu:0")
        with tf.variable_scope("", custom_getter=getter):
            w = tf.get_variable("w", initializer=[1.0, 2.0])
        (center,) = getter._global_map.values()
        made = opt.AGNOptimizer(tf.train.MomentumOptimizer(RATE, 0.9), 1, getter, 1)
        step = made.minimize(tf.reduce_sum(tf.square(w)))
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(made.get_init_op(0))
        expected, moment = np.array([1.0, 2.0]), np.zeros(2)
        for _ in range(3):
            session.run(step)
            moment = 0.9 * moment + 2 * expected
            expected = expected - RATE * moment
            np.testing.assert_allclose(session.run(center), expected, rtol=1e-5)
            np.testing.assert_allclose(session.run(w), expected, rtol=1e-5)


def test_without_variables_of_the_getter_there_is_nothing_to_begin_with() -> None:
    with tf.Graph().as_default():
        getter = opt.AGNCustomGetter(worker_device="/cpu:0")
        made = opt.AGNOptimizer(tf.train.GradientDescentOptimizer(RATE), 1, getter)
        with pytest.raises(ValueError, match="should not be empty"):
            made.get_init_op(0)


def test_a_loss_has_the_distance_from_the_center() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        getter = opt.ElasticAverageCustomGetter(worker_device="/cpu:0")
        with tf.variable_scope("", custom_getter=getter):
            w = tf.get_variable("w", initializer=[1.0, 2.0])
        made = opt.ElasticAverageOptimizer(tf.train.GradientDescentOptimizer(RATE), 1, getter, 10)
        ((gradient, var),) = made.compute_gradients(tf.reduce_sum(w))
        assert var is w
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(getter._local_map[w].assign([0.0, 0.0]))
        rho = 0.9 / 10 / RATE
        np.testing.assert_allclose(session.run(gradient), [1 + rho, 1 + 2 * rho], rtol=1e-6)
        saver = made.swapping_saver()
        assert isinstance(saver, tf.train.Saver)


def test_what_an_averaging_optimizer_needs() -> None:
    with tf.Graph().as_default():
        getter = opt.ModelAverageCustomGetter(worker_device="/cpu:0")
        with pytest.raises(TypeError, match="must be a tf"):
            opt.ModelAverageOptimizer("sgd", 1, True, getter)
        with tf.variable_scope("", custom_getter=getter):
            w = tf.get_variable("w", initializer=[1.0])
            fixed = tf.get_variable("fixed", initializer=[1.0], trainable=False)
        assert w in tf.local_variables()
        assert fixed in tf.global_variables()
        made = opt.ModelAverageOptimizer(tf.train.AdamOptimizer(), 1, True, getter)
        with pytest.raises(ValueError, match="Global step is required"):
            made.minimize(tf.reduce_sum(w))
