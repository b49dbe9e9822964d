"""Reads of variables that may not be initialized: one instruction, and no branch that keeps passes from a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining


def explained(fetches: Any, before: Any = None, feed: Any = None) -> tuple[Any, str]:
    """What a step gives, and how it is planned."""
    said: list[str] = []
    with tf.Session() as session:
        if before is not None:
            session.run(before)
        with explaining(said.append):
            found = session.run(fetches, feed)
    return found, "".join(said)


@pytest.mark.parametrize(("initialized", "wanted"), [(True, 5), (False, 3)])
def test_the_variable_is_read_or_what_it_begins_with(initialized: bool, wanted: int) -> None:
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=np.int64(3))
        found, plan = explained(
            [v.initialized_value() + 0, v.initialized_value()],
            v.assign(5) if initialized else None,
        )
    assert [int(each) for each in found] == [wanted, wanted]
    assert "nest:" not in plan
    assert plan.rpartition("registers:")[2].count("initialized_or(") == 2


def test_a_step_with_such_a_read_is_planned_as_one_without() -> None:
    """Its gradients that nobody wants are not computed, and what follows from shapes is remembered."""
    with tf.Graph().as_default():
        step = tf.train.create_global_step()
        x, w = tf.placeholder(tf.float32, [None, 3]), tf.get_variable("w", [3, 2])
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        read = step.initialized_value() + 0
        plans = []
        for fetches in ([train, loss], [train, loss, read]):
            init = tf.global_variables_initializer()
            found, plan = explained(fetches, init, {x: np.ones((4, 3), np.float32)})
            plans.append(plan.rpartition("registers:")[2])
        assert found[2] == 0  # the step from before it counts
    plain, with_read = plans
    assert "shapes [" in plain
    for text in ("shapes [", "MatMul("):
        assert with_read.count(text) == plain.count(text)


def _choose(v: Any) -> Any:
    return tf.cond(
        tf.is_variable_initialized(v), lambda: v.read_value() * 2, lambda: tf.constant(7.0)
    )


def _asked(v: Any) -> Any:
    v.initialized_value()
    graph = tf.get_default_graph()
    merged, asked = (graph.get_tensor_by_name(f"cond/{name}:0") for name in ("Merge", "pred_id"))
    return [merged, tf.logical_not(asked)]


def _counted(v: Any) -> Any:
    v.initialized_value()
    return tf.get_default_graph().get_tensor_by_name("cond/Merge:1")


OTHERS: list[tuple[Callable[[Any], Any], Any]] = [
    (_choose, 4.0),
    (_asked, [2.0, False]),
    (_counted, 1),
]


@pytest.mark.parametrize(("build", "wanted"), OTHERS)
def test_other_branches_stay_what_they_are(build: Callable[[Any], Any], wanted: Any) -> None:
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=2.0)
        found, _ = explained(build(v), v.initializer)
        assert np.asarray(found).tolist() == np.asarray(wanted).tolist()


def test_what_is_fed_in_the_middle_is_taken() -> None:
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=2.0)
        read = v.initialized_value()
        asked = tf.get_default_graph().get_tensor_by_name("cond/pred_id:0")
        default = tf.get_default_graph().get_tensor_by_name("cond/Switch_1:0")
        found, _ = explained(read, v.assign(9.0), {asked: False})
        assert found == 2.0
        found, _ = explained(read, v.assign(9.0), {read: 4.0})
        assert found == 4.0
        assert default.op.type == "Switch"


def test_a_traced_step_lists_every_node() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=2.0)
        read = v.initialized_value()
        session.run(v.initializer)
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run(read, options=options, run_metadata=metadata) == 2.0
    names = {
        node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats
    }
    assert {"cond/Merge", "IsVariableInitialized"} <= names
