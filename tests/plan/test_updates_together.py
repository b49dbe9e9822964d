"""Updates that run side by side: what each does is what it does alone, and what is ordered stays so."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops._kernels import product_parts
from headrace.ops.linalg import products as linear
from headrace.plan.explain import explaining
from headrace.plan.rules import joint_updates, updates, updates_together
from headrace.run.exec import worker_pool
from headrace.run.exec.blas import multiplies_as_they_lie

Array = np.ndarray[Any, Any]
SIZES = (12, 40, 30, 20, 5)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is large here is small elsewhere."""
    for module in (linear, product_parts):
        monkeypatch.setattr(module, "LARGE", 1000)
    monkeypatch.setattr(product_parts, "GRAIN", 4)
    for module in (updates, updates_together):
        monkeypatch.setattr(module, "FEWEST", 100)
    monkeypatch.setattr(updates_together, "_WORTH_SHARING", 0)
    monkeypatch.setattr(joint_updates, "_LARGEST", 0)
    with tf.Graph().as_default():
        yield


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(0.3)


def network(resource: bool = False) -> tuple[Any, Any, list[Any]]:
    """What is fed, the loss, and variables."""
    fed = tf.placeholder(tf.float32, [None, SIZES[0]])
    signal, variables = fed, []
    for number, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        weights = tf.Variable(random(rows, columns, seed=number), use_resource=resource)
        bias = tf.Variable(np.zeros(columns, np.float32), use_resource=resource)
        variables += [weights, bias]
        signal = tf.sigmoid(tf.matmul(signal, weights) + bias)
    return fed, tf.reduce_mean(tf.square(signal)), variables


def said_of(fetches: Any, feeds: dict[Any, Any], session: Any) -> str:
    lines: list[str] = []
    with explaining(lines.append):
        session.run(fetches, feeds)
    return "".join(lines)


OPTIMIZERS: list[Callable[[], Any]] = [
    lambda: tf.train.GradientDescentOptimizer(0.1), lambda: tf.train.AdamOptimizer(0.1),
    lambda: tf.train.MomentumOptimizer(0.1, 0.9), lambda: tf.train.RMSPropOptimizer(0.1),
]  # fmt: skip


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("batch", [3, 50])
def test_training_is_the_same_side_by_side_and_one_by_one(
    make: Any, resource: bool, batch: int
) -> None:
    trained = []
    for level, threads in ((tf.OptimizerOptions.L0, 1), (tf.OptimizerOptions.L1, 1), (0, 3)):
        with tf.Graph().as_default():
            fed, loss, variables = network(resource)
            steps = tf.train.get_or_create_global_step()
            train = make().minimize(loss, global_step=steps)
            options = tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=level))
            config = tf.ConfigProto(graph_options=options, intra_op_parallelism_threads=threads)
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for number in range(3):
                    feeds = {fed: random(batch, SIZES[0], seed=number)}
                    session.run(train, feeds)
                trained.append(session.run([*variables, steps]))
    for alone, one, other in zip(*trained, strict=True):
        np.testing.assert_array_equal(one, other)
        if multiplies_as_they_lie():
            np.testing.assert_array_equal(alone, one)
        else:  # bits of products depend on how many rows are made at a time, which are few here
            np.testing.assert_allclose(alone, one, 1e-3, 1e-5)


def test_they_are_one_instruction_and_share_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    shared = worker_pool.parallel_for

    def noted(function: Any, listed: Any, products: bool = False) -> None:
        listed = list(listed)
        parts.append(len(listed))
        shared(function, listed, products)

    monkeypatch.setattr(updates_together, "parallel_for", noted)
    fed, loss, _ = network()
    train = tf.train.RMSPropOptimizer(0.1).minimize(loss)
    with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=2)) as session:
        session.run(tf.global_variables_initializer())
        said = said_of(train, {fed: random(50, SIZES[0])}, session)
    assert said.count(" = updates [") >= 1
    assert parts == [8]


