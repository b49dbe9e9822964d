"""Graphs frozen by TensorFlow 2's tf.function run here, with their gradients; and functional graphs of ours run there.

`convert_variables_to_constants_v2` leaves branches and loops as functions, or lowers them to Switch and Merge.  And
`convert_variables_to_constants` changes functions to which handles go as it does there.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.codec import protos as pb

MODELS = {
    "a branch": "lambda x: tf2.cond(tf2.reduce_sum(x) > 1, lambda: tf2.sin(x) @ w, lambda: x @ w + b)",
    "the other branch": "lambda x: tf2.cond(tf2.reduce_sum(x) < 1, lambda: tf2.sin(x) @ w, lambda: x @ w + b)",
    "a loop": "lambda x: tf2.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, tf2.tanh(x @ w + b)), [0, x])[1]",
    "an array": "array",
    "functions that call each other": "lambda x: dense(dense(x)) + dense(x * 2)",
    "one branch of three": "lambda x: tf2.switch_case(tf2.cast(x[0, 1] * 20, tf2.int32) % 3, "
    "[lambda: x, lambda: x @ w, lambda: x * b])",
    "a function of each row": "lambda x: tf2.map_fn(lambda r: r * r + b, x)",
    "branches and loops in each other": "in_each_other",
    "a recurrent cell": "recurrent",
}
LOWERED_ALWAYS = "one branch of three"  # by TensorFlow, even where functions are to stay
NO_CONTEXT = (
    "AttributeError"  # TensorFlow looks for the context of a loop that was imported, which is None
)
WITHOUT_FUNCTIONS = (LOWERED_ALWAYS, "functions that call each other")  # those were inlined

FREEZE = """
import tensorflow as tf2
from tensorflow.python.eager import context
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

def array(x):
    found = tf2.TensorArray(tf2.float32, 0, dynamic_size=True)
    body = lambda i, found: (i + 1, found.write(i, x[0] * tf2.cast(i, tf2.float32) + b))
    return tf2.while_loop(lambda i, _: i < 3, body, [0, found])[1].stack()

def in_each_other(x):
    def body(i, x):
        return i + 1, tf2.cond(tf2.equal(i % 2, 0), lambda: dense(x), lambda: tf2.while_loop(
            lambda j, y: j < 2, lambda j, y: (j + 1, y + b), [0, x])[1])
    return tf2.while_loop(lambda i, x: i < 3, body, [0, x])[1]

def recurrent(x):
    def body(t, h, c, states):
        i, f, g, o = [tf2.sigmoid(x @ w * k + h @ w) for k in (0.5, 1.0, 2.0, 3.0)]
        c = f * c + i * tf2.tanh(g)
        h = o * tf2.tanh(c)
        return t + 1, h, c, states.write(t, h)
    start = [0, tf2.zeros([2, 3]), tf2.zeros([2, 3]), tf2.TensorArray(tf2.float32, 3)]
    _, _, c, states = tf2.while_loop(lambda t, *_: t < 3, body, start)
    return states.stack() + c

def asked(proto, x, y):
    with tf.Graph().as_default():
        at, found = tf.import_graph_def(proto, return_elements=[x, y], name="")
        try:
            return "None" if tf.gradients(found, at)[0] is None else "a gradient"
        except Exception as error:
            return type(error).__name__

def frozen(function, lowered):
    made = tf2.function(eval(function) if isinstance(function, str) else function)
    concrete = made.get_concrete_function(tf2.TensorSpec(x.shape, tf2.float32))
    graph = convert_variables_to_constants_v2(concrete, lower_control_flow=lowered)
    with tf2.GradientTape() as tape:
        at = tf2.constant(x)
        tape.watch(at)
        y = made(at)
    proto, names = graph.graph.as_graph_def(), (graph.inputs[0].name, graph.outputs[0].name)
    return proto.SerializeToString(), *names, y.numpy(), tape.gradient(y, at).numpy(), asked(proto, *names)

with context.eager_mode():
    w, b = tf2.Variable(np.full((3, 3), 0.3, "f")), tf2.Variable(np.full(3, 0.1, "f"))
    dense = tf2.function(lambda x: tf2.nn.relu(x @ w) - b)
    globals().update(w=w, b=b, dense=dense)
    result = {(name, lowered): frozen(function, lowered) for name, function in models.items()
              for lowered in (False, True)}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 7


@pytest.fixture(scope="module")
def theirs(oracle: Any) -> Any:
    @cache
    def outcomes() -> Any:
        return oracle.run(FREEZE, models=MODELS, x=X)

    return outcomes


@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_a_frozen_graph_gives_the_same(model: str, lowered: bool, theirs: Any) -> None:
    graph, x, y, value, gradient, outcome = theirs()[model, lowered]
    proto = pb.GraphDef.FromString(graph)
    if not lowered:
        assert bool(proto.library.function) == (model not in WITHOUT_FUNCTIONS)
    with hr.Graph().as_default(), hr.Session() as session:
        at, found = hr.import_graph_def(proto, return_elements=[x, y], name="")
        np.testing.assert_allclose(session.run(found, {at: X}), value, rtol=2e-5)
        if outcome == NO_CONTEXT:
            with pytest.raises(
                ValueError, match=r"came from a GraphDef.*build it with tf\.while_loop"
            ):
                hr.gradients(found, at)
        elif outcome == "LookupError":
            with pytest.raises(LookupError, match=r"No gradient defined for operation.*_SwitchN"):
                hr.gradients(found, at)
        else:
            assert outcome == "a gradient"
            (back,) = hr.gradients(found, at)
            np.testing.assert_allclose(session.run(back, {at: X}), gradient, rtol=2e-5, atol=1e-6)


