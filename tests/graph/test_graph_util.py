"""Parts of GraphDefs, and variables frozen into constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf


@pytest.fixture
def graph() -> tf.Graph:
    """y = x @ v + u, by way of nodes that only pass values on; z = y; and a constant for nobody."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        v = tf.get_variable("v", initializer=[[1.0], [2.0]])
        u = tf.Variable(3.0, name="u")
        passed = tf.stop_gradient(tf.identity(x, name="i"), name="stop")
        checked = tf.check_numerics(v, "v", name="checked")
        y = tf.add(tf.matmul(passed, checked, name="product"), u, name="y")
        tf.identity(y, name="z")
        tf.constant(1, name="unused")
    return graph


def inputs(graph_def: Any) -> dict[str, list[str]]:
    return {node.name: list(node.input) for node in graph_def.node}


def test_a_part_is_what_its_ends_need(graph: tf.Graph) -> None:
    part = tf.graph_util.extract_sub_graph(graph.as_graph_def(), ["product"])
    assert list(inputs(part)) == ["x", "v", "v/read", "i", "stop", "checked", "product"]
    assert part.versions == graph.as_graph_def().versions


def test_a_part_includes_what_must_run_before() -> None:
    graph = tf.Graph()
    with graph.as_default():
        first = tf.no_op(name="first")
        with tf.control_dependencies([first]):
            tf.no_op(name="second")
    part = tf.graph_util.extract_sub_graph(graph.as_graph_def(), ["second"])
    assert inputs(part) == {"first": [], "second": ["^first"]}


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("q",), AssertionError, "q is not in graph"),
        (("y:0",), AssertionError, "without ':0'"),
    ],
)
def test_ends_that_are_not_there_are_named(
    graph: tf.Graph, arguments: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        tf.graph_util.extract_sub_graph(graph.as_graph_def(), arguments)


def test_arguments_of_the_wrong_type_are_refused(graph: tf.Graph) -> None:
    with pytest.raises(TypeError, match="GraphDef"):
        tf.graph_util.extract_sub_graph(graph, ["y"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list of node names"):
        tf.graph_util.extract_sub_graph(graph.as_graph_def(), "y")


def run_frozen(graph_def: Any, fetch: str, x: Any) -> Any:
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with tf.Session() as session:
            return session.run(f"{fetch}:0", {"x:0": x})


def test_a_frozen_graph_needs_no_variables(graph: tf.Graph) -> None:
    x = [[1.0, 1.0], [2.0, 0.0]]
    with graph.as_default(), tf.Session() as session:
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["y", "z"]
        )
        expected = session.run("y:0", {"x:0": x})
    assert {node.op for node in frozen.node if node.name in ("u", "v")} == {"Const"}
    np.testing.assert_array_equal(run_frozen(frozen, "y", x), expected)
    smaller = tf.graph_util.remove_training_nodes(frozen, protected_nodes=["z"])
    np.testing.assert_array_equal(run_frozen(smaller, "z", x), expected)
    assert inputs(smaller) == {
        "x": [],
        "v": [],
        "u": [],
        "product": ["x", "v"],
        "y": ["product", "u"],
        "z": ["y"],
    }


@pytest.mark.parametrize(
    ("lists", "left"),
    [
        ({"variable_names_whitelist": ["v"]}, ["u"]),
        ({"variable_names_blacklist": ["v"]}, ["v"]),
        ({"variable_names_whitelist": []}, ["u", "v"]),
    ],
)
def test_some_variables_can_be_left(
    graph: tf.Graph, lists: dict[str, list[str]], left: list[str]
) -> None:
    with graph.as_default(), tf.Session() as session:
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["y"], **lists
        )
    assert sorted(node.name for node in frozen.node if node.op == "VariableV2") == left


def test_an_uninitialized_variable_cannot_be_frozen(graph: tf.Graph) -> None:
    with tf.Session(graph=graph) as session, pytest.raises(tf.errors.FailedPreconditionError):
        tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])


def test_nodes_that_order_others_stay() -> None:
    graph = tf.Graph()
    with graph.as_default():
        a = tf.constant(1.0, name="a")
        b = tf.constant(2.0, name="b")
        before = tf.identity(a, name="before")
        with tf.control_dependencies([before]):
            after = tf.identity(b, name="after")
        tf.negative(after, name="end")
    smaller = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    assert {"before", "after"} <= set(inputs(smaller))


