"""Meta graphs: exported, imported, in scopes, with their collections and savers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.training import meta_graph, meta_graph_import
from headrace.training.saver.imported import import_with_elements


def model() -> tf.Tensor:
    """A variable of each kind, a queue runner, a loop with a branch inside; the gradient's result."""
    x = tf.placeholder_with_default(np.float32(2.0), [], name="x")
    v = tf.get_variable("v", initializer=3.0)
    r = tf.get_variable("r", initializer=1.5, use_resource=True, trainable=False)
    queue = tf.FIFOQueue(3, [tf.float32], name="queue")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1.0)]))

    def body(i: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        return [i + 1, tf.cond(i > 1, lambda: y * x, lambda: y + v * r)]

    _, y = tf.while_loop(lambda i, y: i < 4, body, [0, x])
    y = tf.identity(y, name="y")
    tf.add_to_collection("results", y)
    for value in (3, 2.5, b"text"):
        tf.add_to_collection(f"a {type(value).__name__}", value)
    return y


def test_what_is_exported_is_imported(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        y = model()
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        expected = session.run([y, *tf.gradients(y, [tf.global_variables()[0]])])
        path = saver.save(session, str(tmp_path / "model"))
    with tf.Graph().as_default() as graph, tf.Session() as session:
        restorer = tf.train.import_meta_graph(path + ".meta")
        assert isinstance(restorer, tf.train.Saver)
        restorer.restore(session, path)
        (y,) = tf.get_collection("results")
        variables = tf.global_variables()
        assert [v.name for v in variables] == ["v:0", "r:0"]
        assert tf.trainable_variables() == variables[:1]
        assert [type(v).__name__ for v in variables] == ["Variable", "ResourceVariable"]
        assert session.run([y, *tf.gradients(y, variables[0])]) == expected
        (runner,) = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        assert runner.queue.name == "queue"
        assert tf.get_collection("a int") == [3]
        assert tf.get_collection("a float") == [2.5]
        assert tf.get_collection("a bytes") == [b"text"]
        assert graph.get_collection(tf.GraphKeys.WHILE_CONTEXT)[0].name == "while/while_context"


def test_a_graph_is_imported_twice_in_scopes_of_their_own() -> None:
    with tf.Graph().as_default():
        model()
        exported = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as session:
        results = []
        for scope in ("a", "b", "a"):
            saver = tf.train.import_meta_graph(exported, import_scope=scope)
            assert saver is not None
        assert [v.name for v in tf.global_variables()] == [
            f"{scope}/{name}:0" for scope in ("a", "b", "a_1") for name in "vr"
        ]
        session.run(tf.global_variables_initializer())
        for y, v in zip(tf.get_collection("results"), tf.trainable_variables(), strict=True):
            results.append(session.run([y, *tf.gradients(y, [v])]))
        assert results == [results[0]] * 3
        assert tf.get_collection("a bytes") == ["a/text", "b/text", "a_1/text"]


def test_what_a_scope_holds_is_exported_by_itself() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        with tf.variable_scope("inner"):
            v = tf.get_variable("v", initializer=[1.0, 2.0])
            tf.add_to_collection("out", tf.add(x, v, name="sum"))
        tf.add_to_collection("out", x)
        exported, variables = meta_graph.export_scoped_meta_graph(export_scope="inner")
        assert variables == {"v:0": v}
        assert graph.get_collection("unbound_inputs") == ["$unbound_inputs_x"]
    (total,) = [node for node in exported.graph_def.node if node.name == "sum"]
    assert list(total.input) == ["$unbound_inputs_x", "v/read"]
    assert exported.collection_def["out"].node_list.value == ["sum:0"]
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match=r"unbound inputs: \$unbound_inputs_x"):
            tf.train.import_meta_graph(exported)
        given = {"$unbound_inputs_x": tf.constant([10.0, 20.0])}
        found = meta_graph_import.import_scoped_meta_graph(
            exported, import_scope="s", input_map=given
        )
        assert [*found] == ["v:0"]
        session.run(tf.global_variables_initializer())
        (out,) = tf.get_collection("out")
        assert out.name == "s/sum:0"
        assert session.run(out).tolist() == [11.0, 22.0]


def test_devices_defaults_and_other_savers_are_left_out() -> None:
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:1"):
            tf.get_variable("v", initializer=1.0)
        first, second = tf.train.Saver(), tf.train.Saver()
        for saver in (first, second):
            tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        whole = tf.train.export_meta_graph(saver_def=first.saver_def)
        bare = tf.train.export_meta_graph(
            saver_def=first.saver_def,
            clear_devices=True,
            clear_extraneous_savers=True,
            strip_default_attrs=True,
        )
    assert any(node.device for node in whole.graph_def.node)
    assert not any(node.device for node in bare.graph_def.node)
    assert any(node.name.startswith("save_1/") for node in whole.graph_def.node)
    assert {node.name for node in whole.graph_def.node} - {
        node.name for node in bare.graph_def.node
    } == {node.name for node in whole.graph_def.node if node.name.startswith("save_1/")}
    assert len(bare.collection_def["savers"].bytes_list.value) == 1
    variables = [
        next(node for node in found.graph_def.node if node.name == "v") for found in (whole, bare)
    ]
    assert "container" in variables[0].attr
    assert "container" not in variables[1].attr
    assert bare.meta_info_def.stripped_default_attrs


def test_text_files_and_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    with tf.Graph().as_default():
        tf.constant(1.0, name="c")
        written = tf.train.export_meta_graph(str(path), as_text=True)
    assert meta_graph_import.read_meta_graph_file(str(path)) == written
    with tf.Graph().as_default() as graph:
        assert tf.train.import_meta_graph(str(path)) is None
        assert [op.name for op in graph.get_operations()] == ["c"]
        path.write_text("hello world")
        with pytest.raises(OSError, match="Cannot parse file"):
            tf.train.import_meta_graph(str(path))
        with pytest.raises(OSError, match="does not exist"):
            tf.train.import_meta_graph(str(tmp_path / "none.meta"))
        with pytest.raises(TypeError, match="saver_def must be of type SaverDef"):
            tf.train.export_meta_graph(saver_def=pb.GraphDef())


def test_elements_are_returned_beside_the_saver() -> None:
    with tf.Graph().as_default():
        tf.constant(1.0, name="c")
        exported = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        saver, elements = import_with_elements(exported, return_elements=["c:0"])
        assert saver is None
        assert elements is not None
        assert [each.name for each in elements] == ["c:0"]
        assert tf.train.import_meta_graph(exported, return_elements=["c:0"]) is None


def test_the_directory_of_a_file_is_made(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        tf.train.export_meta_graph(str(tmp_path / "a/b/c.meta"))
        with pytest.raises(tf.errors.FailedPreconditionError):
            tf.train.import_meta_graph(str(tmp_path))
        assert tf.train.import_meta_graph(str(tmp_path / "a/b/c.meta")) is None


def test_a_damaged_collection_is_named() -> None:
    with tf.Graph().as_default():
        tf.get_variable("v", initializer=1.0)
        exported = tf.train.export_meta_graph()
    exported.collection_def["variables"].bytes_list.value.append(b"\xff damaged")
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"'variables'.*no VariableDef"):
        tf.train.import_meta_graph(exported)


def test_a_saver_without_variables_of_its_own_follows_its_scope() -> None:
    with tf.Graph().as_default():
        tf.get_variable("v", initializer=1.0)
        saver_def = tf.train.Saver().saver_def
        exported = tf.train.export_meta_graph(saver_def=saver_def, collection_list=[])
    with tf.Graph().as_default():
        savers = [tf.train.import_meta_graph(exported, import_scope="s") for _ in range(2)]
        names = [saver.saver_def.save_tensor_name for saver in savers]
    assert names == ["s/save/control_dependency:0", "s_1/save/control_dependency:0"]
