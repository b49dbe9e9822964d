"""Random programs of nested branches and loops whose nodes lie on any of three tasks give what Python gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as tf
from tests.flow_programs import (
    EXPRESSIONS,
    as_graph,
    devices,
    expressions_with,
    in_python,
    smooth,
)
from tests.serve.clusters import Cluster, in_process

DEVICES = [None, "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"]
PLACES = st.lists(st.integers(0, 3), min_size=1, max_size=9)
QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def three_tasks() -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 2}) as cluster:
        yield cluster


@given(
    expression=expressions_with("count"),
    places=PLACES,
    inputs=st.lists(st.integers(0, 9), min_size=2, max_size=3),
)
@QUICK
def test_values_and_effects_are_as_in_python(
    three_tasks: Cluster, expression: Any, places: list[int], inputs: list[int]
) -> None:
    on = devices(DEVICES, places)
    needed: list[int] = []

    def seen(value: int) -> int:
        needed.append(value)
        return value

    def counted(value: Any) -> Any:
        with tf.control_dependencies([value]):
            added = count.assign_add(1)
        with on(), tf.control_dependencies([added]):
            return tf.identity(value)

    with tf.Graph().as_default() as graph:
        with on():
            x = tf.placeholder(tf.int64, [])
            count = tf.Variable(0, name="count")
        names = {"x": x, "i": tf.constant(1, tf.int64), "a": tf.constant(4, tf.int64)}
        result = tf.identity(as_graph(expression, names, on, {"count": counted}))
    with tf.Session(three_tasks.target("worker:0"), graph=graph) as session:
        session.run(count.initializer)
        for value in inputs:
            want = in_python(expression, {"x": value, "i": 1, "a": 4}, {"count": seen})
            assert session.run(result, {x: value}) == want
            assert session.run(count) == len(needed)


@given(expression=EXPRESSIONS, places=PLACES)
@QUICK
def test_gradients_are_those_of_one_task(
    three_tasks: Cluster, expression: Any, places: list[int]
) -> None:
    slopes = []
    for target, on in (
        (three_tasks.target("worker:0"), devices(DEVICES, places)),
        ("", devices([None], [0])),
    ):
        with tf.Graph().as_default() as graph:
            with on():
                x = tf.placeholder(tf.float64, [])
            y = smooth(expression, {"x": x, "i": x * 2.0, "a": tf.sin(x)}, on) + x
            (slope,) = tf.gradients(y, x)
        with tf.Session(target, graph=graph) as session:
            slopes.append(session.run(slope, {x: 0.3}))
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-12)