def test_small_variables_between_large_ones_do_not_keep_them_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their joint update stands between those of the last layers."""
    monkeypatch.setattr(joint_updates, "_LARGEST", 60)
    fed, loss, _ = network()
    train = tf.train.RMSPropOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        said = said_of(train, {fed: random(50, SIZES[0])}, session)
    together = [part.split("]")[0].split() for part in said.split(" = updates [")[1:]]
    assert together
    assert all(members.count("ApplyRMSProp") == 4 for members in together)
    assert " = joint-updates [" in said


def test_one_that_takes_longer_than_the_others_is_shared_by_itself() -> None:
    fed = tf.placeholder(tf.float32, [None, 200])
    wide, narrow = tf.Variable(random(200, 90)), tf.Variable(random(90, 2))
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(fed, wide)), narrow)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=2)) as session:
        session.run(tf.global_variables_initializer())
        before = session.run([wide, narrow])
        gradients = session.run(tf.gradients(loss, [wide, narrow]), {fed: random(30, 200)})
        assert " = updates [" in said_of(train, {fed: random(30, 200)}, session)
        for was, gradient, now in zip(before, gradients, session.run([wide, narrow]), strict=True):
            np.testing.assert_array_equal(was - np.float32(0.1) * gradient, now)


def test_what_waits_for_an_update_still_does() -> None:
    one, two = tf.Variable(random(20, 10)), tf.Variable(random(20, 10, seed=1))
    optimizer, gradient = tf.train.GradientDescentOptimizer(1.0), tf.ones([20, 10])
    first = optimizer.apply_gradients([(gradient, one)])
    with tf.control_dependencies([first]):
        read = one + 0.0
        second = optimizer.apply_gradients([(read, two)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(second)
        found = session.run([one, two])
    np.testing.assert_array_equal(found[0], random(20, 10) - 1)
    np.testing.assert_array_equal(found[1], random(20, 10, seed=1) - found[0])


def test_two_updates_of_one_variable_both_count() -> None:
    v, other = tf.Variable(np.ones((20, 10), np.float32)), tf.Variable(random(20, 10, seed=1))
    optimizer, gradient = tf.train.GradientDescentOptimizer(1.0), tf.fill([20, 10], 2.0)
    steps = [optimizer.apply_gradients([(gradient, each)]) for each in (v, other, v)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(steps)
        np.testing.assert_array_equal(session.run(v), np.full((20, 10), -3))


def test_a_rate_that_is_a_variable_is_the_one_of_before() -> None:
    rate = tf.Variable(0.5)
    ones, twos = tf.Variable(random(20, 10)), tf.Variable(random(20, 10, seed=1))
    optimizer = tf.train.GradientDescentOptimizer(rate)
    train = optimizer.apply_gradients([(tf.ones([20, 10]), each) for each in (ones, twos)])
    with tf.control_dependencies([train]):
        after = rate.assign(0.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(after)
        np.testing.assert_array_equal(session.run(ones), random(20, 10) - np.float32(0.5))
        np.testing.assert_array_equal(session.run(twos), random(20, 10, seed=1) - np.float32(0.5))


def test_failures_name_the_node_that_failed() -> None:
    variables = [tf.Variable(np.zeros((30, 20), np.float32)) for _ in range(3)]
    fed = tf.placeholder(tf.float32, [30, None])
    other = tf.placeholder(tf.float32, [None, 20])
    gradients = [tf.matmul(fed, other * factor, name=f"made_{factor}") for factor in (1, 2, 3)]
    pairs = list(zip(gradients, variables, strict=True))
    train = tf.train.GradientDescentOptimizer(1.0).apply_gradients(pairs, name="train")
    fits = {fed: random(30, 8), other: random(8, 20)}
    with tf.Session() as session:
        session.run([each.initializer for each in variables[:2]])
        with pytest.raises(tf.errors.FailedPreconditionError, match="Variable_2") as caught:
            session.run(train, fits)
        assert caught.value.node == "train/update_Variable_2/ApplyGradientDescent"
        session.run(variables[2].initializer)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(train, {fed: random(30, 8), other: random(9, 20)})
        assert caught.value.node.startswith("made_")


def test_two_names_of_one_variable_are_changed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []
    monkeypatch.setattr(
        updates_together, "parallel_for", lambda work, parts, products: shared.extend(parts)
    )
    names = [
        tf.raw_ops.VariableV2(shape=[20, 10], dtype=tf.float32, shared_name="same", name=f"v{n}")
        for n in range(2)
    ]
    begin = tf.raw_ops.Assign(ref=names[0], value=np.ones((20, 10), np.float32))
    made = [
        tf.raw_ops.ApplyGradientDescent(var=each, alpha=1.0, delta=np.full((20, 10), n, np.float32))
        for n, each in enumerate(names, 1)
    ]
    with tf.Session() as session:
        session.run(begin.op)
        session.run([each.op for each in made])
        np.testing.assert_array_equal(session.run(names[1]), np.full((20, 10), -2))
    assert shared == []
