"""Products with what follows them: what the nodes give one by one, whatever is fed, asked for or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops._kernels import product_parts
from headrace.ops.linalg import products as linear
from headrace.plan.rules import products
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.worker_pool import WorkerPool
from tests.plan.programs import DEVICE, compiled, instructions, run, together_and_apart

Array = np.ndarray[Any, Any]
TALL, WIDE, INNER = (150, 40), (40, 150), 60


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is large here is small elsewhere, and has several parts."""
    for module in (linear, product_parts, products):
        monkeypatch.setattr(module, "LARGE", 1000)
    monkeypatch.setattr(products, "BLOCK", 300)
    monkeypatch.setattr(products, "_FEWEST", 100)
    monkeypatch.setattr(product_parts, "GRAIN", 4)
    monkeypatch.setattr(product_parts, "count_of_parts", lambda work: 5)
    with tf.Graph().as_default():
        yield


def random(*shape: int, seed: int = 0, kind: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def same(fetches: list[Any], feeds: dict[Any, Any], runtime: Runtime) -> list[Array]:
    kept = {each: np.copy(value) for each, value in feeds.items()}
    with runtime.workers:
        found, wanted, program = together_and_apart(fetches, feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    for each, value in feeds.items():
        assert np.array_equal(value, kept[each])
    joined = [each.node.name for each in instructions(program)]
    assert "product" not in joined
    return found


CHAINS: list[Callable[[Any, Any, Any], Any]] = [
    lambda product, bias, other: tf.sigmoid(product + bias),
    lambda product, bias, other: tf.nn.relu(tf.nn.bias_add(product, bias)),
    lambda product, bias, other: tf.nn.bias_add(tf.nn.relu(product), bias) * 0.5,
    lambda product, bias, other: tf.tanh(product * other) + other,
    lambda product, bias, other: bias - tf.square(other - product),
    lambda product, bias, other: tf.raw_ops.SigmoidGrad(y=tf.sigmoid(other), dy=product),
    lambda product, bias, other: tf.raw_ops.SigmoidGrad(y=product, dy=other),
    lambda product, bias, other: tf.raw_ops.ReluGrad(gradients=product, features=other),
    lambda product, bias, other: tf.raw_ops.TanhGrad(y=other, dy=product) * 2.0,
    lambda product, bias, other: tf.nn.relu(product * 3.0),
]
KINDS = [np.float32, np.float64]


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_what_follows_a_part_is_what_follows_the_product(
    shape: tuple[int, int], chain: Any, kind: Any, threads: int, one_by_one: list[str]
) -> None:
    x = tf.placeholder(kind, [None, INNER])
    other = tf.placeholder(kind, [None, shape[1]])
    weights = tf.constant(random(INNER, shape[1], seed=1, kind=kind))
    bias = tf.constant(random(shape[1], seed=2, kind=kind))
    made = chain(tf.matmul(x, weights, name="product"), bias, other)
    feeds = {
        x: random(shape[0], INNER, seed=3, kind=kind),
        other: random(*shape, seed=4, kind=kind),
    }
    workers = WorkerPool(threads)
    try:
        same([made], feeds, Runtime(DEVICE, workers=workers))
    finally:
        workers.close()
    assert "products" not in one_by_one


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("shape", [TALL, WIDE, (3, 5), (0, 5), (170, 1)])
def test_factors_may_lie_across_and_be_small(
    flip_a: bool, flip_b: bool, shape: tuple[int, int], runtime: Runtime, one_by_one: list[str]
) -> None:
    a, b = (tf.placeholder(tf.float32, [None, None]) for _ in range(2))
    product = tf.matmul(a, b, transpose_a=flip_a, transpose_b=flip_b, name="product")
    x, y = random(shape[0], INNER, seed=1), random(INNER, shape[1], seed=2)
    feeds = {
        a: np.ascontiguousarray(x.T) if flip_a else x,
        b: np.ascontiguousarray(y.T) if flip_b else y,
    }
    same([tf.sigmoid(product + random(shape[1]))], feeds, runtime)
    assert "products" not in one_by_one


def test_little_that_is_summed_up_for_many_elements(
    runtime: Runtime, one_by_one: list[str]
) -> None:
    """A product that is no large one, of so many elements that blocks of them are shared."""
    x = tf.placeholder(tf.float32, [None, 2])
    product = tf.matmul(x, tf.constant(random(2, 7)), name="product")
    other = tf.placeholder(tf.float32, [None, 7])
    made = tf.tanh(product + random(7, seed=1)) * other
    assert linear.LARGE > 70 * 2 * 7
    same([made], {x: random(70, 2), other: random(70, 7, seed=2)}, runtime)
    same([made], {x: random(170, 2), other: random(170, 7, seed=2)}, runtime)
    assert "products" not in one_by_one


def test_shapes_in_between_may_be_asked_for(runtime: Runtime, one_by_one: list[str]) -> None:
    x = tf.placeholder(tf.float32, [None, INNER])
    product = tf.matmul(x, tf.constant(random(INNER, 40)), name="product")
    biased = product + random(40, seed=1)
    half = tf.cast(tf.shape(product)[0] + tf.shape(biased)[1], tf.float32) * 0.5
    same([tf.tanh(biased) + half], {x: random(150, INNER, seed=2)}, runtime)
    assert "products" not in one_by_one


def test_gradients_of_a_layer_pass_through(runtime: Runtime, one_by_one: list[str]) -> None:
    x = tf.placeholder(tf.float32, [None, INNER])
    weights = [tf.constant(random(INNER, 50)), tf.constant(random(50, 150, seed=1))]
    biases = [tf.constant(random(50, seed=2)), tf.constant(random(150, seed=3))]
    signal = x
    for weight, bias in zip(weights, biases, strict=True):
        signal = tf.sigmoid(tf.matmul(signal, weight) + bias)
    loss = tf.reduce_mean(tf.square(signal - random(150)))
    fetches = [loss, *tf.gradients(loss, [x, *weights, *biases])]
    with runtime.workers:
        found, wanted, program = together_and_apart(fetches, {x: random(100, INNER)}, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-6)
    together = {each.node.name for each in instructions(program)}
    assert {"MatMul", "MatMul_1", "gradients/MatMul_1_grad/MatMul"}.isdisjoint(together)
    assert "products" not in one_by_one


@pytest.mark.parametrize("shape", [(150, 1), (1, 40), (2, 150, 40), (1, 1)])
def test_what_stretches_it_or_is_stretched_runs_one_by_one(
    shape: tuple[int, ...], runtime: Runtime, one_by_one: list[str]
) -> None:
    x, y = tf.placeholder(tf.float32, [None, INNER]), tf.placeholder(tf.float32, None)
    product = tf.matmul(x, tf.constant(random(INNER, 40)), name="product")
    feeds = {x: random(150, INNER, seed=1), y: random(*shape, seed=2)}
    same([tf.exp(product + y)], feeds, runtime)
    assert "products" in one_by_one


def test_what_others_want_is_made_by_itself(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [None, INNER])
    product = tf.matmul(x, tf.constant(random(INNER, 40)), name="product")
    for fetches in (
        [tf.exp(product), product],
        [tf.exp(product), tf.reduce_sum(product)],
        [tf.exp(product) * product],
        [tf.reduce_max(product)],
    ):
        values = [random(150, INNER, seed=1)]
        program = compiled(fetches, [x])
        found = run(program, runtime, values)
        assert "product" in [each.node.name for each in instructions(program)]
        for one, other in zip(
            found, run(compiled(fetches, [x], fold=False), runtime, values), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("a", "b", "bias"),
    [((150, 61), (INNER, 40), (40,)), ((150, INNER), (INNER, 40), (41,)), ((150,), (INNER, 40), (40,))],
)  # fmt: skip
def test_errors_are_those_of_the_nodes(
    a: tuple[int, ...], b: tuple[int, ...], bias: tuple[int, ...], runtime: Runtime
) -> None:
    x, y, z = (tf.placeholder(tf.float32, None) for _ in range(3))
    made = tf.sigmoid(tf.nn.bias_add(tf.matmul(x, y), z))
    texts = []
    for fold in (True, False):
        program = compiled([made], [x, y, z], fold=fold)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            run(program, runtime, [random(*a), random(*b), random(*bias)])
        texts.append((caught.value.node, caught.value.message))
    assert texts[0] == texts[1]


def test_a_variable_that_changes_in_between_is_read_where_it_was() -> None:
    """The bias is read before it is assigned, though the product may wait that long."""
    x = tf.placeholder(tf.float32, [None, INNER])
    bias = tf.Variable(np.zeros(40, np.float32))
    biased = tf.matmul(x, tf.constant(random(INNER, 40)), name="product") + bias
    with tf.control_dependencies([biased]):
        changed = bias.assign_add(tf.ones(40))
    with tf.control_dependencies([changed]):
        made = tf.sigmoid(biased)
    value = random(150, INNER, seed=1)
    with tf.Session() as session:
        session.run(bias.initializer)
        for number in range(3):
            wanted = 1 / (1 + np.exp(-(value @ random(INNER, 40) + number)))
            np.testing.assert_allclose(session.run(made, {x: value}), wanted, 1e-4, 1e-5)


def test_what_follows_may_have_no_output() -> None:
    kept = tf.Variable(np.zeros((150, 40), np.float32), use_resource=True)
    x = tf.placeholder(tf.float32, [150, INNER])
    product = tf.matmul(x, tf.constant(random(INNER, 40)), name="product")
    update = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.tanh(product), kept)])
    assigned = kept.assign(tf.matmul(x, tf.constant(random(INNER, 40, seed=2)))).op
    value = random(150, INNER, seed=1)
    with tf.Session() as session:
        session.run(kept.initializer)
        session.run(update, {x: value})
        wanted = -np.tanh(value @ random(INNER, 40))
        np.testing.assert_allclose(session.run(kept), wanted, 1e-3, 1e-4)
        session.run(assigned, {x: value})
        np.testing.assert_allclose(session.run(kept), value @ random(INNER, 40, seed=2), 1e-3, 1e-4)
