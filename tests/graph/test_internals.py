"""What libraries lean on below the public names.  Values and classes of errors are compared with TensorFlow's in
tests/oracle/programs/internals.txt; here are threads, and what versions of TensorFlow do not agree on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.graph.low_level import RegisterShape


def in_another_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join(60)
    return found[0]


@pytest.fixture
def graph() -> tf.Graph:
    return tf.Graph()


def made_in(graph: tf.Graph) -> Callable[[], tf.Operation]:
    def make() -> tf.Operation:
        with graph.as_default():
            return tf.constant(1.0).op

    return make


def test_a_name_scope_is_its_threads_own(graph: tf.Graph) -> None:
    with graph.as_default(), graph.name_scope("outer"):
        assert in_another_thread(graph.get_name_scope) == ""
        assert in_another_thread(made_in(graph)).name == "Const"
        assert tf.constant(1.0).op.name == "outer/Const"


def test_other_scopes_are_the_graphs(graph: tf.Graph) -> None:
    with graph.as_default(), graph.device("/cpu:0"):
        assert in_another_thread(made_in(graph)).device == "/device:CPU:0"


def test_and_each_threads_own_once_that_was_asked_for(graph: tf.Graph) -> None:
    with graph.as_default(), graph.device("/job:outer"):
        graph.switch_to_thread_local()
        first = tf.constant(0.0).op
        with (
            graph.device("/cpu:0"),
            graph.control_dependencies([first]),
            graph.colocate_with(first),
        ):
            other = in_another_thread(made_in(graph))
            inner = tf.constant(1.0).op
    assert (other.device, other.control_inputs, other.colocation_groups()) == (
        "/job:outer", [], [b"loc:@Const_1"],
    )  # fmt: skip
    assert inner.control_inputs == [first]
    assert graph._stack_state_is_thread_local
    graph.switch_to_thread_local()
    assert made_in(graph)().device == ""


def test_threads_that_ask_for_the_same_name_get_different_ones(graph: tf.Graph) -> None:
    start = threading.Barrier(4)
    found: list[str] = []

    def ask() -> None:
        start.wait()
        found.extend(graph.unique_name("node") for _ in range(200))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(set(found)) == 800


def test_what_an_attr_function_gives_must_be_an_attr(graph: tf.Graph) -> None:
    with (
        graph.as_default(),
        graph._attr_scope({"_x": lambda node: 3}),
        pytest.raises(
            TypeError, match="attr '_x' of _attr_scope must return an AttrValue or None, not 3"
        ),
    ):
        tf.constant(1.0)


def test_nodes_made_by_hand_are_checked_on_both_sides(graph: tf.Graph) -> None:
    with graph.as_default():
        a, i = tf.constant(1.0, name="a"), tf.constant(1, name="i")
    other = tf.Graph()
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: graph.create_op("NoSuchOp", []), tf.errors.NotFoundError, "no op 'NoSuchOp'"),
        (lambda: graph.create_op("Placeholder", []), ValueError, "missing attr 'dtype'.*'Placeholder'"),
        (lambda: graph.create_op("Neg", [1.0]), TypeError, "Input #0 is not a tensor: 1.0"),
        (lambda: graph.create_op("Neg", [a, a]), ValueError, "passed 2 inputs.*ask for others: x"),
        (lambda: graph.create_op("Mul", [a, i]), ValueError, "'y'.*passed int32 from i:0.*expected float32"),
        (lambda: graph.create_op("Neg", [a], attrs={"T": 1}), TypeError, "AttrValue proto, not 1"),
        (lambda: graph.create_op("Pack", [a, a]), ValueError, "attr 'N'.*how many tensors"),
        (lambda: graph.create_op("Neg", [a], attrs={"z": tf.AttrValue(i=1)}), ValueError, "'z' not in Op Neg"),
        (lambda: graph.create_op("Neg", [a], attrs={"T": tf.AttrValue(i=1)}), ValueError, "type type.*holds i"),
        (lambda: other.create_op("Neg", [a]), ValueError, "a:0 must be from the same graph as the node 'Neg'"),
    ]  # fmt: skip
    for make, kind, complaint in cases:
        with pytest.raises(kind, match=complaint):
            make()
    with pytest.raises(tf.errors.NotFoundError, match="Op type not registered"):
        graph._get_op_def("NoSuchOp")


def test_a_node_that_is_changed_takes_tensors_that_fit_only(graph: tf.Graph) -> None:
    with graph.as_default():
        a, b, i = tf.constant(1.0), tf.constant([1.0]), tf.constant(1)
        c = a + a
    with tf.Graph().as_default():
        strange = tf.constant(1.0)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: c.op._update_input(0, 3), TypeError, "must be a Tensor: 3"),
        (lambda: c.op._update_input(0, strange), ValueError, "same graph"),
        (lambda: c.op._update_input(-1, a), tf.errors.OutOfRangeError, r"\[-1\].*\[2\]"),
        (lambda: c.op._update_input(0, i), tf.errors.InvalidArgumentError, "incompatible types.*float32.*int32"),
        (lambda: c.op._update_input(0, b), tf.errors.InvalidArgumentError, "incompatible shapes"),
        (lambda: c.op._add_control_input(3), TypeError, "op must be an Operation: 3"),
        (lambda: c.op._add_control_inputs([a]), TypeError, "op must be an Operation"),
        (lambda: c.op._add_control_input(strange.op), ValueError, "same graph"),
    ]  # fmt: skip
    for change, kind, complaint in cases:
        with pytest.raises(kind, match=complaint):
            change()
    assert [t.name for t in c.op.inputs] == [a.name, a.name]
    assert c.op.control_inputs == []


def test_a_step_that_was_planned_keeps_the_inputs_that_its_nodes_had(graph: tf.Graph) -> None:
    """As in TensorFlow: a new session sees what was changed."""
    with graph.as_default():
        a, b = tf.constant(1.0), tf.constant(2.0)
        c = tf.add(a, b)
        with tf.Session() as session:
            assert session.run(c) == 3.0
            c.op._update_input(1, a)
            assert session.run(c) == 3.0
        with tf.Session() as session:
            assert session.run(c) == 2.0


def test_a_label_that_no_kernel_has_is_said_with_the_node(graph: tf.Graph) -> None:
    with graph.as_default(), graph._kernel_label_map({"Neg": "special"}):
        y = tf.negative(tf.placeholder_with_default(1.0, []), name="mine")
        with (
            tf.Session() as session,
            pytest.raises(
                tf.errors.InvalidArgumentError, match=r"'Neg' with the label 'special'.*'mine'"
            ),
        ):
            session.run(y)


def test_a_shape_function_may_be_registered_and_is_not_asked() -> None:
    @RegisterShape("Neg")
    def shape(op: tf.Operation) -> list[tf.TensorShape]:
        raise AssertionError("the op knows its shapes")

    with tf.Graph().as_default():
        assert tf.negative([1.0, 2.0]).shape == [2]
    assert shape.__name__ == "shape"
    with pytest.raises(TypeError, match="must be a string, not 3"):
        RegisterShape(3)


def test_a_node_says_where_it_was_made(graph: tf.Graph) -> None:
    with graph.as_default():
        op = tf.no_op()  # this line
    file, _, _, text = op.traceback[-1]
    assert file == __file__
    assert text is not None
    assert "this line" in text


# -- locks and sessions ---------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [False, True])
def test_threads_run_steps_while_another_makes_the_graph_grow(cluster: bool) -> None:
    """Loops, branches and gradients among what is made: nobody gets a node that is not finished."""
    graph = tf.Graph()
    server = tf.train.Server.create_local_server() if cluster else None
    target = server.target if server is not None else ""
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        fetches: list[tuple[tf.Tensor, Callable[[float], float]]] = [(x + 1.0, lambda v: v + 1.0)]
    grown = threading.Event()
    failures: list[BaseException] = []
    counts = [0, 0, 0]

    def grow() -> None:
        with graph.as_default():
            for n in range(40):
                with tf.name_scope(f"part{n}"), tf.device("/cpu:0"), tf.control_dependencies([x]):
                    looped = tf.while_loop(
                        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, x]
                    )[1]
                    chosen = tf.cond(x > 0.0, lambda: looped + float(n), lambda: looped - float(n))  # noqa: B023
                    slope = tf.gradients(looped, x)[0]
                fetches.append((chosen, lambda v, n=n: 8.0 * v + (n if v > 0 else -n)))
                fetches.append((slope, lambda v: 8.0))

    def run(session: tf.Session, which: int) -> None:
        last = False
        while not last:
            last = grown.is_set()
            known = list(fetches)
            value = float(counts[which] % 5 - 2)
            picked = known[-1 - counts[which] % min(len(known), 7) :][:3]
            found = session.run([t for t, _ in picked], {x: value})
            assert [float(each) for each in found] == [rule(value) for _, rule in picked]
            if which == 1:
                tensor, rule = known[-1]
                assert session.make_callable(tensor, [x])(value) == rule(value)
            counts[which] += 1

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def go() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        return go

    try:
        with tf.Session(target, graph=graph) as session:
            runners = [
                threading.Thread(target=guarded(lambda which=which: run(session, which)))
                for which in range(3)
            ]
            builder = threading.Thread(target=guarded(grow))
            for each in (*runners, builder):
                each.start()
            builder.join()
            grown.set()
            for each in runners:
                each.join()
    finally:
        if server is not None:
            server.stop()
    assert failures == []
    assert len(fetches) == 81
    assert min(counts) > 0


def test_what_cannot_be_converted_anew_is_refused_and_nothing_changes() -> None:
    for base, complaint in (
        (3, "must be a type"),
        ((int, str), "numeric types"),
        ("Point", "must be a type"),
    ):
        with pytest.raises(TypeError, match=complaint):
            tf.register_tensor_conversion_function(base, lambda value, **_: value)
    with pytest.raises(TypeError, match="must be callable, and is 3"):
        tf.register_tensor_conversion_function(tf.Graph, 3)
    with tf.Graph().as_default():
        assert tf.convert_to_tensor(1).dtype == tf.int32
