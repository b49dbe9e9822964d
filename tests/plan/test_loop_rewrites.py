"""What is left out of loops, or laid out once: transposed factors, stacks of shapes, gradients that nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.plan.rules.loop_factors import Turned
from tests.plan.programs import looped_and_one_by_one

UNITS, ROWS = 192, 64


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32) * np.float32(0.1)


def versions(said: str) -> dict[str, str]:
    """By pass, the longest of the steps that were explained, as the pass has left it."""
    step = max(said.split("\nstep: "), key=len)
    found: dict[str, str] = {}
    name = ""
    for line in step.splitlines():
        if line[:1] != " ":
            before, (name, _, what) = name, line.partition(":")
            if what == " no change":
                found[name] = found[before]
                continue
        found[name] = found.get(name, "") + line + "\n"
    return found


def times(weights: Any, state: Any, count: int = 10) -> Any:
    """state, multiplied by the transpose of `weights` again and again."""
    return tf.while_loop(
        lambda i, _: i < count,
        lambda i, s: (i + 1, tf.tanh(tf.matmul(s, weights, transpose_b=True))),
        (0, state),
    )[1]


@pytest.mark.parametrize("rows", [ROWS, 2, 200])
@pytest.mark.parametrize("count", [0, 3, 10])
def test_a_transposed_factor_is_laid_out_once(rows: int, count: int) -> None:
    """Of products that are large enough, and small enough to be made at once."""
    weights, state = (tf.placeholder(tf.float32, [size, UNITS]) for size in (UNITS, None))
    fed = {weights: values(UNITS, UNITS), state: values(rows, UNITS)}
    found, wanted, said = looped_and_one_by_one([times(weights, state, count)], fed)
    assert "turned factor [MatMul]" in said
    assert np.array_equal(found[0], wanted[0])


def test_factors_are_copied_after_a_few_products_and_anew_if_they_are_others() -> None:
    turned, one, other = Turned(), values(48, 20), values(16, 20)
    for matrix in (one, one, one):
        assert turned.of(matrix).base is matrix
    made = turned.of(one)
    assert made.flags.c_contiguous
    assert np.array_equal(made, one.T)
    assert turned.of(one) is made
    assert np.array_equal(turned.of(other), other.T)
    assert np.array_equal(turned.of(one), one.T)


def test_a_factor_that_the_loop_changes_is_read_in_each_iteration() -> None:
    weights = tf.Variable(values(UNITS, UNITS), use_resource=False)
    begin = tf.placeholder(tf.float32, [ROWS, UNITS])

    def body(i: Any, state: Any) -> Any:
        made = tf.matmul(state, weights._ref(), transpose_b=True)
        with tf.control_dependencies([made]):
            changed = tf.assign_add(weights, tf.ones([UNITS, UNITS]) * 1e-3)
        with tf.control_dependencies([changed]):
            return i + 1, tf.tanh(made)

    looped = tf.while_loop(lambda i, _: i < 8, body, (0, begin))[1]
    state = given = values(ROWS, UNITS)
    by_hand = values(UNITS, UNITS)
    for _ in range(8):
        state = np.tanh(state @ by_hand.T)
        by_hand += np.float32(1e-3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert np.allclose(session.run(looped, {begin: given}), state, rtol=1e-4, atol=1e-4)
        assert np.allclose(session.run(weights), by_hand)


def test_the_next_step_sees_what_an_optimizer_has_made_of_a_factor() -> None:
    """The array is the same one, changed in place."""
    weights = tf.Variable(values(UNITS, UNITS))
    begin = tf.placeholder(tf.float32, [ROWS, UNITS])
    made = times(weights, begin)
    change = weights.assign_add(tf.ones([UNITS, UNITS]) * 0.01)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(made, {begin: values(ROWS, UNITS)})
        session.run(change)
        second = session.run(made, {begin: values(ROWS, UNITS)})
    state, by_hand = values(ROWS, UNITS), values(UNITS, UNITS) + np.float32(0.01)
    for _ in range(10):
        state = np.tanh(state @ by_hand.T)
    assert not np.array_equal(first, second)
    assert np.allclose(second, state, rtol=1e-4, atol=1e-4)


def products(x: Any, y: Any, count: int = 5) -> Any:
    """Of two tensors of unknown shapes, added up."""

    def body(i: Any, s: Any) -> Any:
        return i + 1, (s * y) * (x + tf.cast(i, tf.float32))

    return tf.while_loop(
        lambda i, _: i < count,
        body,
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)),
    )[1]


SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 4), (3, 1)), ((3, 4), ()), ((2,), (2,)), ((), ())]


@pytest.mark.parametrize(("of_x", "of_y"), SHAPES)
def test_gradients_of_products_in_loops_stretched_or_not(
    of_x: tuple[int, ...], of_y: tuple[int, ...]
) -> None:
    x, y = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
    grads = tf.gradients(products(x, y), [x, y])
    fed = {x: values(*of_x), y: values(*of_y)}
    found, wanted, said = looped_and_one_by_one([*grads, products(x, y)], fed)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)
    assert "unstretched-pairs" in said


def test_shapes_of_what_is_stacked_are_not_stacked() -> None:
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])

    def body(i: Any, s: Any) -> Any:
        return i + 1, tf.tanh(s * tf.sigmoid(y + s))

    looped = tf.while_loop(lambda i, _: i < 5, body, (0, x))[1]
    fed = {x: values(2, 3), y: values(2, 3)}
    found, wanted, said = looped_and_one_by_one(tf.gradients(looped, [x, y]), fed)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)
    made = versions(said)
    before, after = (made[name].count("StackV2(") for name in ("merge outside", "stacks"))
    assert before > after > 0
    assert before - after == made["merge outside"].count("StackPushV2(") - made["stacks"].count(
        "StackPushV2("
    )


def test_two_outputs_of_one_array_are_two_arrays_for_the_caller() -> None:
    """Gradients of a sum that is not stretched are handed on, and each belongs to who fetched it."""
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    grads = tf.gradients(tf.tanh(x + y) * 2.0, [x, y])
    with tf.Session() as session:
        one, other = session.run(grads, {x: np.ones(2, np.float32), y: np.ones(2, np.float32)})
    one += 1
    assert not np.array_equal(one, other)
    assert one.flags.writeable
    assert other.flags.writeable


def test_what_nobody_reads_in_a_loop_is_not_computed() -> None:
    """Half of a recurrent layer's gradient is that of what it reads."""
    x = tf.placeholder(tf.float32, [None, 5, 3])
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(4), x, dtype=tf.float32)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(outputs))
    said: list[str] = []
    with tf.Session() as session, explaining(said.append):
        session.run(tf.global_variables_initializer())
        session.run(train, {x: values(2, 5, 3)})
    made = versions("".join(said))
    assert made["merge outside"].count("= Slice(") > made["idle then"].count("= Slice(") == 1
    assert "NoOp()" in made["merge outside"]
    assert "NoOp()" not in made["idle"]


def test_a_node_that_is_run_by_name_runs() -> None:
    x = tf.placeholder(tf.float32, [2])
    bad = tf.check_numerics(x, "not a number", name="checked")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
            session.run(tf.group(bad), {x: np.array([np.nan, 1], np.float32)})
        session.run(tf.no_op())
        session.run(tf.group(tf.no_op(), tf.no_op()))
