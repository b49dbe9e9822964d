"""Shape nodes: what follows from shapes is computed again when they change, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS
from tests.plan import programs


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def gathers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What GatherV2 was asked for since."""
    kernel, found = OPS["GatherV2"].kernel, []
    assert kernel is not None

    def gather(xp: Any, params: Any, *rest: Any, batch_dims: int) -> Any:
        found.append(list(params))
        return kernel(xp, params, *rest, batch_dims=batch_dims)

    monkeypatch.setattr(OPS["GatherV2"], "kernel", gather)
    return found


def nodes(fetches: list[Any], feeds: list[Any], fold: bool = True) -> list[str]:
    """Names of the nodes that instructions stand for, in order."""
    return list(dict.fromkeys(programs.nodes(programs.compiled(fetches, feeds, fold=fold))))


def test_a_step_remembers_what_it_made_of_shapes(gathers: list[Any]) -> None:
    x = tf.placeholder(tf.float32, [None, None])
    count = tf.gather(tf.cast(tf.shape(x), tf.float32), [0, 1])
    total = tf.reduce_sum(x) + count
    with tf.Session() as session:
        for rows in (2, 2, 3, 3, 2):
            found, added = session.run([count, total], {x: np.ones((rows, 4), np.float32)})
            np.testing.assert_array_equal(found, [rows, 4])
            np.testing.assert_array_equal(added, [rows * 5, rows * 4 + 4])
            found[:] = 7  # the caller's own
    assert gathers == [[2, 4], [3, 4], [2, 4]]


def test_only_what_others_want_runs() -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    length = tf.shape(x, name="length")
    double = tf.add(length, length, name="double")
    more = tf.add(double, 1, name="more")
    tiled = tf.tile(x, more, name="tiled")
    assert nodes([tiled], [x]) == ["length", "tiled"]  # which stands for what follows from it
    assert nodes([tiled, double], [x]) == ["length", "double", "tiled"]
    assert nodes([tiled], [x, double]) == ["more", "tiled"]
    assert nodes([tiled], [x], fold=False)[-4:] == ["length", "double", "more", "tiled"]


def test_nodes_of_several_outputs_and_several_tensors() -> None:
    x, y = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, None)
    loss = tf.reduce_sum(x * y)
    with tf.Session() as session:
        grads = tf.gradients(loss, [x, y])
        for shape in ((3, 2), (2,), (), (1, 2), (3, 1), (2,)):
            a, b = np.full((3, 2), 2.0, np.float32), np.ones(shape, np.float32)
            dx, dy = session.run(grads, {x: a, y: b})
            np.testing.assert_array_equal(dx, np.ones((3, 2)))
            np.testing.assert_array_equal(dy, np.full(shape, 12 / b.size))


def test_the_shape_of_a_variable_is_that_of_now() -> None:
    v = tf.Variable(np.ones(2, np.float32), validate_shape=False, use_resource=False)
    value = tf.placeholder(tf.float32, [None])
    with tf.Session() as session:
        session.run(v.initializer)
        grown = tf.assign(v, value, validate_shape=False)
        with tf.control_dependencies([grown]):
            doubled = tf.shape(v.read_value()) * 2
        for count in (3, 3, 5):
            assert session.run(doubled, {value: np.ones(count, np.float32)}).tolist() == [count * 2]


def test_a_failure_names_its_node_every_time() -> None:
    x = tf.placeholder(tf.float32, [None])
    beyond = tf.gather(tf.shape(x), 4, name="beyond")
    with tf.Session() as session:
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match="beyond"):
                session.run(beyond + 1, {x: [1.0]})


def test_what_is_large_is_not_kept() -> None:
    x = tf.placeholder(tf.float32, [None])
    numbers = tf.range(tf.size(x)) + 1
    with tf.Session() as session:
        for count in (2000, 2000, 3):
            found = session.run(numbers, {x: np.zeros(count, np.float32)})
            np.testing.assert_array_equal(found, np.arange(1, count + 1))


def test_of_a_large_value_of_equal_elements_one_is_kept(gathers: list[Any]) -> None:
    x = tf.placeholder(tf.float32, [None, None])
    count = tf.gather(tf.cast(tf.shape(x), tf.float32), [0])
    wide = tf.tile(-0.0 * count, [5000])
    total = tf.add(wide, x[0, 0])
    with tf.Session() as session:
        for rows in (2, 2, 3):
            found, added = session.run([wide, total], {x: np.ones((rows, 4), np.float32)})
            assert np.signbit(found).all()
            assert found.tolist() == [0.0] * 5000
            assert added.tolist() == [1.0] * 5000
            found[0] = 7  # the caller's own
            assert found.tolist() == [7.0] + [0.0] * 4999
    assert gathers == [[2, 4], [3, 4]]


@pytest.mark.parametrize("odd", [0.0, 1.0])
def test_a_large_value_with_an_element_of_other_bits_is_made_as_it_is(odd: float) -> None:
    x = tf.placeholder(tf.float32, [None])
    zero = tf.cast(tf.shape(x), tf.float32) * -0.0
    wide = tf.concat([tf.tile(zero, [3000]), zero + odd, tf.tile(zero, [3000])], 0)
    with tf.Session() as session:
        for _ in range(2):
            found = session.run(wide, {x: np.ones(3, np.float32)})
            assert np.signbit(found).tolist() == [True] * 3000 + [False] + [True] * 3000
            assert found[3000] == odd


def test_what_is_wanted_for_its_shape_alone_is_not_computed() -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    apart = tf.subtract(x, 1.0, name="apart")
    count = tf.cast(tf.size(tf.pow(apart, 2.0, name="squares")), tf.float32)
    mean = tf.multiply(apart, count, name="mean")
    assert "squares" not in nodes([mean], [x])
    assert "squares" in nodes([mean], [x], fold=False)
    with tf.Session() as session:
        for rows in (2, 4, 4):
            found = session.run(mean, {x: np.full((rows, 3), 3, np.float32)})
            np.testing.assert_array_equal(found, np.full((rows, 3), 2 * 3 * rows))


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_what_is_computed_for_its_shape_may_still_fail_or_be_stretched(kind: str) -> None:
    x, y = tf.placeholder(kind, [None, 3]), tf.placeholder(kind, None)
    # Integers refuse some powers, and nobody knows what y stretches.
    power = tf.pow(x, tf.constant(-1, kind), name="power")
    sizes = tf.shape(power) + tf.shape(tf.add(x, y, name="stretched"))[-2:]
    wanted = nodes([sizes, x * 2], [x, y])
    assert "stretched" in wanted
    assert ("power" in wanted) == (kind == "int32")
    value = np.ones((2, 3), kind)
    with tf.Session() as session:
        if kind == "int32":
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run([sizes, x * 2], {x: value, y: value})
        else:
            found, _ = session.run([sizes, x * 2], {x: value, y: np.ones((4, 1, 3), kind)})
            np.testing.assert_array_equal(found, [4, 6])
