"""What a node would give as it is, or cut out for arithmetic alone, is not made: values and shapes stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import instructions, nodes, together_and_apart

VALUES = np.array([[-0.0, 1.0, np.nan], [np.inf, -2.5, 3e-45]], np.float32)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("shape", [[2, 3], [None, 3], None])
def test_a_product_with_1_and_a_quotient_by_it_are_what_was_there(
    shape: Any, runtime: Runtime
) -> None:
    x = tf.placeholder(tf.float32, shape)
    made = x * 2.0
    fetches = [
        tf.multiply(made, 1.0, name="after"), tf.multiply(1.0, made, name="before"),
        tf.divide(made, 1.0, name="divided"),
    ]  # fmt: skip
    found, wanted, program = together_and_apart(fetches, {x: VALUES}, runtime)
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()
    assert not {"after", "before", "divided"} & set(nodes(program))
    assert found[0] is not found[1]


def test_other_factors_count(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    fetches = [x * 1.5, x * np.ones([1, 1, 1], np.float32), 1.0 / x, x * np.ones(3, np.float32)]
    found, wanted, _ = together_and_apart(fetches, {x: VALUES}, runtime)
    assert [each.shape for each in found] == [(2, 3), (1, 2, 3), (2, 3), (2, 3)]
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_reshape_to_the_shape_that_is_there_is_none(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    unknown = tf.placeholder(tf.float32, [None, 3])
    fetches = [
        tf.reshape(x * 2.0, [2, 3], name="same"), tf.reshape(x * 2.0, [3, 2], name="other"),
        tf.reshape(unknown * 2.0, [-1, 3], name="unknown"),
    ]  # fmt: skip
    found, wanted, program = together_and_apart(fetches, {x: VALUES, unknown: VALUES}, runtime)
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()
    names = set(nodes(program))
    assert "same" not in names
    assert {"other", "unknown"} <= names


def test_a_variable_times_1_is_its_value_at_that_time() -> None:
    variable = tf.Variable([1.0, 2.0], use_resource=False)
    before = variable * 1.0
    with tf.control_dependencies([before]):
        update = variable.assign_add([1.0, 1.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([before, update])[0].tolist() == [1, 2]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64, np.float16])
@pytest.mark.parametrize("size", [5, 1000])
@pytest.mark.parametrize("select", [tf.where, tf.where_v2])
def test_a_choice_between_an_array_and_zeros_has_its_bits(
    select: Any, size: int, kind: Any, runtime: Runtime
) -> None:
    x = np.linspace(-3, 3, size).astype(kind)
    if x.dtype.kind == "f":
        x[:3] = np.nan, np.inf, -0.0
    given, chosen = tf.placeholder(kind, [size]), tf.placeholder(tf.bool, [size])
    zeros, negative = np.zeros(size, kind), -np.zeros(size, kind)
    fetches = [
        select(chosen, given, zeros), select(chosen, zeros, given), select(chosen, given, negative),
        select(chosen, zeros, zeros),
    ]  # fmt: skip
    feeds = {given: x, chosen: np.arange(size) % 3 == 0}
    found, wanted, _ = together_and_apart(fetches, feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()


def cuts(x: Any) -> list[Any]:
    """Rows from the start, from the middle, a part of the columns."""
    return [
        tf.slice(x, [0, 0], [100, -1], name="first"), tf.slice(x, [100, 0], [90, 40], name="second"),
        tf.slice(x, [0, 1], [100, 39], name="columns"),
    ]  # fmt: skip


def test_rows_that_go_into_arithmetic_are_not_copied(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [200, 40])
    wide = np.random.default_rng(0).standard_normal((200, 40)).astype(np.float32)
    first, second, columns = cuts(tf.exp(x))
    fetches = [
        tf.reshape(first, [40, 100]) + 1.0, tf.matmul(second, second, transpose_a=True),
        columns * 2.0,
    ]  # fmt: skip
    found, wanted, program = together_and_apart(fetches, {x: wide}, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    said = {each.node.name: each.kernel for each in instructions(program)}
    assert all("Group" in said[name].__qualname__ for name in ("first", "second"))
    assert "Group" not in getattr(said["columns"], "__qualname__", "")


def test_rows_that_leave_are_copies(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [200, 40])
    wide = np.ones((200, 40), np.float32)
    made = tf.exp(x)
    first, second, _ = cuts(made)
    fetches = [first, tf.reshape(second, [-1]), made]
    found, _, _ = together_and_apart(fetches, {x: wide}, runtime)
    assert not np.shares_memory(found[0], found[2])
    assert not np.shares_memory(found[1], found[2])
    of_fed = cuts(x)[0] * 2.0
    found, wanted, _ = together_and_apart([of_fed], {x: wide}, runtime)
    np.testing.assert_array_equal(found[0], wanted[0])


def test_a_power_of_1_is_what_was_there(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.constant(2.0)
    one = tf.subtract(y, 1.0)
    fetches = [tf.pow(x * 2.0, one, name="same"), tf.pow(x * 2.0, y, name="other")]
    found, wanted, program = together_and_apart(fetches, {x: VALUES}, runtime)
    for each, other in zip(found, wanted, strict=True):
        assert each.tobytes() == other.tobytes()
    assert "same" not in set(nodes(program))
    fed, wanted, program = together_and_apart(fetches, {x: VALUES, y: np.float32(3)}, runtime)
    assert "same" in set(nodes(program))
    for each, other in zip(fed, wanted, strict=True):
        assert each.tobytes() == other.tobytes()
