"""Pruning: an edge from a node that only computes stands for what is behind it, found in linear time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as tf
from headrace.plan import prune
from headrace.plan.prune import needed


def only_computes(op: Any) -> bool:
    return op.type not in ("Placeholder", "RandomUniform", "Print")


def before(op: Any, fed: set[Any]) -> list[Any]:
    """All that `op` waits for, as written."""
    found = [t.op for t in op.inputs if t not in fed]
    return found + [
        c for c in op.control_inputs if c.type != "Placeholder" or c.outputs[0] not in fed
    ]


def by_definition(roots: list[Any], fed: set[Any]) -> tuple[set[Any], Any]:
    """(what runs, what a node that runs waits for by control edges)"""

    def real(op: Any, runs: set[Any], seen: set[Any]) -> set[Any]:
        if not only_computes(op) or op in runs:
            return {op}
        if op in seen:
            return set()
        seen.add(op)
        return {each for source in before(op, fed) for each in real(source, runs, seen)}

    runs: set[Any] = set()
    waiting = list(roots)
    while waiting:
        op = waiting.pop()
        if op not in runs:
            runs.add(op)
            waiting += [t.op for t in op.inputs if t not in fed]
            for control in before(op, fed)[len([t for t in op.inputs if t not in fed]) :]:
                waiting += real(control, set(), set())

    def controls(op: Any) -> set[Any]:
        inputs = len([t for t in op.inputs if t not in fed])
        return {e for c in before(op, fed)[inputs:] for e in real(c, runs, set())}

    return runs, controls


nodes = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 30), st.integers(0, 30), st.integers(0, 60)),
    min_size=1,
    max_size=25,
)


def _node(kind: int, x: Any, y: Any) -> Any:
    make = [
        lambda: x + y,
        lambda: tf.tanh(x),
        lambda: tf.group(x, y),
        lambda: tf.Print(x, [y]),
        lambda: tf.random_uniform([], seed=5),
        lambda: tf.placeholder(tf.float32, []),
    ]
    return make[kind]()


@settings(max_examples=100, deadline=None)
@given(
    recipe=nodes,
    roots=st.lists(st.integers(0, 30), min_size=1, max_size=3),
    feed=st.integers(0, 60),
)
def test_random_graphs_are_pruned_as_the_definition_says(
    recipe: list[tuple[int, int, int, int]], roots: list[int], feed: int
) -> None:
    with tf.Graph().as_default():
        made: list[Any] = [tf.placeholder(tf.float32, []), tf.random_uniform([], seed=3)]
        for kind, first, second, control in recipe:
            x, y = made[first % len(made)], made[second % len(made)]
            waits = [made[control % len(made)], made[(control * 7) % len(made)]]
            with tf.control_dependencies(waits[: control % 3]):
                node = _node(kind, x, y)
            made.append(node if kind != 2 else tf.constant(1.0))
            if kind == 2:
                with tf.control_dependencies([node]):
                    made.append(tf.identity(y))
    fed = {made[feed % len(made)]} if feed % 2 else set()
    wanted = [made[i % len(made)] for i in roots]
    found = needed(fed, wanted, [])
    runs, controls = by_definition([t.op for t in wanted if t not in fed], fed)
    # A control edge asks for what runs; a random number that waits runs for the edge's sake alone.
    assert set(found.ops) == runs
    for op in found.ops:
        assert set(found.controls[op]) == controls(op), op.name
    position = {op: i for i, op in enumerate(found.ops)}
    for op in found.ops:
        for source in (*[t.op for t in op.inputs if t not in fed], *found.controls[op]):
            assert position[source] < position[op]


def test_the_work_grows_with_the_graph_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def looks(layers: int) -> int:
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [])
            for _ in range(layers):  # as gradients are tied together
                a, b = tf.tanh(x), tf.exp(x)
                with tf.control_dependencies([tf.group(a, b)]):
                    x = tf.identity(a)
        count = 0

        def counted(op: Any, silent: Any = prune._is_silent) -> bool:
            nonlocal count
            count += 1
            return bool(silent(op))

        with monkeypatch.context() as patch:
            patch.setattr(prune, "_is_silent", counted)
            needed([], [x], [])
        return count

    assert looks(200) < 11 * looks(20)
