"""Elementwise groups whose result is made in the memory of what only they want: the same bits, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.rules import elementwise, products
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import compiled, run, together_and_apart

ROWS, WIDTH = 128, 200
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture
def overwritten(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """What was written over, whether by itself or with the product that it is."""
    found: list[Array] = []
    may_be_written = elementwise._may_be_written

    def noted(array: Array) -> bool:
        may = may_be_written(array)
        found.extend([array] * may)
        return may

    multiplied = products.multiplied

    def made(*args: Any) -> Array:
        product: Array = multiplied(*args)
        found.append(product)
        return product

    monkeypatch.setattr(elementwise, "_may_be_written", noted)
    monkeypatch.setattr(products, "multiplied", made)
    return found


def same(fetches: list[Any], feeds: dict[Any, Any], runtime: Runtime) -> list[Array]:
    kept = {each: np.copy(value) for each, value in feeds.items()}
    found, wanted, _ = together_and_apart(fetches, feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    for each, value in feeds.items():
        assert np.array_equal(value, kept[each])
    return found


CHAINS: list[Callable[[Any, Any, Any], Any]] = [
    lambda x, b, o: tf.sigmoid(x + b),
    lambda x, b, o: tf.nn.relu(tf.nn.bias_add(x, b)),
    lambda x, b, o: tf.nn.bias_add(tf.nn.relu(x), b) * 0.5,
    lambda x, b, o: tf.tanh(x * o) + o,
    lambda x, b, o: o - tf.square(x * x),
    lambda x, b, o: tf.sigmoid(x) * x,
    lambda x, b, o: tf.nn.relu6(b - x * 3.0),
]


@pytest.mark.parametrize("chain", CHAINS)
def test_a_product_is_written_over_by_what_is_made_of_it(
    chain: Callable[[Any, Any, Any], Any], runtime: Runtime, overwritten: list[Array]
) -> None:
    x = tf.placeholder(tf.float32, [None, 16])
    other = tf.placeholder(tf.float32, [None, WIDTH])
    bias, weights = tf.constant(random(WIDTH)), tf.constant(random(16, WIDTH, seed=1))
    made = chain(tf.matmul(x, weights), bias, other)
    feeds = {x: random(ROWS, 16, seed=2), other: random(ROWS, WIDTH, seed=3)}
    found = same([made], feeds, runtime)
    assert any(found[0] is each for each in overwritten)


def test_what_others_want_stays(runtime: Runtime, overwritten: list[Array]) -> None:
    x, y = tf.placeholder(tf.float32, [None, WIDTH]), tf.placeholder(tf.float32, [None, WIDTH])
    weights = tf.constant(random(WIDTH, WIDTH, seed=1))
    product = tf.matmul(x, weights)
    feeds = {x: random(ROWS, WIDTH, seed=2), y: random(ROWS, WIDTH, seed=3)}
    same([tf.exp(product * 0.1), product], feeds, runtime)  # is fetched
    same([tf.exp(product * 0.1), tf.reduce_sum(product, 0)], feeds, runtime)  # goes on
    same([tf.exp(y * 0.1)], feeds, runtime)  # is fed
    same([tf.exp(tf.identity(x) * 0.1), tf.transpose(x)], feeds, runtime)
    assert overwritten == []


def test_its_shape_may_be_asked_for_all_the_same(
    runtime: Runtime, overwritten: list[Array]
) -> None:
    x = tf.placeholder(tf.float32, [None, WIDTH])
    product = tf.matmul(x, tf.constant(random(WIDTH, WIDTH, seed=1)))
    half = tf.cast(tf.shape(product)[0], tf.float32) * 0.5
    same([tf.tanh(product * 0.1) + half], {x: random(ROWS, WIDTH, seed=2)}, runtime)
    assert overwritten


@pytest.mark.parametrize("shape", [(ROWS, 1), (1, WIDTH), (2, ROWS, WIDTH), ()])
def test_a_result_of_another_shape_is_made_elsewhere(
    shape: tuple[int, ...], runtime: Runtime
) -> None:
    x, y = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, None)
    product = tf.matmul(x, tf.constant(random(16, WIDTH, seed=1)))
    feeds = {x: random(ROWS, 16, seed=2), y: random(*shape, seed=3)}
    same([tf.exp(product + y) * 2.0], feeds, runtime)
    same([tf.exp(y - product) + product], feeds, runtime)


def test_a_step_after_another_has_its_own(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [None, 16])
    made = tf.sigmoid(tf.matmul(x, tf.constant(random(16, WIDTH, seed=1))) + 1.0)
    with tf.Session() as session:
        first = session.run(made, {x: random(ROWS, 16)})
        kept = first.copy()
        second = session.run(made, {x: random(ROWS, 16, seed=5)})
    assert np.array_equal(first, kept)
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda product, y: tf.nn.bias_add(tf.exp(product), y), (1,)),
        (lambda product, y: tf.nn.bias_add(tf.exp(product), y), (3,)),
        (lambda product, y: tf.exp(product) + y, (3,)),
        (lambda product, y: tf.raw_ops.ReluGrad(gradients=tf.exp(product), features=y), (WIDTH,)),
        (lambda product, y: tf.raw_ops.SigmoidGrad(y=tf.exp(product), dy=y), (WIDTH,)),
    ],
)
def test_errors_are_those_of_the_nodes(make: Any, shape: tuple[int, ...], runtime: Runtime) -> None:
    x, y = tf.placeholder(tf.float32, [None, 16]), tf.placeholder(tf.float32, None)
    made = make(tf.matmul(x, tf.constant(random(16, WIDTH, seed=1))), y)
    feeds = {x: random(ROWS, 16, seed=2), y: random(*shape, seed=3)}
    texts = []
    for fold in (True, False):
        program = compiled([made], list(feeds), fold=fold)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            run(program, runtime, list(feeds.values()))
        texts.append((caught.value.node, caught.value.message))
    assert texts[0] == texts[1]
