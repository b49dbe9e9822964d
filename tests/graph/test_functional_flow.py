"""Branches and loops as functions: what they give, how they are differentiated, and what they draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.registry import get
from headrace.library.functions.calls import partitioned_call
from headrace.library.functions.defun import Defun


@pytest.fixture(autouse=True)
def functional() -> Iterator[None]:
    tf.enable_control_flow_v2()
    with tf.Graph().as_default():
        yield
    tf.disable_control_flow_v2()


def run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def kinds() -> set[str]:
    return {op.type for op in tf.get_default_graph().get_operations()}


def in_a_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x) * tf.exp(x), lambda: tf.square(x) * 3.0)


def in_the_other_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) < 0, lambda: tf.sin(x) * tf.exp(x), lambda: tf.square(x) * 3.0)


def in_a_case(x: Any) -> Any:
    return tf.switch_case(tf.constant(1), [lambda: x, lambda: x * tf.sin(x), lambda: x * x])


def in_a_loop(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y) * x + y * y), [0, x])[1]


def in_a_loop_that_ends_at_once(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * x), [0, x * 2.0])[1]


def in_a_loop_with_a_limit(x: Any) -> Any:
    return tf.while_loop(
        lambda i, y: i < 9, lambda i, y: (i + 1, y * x), [0, x], maximum_iterations=2
    )[1]


def in_a_branch_of_a_loop(x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.cond(tf.equal(i, 1), lambda: tf.exp(y) * 0.1, lambda: y * x)

    return tf.while_loop(lambda i, y: i < 3, body, [0, x])[1]


def in_a_loop_of_a_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > -100.0, lambda: in_a_loop(x), lambda: x)


def in_a_loop_of_a_loop(x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.while_loop(
            lambda j, z: j <= i, lambda j, z: (j + 1, tf.sin(z) + x * z), [0, y]
        )[1]

    return tf.while_loop(lambda i, y: i < 3, body, [0, x])[1]


def in_arrays(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 3, element_shape=[2])

    def body(i: Any, array: Any) -> Any:
        return i + 1, array.write(i, x * tf.cast(i, tf.float32) * x)

    return tf.while_loop(lambda i, array: i < 3, body, [0, array])[1].stack()


def in_a_scan(x: Any) -> Any:
    return tf.scan(lambda a, e: a * e + tf.sin(a), tf.concat([x, x], 0), tf.constant(0.5))


def in_a_map(x: Any) -> Any:
    return tf.map_fn(lambda e: e * e * e, x)


def in_a_shape_that_grows(x: Any) -> Any:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.concat([y, y[:1] * x[:1]], 0)),
        [0, x],
        shape_invariants=shapes,
    )[1]


def in_a_call(x: Any) -> Any:
    @Defun(tf.float32)
    def function(x: Any) -> Any:
        return in_a_loop(x) + in_a_branch(x)

    function.add_to_graph(tf.get_default_graph())
    return partitioned_call([x], function)[0]


def in_nodes_of_the_old_kind(x: Any) -> Any:
    tf.disable_control_flow_v2()
    try:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, _branch(i, y) * x), [0, x])[1]
    finally:
        tf.enable_control_flow_v2()


def _branch(i: Any, y: Any) -> Any:
    tf.enable_control_flow_v2()
    try:
        return tf.cond(tf.equal(i, 1), lambda: tf.sin(y) * y, lambda: y + 1.0)
    finally:
        tf.disable_control_flow_v2()


FUNCTIONS = [
    in_a_branch,
    in_the_other_branch,
    in_a_case,
    in_a_loop,
    in_a_loop_that_ends_at_once,
    in_a_loop_with_a_limit,
    in_a_branch_of_a_loop,
    in_a_loop_of_a_branch,
    in_a_loop_of_a_loop,
    in_arrays,
    in_a_scan,
    in_a_map,
    in_a_shape_that_grows,
    in_a_call,
    in_nodes_of_the_old_kind,
]
X = np.array([0.4, 0.7], np.float32)


def numeric(of: Callable[[Any], Any], at: Any) -> Any:
    """The gradient of a sum, by differences."""
    found = np.zeros_like(at)
    for index in range(len(at)):
        step = np.zeros_like(at)
        step[index] = 1e-2
        found[index] = (np.sum(of(at + step)) - np.sum(of(at - step))) / 2e-2
    return found


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: str(each.__name__))
def test_gradients_are_those_of_differences(function: Callable[[Any], Any]) -> None:
    x = tf.placeholder(tf.float32, [2])
    y = function(x)
    (g,) = tf.gradients(y, x)
    with tf.Session() as session:
        wanted = numeric(lambda at: session.run(y, {x: at}).astype(np.float64), X)
        np.testing.assert_allclose(session.run(g, {x: X}), wanted, rtol=2e-2, atol=1e-3)


SECOND = [in_a_branch, in_a_case, in_a_loop, in_a_branch_of_a_loop, in_a_loop_of_a_branch, in_a_map]


@pytest.mark.parametrize("function", SECOND, ids=lambda each: str(each.__name__))
def test_second_gradients_are_those_of_differences(function: Callable[[Any], Any]) -> None:
    x = tf.placeholder(tf.float32, [2])
    (g,) = tf.gradients(function(x), x)
    (h,) = tf.gradients(g, x)
    with tf.Session() as session:
        wanted = numeric(lambda at: session.run(g, {x: at}).astype(np.float64), X)
        np.testing.assert_allclose(session.run(h, {x: X}), wanted, rtol=2e-2, atol=5e-3)


@pytest.mark.parametrize("function", FUNCTIONS[:13], ids=lambda each: str(each.__name__))
def test_a_graph_that_was_written_is_differentiated_where_it_is_read(
    function: Callable[[Any], Any],
) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.identity(function(x), name="y")
    (g,) = tf.gradients(y, x)
    wanted = run([y, g], {x: X})
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        tf.identity(function(x), name="y")
        proto = tf.get_default_graph().as_graph_def().SerializeToString()
    with tf.Graph().as_default():
        x, y = tf.import_graph_def(
            pb.GraphDef.FromString(proto), return_elements=["x:0", "y:0"], name=""
        )
        found = run([y, *tf.gradients(y, x)], {x: X})
    np.testing.assert_allclose(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6)


def test_one_node_each() -> None:
    x = tf.constant([1.0, 2.0])
    for function in (in_a_branch, in_a_case, in_a_loop):
        function(x)
    assert {"StatelessIf", "StatelessCase", "StatelessWhile"} <= kinds()
    assert not {"Switch", "Merge", "Enter"} & kinds()


def test_what_was_drawn_is_not_drawn_again() -> None:
    x = tf.placeholder(tf.float32, [1000])

    def drop() -> Any:
        return tf.nn.dropout(x, rate=0.5)

    y = tf.cond(tf.reduce_sum(x) > 0, drop, lambda: x)
    _, z = tf.while_loop(
        lambda i, z: i < 3, lambda i, z: (i + 1, z * tf.random_uniform([1000], 0.5, 1.0)), [0, x]
    )
    gy, gz = tf.gradients(y, x)[0], tf.gradients(z, x)[0]
    with tf.Session() as session:
        for _ in range(3):
            found = session.run([y, gy, z, gz], {x: np.ones(1000)})
            np.testing.assert_array_equal(found[0], found[1])
            np.testing.assert_allclose(found[2], found[3], rtol=1e-6)
            assert len(np.unique(found[2])) > 900


def test_state_changes_where_it_is_asked_to() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    p = tf.placeholder(tf.bool, [])

    def more() -> Any:
        with tf.control_dependencies([v.assign_add(1.0)]):
            return tf.identity(1.0)

    y = tf.cond(p, more, lambda: 0.0)

    def body(i: Any) -> Any:
        with tf.control_dependencies([v.assign_add(10.0)]):
            return i + 1

    i = tf.while_loop(lambda i: i < 3, body, [0])
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(y, {p: True})
        session.run(y, {p: False})
        session.run(i)
        assert session.run(v) == 31.0


def test_gradients_reach_variables_that_are_read_inside() -> None:
    v = tf.get_variable("v", [3], initializer=tf.constant_initializer(2.0), use_resource=True)
    e = tf.get_variable("e", [3, 2], initializer=tf.constant_initializer(2.0), use_resource=True)
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: v * v, lambda: v * 3.0)
    z = tf.cond(p, lambda: tf.gather(e, [1, 1]) * 2.0, lambda: tf.gather(e, [0, 2]))
    _, w = tf.while_loop(
        lambda i, w: i < 2, lambda i, w: (i + 1, w * v + tf.reduce_sum(tf.gather(e, i))), [0, v]
    )
    (rows,) = tf.gradients(z, e)
    assert isinstance(rows, tf.IndexedSlices)
    grads = [tf.gradients(y, v)[0], tf.unsorted_segment_sum(rows.values, rows.indices, 3)]
    grads += tf.gradients(w, [v, e])
    found = run(grads, {p: True})
    assert found[0].tolist() == [4, 4, 4]
    assert found[1].tolist() == [[0, 0], [4, 4], [0, 0]]
    assert found[2].tolist() == [16, 16, 16]  # of v^3 + 4 v + 4: 3 * 4 + 4
    assert found[3].tolist() == [[6, 6], [3, 3], [0, 0]]
    assert run(grads[1], {p: False}).tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("build", "kind", "said"),
    [
        (
            lambda: tf.cond(tf.constant(True), lambda: 1.0, lambda: 2),
            TypeError,
            "true_fn and false_fn arguments to tf.cond must have the same number, type",
        ),
        (
            lambda: tf.cond(tf.constant(True), lambda: 1.0, lambda: (1.0, 2.0)),
            TypeError,
            "true_fn and false_fn arguments to tf.cond must have the same number, type",
        ),
        (
            lambda: tf.cond(True, lambda: 1.0, lambda: 2.0),
            TypeError,
            "pred must not be a Python bool",
        ),
        (
            lambda: tf.while_loop(lambda x: True, lambda x: tf.concat([x, x], 0), [tf.ones([2])]),
            ValueError,
            r"enters the loop with shape \[2\], but has shape \(4,\) after one iteration",
        ),
        (
            lambda: tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0]),
            TypeError,
            "enters the loop with type",
        ),
        (
            lambda: tf.cond(tf.constant(True), lambda: object(), lambda: 1.0),
            TypeError,
            "To be compatible with tf.function, Python functions must return zero or more Tensors",
        ),
        (
            lambda: tf.while_loop(lambda: True, lambda: (), []),
            ValueError,
            "'loop_vars' must be provided",
        ),
    ],
)
def test_what_is_refused(build: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        build()


def test_an_optional_of_the_branch_that_was_not_taken_is_none() -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(x > 0, lambda: tf.exp(x) * tf.sin(x), lambda: x)
    tf.gradients(y, x)
    node = next(op for op in tf.get_default_graph().get_operations() if op.type == "StatelessIf")
    has = [get("OptionalHasValue")(output) for output in node.outputs[1:]]
    assert run(has, {x: 1.0}) == [True, True]
    assert run(has, {x: -1.0}) == [False, False]


def test_dynamic_rnn_learns() -> None:
    x = tf.constant(np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 4, 3))
    cell = tf.nn.rnn_cell.BasicLSTMCell(5)
    with tf.variable_scope("net", use_resource=True, initializer=tf.constant_initializer(0.1)):
        out, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(out - 0.5))
    step = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    assert "StatelessWhile" in kinds() or "While" in kinds()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss)
        for _ in range(20):
            session.run(step)
        assert session.run(loss) < first / 2


def counted(made: Callable[[tf.Operation], tf.Tensor]) -> float:
    """What a variable of 1 is, to which ten are added, after what is made of that change."""
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    with tf.control_dependencies([made(v.assign_add(10.0).op)]):
        after = v.read_value()
    found: float = run(after)
    return found


def test_what_a_branch_waits_for_outside_of_it_is_waited_for() -> None:
    x = tf.constant(2.0)

    def made(before: tf.Operation) -> tf.Tensor:
        def branch() -> tf.Tensor:
            with tf.control_dependencies([before]):
                return tf.cond(x > 1.0, lambda: tf.identity(x), lambda: x)

        return tf.cond(x > 0.0, branch, lambda: x)

    assert counted(made) == 11.0


def test_what_an_inner_branch_waits_for_outside_of_all_is_waited_for() -> None:
    x = tf.constant(2.0)

    def made(before: tf.Operation) -> tf.Tensor:
        def inner() -> tf.Tensor:
            with tf.control_dependencies([before]):
                return tf.identity(x)

        return tf.cond(x > 0.0, lambda: tf.cond(x > 1.0, inner, lambda: x), lambda: x)

    assert counted(made) == 11.0


def test_what_a_loop_waits_for_outside_of_it_is_waited_for() -> None:
    def made(before: tf.Operation) -> tf.Tensor:
        def body(i: Any) -> tf.Tensor:
            with tf.control_dependencies([before]):
                return i + 1

        return tf.while_loop(lambda i: i < 3, body, [0])

    assert counted(made) == 11.0


@pytest.mark.parametrize("of_outputs", [True, False])
def test_what_a_call_waits_for_is_waited_for(of_outputs: bool) -> None:
    @Defun(tf.float32)
    def square(x: Any) -> tf.Tensor:
        return tf.square(x)

    def made(before: tf.Operation) -> Any:
        with tf.control_dependencies([before]):
            y = square(tf.constant(3.0))
        return y if of_outputs else y.op

    assert counted(made) == 11.0


def test_what_is_outside_of_a_defun_cannot_be_waited_for_in_it() -> None:
    before = tf.no_op()

    @Defun(tf.float32)
    def square(x: Any) -> tf.Tensor:
        with tf.control_dependencies([before]):
            return tf.square(x)

    with pytest.raises(ValueError, match="is not an element of this graph"):
        square(tf.constant(3.0))
