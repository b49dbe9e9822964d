"""Logistic losses and their gradients, whose nodes run together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops._kernels import logistic
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import together_and_apart

Array = np.ndarray[Any, Any]
RULES = frozenset(("logistic-loss", "logistic-gradient"))
WANTED: dict[str, Callable[[Any, Any, Any], list[Any]]] = {
    "loss": lambda x, z, loss: [loss],
    "gradient": lambda x, z, loss: tf.gradients(loss, x),
    "gradient of a mean": lambda x, z, loss: tf.gradients(tf.reduce_mean(loss), x),
    "loss and gradients": lambda x, z, loss: [loss, *tf.gradients(tf.square(loss), [x, z])],
}


def logits(shape: tuple[int, ...], kind: type) -> Array:
    x = (np.random.default_rng(7).standard_normal(shape) * 5).astype(kind)
    flat = x.reshape(-1)
    some = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 200, -200, 1e-30], kind)
    flat[: len(some)] = some[: flat.size]
    return x


def compare(fetches: list[Any], feeds: dict[Any, Any], runtime: Runtime) -> None:
    found, wanted, _ = together_and_apart(fetches, feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("what", WANTED)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(33, 5), (7,), (1, 2, 3), (0, 4)])
def test_every_element_is_that_of_the_nodes(
    shape: tuple[int, ...],
    known: bool,
    kind: type,
    what: str,
    runtime: Runtime,
    one_by_one: list[str],
) -> None:
    said: list[str] = []
    static = shape if known else (None, *shape[1:])
    with tf.Graph().as_default(), explaining(said.append):
        x, z = tf.placeholder(kind, static), tf.placeholder(kind, static)
        loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=tf.identity(x) * 1.0)
        given = logits(shape, kind)
        labels = np.random.default_rng(8).integers(0, 2, shape).astype(kind)
        compare(WANTED[what](x, z, loss), {x: given, z: labels}, runtime)
    text = "".join(said)
    assert "logistic-loss [" in text
    assert ("logistic-gradient [" in text) == ("gradient" in what)
    assert RULES.isdisjoint(one_by_one)


@pytest.mark.parametrize("what", WANTED)
def test_large_ones_are_shared_by_threads(
    what: str, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, one_by_one: list[str]
) -> None:
    monkeypatch.setattr(logistic, "LARGE", 100)
    monkeypatch.setattr(logistic, "_BLOCK", 30)
    with tf.Graph().as_default():
        x, z = tf.placeholder(tf.float32, [20, 17]), tf.placeholder(tf.float32, [20, 17])
        loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=tf.identity(x) * 1.0)
        labels = np.random.default_rng(8).random((20, 17), np.float32)
        compare(WANTED[what](x, z, loss), {x: logits((20, 17), np.float32), z: labels}, runtime)
    assert RULES.isdisjoint(one_by_one)


def test_what_others_want_of_it_is_there(runtime: Runtime) -> None:
    """Nodes in between that are fetched; of some there is no loss that runs at once."""
    with tf.Graph().as_default() as graph:
        x, z = tf.placeholder(tf.float32, [9]), tf.placeholder(tf.float32, [9])
        loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x, name="loss")
        gradient = tf.gradients(loss, x)[0]
        made = [op for op in graph.get_operations() if op.name.startswith("loss/") and op.inputs]
        assert len(made) >= 8
        fed = {x: logits((9,), np.float32), z: np.linspace(0, 1, 9, dtype=np.float32)}
        for op in made:
            compare([loss, gradient, op.outputs[0]], fed, runtime)
            compare([gradient, op.outputs[0]], fed, runtime)
            compare([op.outputs[0]], fed, runtime)


def test_what_looks_alike_and_is_not(runtime: Runtime) -> None:
    """Another threshold, another sign, another number than 1, labels that are broadcast."""
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        x = tf.placeholder(tf.float32, [6])
        fed = {x: np.linspace(-2, 2, 6, dtype=np.float32)}

        def like(low: float, sign: float, first: Any, second: Any) -> Any:
            bound = tf.fill([6], low)
            positive = x >= bound
            lower = tf.where(positive, sign * x if sign > 0 else -x, first)
            upper = tf.where(positive, second, tf.zeros([6]))
            return upper - x * 0.5 + tf.log1p(tf.exp(lower))

        for each in (like(1.0, -1, x, x), like(0.0, 1, x, x), like(0.0, -1, x * 2, x)):
            compare([each, *tf.gradients(each, x)], fed, runtime)
        compare([like(0.0, -1, x, x + 1)], fed, runtime)
        compare([1.0 / (2.0 + tf.exp(-tf.abs(x)))], fed, runtime)
        assert "logistic-loss [GreaterEqual Select Mul" not in "".join(said)
        of_one = tf.placeholder(tf.float32, None)
        loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=of_one, logits=x)
        compare([loss], {**fed, of_one: np.float32(0.5)}, runtime)


def test_a_shape_that_does_not_fit_names_its_node(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        x, z = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
        loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x, name="entropy")
        fed = {x: np.ones(3, np.float32), z: np.ones(2, np.float32)}
        with pytest.raises(tf.errors.InvalidArgumentError, match="entropy/mul"):
            together_and_apart([loss], fed, runtime)
