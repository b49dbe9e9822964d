"""Variables whose handles go into functions, frozen: the functions take their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.library.functions.defun import Defun


@pytest.fixture(autouse=True)
def functional() -> Iterator[None]:
    """Branches and loops are functions, in a graph of the test's own."""
    tf.enable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            yield
    finally:
        tf.disable_control_flow_v2()


def variables() -> tuple[Any, Any]:
    """A matrix and a scalar, behind handles."""
    v = tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0]], use_resource=True)
    return v, tf.get_variable("w", initializer=2.0, use_resource=True)


def frozen(**lists: Any) -> tuple[Any, Any]:
    """The default graph frozen for `out`, and what `out` is."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        proto = tf.get_default_graph().as_graph_def(add_shapes=True)
        found = tf.graph_util.convert_variables_to_constants(session, proto, ["out"], **lists)
        return found, session.run("out:0")


def run(proto: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        return session.run("out:0")


def kinds(proto: Any) -> set[str]:
    nodes = [*proto.node, *(node for each in proto.library.function for node in each.node_def)]
    return {node.op for node in nodes}


def in_a_call() -> Any:
    v, w = variables()

    @Defun(tf.float32)
    def inner(x: Any) -> Any:
        return tf.matmul(x, v) * w

    @Defun(tf.float32)
    def outer(x: Any) -> Any:
        return inner(x) + w

    return outer(tf.ones([1, 2])) + outer(tf.zeros([1, 2]))


def gradients() -> Any:
    v, w = variables()
    steps = tf.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, tf.matmul(x, v) * w), [0, tf.ones([1, 2])]
    )
    return tf.gradients(steps[1], w)[0]


def rows() -> Any:
    v, _ = variables()
    return tf.cond(
        tf.placeholder_with_default(True, []),
        lambda: tf.gather(v, [1, 0]),
        lambda: tf.gather_nd(v, [[0], [1]]),
    )


def nested() -> Any:
    v, w = variables()
    taken = tf.placeholder_with_default(True, [])

    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.cond(taken, lambda: tf.matmul(x, v) * w, lambda: x + w)

    return tf.while_loop(lambda i, x: i < 3, body, [0, tf.ones([1, 2])])[1]


@pytest.mark.parametrize("build", [in_a_call, gradients, rows, nested])
def test_functions_take_values(build: Callable[[], Any]) -> None:
    tf.identity(build(), name="out")
    proto, expected = frozen()
    assert not {"VarHandleOp", "ResourceGather", "ResourceGatherNd", "VariableShape"} & kinds(proto)
    np.testing.assert_array_equal(run(proto), expected)


def test_a_function_that_is_still_called_with_a_handle_stays() -> None:
    _, w = variables()
    u = tf.get_variable("u", initializer=7.0, use_resource=True)

    @Defun(tf.resource, func_name="value")
    def value(handle: Any) -> Any:
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)

    tf.add(value(w.handle), value(u.handle), name="out")
    proto, expected = frozen(variable_names_blacklist=["u"])
    assert sorted(each.signature.name for each in proto.library.function) == [
        "value",
        "value_frozen_0",
    ]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        handle = session.graph.get_tensor_by_name("u:0")
        session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=7.0))
        assert session.run("out:0") == expected == 9.0


def test_handles_that_functions_pass_on_are_values_behind_them() -> None:
    _, w = variables()

    @Defun(tf.resource)
    def same(handle: Any) -> Any:
        return tf.identity(handle)

    passed = same(w.handle)
    tf.raw_ops.ReadVariableOp(resource=passed, dtype=tf.float32, name="out")
    proto, expected = frozen()
    assert "ReadVariableOp" not in kinds(proto)
    assert run(proto) == expected == 2.0


def test_a_function_that_assigns_is_named() -> None:
    _, w = variables()
    taken = tf.placeholder_with_default(True, [])
    found = tf.cond(taken, lambda: w.assign_add(1.0, name="more"), lambda: w + 0.0)
    tf.identity(found, name="out")
    with pytest.raises(
        tf.errors.UnimplementedError, match=r"'w' cannot.*'more' of the function 'cond_true"
    ) as caught:
        frozen()
    assert caught.value.node == "more"  # type: ignore[attr-defined]


def test_what_is_behind_one_of_two_handles_cannot_be_a_value() -> None:
    variables()
    u = tf.get_variable("u", initializer=7.0, use_resource=True)
    w = tf.global_variables()[1]
    taken = tf.placeholder_with_default(True, [])
    either = tf.cond(taken, lambda: tf.identity(u.handle), lambda: tf.identity(w.handle))
    tf.raw_ops.ReadVariableOp(resource=either, dtype=tf.float32, name="out")
    proto, expected = frozen()
    assert run(proto) == expected == 7.0
    with pytest.raises(tf.errors.UnimplementedError, match=r"gives another handle"):
        frozen(variable_names_blacklist=["u"])
