"""Sums of products that loops make beside themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.plan.programs import looped_and_one_by_one

ROWS, INNER, COLUMNS = 256, 32, 256
SHAPE = [ROWS, COLUMNS]


def _looped(body: Any, count: int = 20, start: Any = None) -> Any:
    """The sum after `count` iterations of body(i, total) -> total."""
    begin = tf.zeros(SHAPE) if start is None else start
    return tf.while_loop(lambda i, _: i < count, lambda i, t: (i + 1, body(i, t)), (0, begin))[1]


def _factors() -> tuple[Any, Any, dict[Any, np.ndarray]]:
    random = np.random.default_rng(3)
    x, y = tf.placeholder(tf.float32, [None, ROWS]), tf.placeholder(tf.float32, [None, COLUMNS])
    fed = {
        x: random.standard_normal((INNER, ROWS)).astype(np.float32),
        y: random.standard_normal((INNER, COLUMNS)).astype(np.float32),
    }
    return x, y, fed


def _scaled(i: Any) -> Any:
    return tf.cast(i, tf.float32) + 0.1


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_a_sum_of_products_is_made_beside_its_loop(count: int) -> None:
    x, y, fed = _factors()
    total = _looped(lambda i, t: t + tf.matmul(x * _scaled(i), y, transpose_a=True), count)
    found, wanted, said = looped_and_one_by_one([total, total * 2.0], fed)
    assert "sum beside [MatMul AddV2]" in said
    assert " beside it" in said
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


def test_small_products_and_products_of_other_shapes_are_made_at_once() -> None:
    random = np.random.default_rng(3)
    x, y = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
    total = tf.while_loop(
        lambda i, _: i < 5,
        lambda i, t: (i + 1, tf.matmul(x * _scaled(i), y) + t),
        (0, tf.placeholder_with_default(np.float32(0.5), None)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)),
    )[1]
    for rows, inner, columns in ((2, 3, 4), (256, 64, 256), (1024, 128, 128), (1, 4096, 1024)):
        fed = {
            x: random.standard_normal((rows, inner)).astype(np.float32),
            y: random.standard_normal((inner, columns)).astype(np.float32),
        }
        found, wanted, said = looped_and_one_by_one([total], fed)
        assert "sum beside" in said
        assert np.array_equal(found[0], wanted[0])


def test_a_failing_product_names_its_node() -> None:
    x, y, fed = _factors()
    fed[y] = fed[y][1:]
    total = _looped(lambda i, t: t + tf.matmul(x, y, transpose_a=True, name="product"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="product"):
        looped_and_one_by_one([total], fed)


@pytest.mark.parametrize(
    "body",
    [
        lambda product, t: t + product + tf.reduce_mean(t),
        lambda product, t: t + t + product,
        lambda product, t: t + product * 2.0,
        lambda product, t: tf.add_n([t, product]),
    ],
)
def test_what_the_loop_looks_at_is_made_in_it(body: Any) -> None:
    x, y, fed = _factors()
    total = _looped(lambda i, t: body(tf.matmul(x, y, transpose_a=True) * 1e-3, t))
    found, wanted, said = looped_and_one_by_one([total], fed)
    assert "sum beside" not in said
    assert np.array_equal(found[0], wanted[0])


def test_a_sum_that_its_condition_or_another_variable_reads_is_made_in_the_loop() -> None:
    x, y, fed = _factors()
    product = tf.matmul(x, y, transpose_a=True)
    read = tf.while_loop(
        lambda i, t: tf.logical_and(i < 5, t[0, 0] < 1e9),
        lambda i, t: (i + 1, t + tf.matmul(x, y, transpose_a=True)),
        (0, tf.zeros(SHAPE)),
    )[1]
    shifted = tf.while_loop(
        lambda i, *_: i < 5,
        lambda i, t, u: (i + 1, t + tf.matmul(x, y, transpose_a=True), t),
        (0, tf.zeros(SHAPE), product),
    )[1:]
    found, wanted, said = looped_and_one_by_one([read, *shifted], fed)
    assert "sum beside" not in said
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


def test_gradients_of_what_a_loop_multiplies_with() -> None:
    """Of two loops, one in the other."""
    random = np.random.default_rng(4)
    w = tf.placeholder(tf.float32, [192, 192])
    h = tf.placeholder(tf.float32, [None, 192])
    fed = {
        w: random.standard_normal((192, 192)).astype(np.float32) * np.float32(0.05),
        h: random.standard_normal((64, 192)).astype(np.float32),
    }

    def inner(state: Any) -> Any:
        return tf.while_loop(
            lambda j, _: j < 3, lambda j, s: (j + 1, tf.tanh(tf.matmul(s, w))), (0, state)
        )[1]

    once = tf.gradients(tf.reduce_sum(inner(h)), w)[0]
    twice = tf.while_loop(lambda i, _: i < 4, lambda i, s: (i + 1, inner(s)), (0, h))[1]
    of_twice = tf.gradients(tf.reduce_sum(twice), w)[0]
    found, wanted, said = looped_and_one_by_one([once, of_twice], fed)
    assert said.count("sum beside [MatMul AddV2]") >= 2
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


def test_steps_at_once_have_sums_of_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    x, y, fed = _factors()
    total = _looped(lambda i, t: t + tf.matmul(x * _scaled(i), y, transpose_a=True))
    with tf.Session() as session, ThreadPoolExecutor(4) as threads:
        runs = [
            threads.submit(session.run, total, {x: fed[x] * np.float32(scale), y: fed[y]})
            for scale in (1, 2, 4, 8) * 4
        ]
        found = [each.result() for each in runs]
    for one, scale in zip(found, (1, 2, 4, 8) * 4, strict=True):
        assert np.array_equal(one, found[0] * np.float32(scale))
