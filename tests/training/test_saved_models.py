"""SavedModels: what is written, found again, refused; TensorFlow's are in tests/oracle/test_saved_models.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb


def doubling(session: Any = None) -> tuple[tf.Tensor, tf.Tensor]:
    """y = 2x by a variable, which has its value if there is a session."""
    x = tf.placeholder(tf.float32, [None], name="x")
    v = tf.get_variable("v", initializer=2.0)
    y = tf.multiply(x, v, name="y")
    if session is not None:
        session.run(v.initializer)
    return x, y


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The directory of a model that `simple_save` wrote."""
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = doubling(session)
        tf.saved_model.simple_save(session, tmp_path / "model", {"x": x}, {"y": y})
    return tmp_path / "model"


def test_a_model_is_loaded_by_its_tags_and_used_by_its_signature(saved: Path) -> None:
    assert tf.saved_model.maybe_saved_model_directory(saved)
    assert tf.saved_model.contains_saved_model(saved)
    with tf.Session(graph=tf.Graph()) as session:
        found = tf.saved_model.load(session, [tf.saved_model.SERVING], saved)
        signature = found.signature_def["serving_default"]
        assert tf.saved_model.is_valid_signature(signature)
        x = tf.saved_model.get_tensor_from_tensor_info(signature.inputs["x"])
        y = tf.saved_model.get_tensor_from_tensor_info(signature.outputs["y"])
        assert session.run(y, {x: [1.0, 4.0]}).tolist() == [2.0, 8.0]


def test_under_a_scope_a_model_can_be_loaded_twice(saved: Path) -> None:
    with tf.Session(graph=tf.Graph()) as session:
        for scope in ("a", "b"):
            tf.saved_model.loader.load(session, ["serve"], saved, import_scope=scope)
        session.run(tf.assign(tf.global_variables()[1], 5.0))
        assert session.run(["a/y:0", "b/y:0"], {"a/x:0": [1.0], "b/x:0": [1.0]}) == [[2.0], [5.0]]


