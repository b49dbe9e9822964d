"""Results in the memory of inputs: only where nobody can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS, get
from headrace.plan import check
from headrace.run.exec import straight
from tests.plan.programs import compiled, instructions

VALUE = np.linspace(-1, 1, 10).astype(np.float32)


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checked kernels are no ufuncs."""
    monkeypatch.setattr(check, "enabled", False)
    with tf.Graph().as_default():
        yield


def overwriting(fetches: list[Any], feeds: list[Any]) -> set[str]:
    """Nodes whose result takes the memory of an input."""
    return {each.node.name for each in instructions(compiled(fetches, feeds)) if each.over >= 0}


def fed(*shape: int | None) -> Any:
    return tf.placeholder(tf.float32, shape)


def test_each_node_of_a_chain_but_the_first_writes_into_the_one_before() -> None:
    x = fed(10)
    first = x * x
    second = tf.tanh(first)
    third = x - second
    assert overwriting([third], [x]) == {second.op.name, third.op.name}


def doubled(x: Any) -> tuple[Any, list[Any]]:
    y = x * 2.0
    return tf.tanh(y), [y]


def used_again(x: Any) -> tuple[Any, list[Any]]:
    y = x * 2.0
    return tf.tanh(y), [x - y]


def viewed(x: Any) -> tuple[Any, list[Any]]:
    y = x * 2.0
    view = tf.reshape(y, [2, 5])
    with tf.control_dependencies([view]):
        return tf.tanh(y), [view]


def identical(x: Any) -> tuple[Any, list[Any]]:
    y = x * 2.0
    same = tf.identity(y)
    with tf.control_dependencies([same]):
        return tf.tanh(y), [same]


def smaller(x: Any) -> tuple[Any, list[Any]]:
    return tf.constant(np.ones((3, 10), np.float32)) * (x * 2.0), []


def of_another_type(x: Any) -> tuple[Any, list[Any]]:
    return (x * 2.0) > x, []


def fed_itself(x: Any) -> tuple[Any, list[Any]]:
    return tf.tanh(x), []


def of_a_variable(x: Any) -> tuple[Any, list[Any]]:
    return tf.tanh(tf.Variable(VALUE)), []


def constant(x: Any) -> tuple[Any, list[Any]]:
    return tf.tanh(tf.fill([10], 2.0)), []


def unknown(x: Any) -> tuple[Any, list[Any]]:
    return tf.tanh(tf.placeholder_with_default(x, [None]) * 2.0), []


@pytest.mark.parametrize(
    "build",
    [doubled, used_again, viewed, identical, smaller, of_another_type, fed_itself, of_a_variable, constant, unknown],
)  # fmt: skip
def test_what_somebody_may_still_look_at_is_left_alone(
    build: Callable[[Any], tuple[Any, list[Any]]],
) -> None:
    x = fed(10)
    result, others = build(x)
    assert result.op.name not in overwriting([result, *others], [x])


def test_hot_steps_change_neither_what_they_were_fed_nor_what_they_gave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(straight, "HOT", 2)
    x = fed(10)
    value = x
    for _ in range(10):
        value = tf.tanh(value * x + x)
    with tf.Session() as session:
        feed = VALUE.copy()
        before = session.run(value, {x: feed})
        kept = before.copy()
        for step in range(6):
            again = session.run(value, {x: feed})
            np.testing.assert_array_equal(again, before)
            np.testing.assert_array_equal(feed, VALUE)
            again += step
        np.testing.assert_array_equal(before, kept)


NOT_OF_FLOATS = {"Conj", "LogicalAnd", "LogicalNot", "LogicalOr"}
UFUNCS = sorted(
    name
    for name, spec in OPS.items()
    if spec.bare is not None
    and name not in NOT_OF_FLOATS
    and isinstance(getattr(np, spec.bare), np.ufunc)
    and any(
        kinds.startswith("f" * getattr(np, spec.bare).nin) for kinds in getattr(np, spec.bare).types
    )
)


@pytest.mark.parametrize("name", UFUNCS)
def test_every_ufunc_takes_the_memory_that_it_may_write_to(name: str) -> None:
    """NumPy warns of some that take it by name only; a warning is an error here."""
    kernel = getattr(np, OPS[name].bare)
    x = fed(10)
    made = get(name)(*(x * float(n) for n in range(2, kernel.nin + 2)))
    takers = overwriting([made], [x])
    if takers:  # as the source calls it
        arrays = [np.full(10, 0.5, np.float32) for _ in range(kernel.nin + 1)]
        with np.errstate(all="ignore"):
            out = kernel(*arrays)
        assert out.shape == VALUE.shape
    else:
        assert kernel in (np.maximum, np.minimum) or made.dtype != tf.float32
