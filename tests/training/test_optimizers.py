"""Optimizers: they reach minima, keep their slots, count steps, and refuse what they cannot train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "gradient descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.02, 0.8),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.02, lambda: 0.8, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(lambda: 0.5),
    "adam": lambda: tf.train.AdamOptimizer(tf.constant(0.1)),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(2.0, epsilon=1e-3),
    "dual averaging": lambda: tf.train.AdagradDAOptimizer(1.0, tf.train.get_global_step()),
    "ftrl": lambda: tf.train.FtrlOptimizer(1.0),
    "ftrl with a penalty": lambda: tf.train.FtrlOptimizer(
        1.0, l2_shrinkage_regularization_strength=1e-4, beta=0.1
    ),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1),
    "proximal adagrad": lambda: tf.train.ProximalAdagradOptimizer(1.0),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.02, momentum=tf.constant(0.1)),
    "centered rmsprop": lambda: tf.train.RMSPropOptimizer(0.02, epsilon=1.0, centered=True),
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "handle"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_minimum_is_found(name: str, sparse: bool, dtype: Any, resource: bool) -> None:
    target = np.array([[1.0, -2.0], [0.5, 3.0]])
    w = tf.Variable(np.zeros((2, 2)), dtype=dtype, use_resource=resource)
    error = (tf.gather(w, [1, 0]) if sparse else w) - target.astype(dtype.as_numpy_dtype)
    step = tf.train.get_or_create_global_step()
    train = OPTIMIZERS[name]().minimize(tf.reduce_sum(error * error), global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(400):
            session.run(train)
        want = target[::-1] if sparse else target
        np.testing.assert_allclose(session.run(w), want, atol=0.02)
        assert session.run(step) == 400
        assert tf.train.global_step(session, step) == 400


def test_slots_are_kept_per_variable_and_graph() -> None:
    a, b = tf.Variable([1.0], name="a"), tf.Variable([[2.0]], name="b")
    optimizer = tf.train.AdamOptimizer()
    optimizer.minimize(tf.reduce_sum(a) + tf.reduce_sum(b))
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(a, "m").op.name == "a/Adam"
    assert optimizer.get_slot(b, "v").op.name == "b/Adam_1"
    assert optimizer.get_slot(a, "nothing") is None
    assert [v.op.name for v in optimizer.variables()] == [
        "a/Adam", "a/Adam_1", "b/Adam", "b/Adam_1", "beta1_power", "beta2_power",
    ]  # fmt: skip
    assert [v.op.name for v in tf.trainable_variables()] == ["a", "b"]
    with tf.Graph().as_default():
        assert optimizer.variables() == []
        optimizer.minimize(tf.reduce_sum(tf.Variable([1.0], name="a")))
        assert len(optimizer.variables()) == 4


@pytest.mark.parametrize("make", [
    lambda: tf.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.5),
    lambda: tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.5),
    lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.5),
    lambda: tf.train.AdagradDAOptimizer(
        0.1, tf.train.get_or_create_global_step(), l1_regularization_strength=0.5
    ),
])  # fmt: skip
def test_a_weight_that_is_of_little_use_becomes_zero(make: Callable[[], Any]) -> None:
    w = tf.Variable([0.0, 0.01])
    train = make().minimize(tf.reduce_sum(w * [-3.0, 0.1]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        useful, useless = session.run(w)
    assert useful > 0
    assert useless == 0


def test_a_slot_takes_the_shape_that_its_variable_has_at_run_time() -> None:
    w = tf.Variable(tf.placeholder_with_default([1.0, 2.0], [None]), validate_shape=False)
    trains = [
        tf.train.MomentumOptimizer(1.0, 0.5).minimize(tf.reduce_sum(w)),
        tf.train.AdagradOptimizer(1.0).minimize(tf.reduce_sum(w)),
        tf.train.RMSPropOptimizer(1.0).minimize(tf.reduce_sum(w)),
    ]
    with tf.Session() as session:
        session.run(tf.variables_initializer([w]))
        session.run(tf.global_variables_initializer())
        for train in trains:
            session.run(train)
        assert session.run(w).shape == (2,)


def test_a_slot_lies_with_its_variable() -> None:
    with tf.device("/job:ps/task:1"):
        placed = tf.Variable([1.0], name="placed")
    free = tf.Variable([1.0], name="free")
    with tf.device("/job:worker"):
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        train = optimizer.minimize(tf.reduce_sum(placed * free))
    slots = [optimizer.get_slot(v, "momentum").op for v in (placed, free)]
    assert [slot.device for slot in slots] == ["/job:ps/task:1", "/job:worker"]
    assert [slot.colocation_groups() for slot in slots] == [[b"loc:@placed"], [b"loc:@free"]]
    updates = {op.inputs[0].op.name: op.device for op in train.graph.get_operations()
               if op.type == "ApplyMomentum"}  # fmt: skip
    assert updates == {"placed": "/job:ps/task:1", "free": "/job:worker"}


def test_a_constraint_holds_after_every_step() -> None:
    w = tf.Variable([0.5], constraint=lambda x: tf.maximum(x, 0.25))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        assert session.run(w).tolist() == [0.25]


@pytest.mark.parametrize("gate", [tf.train.Optimizer.GATE_OP, tf.train.Optimizer.GATE_GRAPH])
def test_with_a_gate_no_gradient_sees_another_variable_already_updated(gate: int) -> None:
    w, u = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    train = tf.train.GradientDescentOptimizer(0.5).minimize(
        tf.reduce_sum(w * u), gate_gradients=gate
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert [v.tolist() for v in session.run([w, u])] == [[-0.5, 0.0], [2.5, 3.0]]


def test_only_the_variables_that_are_named_move() -> None:
    w, u = tf.Variable(1.0), tf.Variable(2.0)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(w * u, var_list=[[w]])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([w, u]) == [0.0, 2.0]


def test_gradients_may_be_changed_on_the_way() -> None:
    w = tf.Variable([1.0, -1.0])
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(tf.reduce_sum(100.0 * w), grad_loss=tf.constant(2.0))
    clipped = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs]
    train = optimizer.apply_gradients(clipped, name="clipped")
    assert train.name == "clipped"
    assert tf.get_collection("train_op") == [train]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(w).tolist() == [0.0, -2.0]


def test_what_cannot_be_trained_is_refused() -> None:
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(tf.constant(1.0))
    w, n = tf.Variable(1.0, name="w"), tf.Variable(1, name="n", trainable=False)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (
            lambda: optimizer.minimize(tf.constant(1.0)),
            ValueError,
            r"No gradients provided for any variable.*w:0",
        ),
        (lambda: optimizer.minimize(lambda: w), TypeError, "eager"),
        (lambda: optimizer.compute_gradients(w, gate_gradients=7), ValueError, "GATE_OP"),
        (lambda: optimizer.compute_gradients(tf.constant(1)), ValueError, "int32"),
        (lambda: optimizer.compute_gradients(w, [3]), NotImplementedError, "3"),
        (lambda: optimizer.apply_gradients([]), ValueError, "No variables provided"),
        (
            lambda: optimizer.apply_gradients([(None, w)]),
            ValueError,
            "No gradients provided for any variable",
        ),
        (lambda: optimizer.apply_gradients([(w, tf.constant(1.0))]), NotImplementedError, "Const"),
        (lambda: optimizer.apply_gradients([(object(), w)]), TypeError, "a gradient must be"),
        (lambda: tf.train.GradientDescentOptimizer(0.1, name=""), ValueError, "optimizer name"),
        (lambda: tf.train.AdagradOptimizer(0.1, 0.0), ValueError, "positive"),
        (lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.0), ValueError, "positive"),
        (lambda: tf.train.AdagradDAOptimizer(0.1, None, -1.0), ValueError, "positive, not -1.0"),
        (lambda: tf.train.FtrlOptimizer(0.1, 0.5), ValueError, "power must not be positive"),
        (lambda: tf.train.FtrlOptimizer(0.1, -0.5, -1.0), ValueError, "initial_acc.*negative"),
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):
            make()
    del n


def test_a_sparse_gradient_and_a_constraint_do_not_go_together() -> None:
    w = tf.Variable([[1.0]], constraint=lambda x: x, name="w")
    with pytest.raises(RuntimeError, match=r"w:0.*constraint"):
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.gather(w, [0])))


def test_there_is_one_global_step() -> None:
    assert tf.train.get_global_step() is None
    with tf.name_scope("anywhere"):
        step = tf.train.create_global_step()
    assert step.op.name == "global_step"
    assert tf.train.get_global_step() is step
    assert tf.train.get_or_create_global_step() is step
    with pytest.raises(ValueError, match="already exists"):
        tf.train.create_global_step()
    tf.add_to_collection("global_step", tf.Variable(0))
    with pytest.raises(ValueError, match="holds 2"):
        tf.train.get_global_step()


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "integer"), ([1, 2], "scalar")], ids=["float", "vector"]
)
def test_a_global_step_is_an_integer_scalar(value: Any, text: str) -> None:
    tf.Variable(value, name="global_step")
    with pytest.raises(TypeError, match=text):
        tf.train.get_global_step()
