"""Graphs out to GraphDefs and in again: names, edges, devices, and what is refused, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.graphdef import Importer, graph_def, node_def, op_def
from headrace.graph.registry import OPS


def in_a_graph(make: Callable[[], object]) -> pb.GraphDef:
    with tf.Graph().as_default() as graph:
        make()
    proto: pb.GraphDef = graph.as_graph_def()
    return proto


def line(*nodes: tuple[str, str, list[str]]) -> pb.GraphDef:
    """A GraphDef of (name, op, inputs) of floats."""
    proto = pb.GraphDef()
    for name, op, inputs in nodes:
        node = proto.node.add(name=name, op=op, input=inputs)
        if op in ("Placeholder", "Const"):
            node.attr["dtype"].type = pb.DT_FLOAT
        elif op != "NoOp":
            node.attr["T"].type = pb.DT_FLOAT
    return proto


def branches_and_loops() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.device("/job:w"), tf.control_dependencies([tf.no_op()]):
        loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])
    chosen = tf.cond(x > 0.0, lambda: loop[1], lambda: -x)
    tf.gradients(chosen, x)


GRAPHS: dict[str, Callable[[], object]] = {
    "branches and loops": branches_and_loops,
    "state": lambda: tf.assign_add(tf.Variable([1.0, 2.0], name="v"), [3.0, 4.0]),
    "strings and sparse": lambda: tf.sparse_tensor_to_dense(
        tf.SparseTensor([[0, 1]], ["é"], [1, 2]), ""
    ),
    "queues": lambda: tf.train.shuffle_batch([tf.constant(1)], 2, 10, 3),
    "nothing": lambda: None,
}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_a_graph_that_went_out_and_came_in_goes_out_as_the_same(make: Any) -> None:
    out = in_a_graph(make)
    with tf.Graph().as_default() as graph:
        assert tf.import_graph_def(out, name="") is None
    back = graph.as_graph_def()
    assert back.versions == out.versions
    assert {node.name: node for node in back.node} == {node.name: node for node in out.node}
    assert len(back.node) == len(out.node)


def test_inputs_are_written_with_controls_last_and_in_order(default: tf.Graph) -> None:
    a, b = tf.split(tf.constant([1.0, 2.0]), 2, name="split")
    controls = [tf.no_op(name=name) for name in "zay"]
    with tf.control_dependencies(controls):
        total = tf.add(b, a, name="total")
    assert [*node_def(total.op).input] == ["split:1", "split", "^a", "^y", "^z"]


def test_shapes_are_written_if_they_are_asked_for(default: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    assert "_output_shapes" not in graph_def(default).node[0].attr
    (node,) = graph_def(default, add_shapes=True).node
    (shape,) = node.attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [-1, 2]
    assert graph_def(default, ops=[]).node == graph_def(default, ops=[x.op]).node[1:]


def test_every_op_has_an_op_def_that_says_what_its_spec_does() -> None:
    for name, spec in OPS.items():
        proto = op_def(spec)
        assert proto.name == name
        assert [arg.name for arg in proto.input_arg] == [arg.name for arg in spec.inputs]
        assert [arg.name for arg in proto.output_arg] == [arg.name for arg in spec.outputs]
        assert [attr.name for attr in proto.attr] == [*spec.attrs]


# -- importing ------------------------------------------------------------------------------------

SUM = line(
    ("a", "Placeholder", []),
    ("b", "Placeholder", []),
    ("sum", "Add", ["a", "b", "^go"]),
    ("go", "NoOp", []),
)


def test_nodes_come_under_a_scope_and_are_found_by_the_names_they_had(default: tf.Graph) -> None:
    total, again, op = tf.import_graph_def(SUM, return_elements=["sum:0", "sum:0", b"sum"])
    assert total is again
    assert op is total.op
    assert op.name == "import/sum"
    assert [control.name for control in op.control_inputs] == ["import/go"]
    (second,) = tf.import_graph_def(SUM, return_elements=["sum"], name="x/y")
    assert second.name == "x/y/sum"
    (third,) = tf.import_graph_def(SUM, return_elements=["sum"])
    assert third.name == "import_1/sum"


def test_names_that_are_taken_get_numbers_and_so_do_groups_of_theirs(default: tf.Graph) -> None:
    tf.no_op(name="a")
    tf.no_op(name="b/inside")
    proto = line(("a", "Placeholder", []), ("b", "Placeholder", []), ("a_1", "Placeholder", []))
    proto.node[2].attr["_class"].list.s.append(b"loc:@a")
    names = ["a", "b", "a_1"]
    assert [op.name for op in tf.import_graph_def(proto, return_elements=names, name="")] == [
        "a_2",
        "b_1",
        "a_1",
    ]
    assert default.get_operation_by_name("a_1").colocation_groups() == [b"loc:@a_2"]
    assert tf.no_op(name="a_2").name == "a_2_1"


def test_inputs_may_be_taken_from_the_graph(default: tf.Graph) -> None:
    mine, ready = tf.constant(5.0), tf.no_op(name="ready")
    (total,) = tf.import_graph_def(
        SUM, {"a": mine, "b:0": 7.0, "^go": ready}, return_elements=["sum:0"]
    )
    assert total.op.inputs[0] is mine
    assert total.op.inputs[1].op.name.startswith("import/_inputs/")
    assert total.op.control_inputs == [ready]
    with tf.Session() as session:
        assert session.run(total) == 12.0


def test_devices_of_scopes_and_of_nodes_are_merged(default: tf.Graph) -> None:
    proto = line(("a", "Placeholder", []), ("b", "Placeholder", []))
    proto.node[0].device = "/job:w"
    with tf.device("/cpu:0"):
        a, b = tf.import_graph_def(proto, return_elements=["a", "b"])
    assert (a.device, b.device) == ("/job:w/device:CPU:0", "/device:CPU:0")


Import = Callable[[], Any]
REFUSED: dict[str, tuple[Import, type[Exception], str]] = {
    "no GraphDef": (lambda: tf.import_graph_def("text"), TypeError, "must be a GraphDef proto"),
    "an op that is not there": (
        lambda: tf.import_graph_def(line(("ok", "NoOp", []), ("n", "Unheard", []))),
        tf.errors.NotFoundError,
        "Op type not registered 'Unheard'.*node 'n'",
    ),
    "an input that is not there": (
        lambda: tf.import_graph_def(line(("ok", "NoOp", []), ("n", "Neg", ["m"]))),
        ValueError,
        "Node 'n': Unknown input node 'm'",
    ),
    "a control input that is not there": (
        lambda: tf.import_graph_def(line(("ok", "NoOp", []), ("n", "NoOp", ["^m"]))),
        ValueError,
        "Node 'n': Unknown input node '.m'",
    ),
    "an output that is not there": (
        lambda: tf.import_graph_def(line(("a", "Placeholder", []), ("n", "Neg", ["a:1"]))),
        ValueError,
        "'a' has 1 outputs",
    ),
    "too few inputs": (
        lambda: tf.import_graph_def(line(("a", "Placeholder", []), ("n", "Add", ["a"]))),
        ValueError,
        "NodeDef expected inputs 'float, float' do not match 1 inputs specified",
    ),
    "one name twice": (
        lambda: tf.import_graph_def(line(("a", "NoOp", []), ("a", "NoOp", []))),
        ValueError,
        "Node 'a' is not unique",
    ),
    "a name that is none": (
        lambda: tf.import_graph_def(line(("-a", "NoOp", []))),
        ValueError,
        "Node name contains invalid characters",
    ),
    "a cycle": (
        lambda: tf.import_graph_def(line(("a", "Neg", ["b"]), ("b", "Neg", ["a"]))),
        ValueError,
        "2 nodes in a cycle",
    ),
    "an input of another type": (
        lambda: tf.import_graph_def(SUM, {"a": tf.constant(1)}),
        ValueError,
        "Input 0 of node import/sum was passed int32 .* incompatible with expected float",
    ),
    "a map of what is not there": (
        lambda: tf.import_graph_def(SUM, {"nowhere": tf.constant(1.0)}),
        ValueError,
        "were not found in graph_def: .nowhere:0.",
    ),
    "a map that is none": (
        lambda: tf.import_graph_def(SUM, [("a", 1)]),
        TypeError,
        "`input_map` must be a dictionary",
    ),
    "wanting what is not there": (
        lambda: tf.import_graph_def(SUM, return_elements=["sum:1"]),
        ValueError,
        "return tensor 'sum:1' not found",
    ),
    "wanting what is no name": (
        lambda: tf.import_graph_def(SUM, return_elements=[3]),
        TypeError,
        "`return_elements` must be a list of strings",
    ),
}


@pytest.mark.parametrize(("call", "error", "phrase"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(
    default: tf.Graph, call: Import, error: type[Exception], phrase: str
) -> None:
    with pytest.raises(error, match=phrase):
        call()


@pytest.mark.parametrize(
    "which",
    [
        "an op that is not there",
        "an input that is not there",
        "too few inputs",
        "a cycle",
        "an output that is not there",
        "wanting what is not there",
    ],
)
def test_nothing_is_added_of_what_is_refused(default: tf.Graph, which: str) -> None:
    call, error, _ = REFUSED[which]
    before = tf.constant(1.0, name="before")
    with pytest.raises(error):
        call()
    assert default.get_operations() == [before.op]
    assert before.consumers() == []


def test_what_needs_a_newer_version_is_refused(default: tf.Graph) -> None:
    proto = line(("a", "NoOp", []))
    proto.versions.min_consumer = 10**6
    with pytest.raises(ValueError, match="min consumer version 1000000 above current"):
        tf.import_graph_def(proto)


def test_unknown_ops_may_be_kept_for_who_only_passes_them_on() -> None:
    proto = line(("a", "Unheard", []), ("b", "Unheard", ["a:2"]))
    graph = tf.Graph()
    Importer(graph, allow_unknown=True).add(proto)
    assert len(graph.get_operation_by_name("a").outputs) == 3
    assert [node.name for node in graph.as_graph_def().node] == ["a", "b"]
    assert [*graph.as_graph_def().node[1].input] == ["a:2"]


def test_attrs_with_defaults_may_be_left_out(default: tf.Graph) -> None:
    proto = line(("a", "Placeholder", []), ("b", "Placeholder", []), ("m", "MatMul", ["a", "b"]))
    (product,) = tf.import_graph_def(proto, return_elements=["m"])
    assert product.get_attr("transpose_a") is False
    del proto.node[0].attr["dtype"]
    with pytest.raises(ValueError, match=r"dtype.*node 'a' of the GraphDef"):
        tf.import_graph_def(proto)


def test_a_loop_is_imported_into_branches_and_loops(default: tf.Graph) -> None:
    """TensorFlow imports into a loop's body what it refuses to run."""

    def halved() -> None:
        x = tf.placeholder(tf.float32, [3], name="x")
        loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 0.5), [0, x])
        tf.identity(loop[1], name="y")

    proto = in_a_graph(halved)

    def eighth(x: tf.Tensor) -> tf.Tensor:
        (found,) = tf.import_graph_def(proto, input_map={"x:0": x}, return_elements=["y:0"])
        found.set_shape([3])
        result: tf.Tensor = found
        return result

    ones = tf.ones([3])
    branch = tf.cond(ones[0] > 0, lambda: eighth(ones), lambda: ones)
    loop = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, eighth(a)), [0, ones])[1]
    with tf.Session() as session:
        found = session.run([branch, loop])
    assert [each.tolist() for each in found] == [[0.125] * 3, [0.015625] * 3]
