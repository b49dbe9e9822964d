"""Variables count their updates: one for each, of whichever kind it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.state.variable import State

START = [1.0, 2.0, 3.0]
LARGE = 1 << 19  # elements; more than fit into a block, so that sums and products are made in place

KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "an assignment": (START, lambda v: v.assign([4.0, 5.0, 6.0])),
    "a sum": (START, lambda v: v.assign_add([1.0, 1.0, 1.0])),
    "a sum of scalars": (1.0, lambda v: v.assign_sub(0.5)),
    "an integer that does not fit": (np.int8(127), lambda v: v.assign_add(1)),
    "another shape": (START, lambda v: tf.assign(v, [1.0, 2.0], validate_shape=False)),
    "rows": (START, lambda v: tf.scatter_add(v, [0, 2, 0], [1.0, 1.0, 1.0])),
    "rows by coordinates": (START, lambda v: tf.scatter_nd_update(v, [[1]], [9.0])),
    "a slice": (START, lambda v: v[1:].assign([7.0, 8.0])),
    "a step of an optimizer": (START, lambda v: _trained(v)),
    "a whole that is computed from it": (np.ones(LARGE, np.float32), lambda v: v.assign(v * 0.5)),
    "a whole that is added to": (
        np.ones(LARGE, np.float32),
        lambda v: v.assign_add(tf.ones([LARGE])),
    ),
}


def _trained(variable: Any) -> Any:
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    return optimizer.minimize(tf.reduce_sum(variable * variable), var_list=[variable])


def counted(session: tf.Session) -> int:
    """The updates of the only variable there."""
    kept = session._engine._runtime.resources.all()  # type: ignore[attr-defined]
    (found,) = [each for each in kept if isinstance(each, State)]
    return found.updates


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_update_counts_once(kind: str, use_resource: bool) -> None:
    start, made = KINDS[kind]
    if use_resource and kind == "another shape":
        pytest.skip("the value of a resource variable keeps its shape here")
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=tf.constant(start), use_resource=use_resource)
        update = made(variable)
        session.run(variable.initializer)
        assert counted(session) == 1
        for times in (2, 3):
            session.run(update)
            assert counted(session) == times


def test_reading_is_no_update_and_a_lease_makes_none() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=tf.ones([LARGE]))
        doubled = variable.assign_add(tf.ones([LARGE]))
        session.run(variable.initializer)
        held = session.run(variable)  # what was read stays as it was, whoever updates
        session.run([variable.read_value(), doubled])
        assert counted(session) == 2
    assert held[0] == 1.0


def test_a_restored_value_is_an_update(tmp_path: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=tf.constant(START))
        saver = tf.train.Saver()
        session.run(variable.initializer)
        saver.restore(session, saver.save(session, str(tmp_path / "model")))
        assert counted(session) == 2
