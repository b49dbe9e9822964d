"""tf.Variable and variable scopes: what they make, share, refuse and remember."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def started() -> Any:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def test_an_update_is_seen_by_what_comes_after_it_and_not_before() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.control_dependencies([x.assign_add([1.0, 1.0])]):
        after = x.read_value() + 0.0
    with started() as session:
        assert session.run(after).tolist() == [2, 3]
        assert session.run(x).tolist() == [2, 3]


def test_a_fetched_value_is_not_changed_by_later_updates() -> None:
    x = tf.Variable([1.0, 2.0])
    with started() as session:
        before = session.run(x)
        session.run(x.assign_sub([1.0, 1.0]))
        assert before.tolist() == [1, 2]


def test_a_slice_can_be_assigned() -> None:
    x = tf.Variable(np.arange(6).reshape(2, 3))
    with started() as session:
        session.run(x[1, 1:].assign([40, 50]))
        assert session.run(x).tolist() == [[0, 1, 2], [3, 40, 50]]


def test_a_slice_of_a_value_cannot_be_assigned() -> None:
    assert not hasattr(tf.constant([1])[0:1], "assign")


def test_load_adds_nothing_to_the_graph(graph: tf.Graph) -> None:
    x = tf.Variable(1.0)
    with started() as session:
        graph.finalize()
        x.load(5.0, session)
        assert x.eval(session) == 5


def test_a_variable_computed_from_others_starts_right_whatever_the_order() -> None:
    a = tf.Variable(tf.random_uniform([3]), name="a")
    b = tf.Variable(a * 2.0, name="b")
    c = tf.Variable(a.initialized_value() + b, name="c")
    for _ in range(5):
        with started() as session:
            values = session.run([a, b, c])
            np.testing.assert_allclose(values[1], 2 * values[0])
            np.testing.assert_allclose(values[2], 3 * values[0], rtol=1e-6)


def test_a_variable_survives_as_a_proto() -> None:
    x = tf.Variable([1.0], name="x", trainable=False)
    again = tf.Variable.from_proto(x.to_proto())
    assert (again.name, again.op, again.initializer) == (x.name, x.op, x.initializer)
    assert (again.value(), again.initial_value) == (x.value(), x.initial_value)
    assert again.trainable is False
    assert again.to_proto() == x.to_proto()


def test_a_proto_of_another_scope_is_none() -> None:
    with tf.name_scope("inner"):
        x = tf.Variable(1.0, name="x")
    assert x.to_proto(export_scope="other") is None
    proto = x.to_proto(export_scope="inner")
    assert proto is not None
    assert proto.variable_name == "x:0"
    assert tf.Variable.from_proto(proto, import_scope="inner").name == "inner/x:0"


def test_partitions_know_their_place() -> None:
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        whole = tf.get_variable("v", [5, 2], initializer=tf.constant_initializer(3.0))
    assert [part._get_save_slice_info().spec for part in whole] == ["5 2 0,3:0,2", "5 2 3,2:0,2"]
    with started() as session:
        assert session.run(tf.convert_to_tensor(whole)).shape == (5, 2)
        session.run(whole.assign(np.arange(10.0).reshape(5, 2)))
        assert session.run(list(whole)[1]).tolist() == [[6, 7], [8, 9]]


def test_operators_use_the_value() -> None:
    x = tf.Variable([1.0, -2.0])
    made = [x + 1, 1 - x, x * x, x / 2, -x, abs(x), x[0], x > 0, x**2, 2**x]
    with started() as session:
        found = session.run(made)
    assert [np.asarray(v).tolist() for v in found] == [
        [2, -1], [0, 3], [1, 4], [0.5, -1], [-1, 2], [1, 2], 1, [True, False], [1, 4], [2, 0.25],
    ]  # fmt: skip


def test_variables_are_equal_to_themselves_only() -> None:
    x, y = tf.Variable(1.0), tf.Variable(1.0)
    assert x == x
    assert x != y
    assert len({x, y, x}) == 2


def test_the_report_names_what_is_not_initialized() -> None:
    x, y = tf.Variable(1.0, name="x"), tf.Variable(2.0, name="y")
    report = tf.report_uninitialized_variables()
    with tf.Session() as session:
        assert session.run(report).tolist() == [b"x", b"y"]
        session.run(x.initializer)
        assert session.run(report).tolist() == [b"y"]
        session.run(y.initializer)
        assert session.run(report).tolist() == []


def test_uninitialized_use_says_which_variable() -> None:
    x = tf.Variable(1.0, name="weights")
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.FailedPreconditionError, match="weights"),
    ):
        session.run(x + 1)


REFUSED = [
    (lambda: tf.Variable(), ValueError, "initial_value"),
    (lambda: tf.Variable(tf.placeholder(tf.float32)), ValueError, "shape"),
    (lambda: tf.Variable(1.0, constraint=3), ValueError, "constraint"),
    (lambda: tf.Variable(1.0, collections="x"), ValueError, "collections"),
    (
        lambda: tf.Variable([1.0]).assign([1.0, 2.0]),
        ValueError,
        "both shapes must be equal, but are 1 and 2",
    ),
    (lambda: iter(tf.Variable([1.0])), TypeError, "Iterating over a symbolic"),
    (lambda: tf.Variable([1.0]).scatter_add(3), TypeError, "IndexedSlices"),
    (lambda: tf.convert_to_tensor(tf.Variable(1.0), tf.int32), ValueError, "cast"),
    (lambda: tf.assign(tf.constant(1.0), 2.0), TypeError, "mutable tensor"),
    (lambda: tf.get_variable("v"), ValueError, "shape"),
    (
        lambda: tf.get_variable("v", [2], initializer=tf.constant(1.0)),
        ValueError,
        "do not specify shape",
    ),
    (lambda: tf.get_variable("v", [2], tf.complex64), ValueError, "initializer"),
    (lambda: tf.variable_scope(None), TypeError, "default_name"),
    (lambda: tf.variable_scope("x", reuse="yes"), ValueError, "AUTO_REUSE"),
]


@pytest.mark.parametrize(("make", "error", "says"), REFUSED)
def test_what_cannot_be_is_refused_with_a_reason(make: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        make()


def test_a_second_get_needs_leave_and_the_error_says_where_the_first_was() -> None:
    first = tf.get_variable("v", [2])
    with pytest.raises(ValueError, match=r"AUTO_REUSE.*test_variables\.py:\d+"):
        tf.get_variable("v", [2])
    with tf.variable_scope("", reuse=True):
        assert tf.get_variable("v", [2]) is first
        with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
            tf.get_variable("v", [3])
        with pytest.raises(ValueError, match=r"int32.*float32"):
            tf.get_variable("v", [2], tf.int32)
        with pytest.raises(ValueError, match="does not exist"):
            tf.get_variable("w", [2])
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("v", [2]) is first
        assert tf.get_variable("w", [2]).name == "w:0"


def test_a_regularizer_adds_a_loss_named_after_the_variable() -> None:
    with tf.variable_scope("a", regularizer=lambda x: tf.reduce_sum(x)):
        tf.get_variable("v", [2], initializer=tf.ones_initializer())
        tf.get_variable("w", [2], regularizer=tf.no_regularizer)
    (loss,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert loss.name == "a/v/Regularizer/Sum:0"
    with started() as session:
        assert session.run(loss) == 2


def test_an_error_inside_a_scope_leaves_the_outer_one_in_force() -> None:
    with tf.variable_scope("outer") as outer:
        with pytest.raises(ZeroDivisionError), tf.variable_scope("inner"):
            raise ZeroDivisionError
        assert tf.get_variable_scope() is outer


def test_a_template_makes_variables_once_and_refuses_new_ones() -> None:
    template = tf.make_template("t", lambda: tf.get_variable("v", []))
    assert template() is template()
    plain = tf.make_template("t", lambda: tf.Variable(1.0))
    plain()
    with pytest.raises(ValueError, match="get_variable"):
        plain()


def test_a_variable_is_used_in_its_own_graph_wherever_that_is_written() -> None:
    with tf.Graph().as_default() as other:
        x = tf.Variable(1.0)
    made = [tf.add(x, 2.0), tf.assign(x, 2.0), tf.reduce_sum(x), x * 2.0]
    assert [tensor.graph for tensor in made] == [other] * 4
    with pytest.raises(ValueError, match="must be from the same graph"):
        tf.add(x, tf.Variable(1.0))
