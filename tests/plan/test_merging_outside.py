"""Steps with branches: what is outside of them is merged and remembered, and compiled, as elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.compile import compile_program
from headrace.plan.explain import explaining
from headrace.plan.prune import needed
from headrace.run.exec import straight
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.program import Segment
from tests.plan.programs import compiled, instructions, nodes, run


def branch(x: Any) -> Any:
    """x if its sum is above 0, else twice that."""
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x + 0.0, lambda: x * 2.0)


def traced(fetches: list[Any], feeds: list[Any]) -> Any:
    """The program of a step that lists every node: the general executor's, where there are branches."""
    return compile_program(
        needed(feeds, fetches, ()), feeds, fetches, devices={}, memos={}, fold=False
    )


def test_equal_nodes_outside_of_branches_become_one(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        fetches = [tf.tanh(x * 3.0), tf.tanh(x * 3.0), branch(tf.tanh(x * 3.0)), branch(x)]
        program, plain = compiled(fetches, [x]), traced(fetches, [x])
        for values in ([1.0, 2.0], [-1.0, -2.0]):
            given = [np.array(values, np.float32)]
            found, wanted = run(program, runtime, given), run(plain, runtime, given)
            assert all(map(np.array_equal, found, wanted))
    names = set(nodes(program))
    assert (
        sum(name.startswith("Tanh") for name in names) == 2
    )  # a branch takes the other one by its number


def test_what_runs_in_a_branch_does_not_leave_it(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        x, truth = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.bool, [])
        other = tf.placeholder(tf.float32, [None])
        inside = tf.cond(truth, lambda: tf.reshape(other, [2]) + x, lambda: x)
        fed = {x: np.ones(2, np.float32), truth: np.bool_(False), other: np.ones(3, np.float32)}
        program = compiled([inside, tf.exp(x), tf.exp(x)], list(fed))
        assert run(program, runtime, list(fed.values()))[0].tolist() == [1.0, 1.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Reshape"):
            run(program, runtime, [np.ones(2, np.float32), np.bool_(True), np.ones(3, np.float32)])


def test_what_follows_from_shapes_is_remembered_beside_a_branch(runtime: Runtime) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        x = tf.placeholder(tf.float32, [None])
        count = tf.cast(tf.shape(x)[0] * 2, tf.float32)
        fetches = [branch(x) / count, branch(tf.fill([2], count))]
        program, plain = compiled(fetches, [x]), traced(fetches, [x])
        for size in (2, 3, 3):
            given = [np.full(size, -1.0, np.float32)]
            found, wanted = run(program, runtime, given), run(plain, runtime, given)
            assert all(map(np.array_equal, found, wanted))
            assert found[1].tolist() == [2.0 * size] * 2
    assert "shapes: no change" not in "".join(said)


def program_of_branches() -> tuple[list[Any], Any]:
    """A chain of nodes between and around branches."""
    x = tf.placeholder(tf.float32, [3])
    value = x
    for _ in range(3):
        value = branch(tf.sin(value) - 0.1) * 1.5
        for _ in range(20):
            value = tf.tanh(value + x)
    return [value, tf.exp(value)], x


def test_what_is_compiled_around_branches_gives_what_the_rows_give(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        fetches, x = program_of_branches()
        program, plain = compiled(fetches, [x]), traced(fetches, [x])
        codes = [item.work.code for item in program.items if isinstance(item.work, Segment)]
        for number in range(straight.HOT + 4):
            values = np.array([-0.5, number / 50 - 1.2, 0.3], np.float32)
            found, wanted = run(program, runtime, [values]), run(plain, runtime, [values])
            assert all(map(np.array_equal, found, wanted))
    assert any(code.parts for code in codes)
    assert len(instructions(program)) > 100


def test_an_error_behind_a_branch_names_its_node(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        fetches, x = program_of_branches()
        wrong = tf.placeholder(tf.int32, [2])
        late = tf.reshape(fetches[1], wrong, name="late")
        program = compiled([late], [x, wrong])
        good = [np.ones(3, np.float32), np.array([3, 1], np.int32)]
        for _ in range(straight.HOT + 2):
            run(program, runtime, good)
        with pytest.raises(tf.errors.InvalidArgumentError, match="late"):
            run(program, runtime, [np.ones(3, np.float32), np.array([2, 2], np.int32)])
        assert run(program, runtime, good)[0].shape == (3, 1)


def test_what_nobody_reads_is_left_out_beside_branches() -> None:
    said: list[str] = []
    with tf.Graph().as_default():
        x, y = (tf.placeholder(tf.float32, [None]) for _ in range(2))
        chosen = tf.where(x > 0.0, x * 2.0, y * 3.0)
        slope, _ = tf.gradients(tf.reduce_sum(chosen), [x, y], gate_gradients=True)
        checked = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.identity(slope), lambda: -slope)
        with tf.Session() as session, explaining(said.append):
            given = {x: [1.0, -2.0, 3.0], y: [1.0, 1.0, 1.0]}
            assert session.run(checked, given).tolist() == [2.0, 0.0, 2.0]
    text = "".join(said)
    before, after = text.partition("\nidle: ")[0], text.partition("\nidle: ")[2]
    assert "gradients/Select_grad/Select_1" in before
    assert "gradients/Select_grad/Select_1" not in after