def test_several_graphs_share_the_variables(tmp_path: Path) -> None:
    builder = tf.saved_model.Builder(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        doubling(session)
        builder.add_meta_graph_and_variables(session, ["train"])
        with pytest.raises(AssertionError, match="add_meta_graph"):
            builder.add_meta_graph_and_variables(session, ["train"])
    with tf.Graph().as_default():
        tf.square(tf.get_variable("v", initializer=0.0), name="z")
        builder.add_meta_graph(["serve", "gpu"])
    builder.save(as_text=True)
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.load(session, {"gpu", "serve"}, tmp_path)
        assert session.run("z:0") == 4.0
    with (
        tf.Session(graph=tf.Graph()) as session,
        pytest.raises(RuntimeError, match=r"'serve'.*\[\['train'\], \['gpu', 'serve'\]\]"),
    ):
        tf.saved_model.load(session, ["serve"], tmp_path)


def test_the_main_operation_runs_with_the_assets_where_they_are_now(tmp_path: Path) -> None:
    for folder, content in (("one", "a\nb"), ("two", "c")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "words.txt").write_text(content)
    with tf.Graph().as_default(), tf.Session() as session:
        paths = [tf.constant(str(tmp_path / each / "words.txt")) for each in ("one", "two")]
        text = tf.Variable("", collections=["local_variables"], name="text")
        read = text.assign(tf.read_file(paths[0]) + tf.read_file(paths[1]))
        builder = tf.saved_model.Builder(tmp_path / "model")
        builder.add_meta_graph_and_variables(
            session, ["serve"], assets_collection=paths, main_op=tf.group(read)
        )
        with pytest.raises(ValueError, match="already contains one or more main ops"):
            builder.add_meta_graph(["other"], main_op=tf.no_op())
        builder.save()
    for folder in ("one", "two"):
        (tmp_path / folder / "words.txt").unlink()
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.load(session, ["serve"], tmp_path / "model")
        assert session.run("text:0") == b"a\nbc"
    assets = sorted(path.name for path in (tmp_path / "model/assets").iterdir())
    assert assets == ["words.txt", "words.txt_1"]


def test_graphs_share_a_file_and_keep_others_of_its_name_apart(tmp_path: Path) -> None:
    for folder, content in (("one", "a"), ("two", "b"), ("three", "a")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text(content)
    builder = tf.saved_model.Builder(tmp_path / "model")
    for number, folder in enumerate(("one", "two", "three")):
        with tf.Graph().as_default(), tf.Session() as session:
            path = tf.constant(str(tmp_path / folder / "f"), name="path")
            text = tf.Variable("", collections=["local_variables"], name="text")
            main = tf.group(text.assign(tf.read_file(path)))
            given = {"tags": [folder], "assets_collection": [path], "main_op": main}
            if number:
                builder.add_meta_graph(**given)
            else:
                builder.add_meta_graph_and_variables(session, **given)
    builder.save()
    found = []
    for folder in ("one", "two", "three"):
        with tf.Session(graph=tf.Graph()) as session:
            tf.saved_model.load(session, [folder], tmp_path / "model")
            found.append(session.run("text:0"))
    assert found == [b"a", b"b", b"a"]
    assert sorted(p.name for p in (tmp_path / "model/assets").iterdir()) == ["f", "f_1"]


def test_directories_and_signatures_that_cannot_be(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.NotFoundError):
        tf.saved_model.Builder(tmp_path / "file")
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = doubling(session)
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = tf.saved_model.Builder(tmp_path / "other")
        for name in ("__saved_model_init_op", "__saved_model_train_op"):
            with pytest.raises(KeyError, match="reserved"):
                builder.add_meta_graph_and_variables(session, ["serve"], {name: signature})
        tf.add_to_collection("legacy_init_op", tf.no_op())
        with pytest.raises(ValueError, match="legacy_init_op"):
            builder.add_meta_graph_and_variables(session, ["serve"], main_op=tf.no_op())
    (saved / "saved_model.pb").unlink()
    (saved / "saved_model.pb").mkdir()
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError):
        tf.saved_model.load(session, ["serve"], saved)
    info = pb.TensorInfo()
    info.composite_tensor.type_spec.type_spec_class_name = "OfSomebody"
    with pytest.raises(ValueError, match="OfSomebody"):
        tf.saved_model.get_tensor_from_tensor_info(info)


def test_main_operations_initialize_what_is_not_saved(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.Variable(7.0, collections=["local_variables"], name="local")
        doubling(session)
        builder = tf.saved_model.builder.SavedModelBuilder(tmp_path)
        builder.add_meta_graph_and_variables(
            session, ["serve"], legacy_init_op=tf.saved_model.main_op.main_op()
        )
        builder.save()
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.load(session, ["serve"], tmp_path)
        assert session.run("local:0") == 7.0
    with tf.Graph().as_default():
        restore = tf.no_op(name="restore")
        made = tf.saved_model.main_op_with_restore(restore)
        assert {each.name for each in made.control_inputs} == {"restore", "group_deps"}


def test_a_model_without_variables_has_no_checkpoint(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.saved_model.simple_save(session, tmp_path, {"x": x}, {"y": tf.negative(x, name="y")})
    assert not list((tmp_path / "variables").iterdir())
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.load(session, ["serve"], tmp_path)
        assert session.run("y:0", {"x:0": 2.0}) == -2.0


@pytest.mark.parametrize(
    ("give", "error", "says"),
    [
        (lambda: {"main_op": 3}, TypeError, "Expected 3 to be an Operation"),
        (lambda: {"assets_collection": ["words"]}, TypeError, "must be a Tensor"),
        (lambda: {"assets_collection": [tf.constant(3)]}, TypeError, "dtype string"),
        (lambda: {"assets_collection": [tf.placeholder(tf.string)]}, TypeError, "Placeholder"),
        (lambda: {"assets_collection": [tf.constant("")]}, ValueError, "path is empty"),
        (lambda: {"assets_collection": [tf.constant(["a", "b"])]}, TypeError, "path of one file"),
        (
            lambda: {
                "signature_def_map": {"s": pb.SignatureDef(inputs={"x": pb.TensorInfo(dtype=1)})}
            },
            AssertionError,
            "'encoding'",
        ),
        (
            lambda: {
                "signature_def_map": {"s": pb.SignatureDef(inputs={"x": pb.TensorInfo(name="x")})}
            },
            AssertionError,
            "dtype field",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_saved(
    give: Any, error: type[Exception], says: str, tmp_path: Path
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        doubling(session)
        builder = tf.saved_model.Builder(tmp_path)
        with pytest.raises(error, match=says):
            builder.add_meta_graph_and_variables(session, ["serve"], **give())
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(AssertionError, match="add_meta_graph_and_variables"):
            builder.add_meta_graph(["serve"])


def test_variables_without_values_and_used_directories_are_refused(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        doubling()
        builder = tf.saved_model.Builder(tmp_path / "new")
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
            builder.add_meta_graph_and_variables(session, ["serve"])
    (tmp_path / "used").write_text("")
    with pytest.raises(AssertionError, match="isn't empty"):
        tf.saved_model.Builder(tmp_path)


@pytest.mark.parametrize("name", ["saved_model.pb", "saved_model.pbtxt"])
def test_a_damaged_file_is_named(name: str, saved: Path) -> None:
    (saved / "saved_model.pb").unlink()
    with tf.Session(graph=tf.Graph()) as session:
        with pytest.raises(OSError, match="does not exist at"):
            tf.saved_model.load(session, ["serve"], saved)
        (saved / name).write_bytes(b"junk\xff")
        with pytest.raises(OSError, match=f"Cannot parse file .*{name}"):
            tf.saved_model.load(session, ["serve"], saved)


def test_a_lost_checkpoint_is_named(saved: Path) -> None:
    (saved / "variables/variables.index").unlink()
    with (
        tf.Session(graph=tf.Graph()) as session,
        pytest.raises(ValueError, match="variables/variables"),
    ):
        tf.saved_model.load(session, ["serve"], saved)


def test_signatures_say_what_they_need() -> None:
    with tf.Graph().as_default():
        text, numbers = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
        model = tf.saved_model
        cases: list[tuple[Any, str]] = [
            (lambda: model.predict_signature_def({}, {"y": numbers}), "inputs"),
            (lambda: model.predict_signature_def({"x": numbers}, {}), "outputs"),
            (lambda: model.regression_signature_def(None, numbers), "examples"),
            (lambda: model.regression_signature_def(text, None), "predictions"),
            (lambda: model.regression_signature_def(numbers, numbers), "string.*float32"),
            (lambda: model.regression_signature_def(text, text), "float32.*string"),
            (lambda: model.classification_signature_def(None, text, None), "examples"),
            (lambda: model.classification_signature_def(text, None, None), "both be None"),
            (lambda: model.classification_signature_def(text, numbers, None), "string.*float32"),
            (lambda: model.classification_signature_def(text, text, text), "float32.*string"),
        ]
        for make, says in cases:
            with pytest.raises(ValueError, match=says):
                make()


def test_signatures_that_serving_takes() -> None:
    model = tf.saved_model
    with tf.Graph().as_default():
        text, numbers = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
        info = model.build_tensor_info
        valid = [
            model.predict_signature_def({"x": numbers}, {"y": text}),
            model.regression_signature_def(text, numbers),
            model.classification_signature_def(text, text, numbers),
            model.classification_signature_def(text, None, numbers),
        ]
        invalid = [
            None,
            model.build_signature_def(),
            model.build_signature_def(
                {"inputs": info(text)}, {"outputs": info(text)}, model.REGRESS_METHOD_NAME
            ),
            model.build_signature_def({"inputs": info(text)}, {}, model.CLASSIFY_METHOD_NAME),
            model.build_signature_def(
                {"inputs": info(text)}, {"y": info(text)}, model.CLASSIFY_METHOD_NAME
            ),
            model.build_signature_def({}, {"y": info(text)}, model.PREDICT_METHOD_NAME),
        ]
        assert [model.is_valid_signature(each) for each in valid] == [True] * len(valid)
        assert [model.is_valid_signature(each) for each in invalid] == [False] * len(invalid)


def test_sparse_tensors_are_found_again() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.sparse_placeholder(tf.float32, [2, 3], name="sparse")
        info = tf.saved_model.build_tensor_info(sparse)
        found = tf.saved_model.get_tensor_from_tensor_info(info)
        fed = tf.SparseTensorValue([[0, 1]], [5.0], [2, 3])
        assert np.asarray(session.run(found.values, {sparse: fed})).tolist() == [5.0]
        with pytest.raises(ValueError, match="encoding: None"):
            tf.saved_model.get_tensor_from_tensor_info(pb.TensorInfo())
        with pytest.raises(KeyError, match="lost"):
            tf.saved_model.get_tensor_from_tensor_info(pb.TensorInfo(name="lost:0"))