def both(tf: Any) -> list[Any]:
    """A branch, a loop and their gradients."""
    x = tf.constant([1.0, 2.0], name="x")
    _, y = tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.cond(tf.equal(i, 1), lambda: tf.sin(y) * x, lambda: y * y)),
        [0, x],
    )
    return [y, *tf.gradients(y, x)]


def test_a_graph_of_ours_gives_the_same_there(oracle: Any) -> None:
    hr.enable_control_flow_v2()
    try:
        with hr.Graph().as_default() as graph, hr.Session() as session:
            fetches = both(hr)
            names = [tensor.name for tensor in fetches]
            values = session.run(fetches)
            proto = graph.as_graph_def().SerializeToString()
    finally:
        hr.disable_control_flow_v2()
    found = oracle.run(
        "proto = tf.GraphDef.FromString(graph)\n"
        "tf.import_graph_def(proto, name='')\n"
        "with tf.Session() as session: result = session.run(names)",
        graph=proto,
        names=names,
    )
    for mine, other in zip(values, found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


PROGRAMS = {
    "a loop": "tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.matmul(x, v) * w), [0, one])[1]",
    "its condition": "tf.while_loop(lambda x: x < w, lambda x: x + 0.5, [0.0])",
    "a branch": "tf.cond(taken, lambda: v * w, lambda: v - 1.0)",
    "one of three": "tf.switch_case(tf.constant(1), [lambda: v * w, lambda: v - w, lambda: v + w])",
    "each in the other": "tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.cond("
    "taken, lambda: tf.matmul(x, v) * w, lambda: x + w)), [0, one])[1]",
    "a map": "tf.map_fn(lambda x: x * w, tf.constant([1.0, 2.0]))",
    "its shape": "tf.cond(taken, lambda: tf.shape(v), lambda: tf.zeros([2], tf.int32))",
    "rows": "tf.cond(taken, lambda: tf.gather_nd(v, [[0]]), lambda: v[:1])",
    "one is left": "tf.cond(taken, lambda: w * u, lambda: w - 1.0)",
}
FREEZE_PROGRAM = """
tf.enable_control_flow_v2()
try:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        v = tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0]], use_resource=True)
        w, u = (tf.get_variable(name, initializer=2.0, use_resource=True) for name in "wu")
        taken, one = tf.placeholder_with_default(True, []), tf.ones([1, 2])
        out = tf.identity(eval(program, globals()), name="out")
        session.run(tf.global_variables_initializer())
        proto = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["out"], variable_names_blacklist=["u"])
        result = proto.SerializeToString(), session.run(out)
finally:
    tf.disable_control_flow_v2()
"""


def functions_of(proto: Any) -> dict[str, Any]:
    """The functions of a graph: their arguments, results and nodes, in whatever order and under names of their own."""

    def plain(name: str) -> str:
        return re.sub(r"(_frozen)?_\d+($|(?=___redundant))", "", name)

    def node(each: Any) -> Any:
        # Maps have no order: it is another one in each process.
        attrs = [value for _, value in sorted(each.attr.items())]
        called = [plain(value.func.name) for value in attrs if value.HasField("func")]
        return each.op, list(each.input), called

    return {
        plain(each.signature.name): (
            "_frozen_" in each.signature.name,
            [(plain(arg.name), arg.type) for arg in each.signature.input_arg],
            [(plain(arg.name), arg.type) for arg in each.signature.output_arg],
            dict(each.ret),
            {one.name: node(one) for one in each.node_def if one.op != "NoOp"},
        )
        for each in proto.library.function
    }


@pytest.mark.parametrize("program", PROGRAMS)
def test_functions_that_take_handles_are_changed_as_there(program: str, oracle: Any) -> None:
    names: dict[str, Any] = {"tf": hr, "program": PROGRAMS[program]}
    exec(FREEZE_PROGRAM, names)
    mine, value = names["result"]
    other, expected = oracle.run(FREEZE_PROGRAM, program=PROGRAMS[program])
    np.testing.assert_allclose(value, expected)
    protos = [pb.GraphDef.FromString(each) for each in (mine, other)]
    assert functions_of(protos[0]) == functions_of(protos[1])
    assert {each.name: each.op for each in protos[0].node} == {
        each.name: each.op for each in protos[1].node
    }
    if program == "one is left":
        return
    for each in protos:
        with hr.Graph().as_default(), hr.Session() as session:
            hr.import_graph_def(each, name="")
            np.testing.assert_allclose(session.run("out:0"), expected)
    there = oracle.run(
        "tf.import_graph_def(tf.GraphDef.FromString(graph), name='')\n"
        "with tf.Session() as session: result = session.run('out:0')",
        graph=mine,
    )
    np.testing.assert_allclose(there, expected)
