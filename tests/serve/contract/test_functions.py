"""Functions of graphs on clusters: their nodes are placed, divided among tasks, and done as if there were no calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.library.functions.calls import If, While, partitioned_call
from headrace.library.functions.defun import Defun
from tests.serve.clusters import Cluster


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def test_a_function_may_be_on_several_tasks(cluster: Cluster) -> None:
    @Defun(tf.float32)
    def f(x: Any) -> Any:
        with tf.device("/job:worker"):
            y = x * 2.0
        with tf.device("/job:ps"):
            return y + 1.0

    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:worker"):
        y = f(x)
        (z,) = partitioned_call([y], f)
    with tf.Session(cluster.target("worker:0")) as session:
        assert [session.run([y, z], {x: i}) for i in range(4)] == [
            [2.0 * i + 1, 4.0 * i + 3] for i in range(4)
        ]


def test_state_in_functions_stays_where_it_is(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)

    @Defun(tf.float32)
    def more(x: Any) -> Any:
        with tf.control_dependencies([v.assign_add(x)]):
            return x + 0.0

    p = tf.placeholder(tf.bool, [])
    with tf.device("/job:worker"):
        y = more(3.0)
        z = If(p, [1.0], more_of(v), same_of(v))[0]
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(v.initializer)
        session.run(y)
        session.run(z, {p: True})
        session.run(z, {p: False})
        session.run(y.op)
        assert session.run(v) == 7.0
    with tf.Session(cluster.target("worker:0")) as other:
        assert other.run(v) == 7.0


def more_of(v: Any) -> Any:
    """Adds its argument to `v`."""

    @Defun(tf.float32)
    def function(x: Any) -> Any:
        with tf.control_dependencies([v.assign_add(x)]):
            return x * 1.0

    return function


def same_of(v: Any) -> Any:
    """Takes `v`, too, and does nothing with it."""

    @Defun(tf.float32)
    def function(x: Any) -> Any:
        with tf.control_dependencies([tf.raw_ops.VarIsInitializedOp(resource=v.handle)]):
            return x * 1.0

    return function


def test_a_loop_of_functions_may_be_on_several_tasks(cluster: Cluster) -> None:
    @Defun(tf.float32)
    def body(x: Any) -> Any:
        with tf.device("/job:worker"):
            y = x * 2.0
        with tf.device("/job:ps"):
            return y + 1.0

    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"):
        end = While([x], Defun(tf.float32)(lambda value: value < 50.0), body)
    with tf.Session(cluster.target("ps:0")) as session:
        assert [session.run(end, {x: start}) for start in (1.0, 60.0, 49.0)] == [63.0, 60.0, 99.0]


def test_functions_that_come_later_are_sent_later(cluster: Cluster) -> None:
    with tf.Session(cluster.target("ps:0")) as session:
        first = Defun(tf.float32)(lambda x: x + 1.0)
        y = first(1.0)
        assert session.run(y) == 2.0
        second = Defun(tf.float32)(lambda x: first(x) * 10.0)
        with tf.device("/job:worker"):
            z = second(y)
        assert session.run([y, z]) == [2.0, 30.0]
        assert session.run(tf.gradients(z, y)) == [10.0]


def test_a_function_that_is_missing_is_named_and_the_session_goes_on(cluster: Cluster) -> None:
    lost = Defun(tf.float32, func_name="lost")(lambda x: x)
    y = lost(1.0)
    library = y.graph.library
    taken = library._functions.pop("lost")
    with (
        tf.Session(cluster.target("ps:0")) as session,
        pytest.raises(tf.errors.NotFoundError, match="lost"),
    ):
        session.run(y)
    library._functions["lost"] = taken
    with tf.Session(cluster.target("ps:0")) as session:
        assert session.run(y) == 1.0


@pytest.fixture
def functional() -> Iterator[None]:
    """Branches and loops are functions."""
    tf.enable_control_flow_v2()
    yield
    tf.disable_control_flow_v2()


def test_branches_and_loops_that_are_functions_pass_tasks(
    cluster: Cluster, functional: None
) -> None:
    p, limit = tf.placeholder(tf.bool, []), tf.placeholder(tf.int32, [])
    with tf.device("/job:ps"):
        v = tf.get_variable("v", [2], initializer=tf.constant_initializer(2.0), use_resource=True)

    def on_ps(value: Any) -> Any:
        with tf.device("/job:ps"):
            return value * v

    with tf.device("/job:worker"):
        y = tf.cond(p, lambda: on_ps(v) + 1.0, lambda: tf.sin(v))
        _, z = tf.while_loop(lambda i, z: i < limit, lambda i, z: (i + 1, on_ps(z)), [0, v])
        grads = [tf.gradients(each, v)[0] for each in (y, z)]
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(v.initializer)
        for _ in range(3):
            found = session.run([y, z, *grads], {p: True, limit: 2})
            assert [each.tolist() for each in found] == [[5, 5], [8, 8], [4, 4], [12, 12]]
        found = session.run([y, z, *grads], {p: False, limit: 0})
        wanted = [np.sin(2.0), 2.0, np.cos(2.0), 1.0]
        np.testing.assert_allclose([each[0] for each in found], wanted, rtol=1e-6)


def test_a_gradient_may_be_asked_for_after_the_graph_was_sent(
    cluster: Cluster, functional: None
) -> None:
    with tf.device("/job:worker"):
        x = tf.constant([0.5, 1.0])
        y = tf.map_fn(lambda e: e * e * e, x)
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.run(y).tolist() == [0.125, 1.0]
        z = tf.map_fn(lambda e: e * e * e, x)
        (g,) = tf.gradients(z, x)
        assert session.run(g).tolist() == [0.75, 3.0]


def test_a_gradient_goes_through_a_loop_of_a_function(cluster: Cluster) -> None:
    @Defun(tf.float32)
    def f(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]

    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:worker"):
        (found,) = tf.gradients(f(x), x)
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.run(found, {x: 2.0}) == 32.0
