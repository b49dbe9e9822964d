"""Branches and loops while they are built: where a node belongs, and what stands in for what is outside."""

from __future__ import annotations

import pytest

import headrace as tf
from headrace.graph.control_flow import CondContext, context_of, is_cond_switch, loop_of
from headrace.graph.while_context import WhileContext


def test_each_branch_sees_a_value_from_outside_through_a_switch_of_its_own(
    default: tf.Graph,
) -> None:
    x, pred = tf.constant(1.0, name="x"), tf.placeholder(tf.bool, [])
    made: dict[str, tf.Operation] = {}

    def branch(name: str) -> tf.Tensor:
        result = tf.add(x, x, name=name)
        made[name] = result.op
        return result

    tf.cond(pred, lambda: branch("yes"), lambda: branch("no"))
    for name, output in (("yes", 1), ("no", 0)):
        context = context_of(made[name])
        assert isinstance(context, CondContext)
        assert context.branch == output
        first, second = made[name].inputs
        assert first is second  # one Switch, however often it is used
        assert first.op.type == "Switch"
        assert first.value_index == output
        assert first.op.inputs[0] is x
        assert is_cond_switch(first.op)
        assert not default.is_fetchable(made[name])
    assert made["yes"].inputs[0].op is not made["no"].inputs[0].op
    assert context_of(x.op) is None


def test_a_node_without_inputs_waits_until_its_branch_is_chosen(default: tf.Graph) -> None:
    inside: list[tf.Operation] = []

    def branch() -> tf.Tensor:
        inside.append(tf.no_op())
        with tf.control_dependencies(inside):
            inside.append(tf.no_op())
        return tf.constant(1)

    tf.cond(tf.placeholder(tf.bool, []), branch, lambda: tf.constant(2))
    first, second = inside
    assert [control.type for control in first.control_inputs] == ["Identity"]
    assert second.control_inputs == [first]


def test_branches_in_branches_are_seen_through(default: tf.Graph) -> None:
    x, pred = tf.constant(1.0), tf.placeholder(tf.bool, [])
    inner: list[tf.Operation] = []

    def nested() -> tf.Tensor:
        inner.append(tf.negative(x).op)
        return inner[0].outputs[0]

    tf.cond(pred, lambda: tf.cond(pred, nested, lambda: x), lambda: x)
    context = context_of(inner[0])
    assert context is not None
    assert isinstance(context.outer, CondContext)
    assert context.outer.outer is None
    near = inner[0].inputs[0].op
    far = near.inputs[0].op
    assert (near.type, far.type) == ("Switch", "Switch")
    assert context_of(far) is context.outer


def test_a_loop_takes_values_from_outside_by_an_enter_that_does_not_change(
    default: tf.Graph,
) -> None:
    x = tf.constant(2.0, name="x")
    bodies: list[tf.Operation] = []

    def body(i: tf.Tensor, a: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        bodies.append(tf.multiply(a, x).op)
        return i + 1, bodies[0].outputs[0]

    result = tf.while_loop(lambda i, a: i < 3, body, [0, x], parallel_iterations=7)[1]
    (product,) = bodies
    loop = loop_of(product)
    assert isinstance(loop, WhileContext)
    assert loop.parallel_iterations == 7
    entered = product.inputs[1].op
    assert entered.type == "Enter"
    assert entered.get_attr("is_constant")
    assert entered.get_attr("frame_name") == loop.name.encode()
    assert entered.inputs[0] is x
    assert result.op.type == "Exit"
    assert default.is_fetchable(result.op)
    assert not default.is_fetchable(product)
    merges = [op for op in default.get_operations() if op.type == "Merge"]
    assert [op.inputs[1].op.type for op in merges] == ["NextIteration"] * 2


def test_a_value_leaves_a_loop_only_as_its_result(default: tf.Graph) -> None:
    inside: list[tf.Tensor] = []

    def body(i: tf.Tensor) -> tf.Tensor:
        inside.append(tf.add(i, 1, name="next"))
        return inside[0]

    tf.while_loop(lambda i: i < 3, body, [0])
    with pytest.raises(ValueError, match=r"Cannot use .*next' as input to .* is in a while loop"):
        tf.negative(inside[0])
    with pytest.raises(ValueError, match="they are in different while loops"):
        tf.while_loop(lambda i: i < 3, lambda i: i + inside[0], [0])


def test_an_error_in_a_body_leaves_the_graph_outside_of_the_loop(default: tf.Graph) -> None:
    def body(i: tf.Tensor) -> tf.Tensor:
        raise ZeroDivisionError

    for build in (
        lambda: tf.while_loop(lambda i: i < 3, body, [0]),
        lambda: tf.cond(tf.placeholder(tf.bool, []), lambda: body(None), lambda: tf.constant(1)),
    ):
        with pytest.raises(ZeroDivisionError):
            build()
        assert default._get_control_flow_context() is None
        assert context_of(tf.no_op()) is None


def test_steps_take_the_branch_and_run_the_loop(default: tf.Graph) -> None:
    """Two in one another, both ways."""
    x = tf.placeholder(tf.int32, [])
    doubled = tf.while_loop(
        lambda i, a: i < x,
        lambda i, a: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a + x, lambda: a * 2)),
        [0, 1],
    )[1]
    expected = {0: 1, 1: 2, 2: 6, 3: 11}
    with tf.Session() as session:
        assert {n: session.run(doubled, {x: n}) for n in expected} == expected
