"""tf.gradients itself: what it goes through, what stops it, what it says when it cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph import gradients as rules
from headrace.graph.custom_gradient import custom_gradient


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def forget() -> Iterator[Any]:
    """Gradients registered in a test are gone after it."""
    before = dict(rules._registered)
    yield
    rules._registered.clear()
    rules._registered.update(before)


def value(*tensors: Any) -> list[Any]:
    with tf.Session() as session:
        return [np.asarray(v).tolist() for v in session.run(list(tensors))]


def test_gradients_of_several_ys_add_up_and_grad_ys_weigh_them() -> None:
    x = tf.constant([1.0, 2.0])
    assert value(*tf.gradients([x * x, 3.0 * x], x)) == [[5.0, 7.0]]
    assert value(*tf.gradients([x * x, 3.0 * x], x, grad_ys=[[1.0, 10.0], None])) == [[5.0, 43.0]]


def test_an_x_on_the_way_to_another_x_is_passed_through() -> None:
    x = tf.constant(3.0)
    y = x * x
    assert value(*tf.gradients(y * y, [x, y])) == [108.0, 18.0]


def test_stop_gradients_makes_constants_of_tensors() -> None:
    x = tf.constant(3.0)
    y = x * x
    assert value(*tf.gradients(y * x, x, stop_gradients=[y])) == [9.0]
    assert value(*tf.gradients(tf.stop_gradient(y) * x, x)) == [9.0]


def test_what_does_not_depend_gives_none_or_zeros() -> None:
    x, other = tf.constant([1.0]), tf.placeholder(tf.float32, [None])
    assert tf.gradients(x * 2.0, [other]) == [None]
    (zeros,) = tf.gradients(x * 2.0, x * 5.0, unconnected_gradients="zero")
    assert value(zeros) == [[0.0]]


def test_integers_carry_no_gradient() -> None:
    x = tf.constant([1.0, 2.0])
    assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x) == [None]


def test_a_gather_gives_slices_and_a_mixture_is_dense() -> None:
    v = tf.Variable([[1.0], [2.0], [3.0]])
    sparse = tf.gather(v, [0, 2, 2]) * 2.0
    (slices,) = tf.gradients(sparse, v)
    assert isinstance(slices, tf.IndexedSlices)
    (both,) = tf.gradients([sparse, v], v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(slices)
        assert found.indices.tolist() == [0, 2, 2]
        assert session.run(both).tolist() == [[3.0], [1.0], [5.0]]


def test_indices_of_different_types_meet_in_int64() -> None:
    v = tf.Variable([[1.0], [2.0]])
    (slices,) = tf.gradients(tf.gather(v, [0]) + tf.gather(v, tf.constant([1], tf.int64)), v)
    assert slices.indices.dtype == tf.int64
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert sorted(session.run(slices).indices.tolist()) == [0, 1]


def test_an_op_without_gradient_is_named() -> None:
    x = tf.constant([1.0, 2.0])
    with pytest.raises(LookupError, match=r"'Unique'.*stop_gradient"):
        tf.gradients(tf.unique(x)[0], x)


def test_a_prevented_gradient_says_why() -> None:
    x = tf.constant(1.0)
    from headrace.graph.registry import get

    with pytest.raises(LookupError, match="not this one"):
        tf.gradients(get("PreventGradient")(x, message="not this one"), x)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"grad_ys": [1.0, 2.0]}, ValueError, "2 grad_ys.* 1 ys"),
        ({"grad_ys": [tf.DType]}, TypeError, "convert"),
        ({"aggregation_method": 9}, ValueError, "aggregation_method"),
        ({"unconnected_gradients": "some"}, ValueError, "'some'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: Any, error: Any, text: str) -> None:
    x = tf.constant(1.0)
    with pytest.raises(error, match=text):
        tf.gradients(x * 2.0, x, **arguments)


def test_complex_ys_need_grad_ys_of_their_class() -> None:
    z = tf.constant([1 + 1j])
    with pytest.raises(TypeError, match="must set grad_ys"):
        tf.gradients(z * z, z)
    with pytest.raises(TypeError, match="must be complex"):
        tf.gradients(z, z, grad_ys=[tf.constant([1.0])])


@pytest.mark.parametrize("method", [0, 1, 2])
def test_every_aggregation_method_gives_the_same_sum(method: int) -> None:
    x = tf.constant(2.0)
    assert value(*tf.gradients(x * x * x + x, x, aggregation_method=method)) == [13.0]


def test_gated_gradients_are_the_same_numbers() -> None:
    x, y = tf.constant(2.0), tf.constant(5.0)
    gated = tf.gradients(x * y + x, [x, y], gate_gradients=True)
    assert value(*gated) == [6.0, 2.0]
    assert all(tensor.op.type != "NoOp" for tensor in gated)


def test_a_thousand_nodes_take_a_moment_and_no_stack(graph: tf.Graph) -> None:
    x = y = tf.constant(1.0)
    for _ in range(3000):
        y = y + x
    before = time.thread_time()
    (g,) = tf.gradients(y, x)
    assert time.thread_time() - before < 20
    assert value(g) == [3001.0]


def test_a_registered_gradient_replaces_one_inside_the_map(graph: tf.Graph, forget: Any) -> None:
    @tf.RegisterGradient("Sevenfold")
    def _(op: Any, dout: Any) -> Any:
        return 7.0 * dout

    x = tf.constant(3.0)
    with graph.gradient_override_map({"Square": "Sevenfold"}):
        y = tf.square(x)
    assert value(*tf.gradients([y, tf.square(x)], x)) == [13.0]
    with pytest.raises(KeyError, match="Sevenfold"):
        tf.NotDifferentiable("Sevenfold")


def test_a_name_has_one_gradient(forget: Any) -> None:
    with pytest.raises(KeyError, match="'Square'"):
        tf.RegisterGradient("Square")(lambda op, dout: dout)
    with pytest.raises(KeyError, match="'Shape'"):
        tf.NoGradient("Shape")
    with pytest.raises(TypeError, match="string"):
        tf.RegisterGradient(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (lambda op, g: (g, g), ValueError, "gradients 2 .* do not match num inputs 1"),
        (lambda op, g: tf.ones([3]), ValueError, r"\(2,\).*\(3,\)"),
        (lambda op, g: 1.0, TypeError, "float, not a tensor"),
        (lambda op, g: tf.cast(g, tf.complex64), TypeError, "must be real"),
    ],
)
def test_a_gradient_function_is_held_to_its_word(
    graph: tf.Graph, forget: Any, answer: Any, error: Any, text: str
) -> None:
    tf.RegisterGradient("Wrong")(answer)
    x = tf.constant([1.0, 2.0])
    with graph.gradient_override_map({"Square": "Wrong"}):
        y = tf.square(x)
    with pytest.raises(error, match=text):
        tf.gradients(y, x)


def test_a_custom_gradient_is_what_its_author_says() -> None:
    @custom_gradient
    def product(a: Any, b: Any) -> Any:
        return [a * b, a + b], lambda dp, ds: (10.0 * dp, 100.0 * ds)

    x, y = tf.constant(2.0), tf.constant(3.0)
    p, s = product(x, y)
    assert value(p, s, *tf.gradients([p, s], [x, y])) == [6.0, 5.0, 10.0, 100.0]


def test_a_custom_gradient_refuses_what_it_would_lose() -> None:
    v = tf.Variable(2.0)
    with pytest.raises(TypeError, match=r"Variable:0.*argument"):
        custom_gradient(lambda a: (a * v, lambda d: d))(tf.constant(1.0))
    with pytest.raises(ValueError, match="keyword"):
        custom_gradient(lambda a: (a, lambda d: d))(a=tf.constant(1.0))
    with pytest.raises(TypeError, match="must return"):
        custom_gradient(lambda a: a * 2.0)(tf.constant(1.0))


def test_a_custom_gradient_is_asked_for_the_variables_that_its_function_reads() -> None:
    asked = []

    @tf.custom_gradient
    def scaled(a: Any) -> Any:
        made = tf.get_variable("made", initializer=5.0, use_resource=True)

        def gradient(dy: Any, variables: Any) -> Any:
            asked.extend(v.name for v in variables)
            return dy * 100.0, [dy * (i + 1.0) for i in range(len(variables))]

        return a * x * frozen * made, gradient

    x = tf.get_variable("x", initializer=2.0, use_resource=True)
    frozen = tf.get_variable("frozen", initializer=3.0, use_resource=True, trainable=False)
    tf.get_variable("unused", initializer=3.0, use_resource=True)
    a = tf.constant(7.0)
    y = scaled(a)
    wanted = [y, *tf.gradients(y, [a, x, tf.trainable_variables()[-1]])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(wanted) == [210.0, 100.0, 1.0, 2.0]
    assert asked == ["x:0", "made:0"]
    assert tf.gradients(y, frozen) == [None]


def test_wrong_gradients_of_variables_are_told() -> None:
    x = tf.get_variable("x", initializer=2.0, use_resource=True)
    one = tf.constant(1.0)
    with pytest.raises(TypeError, match=r"keyword argument 'variables'.* uses x:0"):
        tf.custom_gradient(lambda a: (a * x, lambda dy: dy))(one)
    y = tf.custom_gradient(lambda a: (a * x, lambda dy, variables: (dy, [dy, dy])))(one)
    with pytest.raises(
        ValueError, match="one gradient for each of its 1 variables, and returned 2"
    ):
        tf.gradients(y, x)


def test_a_custom_gradient_adds_no_reads_of_variables() -> None:
    tf.get_variable("x", initializer=2.0, use_resource=True)
    tf.custom_gradient(lambda a: (a * 2.0, lambda dy: dy))(tf.constant(1.0))
    kinds = [op.type for op in tf.get_default_graph().get_operations()]
    assert kinds.count("ReadVariableOp") == 1  # the one that comes with the variable
