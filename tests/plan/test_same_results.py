"""What a plan leaves out or computes once cannot be told from outside: values, errors and traces are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as tf
from headrace.plan import check
from headrace.plan.prune import needed
from headrace.run.exec import straight
from headrace.run.exec.program import Segment
from tests.plan import programs

Recipe = list[tuple[int, int, int, int]]
"""(kind of node, first input, second input, a small number)"""

recipes = st.lists(
    st.tuples(st.integers(0, 18), st.integers(0, 50), st.integers(0, 50), st.integers(0, 3)),
    min_size=1,
    max_size=40,
)
AS_WRITTEN = tf.ConfigProto(
    graph_options=tf.GraphOptions(
        optimizer_options=tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0)
    )
)


class Built:
    """A graph from a recipe: nodes that repeat each other, on constants, feeds and variables in a fixed order."""

    def __init__(self, recipe: Recipe) -> None:
        with tf.Graph().as_default() as self.graph:
            self.fed = [tf.placeholder(tf.float32, shape) for shape in ((), (3,), (None,))]
            self.old = tf.Variable(np.float32([1, 2, 3]), use_resource=False)
            self.new = tf.Variable(np.float32([3, 2, 1]), use_resource=True)
            self.values: list[Any] = [*self.fed, tf.constant(0.5), tf.constant([1.0, -0.0, 2.0])]
            self.last: list[Any] = []  # what touched a variable
            self.init = tf.global_variables_initializer()
            for kind, first, second, number in recipe:
                self._add(kind, first, second, number)

    def _add(self, kind: int, first: int, second: int, number: int) -> None:
        x, y = self.values[first % len(self.values)], self.values[second % len(self.values)]
        plain = [
            lambda: x + y,
            lambda: x * y,
            lambda: x - y,
            lambda: tf.maximum(x, y),
            lambda: tf.tanh(x),
            lambda: -x,
            lambda: tf.constant(float(number) / 2),
            lambda: tf.reduce_sum(x) * 0.25,
            lambda: tf.reshape(x, [-1]),
            lambda: tf.identity(x),
            lambda: tf.cast(x > y, tf.float32),
            lambda: tf.where(tf.equal(x, x), x, x * 2.0),
            lambda: tf.stop_gradient(tf.expand_dims(x, 0))[0],
            lambda: tf.cast(tf.size(x), tf.float32),
            lambda: tf.gather(tf.reshape(x, [-1]), number),  # out of range now and then
        ]
        if kind < len(plain):
            self.values.append(plain[kind]())
            return
        with tf.control_dependencies(self.last):
            value = tf.identity(tf.reshape(tf.add(tf.reduce_sum(x), [0.0, 1.0, 2.0]), [3])) * 0.125
            if kind == 15:
                made = self.old.assign_add(value)
            elif kind == 16:
                made = self.new.assign_add(value)
            elif kind == 17:
                made = self.old + 0.0
            else:
                made = self.new.read_value() * 1.0
        self.last = [made.op]
        self.values.append(tf.identity(made) if kind in (15, 16) else made)


FEEDS = (np.float32(0.75), np.float32([1, 2, 3]), np.float32([0.5, -0.5, 0.25]))


def outcome(session: Any, fetches: Any, feeds: Any) -> Any:
    try:
        return session.run(fetches, feeds)
    except tf.errors.OpError as error:
        return type(error).__name__, error.node, error.op_type, error.message


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, tuple) or isinstance(b, tuple):
        return bool(a == b)
    return (
        type(a) is type(b)
        and a.dtype == b.dtype
        and a.shape == b.shape
        and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    part=st.sampled_from([2, 5, 500]),
    recipe=recipes,
    wanted=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    override=st.integers(0, 60),
    checked=st.booleans(),
)
def test_random_graphs_give_what_they_give_as_written(
    part: int, recipe: Recipe, wanted: list[int], override: int, checked: bool
) -> None:
    built = Built(recipe)
    fetches = [built.values[i % len(built.values)] for i in wanted]
    feeds = dict(zip(built.fed, FEEDS, strict=True))
    between = built.values[override % len(built.values)]
    if between.op.type != "Const" and override % 2 and between.shape.is_fully_defined():
        feeds[between] = np.full(between.shape.as_list(), 0.125, np.float32)
    with (
        pytest.MonkeyPatch.context() as patch,
        tf.Session(graph=built.graph) as quick,
        tf.Session(graph=built.graph, config=AS_WRITTEN) as plain,
    ):
        for session in (quick, plain):
            session.run(built.init)
        patch.setattr(check, "enabled", checked)  # a checked kernel writes into no input
        # From the second run on it is compiled part by part.
        patch.setattr(straight, "HOT", 2)
        patch.setattr(straight, "FEWEST", 0)
        patch.setattr(straight, "PART", part)
        for _ in range(5):
            theirs = outcome(plain, fetches, feeds)
            assert same(outcome(quick, fetches, feeds), theirs)
        state = [built.old, built.new]
        assert same(quick.run(state), plain.run(state))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(recipe=recipes)
def test_a_traced_step_lists_every_node_that_the_user_wrote(recipe: Recipe) -> None:
    built = Built([entry for entry in recipe if entry[0] != 14])
    target = built.values[-1]
    feeds = dict(zip(built.fed, FEEDS, strict=True))
    with tf.Session(graph=built.graph) as session:
        session.run(built.init)
        session.run(target, feeds)
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(target, feeds, options=options, run_metadata=metadata)
    listed = {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}
    ops = needed(list(feeds), [target], [], exact=True).ops
    assert {op.name for op in ops} - listed == set()


def instructions(fetches: list[Any], feeds: tuple[Any, ...] = ()) -> list[str]:
    """Names of the nodes that a step runs."""
    works = [item.work for item in programs.compiled(fetches, [*feeds]).items]
    names = []
    for work in works:
        many = work.code.instructions if isinstance(work, Segment) else [work]
        names += [each.node.name for each in many]
    return list(dict.fromkeys(names))  # a node may take several instructions


@pytest.fixture
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.usefixtures("graph")
class TestWhatRunsOnce:
    def test_equal_nodes_run_once_whatever_they_are_called(self) -> None:
        x = tf.placeholder(tf.float32, [3], name="x")  # which is too small to run by blocks
        first = tf.tanh(x * 2.0, name="first")
        second = tf.tanh(x * 2.0, name="second")
        assert instructions([first + second], (x,)) == ["mul", "first", "add"]

    def test_what_is_random_stateful_or_read_from_a_variable_runs_as_often_as_written(self) -> None:
        v, r = tf.Variable(1.0, use_resource=False), tf.Variable(1.0, use_resource=True)
        pairs = [
            [tf.random_uniform([2], seed=1), tf.random_uniform([2], seed=1)],
            [v + 1.0, v + 1.0],
            [r.read_value().op.inputs[0], r.read_value().op.inputs[0]],
            [tf.identity(v), tf.identity(v)],
        ]
        for pair in pairs:
            ran = instructions(pair)
            assert {tensor.op.name for tensor in pair} <= {*ran}

    def test_an_identity_of_a_value_is_that_value(self) -> None:
        x = tf.placeholder(tf.float32, [None], name="x")
        with tf.control_dependencies([tf.no_op()]):
            passed = tf.stop_gradient(tf.identity(tf.identity(x * 2.0)))
        assert instructions([passed + 1.0, passed], (x,)) == ["mul", "add"]
        assert instructions([tf.identity(x)], (x,)) == []
        assert instructions([passed + 1.0], (passed,)) == ["add_1"]

    def test_an_identity_waits_for_what_it_was_told_to_wait_for(self) -> None:
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        v = tf.Variable(1.0, use_resource=False)
        doubled = tf.constant(3.0) * tf.placeholder_with_default(2.0, [])
        with tf.control_dependencies([queue.dequeue()]):
            late = v.assign(tf.identity(doubled))
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), queue.enqueue(1.0)])
            assert session.run(late) == 6.0
            session.run(v.assign(0.0))
            options = tf.RunOptions(timeout_in_ms=20)
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(late, options=options)
            assert session.run(v) == 0.0

    def test_a_node_that_waits_for_another_is_not_merged(self) -> None:
        x = tf.placeholder(tf.float32, [], name="x")
        count = tf.Variable(0, use_resource=False)
        first = tf.exp(x, name="first")
        with tf.control_dependencies([count.assign_add(1)]):
            second = tf.exp(x, name="second")
        assert {"first", "second"} <= {*instructions([first, second], (x,))}

    def test_a_fed_tensor_stands_for_itself_only(self) -> None:
        x = tf.placeholder(tf.float32, [], name="x")
        first, second = tf.exp(x, name="first"), tf.exp(x, name="second")
        with tf.Session() as session:
            got = session.run([first + 0.0, second + 0.0, second], {x: 0.0, first: 5.0})
        assert got == [5.0, 1.0, 1.0]

    def test_merged_results_are_arrays_of_their_own(self) -> None:
        x = tf.placeholder(tf.float32, [3])
        with tf.Session() as session:
            a, b = session.run([tf.exp(x), tf.exp(x)], {x: [0.0, 0.0, 0.0]})
        a += 1
        assert b.tolist() == [1.0, 1.0, 1.0]

    def test_attrs_that_only_look_equal_are_different(self) -> None:
        x = tf.placeholder(tf.float32, [2, 1])
        with tf.Session() as session:
            got = session.run(
                [tf.reduce_sum(x, 0, keepdims=True), tf.reduce_sum(x, 0), tf.argmax(x, 0),
                 tf.argmax(x, 0, output_type=tf.int32), 1.0 / tf.constant(0.0), 1.0 / tf.constant(-0.0)],
                {x: [[1.0], [2.0]]},
            )  # fmt: skip
        assert [np.shape(value) for value in got[:2]] == [(1, 1), (1,)]
        assert [value.dtype for value in got[2:4]] == [np.int64, np.int32]
        assert got[4:] == [np.inf, -np.inf]

    def test_what_follows_from_constants_is_computed_once_and_fails_in_the_step(self) -> None:
        c = tf.constant([1.0, 2.0]) * 3.0 + 1.0
        assert instructions([c]) == []
        bad = tf.gather(tf.constant([1.0, 2.0]), tf.constant(5) + 2, name="bad")
        with tf.Session() as session:
            for _ in range(2):
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    session.run(bad)
                assert caught.value.node == "bad"

    def test_a_failing_node_that_stands_for_two_is_named(self) -> None:
        x = tf.placeholder(tf.int32, [], name="x")
        first = tf.gather([1.0, 2.0], x, name="first")
        second = tf.gather([1.0, 2.0], x, name="second")
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run([first, second], {x: 7})
        assert caught.value.node == "first"
        assert caught.value.op is first.op

    def test_values_are_given_back_at_their_last_use(self) -> None:
        x = tf.placeholder(tf.float32, [100])
        y = x
        for _ in range(50):
            y = tf.tanh(y) * 0.5
        program = programs.compiled([y], [x])
        assert len(program.template) < 8  # the step, the feed, 0.5, and a few in turn


@pytest.mark.parametrize("elements", [3, 3000])
def test_what_waits_for_more_still_finds_a_value_whose_identity_it_wants(elements: int) -> None:
    """The value has its last use, in the order of the nodes, in what waits for less."""
    with tf.Graph().as_default():
        gate, queue = (tf.FIFOQueue(1, [tf.float32], shapes=[[elements]]) for _ in range(2))
        value = queue.dequeue()
        with tf.control_dependencies([gate.dequeue()]):
            gated = tf.identity(value)
        later = gated + 1.0
        doubled = value * 2.0
        sooner = tf.reverse(doubled, [0]) - 3.0
        content = np.arange(elements, dtype=np.float32)
        with tf.Session() as session:
            session.run([gate.enqueue(content), queue.enqueue(content)])
            found = session.run([later, sooner])
        np.testing.assert_array_equal(found, [content + 1.0, content[::-1] * 2.0 - 3.0])