def test_the_shape_of_a_node_by_its_name(graph: tf.Graph) -> None:
    shape_of = tf.graph_util.tensor_shape_from_node_def_name
    assert shape_of(graph, "y").as_list() == [None, 1]
    assert shape_of(graph, "v:0").as_list() == [2, 1]


def frozen_of(outputs: list[str], **lists: Any) -> tuple[Any, Any]:
    """The default graph frozen, and what its outputs are then."""
    graph = tf.get_default_graph()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(add_shapes=True), outputs, **lists
        )
        expected = session.run([f"{name}:0" for name in outputs])
    with tf.Graph().as_default():
        tf.import_graph_def(found, name="")
        with tf.Session() as session:
            if not lists:
                np.testing.assert_array_equal(
                    session.run([f"{name}:0" for name in outputs]), expected
                )
    return found, expected


def test_variables_behind_handles_are_frozen_wherever_they_are_read() -> None:
    with tf.Graph().as_default():
        with tf.device("/cpu:0"):
            v = tf.get_variable("v", initializer=2.0, use_resource=True)
        taken = tf.placeholder_with_default(True, [])
        y = tf.cond(taken, lambda: v * 2.0, lambda: v * 3.0)
        tf.while_loop(lambda i: i < 10.0, lambda i: i + v, [y], name="w")
        tf.identity(tf.get_default_graph().get_tensor_by_name("w/Exit:0"), name="y")
        found, expected = frozen_of(["y"])
    assert expected == [10.0]
    assert not {"VarHandleOp", "ReadVariableOp"} & {node.op for node in found.node}
    constant = next(node for node in found.node if node.name == "v")
    assert (constant.op, constant.device) == ("Const", "")


def test_rows_of_variables_behind_handles_are_rows_of_constants() -> None:
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0]], use_resource=True)
        tf.raw_ops.ResourceGather(resource=v.handle, indices=[1, 0], dtype=tf.float32, name="rows")
        tf.raw_ops.ResourceGather(
            resource=v.handle, indices=[[1], [0]], dtype=tf.float32, batch_dims=1, name="each"
        )
        tf.raw_ops.ResourceGatherNd(
            resource=v.handle, indices=[[1, 1]], dtype=tf.float32, name="one"
        )
        for name in ("rows", "each", "one"):
            frozen_of([name])


def test_some_variables_behind_handles_can_be_left() -> None:
    with tf.Graph().as_default():
        v, w = (tf.get_variable(name, [], use_resource=True) for name in "vw")
        tf.add(v, w, name="y")
        found, _ = frozen_of(["y"], variable_names_blacklist=["w"])
    kinds = {node.name: node.op for node in found.node}
    assert (kinds["v"], kinds["w"]) == ("Const", "VarHandleOp")


def test_a_variable_that_the_outputs_change_cannot_be_frozen() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        v = tf.get_variable("v", initializer=1.0, use_resource=True)
        session.run(v.initializer)
        tf.identity(v.assign(2.0), name="y")
        with pytest.raises(tf.errors.UnimplementedError, match="variable_names_blacklist"):
            tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])


def test_what_others_are_placed_beside_stays() -> None:
    graph = tf.Graph()
    with graph.as_default():
        a = tf.identity(tf.constant(1.0), name="a")
        with tf.colocate_with(a):
            b = tf.constant(2.0, name="b")
        tf.negative(b, name="c")
    part = tf.graph_util.extract_sub_graph(graph.as_graph_def(), ["c"])
    assert {"a", "b", "c", "Const"} == {node.name for node in part.node}
    smaller = tf.graph_util.remove_training_nodes(part)
    with tf.Graph().as_default():
        tf.import_graph_def(smaller, name="")


def test_checks_are_removed_whoever_waits_for_them() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        checked = tf.check_numerics(x, "no", name="checked")
        with tf.control_dependencies([checked]):
            tf.negative(checked, name="y")
    smaller = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    assert inputs(smaller) == {"x": [], "y": ["x"]}
