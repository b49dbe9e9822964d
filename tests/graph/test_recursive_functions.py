"""Functions that call themselves: each call within a body is a step of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.library.functions.calls import If, partitioned_call
from headrace.library.functions.defun import Declare, Defun
from headrace.ops.flow.step_calls import DEEPEST
from headrace.ops.state.resources import var_handle_op


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feeds)


def factorial() -> Any:
    later = Declare("fact", [("n", tf.float32)], [("r", tf.float32)])
    base = Defun(tf.float32, func_name="base")(lambda n: tf.ones_like(n))
    more = Defun(tf.float32, func_name="more")(lambda n: n * later(n - 1.0))
    return Defun(tf.float32, func_name="fact", out_names=["r"])(
        lambda n: If(n <= 1.0, [n], base, more)[0]
    )


def fibonacci() -> Any:
    later = Declare("fib", [("n", tf.int32)], [("r", tf.int32)])
    base = Defun(tf.int32, func_name="fib_base")(lambda n: tf.identity(n))
    more = Defun(tf.int32, func_name="fib_more")(lambda n: later(n - 1) + later(n - 2))
    return Defun(tf.int32, func_name="fib")(lambda n: If(n < 2, [n], base, more)[0])


def power() -> Any:
    later = Declare("power", [("x", tf.float32), ("n", tf.int32)], [("r", tf.float32)])
    types = tf.float32, tf.int32
    base = Defun(*types, func_name="power_base")(lambda x, n: tf.ones_like(x))
    more = Defun(*types, func_name="power_more")(lambda x, n: x * later(x, n - 1))
    return Defun(*types, func_name="power", out_names=["r"])(
        lambda x, n: If(n <= 0, [x, n], base, more)[0]
    )


def count() -> Any:
    """How often it has called itself."""
    later = Declare("count", [("n", tf.int32)], [("r", tf.int32)])
    base = Defun(tf.int32, func_name="count_base")(lambda n: tf.zeros_like(n))
    more = Defun(tf.int32, func_name="count_more")(lambda n: later(n - 1) + 1)
    return Defun(tf.int32, func_name="count")(lambda n: If(n <= 0, [n], base, more)[0])


def test_a_function_calls_itself() -> None:
    n = tf.placeholder(tf.float32, [])
    y = factorial()(n)
    with tf.Session() as session:
        assert [session.run(y, {n: each}) for each in (0.0, 1.0, 5.0, 10.0)] == [
            1.0,
            1.0,
            120.0,
            3628800.0,
        ]


@pytest.mark.parametrize("where", ["in a call", "in a branch", "in a loop"])
def test_it_may_be_called_from_anywhere(where: str) -> None:
    n, fib = tf.placeholder(tf.int32, []), fibonacci()
    if where == "in a call":
        (y,) = partitioned_call([n], fib)
    elif where == "in a branch":
        y = tf.cond(n > 0, lambda: fib(n), lambda: tf.constant(-1))
    else:
        _, y = tf.while_loop(
            lambda i, s: i <= n, lambda i, s: (i + 1, s + tf.reshape(fib(i), [])), [0, 0]
        )
    with tf.Session() as session:
        found = [session.run(y, {n: each}) for each in (1, 7, 10)]
    assert found == ([1, 33, 143] if where == "in a loop" else [1, 13, 55])


def test_two_functions_call_each_other() -> None:
    odd_later = Declare("odd", [("n", tf.int32)], [("r", tf.bool)])
    yes = Defun(tf.int32, func_name="yes")(lambda n: tf.equal(n, n))
    no = Defun(tf.int32, func_name="no")(lambda n: tf.not_equal(n, n))
    less = Defun(tf.int32, func_name="even_less")(lambda n: odd_later(n - 1))
    even = Defun(tf.int32, func_name="even")(lambda n: If(tf.equal(n, 0), [n], yes, less)[0])
    even_less = Defun(tf.int32, func_name="odd_less")(lambda n: even(n - 1))
    odd = Defun(tf.int32, func_name="odd")(lambda n: If(tf.equal(n, 0), [n], no, even_less)[0])
    n = tf.placeholder(tf.int32, [])
    a, b = even(n), odd(n)
    with tf.Session() as session:
        for each in range(6):
            assert session.run([a, b], {n: each}) == [each % 2 == 0, each % 2 == 1]


@pytest.mark.parametrize("x", [2.0, [1.0, 3.0]])
def test_its_gradient_calls_itself(x: Any) -> None:
    given, n = tf.constant(x), tf.placeholder(tf.int32, [])
    y = power()(given, n)
    (slope,) = tf.gradients(y, given)
    with tf.Session() as session:
        for each in (0, 1, 2, 6):
            value, found = session.run([y, slope], {n: each})
            assert np.allclose(value, np.power(x, each))
            assert np.allclose(found, each * np.power(x, max(each - 1, 0)))


def test_it_goes_deeper_than_the_frames_of_a_thread() -> None:
    n, function = tf.placeholder(tf.int32, []), count()
    y = function(n)
    with tf.Session() as session:
        assert session.run(y, {n: 500}) == 500
        assert session.run(y, {n: DEEPEST}) == DEEPEST


def test_without_an_end_it_is_an_error() -> None:
    later = Declare("endless", [("x", tf.float32)], [("r", tf.float32)])
    y = Defun(tf.float32, func_name="endless")(lambda x: later(x + 1.0) * 2.0)(tf.constant(1.0))
    with tf.Session() as session:
        with pytest.raises(
            tf.errors.ResourceExhaustedError, match="'endless' calls itself more"
        ) as caught:
            session.run(y)
        assert caught.value.node is not None
        assert session.run(tf.constant(3.0)) == 3.0


def test_an_error_within_names_its_node() -> None:
    later = Declare("until", [("n", tf.int32)], [("r", tf.int32)])
    base = Defun(tf.int32, func_name="until_base")(lambda n: 1 // n)
    more = Defun(tf.int32, func_name="until_more")(lambda n: later(n - 1))
    until = Defun(tf.int32, func_name="until")(lambda n: If(n <= 0, [n], base, more)[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="ivision by zero") as caught:
        run(until(tf.constant(40)))
    assert str(caught.value.node).endswith("floordiv")


def shared_queue() -> Any:
    return tf.raw_ops.FIFOQueueV2(component_types=[tf.int32], shapes=[[]], shared_name="numbers")


def put(value: int) -> Any:
    return tf.raw_ops.QueueEnqueueV2(handle=shared_queue(), components=[tf.constant(value)])


def drained(name: str) -> Any:
    """Takes n elements, by calling itself, and gives their sum."""
    later = Declare(name, [("n", tf.int32)], [("r", tf.int32)])
    base = Defun(tf.int32, func_name=f"{name}_base")(lambda n: tf.zeros_like(n))

    @Defun(tf.int32, func_name=f"{name}_more")
    def more(n: Any) -> Any:
        (taken,) = tf.raw_ops.QueueDequeueV2(handle=shared_queue(), component_types=[tf.int32])
        with tf.control_dependencies([taken]):
            return taken + later(n - 1)

    return Defun(tf.int32, func_name=name)(lambda n: If(n <= 0, [n], base, more)[0])


def test_it_may_wait_while_the_rest_of_the_step_goes_on() -> None:
    y = drained("drained")(tf.constant(3))
    puts = [put(each) for each in (5, 7, 9)]
    with tf.Session() as session:
        assert session.run([y, *puts])[0] == 21


def test_who_gives_up_ends_the_calls_that_wait() -> None:
    y = drained("drained")(tf.constant(3))
    with tf.Session() as session:
        session.run(put(5))
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(y, options=tf.RunOptions(timeout_in_ms=50))
        session.run([put(each) for each in (5, 7, 9)])
        assert session.run(y) == 21


def test_what_it_does_is_done_once_a_call() -> None:
    def counter() -> Any:
        return var_handle_op(dtype=tf.int32, shape=[], shared_name="counter")

    later = Declare("counted", [("n", tf.int32)], [("r", tf.int32)])
    base = Defun(tf.int32, func_name="counted_base")(lambda n: tf.identity(n))

    @Defun(tf.int32, func_name="counted_more")
    def more(n: Any) -> Any:
        with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=counter(), value=1)]):
            return later(n - 1) + later(n - 1)

    counted = Defun(tf.int32, func_name="counted")(lambda n: If(n <= 0, [n], base, more)[0])
    y = counted(tf.constant(4))
    start = tf.raw_ops.AssignVariableOp(resource=counter(), value=0)
    with tf.Session() as session:
        session.run(start)
        session.run(y.op)
        assert session.run(tf.raw_ops.ReadVariableOp(resource=counter(), dtype=tf.int32)) == 15


def test_what_it_draws_is_each_sessions_own() -> None:
    later = Declare("walk", [("n", tf.int32)], [("r", tf.float32)])
    base = Defun(tf.int32, func_name="walk_base")(lambda n: tf.constant(0.0))
    more = Defun(tf.int32, func_name="walk_more")(
        lambda n: later(n - 1) + tf.random_uniform([], seed=4)
    )
    walk = Defun(tf.int32, func_name="walk")(lambda n: If(n <= 0, [n], base, more)[0])
    y = walk(tf.constant(5))
    found = []
    for _ in range(2):
        with tf.Session() as session:
            found.append([session.run(y) for _ in range(3)])
    assert found[0] == found[1]
    assert len(set(found[0])) == 3


def test_it_travels_in_a_graph_def(graph: tf.Graph) -> None:
    n = tf.placeholder(tf.float32, [], name="n")
    tf.identity(factorial()(n), name="y")
    written = graph.as_graph_def().SerializeToString()
    with tf.Graph().as_default():
        n, y = tf.import_graph_def(pb.GraphDef.FromString(written), return_elements=["n:0", "y:0"])
        assert run(y, {n: 6.0}) == 720.0


def test_elements_of_a_dataset_are_given_to_it() -> None:
    fib = fibonacci()
    dataset = tf.data.Dataset.range(8).map(lambda x: fib(tf.cast(x, tf.int32))).batch(8)
    assert run(tf.data.experimental.get_single_element(dataset)).tolist() == [
        0,
        1,
        1,
        2,
        3,
        5,
        8,
        13,
    ]


def test_a_call_is_one_node_of_a_trace() -> None:
    n = tf.placeholder(tf.int32, [])
    y = count()(n)
    options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
    with tf.Session() as session:
        assert session.run(y, {n: 4}, options=options, run_metadata=metadata) == 4
    labels = [
        stats.timeline_label
        for device in metadata.step_stats.dev_stats
        for stats in device.node_stats
    ]
    assert sum("PartitionedCall" in label for label in labels) == 1


def test_a_declared_function_wants_its_arguments() -> None:
    later = Declare("later", [("n", tf.float32)], [("r", tf.float32)])
    with pytest.raises(ValueError, match="Expected number of arguments: 1, received: 2"):
        later(1.0, 2.0)
    y = later(1.0)
    with pytest.raises(tf.errors.NotFoundError, match="Function later is not defined"):
        run(y)
