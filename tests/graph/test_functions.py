"""Functions of graphs: FunctionDefs both ways, calls, branches and loops of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.expansion import Expansion
from headrace.graph.func_graph import FuncGraph
from headrace.graph.function_def import normalized
from headrace.graph.registry import get
from headrace.library.functions.calls import For, Gradient, If, While, partitioned_call, remote_call
from headrace.library.functions.defun import Defun
from headrace.ops.flow.functional import (
    case_op,
    reference,
    stateful_partitioned_call_op,
    to_bool_op,
    while_op,
)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def built(
    name: str, types: Sequence[tf.DType], function: Callable[..., Sequence[Any]], shape: Any = ()
) -> FuncGraph:
    made = FuncGraph(name)
    with made.as_default():
        arguments = [made.add_argument(each, tf.TensorShape(shape)) for each in types]
        made.outputs = [tf.convert_to_tensor(each) for each in function(*arguments)]
    made.to_function()
    return made


def run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def test_a_function_is_called_by_its_name() -> None:
    outside = tf.constant(5.0, name="outside")

    @Defun(tf.float32, tf.float32)
    def scaled(x: Any, y: Any) -> Any:
        return x * outside + y, x

    a, b = scaled(2.0, 1.0)
    assert a.op.type.startswith("scaled_")
    assert a.op.inputs[2] is outside
    assert run([a, b]) == [11.0, 2.0]


@pytest.mark.parametrize(
    "form", ["name", "PartitionedCall", "StatefulPartitionedCall", "RemoteCall"]
)
def test_every_form_of_a_call_gives_the_same(form: str) -> None:
    @Defun(tf.float32, func_name="tripled")
    def tripled(x: Any) -> Any:
        return x * 3.0

    x = tf.placeholder(tf.float32, [2])
    if form == "name":
        y = tripled(x)
    elif form == "PartitionedCall":
        (y,) = partitioned_call([x], tripled)
    elif form == "RemoteCall":
        (y,) = remote_call("/device:CPU:0", [x], [tf.float32], tripled)
    else:
        tripled.add_to_graph(tf.get_default_graph())
        (y,) = stateful_partitioned_call_op([x], Tout=[tf.float32], f=reference("tripled"))
    assert run(y, {x: [1, 2]}).tolist() == [3, 6]


def test_names_of_arguments_and_nodes_differ() -> None:
    made = built(
        "f", [tf.float32], lambda x: [tf.add(x, 1.0, name="arg"), tf.add(x, 2.0, name="Add")]
    )
    definition = made.library.find("f").definition
    assert [arg.name for arg in definition.signature.input_arg] == ["arg"]
    assert [arg.name for arg in definition.signature.output_arg] == ["arg_1", "add"]
    assert {node.name for node in definition.node_def} >= {"arg_1_0", "Add"}
    assert dict(definition.ret) == {"arg_1": "arg_1_0:z:0", "add": "Add:z:0"}


@pytest.mark.parametrize(
    ("name", "argument"), [("Ab/c-D", "ab_c_d"), ("_1x", "x"), ("12", "unknown"), ("x:0", "x_0")]
)
def test_how_an_argument_is_called(name: str, argument: str) -> None:
    assert normalized(name) == argument


def test_graphs_with_functions_go_out_and_come_in() -> None:
    @Defun(tf.float32)
    def inner(x: Any) -> Any:
        return tf.split(x, 2)

    @Defun(tf.float32)
    def outer(x: Any) -> Any:
        a, b = inner(x)
        return a - b

    tf.identity(outer(tf.constant([5.0, 3.0])), name="y")
    proto = pb.GraphDef.FromString(tf.get_default_graph().as_graph_def().SerializeToString())
    assert {each.signature.name for each in proto.library.function} == {inner.name, outer.name}
    with tf.Graph().as_default() as other:
        (y,) = tf.import_graph_def(proto, return_elements=["y:0"])
        assert run(y).tolist() == [2.0]
        assert other.as_graph_def().library == proto.library


def test_the_same_function_may_come_twice_and_another_one_of_its_name_not() -> None:
    def graph_with(factor: float) -> pb.GraphDef:
        with tf.Graph().as_default() as made:
            Defun(tf.float32, func_name="f")(lambda x: x * factor)(1.0)
            return made.as_graph_def()

    tf.import_graph_def(graph_with(2.0))
    tf.import_graph_def(graph_with(2.0))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="a different function with the same name already exists",
    ):
        tf.import_graph_def(graph_with(3.0))


def test_a_function_may_not_be_called_like_an_op() -> None:
    with tf.Graph().as_default() as made:
        Defun(tf.float32, func_name="Mul")(lambda x: x)(1.0)
        proto = made.as_graph_def()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="an op with the same name already exists"
    ):
        tf.import_graph_def(proto)


def test_a_function_that_is_not_there_is_named() -> None:
    (y,) = stateful_partitioned_call_op(
        [1.0], Tout=[tf.float32], f=reference("nowhere"), name="call"
    )
    with pytest.raises(tf.errors.NotFoundError, match=r"Function nowhere is not defined.*'call'"):
        run(y)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gone", "neither an argument nor a node"),
        ("Neg:y:7", "has 1 outputs"),
        ("Neg:z:0", "is not '<argument>' or '<node>:<output>:<index>'"),
    ],
)
def test_a_function_def_that_makes_no_sense_is_refused(text: str, said: str) -> None:
    Defun(tf.float32, func_name="f")(lambda x: -tf.negative(x, name="Neg"))(1.0)
    proto = tf.get_default_graph().as_graph_def()
    proto.library.function[0].node_def[1].input[0] = text
    with tf.Graph().as_default():
        (y,) = tf.import_graph_def(proto, return_elements=["f:0"])
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            run(y)


def test_feeds_and_fetches_of_calls_keep_their_names() -> None:
    made = built("f", [tf.float32], lambda x: [x + 1.0, x * 2.0])
    a, b = stateful_partitioned_call_op([3.0], Tout=[tf.float32] * 2, f=reference(made.name))
    y = a + b
    with tf.Session() as session:
        assert session.run([y, b, a]) == [10.0, 6.0, 4.0]
        assert session.run([y, b, a], {a: 100.0}) == [106.0, 6.0, 100.0]
        assert session.run([y, a.op], {a: 1.0, b: 2.0}) == [3.0, None]
        handle = session.partial_run_setup([y], [a, b])
        assert session.partial_run(handle, [y], {a: 1.0, b: 5.0}) == [6.0]


def test_what_a_function_does_is_done_though_nobody_takes_its_outputs() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer(), use_resource=True)

    @Defun(tf.float32)
    def count(x: Any) -> Any:
        v.assign_add(x)
        return x

    y = count(2.0)
    with tf.control_dependencies([y.op]):
        after = w.assign(v.read_value())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(y)
        session.run(y.op)
        assert session.run(v) == 4.0
        session.run(after.op)
        assert session.run(w) == 6.0


def test_what_a_function_does_waits_for_what_its_call_waits_for() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    read = Defun()(lambda: v.read_value())
    with tf.control_dependencies([v.assign(7.0)]):
        found = read()
    assert [run(found) for _ in range(20)] == [7.0] * 20


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        (0, False),
        (2, True),
        (0.0, False),
        (-1.5, True),
        (b"", False),
        (b"no", True),
        ([], False),
        ([0], True),
        ([[]], False),
    ],
)
def test_what_counts_as_true(value: Any, truth: bool) -> None:
    assert run(to_bool_op(tf.constant(value))) == truth
    yes = Defun()(lambda: tf.constant(1))
    no = Defun()(lambda: tf.constant(0))
    (found,) = If(tf.constant(value), [], yes, no)
    assert run(found) == truth


def test_of_two_branches_one_does_something() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    p = tf.placeholder(tf.bool, [])
    then = built("then", [tf.float32, tf.resource], lambda x, _: [x * 3.0])

    def other(x: Any) -> Any:
        with tf.control_dependencies([v.assign_add(x)]):
            return [x * 2.0]

    otherwise = built("otherwise", [tf.float32], other)
    from headrace.ops.flow.functional import if_op

    (y,) = if_op(
        p,
        [4.0, *otherwise.external_captures],
        then_branch=reference(then.name),
        else_branch=reference(otherwise.name),
        Tout=[tf.float32],
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert (session.run(y, {p: True}), session.run(v)) == (12.0, 0.0)
        assert (session.run(y, {p: False}), session.run(v)) == (8.0, 4.0)


def test_of_many_branches_the_last_one_takes_what_is_beyond() -> None:
    n = tf.placeholder(tf.int32, [])
    names = [built(f"b{i}", [tf.float32], lambda x, i=i: [x * float(i)]).name for i in range(4)]
    (y,) = case_op(n, [2.0], branches=[reference(each) for each in names], Tout=[tf.float32])
    with tf.Session() as session:
        found = [session.run(y, {n: each}) for each in (-1, 0, 1, 2, 3, 4, 100)]
    assert found == [6.0, 0.0, 2.0, 4.0, 6.0, 6.0, 6.0]


def test_what_has_no_state_is_computed_as_what_has() -> None:
    kind = [tf.float32]
    for name, function in (
        # StatelessIf, StatelessCase, StatelessWhile
        ("again", lambda x: x < 10.0),
        ("more", lambda x: x + 4.0),
        ("less", lambda x: x - 4.0),
    ):
        Defun(tf.float32, func_name=name)(function).add_to_graph(tf.get_default_graph())
    more, less = reference("more"), reference("less")
    p, x = tf.placeholder(tf.bool, []), tf.constant(1.0)
    found = []
    for stateless in ("", "Stateless"):
        branch, case, loop = (get(stateless + each) for each in ("If", "Case", "While"))
        found.append(
            [
                branch(p, [x], then_branch=more, else_branch=less, Tout=kind),
                case(tf.cast(p, tf.int32), [x], branches=[more, less], Tout=kind),
                loop([x], cond=reference("again"), body=more),
            ]
        )
    assert run(found[0], {p: True}) == run(found[1], {p: True}) == [[5.0], [-3.0], [13.0]]
    assert run(found[0], {p: False}) == run(found[1], {p: False}) == [[-3.0], [5.0], [13.0]]
    y = tf.get_default_graph().library.find("more").spec(x)
    assert tf.gradients(y, x)[0].op.type == "SymbolicGradient"


def test_loops_of_functions() -> None:
    below = Defun(tf.float32, tf.float32)(lambda x, end: x < end)
    doubled = Defun(tf.float32, tf.float32)(lambda x, end: (x * 2.0, end))
    x = tf.placeholder(tf.float32, [])
    assert run(While([x, 100.0], below, doubled), {x: 3.0}) == [192.0, 100.0]
    assert run(While([x, 100.0], below, doubled), {x: 300.0}) == [300.0, 100.0]
    added = Defun(tf.int32, tf.float32)(lambda i, y: y + tf.cast(i, tf.float32))
    assert run(For(0, 5, 1, [x], added), {x: 1.0}) == [11.0]
    assert run(For(5, 0, -2, [x], added), {x: 0.0}) == [9.0]
    assert run(For(3, 3, 1, [x], added), {x: 1.5}) == [1.5]


def test_loops_within_branches_within_loops() -> None:
    @Defun(tf.int32)
    def collatz(n: Any) -> Any:
        even = Defun(tf.int32)(lambda k: k // 2)
        odd = Defun(tf.int32)(lambda k: 3 * k + 1)
        return If(tf.equal(n % 2, 0), [n], even, odd)[0]

    n = tf.placeholder(tf.int32, [])
    end = While([n], Defun(tf.int32)(lambda k: k > 1), collatz)
    assert run(end, {n: 27}) == 1

    def steps(k: Any, count: Any) -> Any:
        return collatz(k), count + 1

    _, count = While(
        [n, 0], Defun(tf.int32, tf.int32)(lambda k, c: k > 1), Defun(tf.int32, tf.int32)(steps)
    )
    assert run(count, {n: 27}) == 111


def test_calls_are_made_in_their_branch_and_iteration() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    called: list[int] = []
    note = Defun()(lambda: tf.py_func(lambda: np.float32(called.append(1) or 1.0), [], tf.float32))

    @Defun(tf.float32, func_name="counted")
    def counted(x: Any) -> Any:
        with tf.control_dependencies([v.assign_add(tf.constant(2.0))]):
            return x * 2.0 + tf.constant(1.0)

    def scalar(tensor: Any) -> Any:
        tensor.set_shape([])
        return tensor

    x = tf.placeholder(tf.float32, [])
    loop = tf.while_loop(lambda i: i < 30.0, lambda i: scalar(counted(i)), [x])
    branch = tf.cond(x > 0.0, lambda: scalar(counted(x)), lambda: x)
    noted = tf.cond(x > 0.0, lambda: scalar(note()), lambda: x)
    with tf.Session() as session:
        session.run(v.initializer)
        assert (session.run(loop, {x: 1.0}), session.run(v)) == (31.0, 8.0)
        assert session.run(tf.gradients(loop, x), {x: 1.0}) == [16.0]
        session.run(v.initializer)
        assert (session.run(branch, {x: -1.0}), session.run(v)) == (-1.0, 0.0)
        assert (session.run(branch, {x: 2.0}), session.run(v)) == (5.0, 2.0)
        assert (session.run(noted, {x: -1.0}), len(called)) == (-1.0, 0)
        assert (session.run(noted, {x: 1.0}), len(called)) == (1.0, 1)


def test_a_loop_may_do_something_each_time() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    again = FuncGraph("again")
    with again.as_default():
        i, handle = (
            again.add_argument(tf.int32, tf.TensorShape([])),
            again.add_argument(tf.resource),
        )
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.constant(1.0))
        again.outputs = [i + 1, handle]
    again.to_function()
    built("cond", [tf.int32, tf.resource], lambda i, _: [i < 5])
    i, _ = while_op([0, v.handle], cond=reference("cond"), body=reference("again"))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert (session.run(i), session.run(v)) == (5, 5.0)
        session.run(i.op)
        assert session.run(v) == 10.0


def test_gradients_of_functions() -> None:
    @Defun(tf.float32, tf.float32)
    def f(x: Any, y: Any) -> Any:
        return x * x * y, y

    x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    a, b = f(x, y)
    feeds = {x: [1, 2], y: [3, 4]}
    found = run(tf.gradients([a, b], [x, y]), feeds)
    assert [each.tolist() for each in found] == [[6, 16], [2, 5]]
    first = run(tf.gradients(a, x), feeds)
    assert first[0].tolist() == [6, 16]
    by_hand = run(Gradient([x, y, [1.0, 1.0], [0.0, 0.0]], f), feeds)
    assert [each.tolist() for each in by_hand] == [[6, 16], [1, 4]]


def test_a_gradient_may_be_given() -> None:
    backward = Defun(tf.float32, tf.float32)(lambda x, dy: dy * 100.0)
    forward = Defun(tf.float32, grad_func=backward)(lambda x: x * 3.0)
    by_python = Defun(tf.float32, python_grad_func=lambda op, dy: dy * 7.0)(lambda x: x * 3.0)
    x = tf.constant(2.0)
    assert run(tf.gradients(forward(x), x)) == [100.0]
    assert run(tf.gradients(by_python(x), x)) == [7.0]
    proto = tf.get_default_graph().as_graph_def()
    assert [(each.function_name, each.gradient_func) for each in proto.library.gradient] == [
        (forward.name, backward.name)
    ]


def test_types_may_be_those_of_a_calls_arguments() -> None:
    doubled = Defun(func_name="doubled")(lambda x: x + x)
    found = run([doubled(tf.constant(2)), doubled(tf.constant(1.5))])
    assert found == [4, 3.0]


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda f: f(1.0, 2.0), ValueError, "Expected 1 arguments, got 2"),
        (lambda f: f(tf.constant(1)), ValueError, "passed int32 expected float"),
        (lambda f: f(1.0, unknown=1), ValueError, "Unknown keyword arguments: unknown"),
    ],
)
def test_calls_that_do_not_fit(call: Any, kind: type[Exception], said: str) -> None:
    function = Defun(tf.float32)(lambda x: x)
    with pytest.raises(kind, match=said):
        call(function)


def test_functions_that_become_too_many_nodes_are_refused() -> None:
    function = Defun(tf.float32, func_name="f0")(lambda x: x + 1.0)
    for number in range(1, 12):
        inner = function
        function = Defun(tf.float32, func_name=f"f{number}")(lambda x, inner=inner: inner(inner(x)))
    x = tf.placeholder(tf.float32, [])
    y = function(x)
    expansion = Expansion(most=1000)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="more than 1000 nodes"):
        expansion.copy([x.op, y.op], {x.op: (), y.op: ()}, [], [y])
    assert run(y, {x: 1.0}) == 2049.0


def test_random_numbers_of_two_calls_differ() -> None:
    draw = Defun()(lambda: tf.random_uniform([4], seed=3))
    a, b = draw(), draw()
    first, second = run([a, b])
    assert np.array_equal(first, second), "the same seeds, a generator for each call"
    with tf.Session() as session:
        assert not np.array_equal(session.run(a), session.run(a))


def test_functions_that_call_each_other_very_deep_run() -> None:
    function = Defun(tf.float32, func_name="f0")(lambda x: x + 1.0)
    for number in range(1, 130):
        function = Defun(tf.float32, func_name=f"f{number}")(
            lambda x, inner=function: inner(x) + 1.0
        )
    assert run(function(tf.constant(0.0))) == 130.0


def test_two_branches_of_one_function_have_gradients() -> None:
    twice = Defun(tf.float32, func_name="twice")(lambda x: tf.sin(x) * x)
    x = tf.constant(1.0)
    ys = [If(p, [x], twice, twice)[0] for p in (True, False)]
    first, second = run([tf.gradients(y, x)[0] for y in ys])
    assert first == second == pytest.approx(np.sin(1.0) + np.cos(1.0))


def test_errors_name_the_node_of_the_function() -> None:
    @Defun(tf.float32)
    def f(x: Any) -> Any:
        return tf.check_numerics(x, "bad", name="checked")

    y = f(tf.constant(np.nan), name="call")
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad") as caught:
        run(y)
    assert caught.value.node == "call/checked"
    assert "test_functions.py" in (caught.value.built_at or "")


def test_a_function_may_come_again_if_it_says_the_same() -> None:
    made = built("f", [tf.float32], lambda x: [tf.sin(x) + 1.0])
    definition = made.library.find("f").definition
    again = pb.GraphDef()
    copy = again.library.function.add()
    copy.CopyFrom(definition)
    nodes = list(copy.node_def)
    del copy.node_def[:]
    copy.node_def.extend(reversed(nodes))
    copy.node_def[0].attr["_seen"].b = True
    copy.arg_attr[0].attr["_user_specified_name"].s = b"x"
    tf.import_graph_def(again)
    copy.node_def[0].device = "/cpu:0"
    with pytest.raises(tf.errors.InvalidArgumentError, match="a different function with the same"):
        tf.import_graph_def(again)
