"""What tf.Variable(...) makes: creators, kinds, older ways; and references of what has been made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.library.variables.resource_variables import ResourceVariable


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_creator_entered_last_is_asked_first_and_may_change_every_argument() -> None:
    asked = []

    def outer(make: Any, **arguments: Any) -> Any:
        asked.append("outer")
        return make(**{**arguments, "name": arguments["name"] + "_seen"})

    def inner(make: Any, **arguments: Any) -> Any:
        asked.append("inner")
        return make(**{**arguments, "use_resource": True, "trainable": False})

    with tf.variable_creator_scope(outer):
        with tf.variable_creator_scope(inner):
            both = tf.get_variable("a", [2])
        one = tf.Variable(1.0, name="b")
    none = tf.Variable(1.0, name="c")
    assert [v.name for v in (both, one, none)] == ["a_seen:0", "b_seen:0", "c:0"]
    assert isinstance(both, ResourceVariable)
    assert tf.trainable_variables() == [one, none]
    assert asked == ["inner", "outer", "outer"]


def test_a_creator_may_return_another_variable() -> None:
    shared = tf.Variable(1.0)
    with tf.variable_creator_scope(lambda make, **arguments: shared):
        assert tf.Variable(2.0) is shared
    assert tf.global_variables() == [shared]


def test_creators_are_a_threads_own() -> None:
    made = []

    def work(graph: tf.Graph) -> None:
        with graph.as_default():
            made.append(tf.Variable(1.0, name="there"))

    def refuse(make: Any, **arguments: Any) -> Any:
        raise AssertionError("asked by another thread")

    with tf.variable_creator_scope(refuse):
        thread = threading.Thread(target=work, args=[tf.get_default_graph()])
        thread.start()
        thread.join()
        with pytest.raises(AssertionError, match="asked"):
            tf.Variable(1.0)
    assert [v.name for v in made] == ["there:0"]


def test_arguments_of_a_variable_are_checked_where_it_is_made() -> None:
    with pytest.raises(TypeError, match="unheard_of"):
        tf.Variable(1.0, unheard_of=3)
    positional = tf.Variable(1.0, False, None, True, None, "x", None, tf.float64)
    assert (positional.name, positional.trainable) == ("x:0", False)
    assert positional.dtype.base_dtype == tf.float64


def test_a_variable_is_of_the_kind_asked_for_last() -> None:
    with tf.variable_scope("s", use_resource=True):
        by_scope = tf.Variable(1.0)
        by_itself = tf.Variable(1.0, use_resource=False)
    kinds = [isinstance(v, ResourceVariable) for v in (by_scope, by_itself, tf.Variable(1.0))]
    assert kinds == [True, False, False]


def test_parts_are_made_in_one_call_and_found_again() -> None:
    parts = tf.create_partitioned_variables([5, 2], [2, 1], tf.ones_initializer(), name="p")
    assert [(v.name, v.shape.as_list()) for v in parts] == [
        ("p/part_0:0", [3, 2]),
        ("p/part_1:0", [2, 2]),
    ]
    with tf.variable_scope(""):
        again = tf.create_partitioned_variables(
            [5, 2], [2, 1], tf.ones_initializer(), name="p", reuse=True
        )
    assert again == parts
    with pytest.raises(ValueError, match="more parts than rows"):
        tf.create_partitioned_variables([2, 2], [3, 1], tf.ones_initializer())


def test_parts_are_assigned_without_being_read() -> None:
    whole = tf.get_variable("p", [3], partitioner=tf.fixed_size_partitioner(2))
    steps = whole.assign([1.0, 2.0, 3.0], read_value=False)
    assert [type(step) for step in steps] == [tf.Operation] * 2
    with tf.Session() as session:
        session.run(steps)
        assert session.run(tf.convert_to_tensor(whole)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("use_resource", [True, False])
def test_references_are_equal_if_they_are_of_the_same_thing(use_resource: bool) -> None:
    x, y = (tf.Variable(1.0, use_resource=use_resource) for _ in range(2))
    table = {x.ref(): "x", y.experimental_ref(): "y", x.initial_value.ref(): "start"}
    assert [table[thing.ref()] for thing in (x, y, x.initial_value)] == ["x", "y", "start"]
    assert x.ref().deref() is x
    assert x.ref() != y.ref()
    with pytest.raises(TypeError, match="not with the object itself"):
        assert x.ref() == x
