"""Updates with the product of two matrices: bit for bit what product and update give one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops._kernels import product_parts
from headrace.ops.linalg import products as linear
from headrace.ops.training import update_rules
from headrace.plan.rules import updates
from tests.plan import programs

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is large here is small elsewhere."""
    for module in (linear, product_parts):
        monkeypatch.setattr(module, "LARGE", 1000)
    monkeypatch.setattr(linear, "THREADED", 1000)  # which is less than LARGE in earnest, too
    monkeypatch.setattr(linear, "THREADED_VECTOR", 1000)
    monkeypatch.setattr(product_parts, "GRAIN", 4)
    monkeypatch.setattr(updates, "FEWEST", 100)
    with tf.Graph().as_default():
        yield


def nodes(targets: list[Any], feeds: list[Any]) -> list[str]:
    """Names of the nodes that instructions stand for."""
    return programs.nodes(programs.compiled([], feeds, targets))


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


OPTIMIZERS = [
    lambda: tf.train.GradientDescentOptimizer(0.1), lambda: tf.train.AdamOptimizer(0.1),
    lambda: tf.train.MomentumOptimizer(0.1, 0.9), lambda: tf.train.RMSPropOptimizer(0.1),
    lambda: tf.train.AdagradOptimizer(0.1), lambda: tf.train.FtrlOptimizer(0.1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "rows", "inner", "columns", "resource"),
    [(make, 43, 7, 11, number % 2 == 0) for number, make in enumerate(OPTIMIZERS)]
    + [(OPTIMIZERS[0], 9, 6, 50, False), (OPTIMIZERS[0], 700, 3, 300, False)]
    + [(OPTIMIZERS[1], 9, 6, 50, True), (OPTIMIZERS[1], 13, 1, 9, False)],
)  # fmt: skip
@pytest.mark.parametrize(
    "wide", [1, 512]
)  # columns, from which parts are used as soon as they are made
def test_training_is_the_same_with_it_and_without(
    make: Any,
    rows: int,
    inner: int,
    columns: int,
    resource: bool,
    wide: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(update_rules, "_WIDE", wide)
    x, start = random(inner, rows), random(rows, columns)
    trained = []
    for level in (tf.OptimizerOptions.L0, tf.OptimizerOptions.L1):
        with tf.Graph().as_default():
            v = tf.Variable(start, use_resource=resource)
            fed = tf.placeholder(tf.float32, [None, rows])
            loss = tf.reduce_sum(tf.square(tf.matmul(fed, v)))
            train = make().minimize(loss)
            options = tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=level))
            config = tf.ConfigProto(graph_options=options, intra_op_parallelism_threads=3)
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(3):
                    session.run(train, {fed: x})
                trained.append(session.run(v))
            if level == tf.OptimizerOptions.L1 and rows * columns >= 100:
                names = nodes([train], [fed])
                assert not any(name.startswith("gradients/MatMul_grad/MatMul") for name in names)
    np.testing.assert_array_equal(*trained)
    assert (trained[0] != start).all()


def update_of(v: Any, a: Any, b: Any) -> tuple[Any, Any]:
    gradient = tf.matmul(a, b, name="gradient")
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    return optimizer.apply_gradients([(gradient, v)], name="update"), gradient


def test_a_gradient_that_somebody_else_wants_is_made_whole() -> None:
    v = tf.Variable(np.zeros((30, 20), np.float32), use_resource=False)
    a, b = tf.placeholder(tf.float32, [30, None]), tf.placeholder(tf.float32, [None, 20])
    x, y = random(30, 8), random(8, 20)
    update, gradient = update_of(v, a, b)
    assert "gradient" not in nodes([update], [a, b])
    assert "gradient" in nodes([update, tf.square(gradient).op], [a, b])
    assert "gradient" not in nodes([update], [a, gradient])
    with tf.Session() as session:
        session.run(v.initializer)
        found, _ = session.run([gradient, update], {a: x, b: y})
        np.testing.assert_array_equal(session.run(v), -found)
        session.run(update, {a: x, b: y})
        np.testing.assert_array_equal(session.run(v), -found - found)


def test_a_factor_that_is_the_variable_itself_is_read_before_it_changes() -> None:
    start = random(30, 30)
    v = tf.Variable(start, use_resource=False)
    update, _ = update_of(v, v, v)
    assert "gradient" in nodes([update], [])
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(update)
        np.testing.assert_allclose(session.run(v), start - start @ start, rtol=1e-4, atol=1e-4)


def test_failures_name_their_node() -> None:
    v = tf.Variable(np.zeros((30, 20), np.float32), use_resource=False)
    a, b = tf.placeholder(tf.float32, [30, None]), tf.placeholder(tf.float32, [None, 20])
    update, _ = update_of(v, a, b)
    assert "gradient" not in nodes([update], [a, b])
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value Variable"):
            session.run(update, {a: random(30, 8), b: random(8, 20)})
        session.run(v.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="node 'gradient'"):
            session.run(update, {a: random(30, 8), b: random(9, 20)})
        session.run(tf.assign(v, random(20, 30), validate_shape=False))
        with pytest.raises(tf.errors.InvalidArgumentError, match="update/update_Variable"):
            session.run(update, {a: random(30, 8), b: random(8, 20)})
