"""The table of TensorFlow's modules: every row leads somewhere, and what headrace has is found at its old addresses."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.base.missing import exists, tensorflow_names
from headrace.graph.registry import OPS
from headrace.graph.schemas import MISSING
from headrace.library.contrib import attention
from headrace.library.contrib.legacy_seq2seq import feeding
from headrace.library.contrib.rnn_weights import Linear, linear
from headrace.training.documents import VocabularyProcessor
from headrace.unmodified import facade, table
from headrace.unmodified.raw_functions import raw_function

WRITTEN_BY_HAND = [(module, word) for module, words in table._read("rows.txt") for word in words]
LEADS = [
    ("python.framework.ops", "Tensor", tf.Tensor),
    ("python.framework.tensor_util", "MakeNdarray", tf.make_ndarray),
    ("python.framework.dtypes", "float32", tf.float32),
    ("python.framework.errors_impl", "OutOfRangeError", tf.errors.OutOfRangeError),
    ("python.ops.array_ops", "reshape", tf.reshape),
    ("python.ops.math_ops", "reduce_sum", tf.reduce_sum),
    ("python.ops.nn_ops", "softmax", tf.nn.softmax),
    ("python.ops.nn", "relu", tf.nn.relu),
    ("python.ops.control_flow_ops", "while_loop", tf.while_loop),
    ("python.ops.variables", "Variable", tf.Variable),
    ("python.ops.variable_scope", "get_variable", tf.get_variable),
    ("python.ops.rnn", "dynamic_rnn", tf.nn.dynamic_rnn),
    ("python.ops.rnn_cell_impl", "LSTMCell", tf.nn.rnn_cell.LSTMCell),
    ("python.ops.rnn_cell_impl", "LayerRNNCell", tf.contrib.rnn.LayerRNNCell),
    ("python.ops.rnn_cell_impl", "_linear", linear),
    ("python.ops.rnn", "_transpose_batch_time", tf.contrib.rnn.transpose_batch_time),
    ("contrib.rnn.python.ops.core_rnn_cell", "_Linear", Linear),
    ("contrib.seq2seq.python.ops.attention_wrapper", "_BaseAttentionMechanism", attention.Mechanism),
    ("contrib.seq2seq.python.ops.attention_wrapper", "_bahdanau_score", attention.bahdanau_score),
    ("contrib.seq2seq.python.ops.attention_wrapper", "_compute_attention", attention.compute_attention),
    ("contrib.legacy_seq2seq.python.ops.seq2seq", "_extract_argmax_and_embed", feeding),
    ("contrib.data.python.ops.batching", "map_and_batch", tf.data.experimental.map_and_batch),
    ("contrib.data.python.ops.interleave_ops", "sloppy_interleave", tf.contrib.data.sloppy_interleave),
    ("contrib.opt.python.training.weight_decay_optimizers", "AdamWOptimizer", tf.contrib.opt.AdamWOptimizer),
    ("contrib.lookup.lookup_ops", "index_table_from_file", tf.contrib.lookup.index_table_from_file),
    ("contrib.framework", "CriticalSection", tf.CriticalSection),
    ("contrib.image.python.ops.image_ops", "rotate", tf.contrib.image.rotate),
    ("contrib.image.python.ops.dense_image_warp", "dense_image_warp", tf.contrib.image.dense_image_warp),
    ("python.ops.script_ops", "py_func", tf.py_func),
    ("python.ops.data_flow_ops", "FIFOQueue", tf.FIFOQueue),
    ("python.ops.data_flow_ops", "dynamic_stitch", tf.dynamic_stitch),
    ("python.training.server_lib", "Server", tf.train.Server),
    ("python.training.optimizer", "Optimizer", tf.train.Optimizer),
    ("python.training.training", "batch", tf.train.batch),
    ("python.client.session", "Session", tf.Session),
    ("python.platform.gfile", "Exists", tf.gfile.Exists),
    ("python.platform.app", "run", tf.app.run),
    ("python.platform.flags", "DEFINE_string", tf.flags.DEFINE_string),
    ("python.platform.tf_logging", "info", tf.logging.info),
    ("python.util.nest", "flatten", tf.nest.flatten),
    ("python.util.compat", "as_bytes", tf.compat.as_bytes),
    ("python.lib.io.tf_record", "TFRecordWriter", tf.python_io.TFRecordWriter),
    ("python.layers.core", "dense", tf.layers.dense),
    ("python.distribute.cluster_resolver", "UnionClusterResolver", tf.distribute.cluster_resolver.UnionResolver),
    ("python.distribute.cluster_resolver.tfconfig_cluster_resolver", "TFConfigClusterResolver",
     tf.distribute.cluster_resolver.TFConfigClusterResolver),
    ("contrib.rnn", "BasicLSTMCell", tf.nn.rnn_cell.BasicLSTMCell),
    ("contrib.rnn.python.ops.rnn_cell", "NASCell", tf.contrib.rnn.NASCell),
    ("contrib.rnn.python.ops.core_rnn_cell", "_linear", linear),
    ("contrib.seq2seq.python.ops.decoder", "dynamic_decode", tf.contrib.seq2seq.dynamic_decode),
    ("contrib.legacy_seq2seq.python.ops.seq2seq", "rnn_decoder", tf.contrib.legacy_seq2seq.rnn_decoder),
    ("contrib.training.python.training.hparam", "HParams", tf.contrib.training.HParams),
    ("contrib.crf.python.ops.crf", "viterbi_decode", tf.contrib.crf.viterbi_decode),
    ("python.estimator.estimator", "Estimator", tf.estimator.Estimator),
    ("python.estimator.inputs.numpy_io", "numpy_input_fn", tf.estimator.inputs.numpy_input_fn),
    ("python.estimator.export.export", "ServingInputReceiver", tf.estimator.export.ServingInputReceiver),
    ("python.estimator.canned.dnn", "DNNClassifier", tf.estimator.DNNClassifier),
    ("contrib.tpu.python.tpu.tpu_estimator", "TPUEstimator", tf.contrib.tpu.TPUEstimator),
    ("contrib.learn.python.learn.preprocessing.text", "VocabularyProcessor", VocabularyProcessor),
    ("contrib.framework", "get_or_create_global_step", tf.train.get_or_create_global_step),
    ("core.framework.graph_pb2", "GraphDef", tf.GraphDef),
    ("core.protobuf.config_pb2", "ConfigProto", tf.ConfigProto),
    ("core.example.example_pb2", "Example", tf.train.Example),
    ("core.framework.types_pb2", "DT_FLOAT", 1),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name", "thing"), LEADS)
def test_what_headrace_has_is_found_where_programs_look(
    module: str, name: str, thing: object
) -> None:
    found = facade.module_at(module)
    assert found is not None
    assert getattr(found, name) == thing
    assert hasattr(found, "__path__") or found.__name__.startswith("headrace")


def test_public_namespaces_are_the_modules_themselves() -> None:
    for path in ("", "compat.v1", "compat.v1.compat.v1"):
        assert facade.module_at(path) is tf
    for path in ("train", "compat.v1.train", "_api.v1.train"):
        assert facade.module_at(path) is tf.train
    assert facade.module_at("nn.rnn_cell") is tf.nn.rnn_cell
    assert facade.module_at("python.client.timeline") is tf.python.client.timeline


@pytest.mark.parametrize("path", ["Session", "nothing", "keras", "contrib.kafka", "train.batch"])
def test_what_is_no_module_is_none(path: str) -> None:
    assert facade.module_at(path) is None


def test_names_beneath_python_and_contrib_are_there_without_the_launcher() -> None:
    assert tf.python.framework.ops.Tensor is tf.Tensor
    assert tf.python.ops.data_flow_ops.dynamic_partition is tf.dynamic_partition
    assert tf.contrib.rnn.rnn_cell is tf.nn.rnn_cell
    assert tf.contrib.framework.nest.flatten is tf.nest.flatten
    assert "reshape" in dir(tf.python.ops.array_ops)


def test_a_public_name_is_found_as_soon_as_headrace_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here with a name that is not there yet; without a second edit of the table."""
    row = table.rows()["python.framework.test_util"]
    monkeypatch.setitem(row.names, "soon", "train.of_tomorrow")
    module = facade.module_at("python.framework.test_util")
    assert not hasattr(module, "soon")
    with pytest.raises(AttributeError, match=r"headrace does not have tf\.train\.of_tomorrow"):
        module.soon  # type: ignore[union-attr]  # noqa: B018
    monkeypatch.setattr(tf.train, "of_tomorrow", 3, raising=False)
    assert module.soon == 3  # type: ignore[union-attr]
    del module.soon  # type: ignore[union-attr]


@pytest.mark.parametrize("module", sorted({module for module, _ in WRITTEN_BY_HAND}))
def test_rows_written_by_hand_lead_somewhere(module: str) -> None:
    """To what headrace has, or to a public name of TensorFlow that it lacks."""
    for word in [word for at, word in WRITTEN_BY_HAND if at == module]:
        name, _, target = word.partition("=")
        target = target or name
        if word[0] == "*":
            assert word[1:] in table.rows()
        elif word[0] == "%":
            assert importlib.import_module(f"headrace.{word[1:]}")
        elif target[0] == "@" or module.startswith("core."):
            assert facade.beneath(module, name) is not None
        elif target[0] == ":":
            assert facade.module_at(target[1:]) is not None or target[1:].startswith("contrib.")
        else:
            lacking = ("train.SummaryWriter", "contrib.")  # of 0.x; of namespaces of headrace
            assert target in tensorflow_names() or target.startswith(lacking) or exists(target)


def test_the_table_is_large() -> None:
    rows = table.rows()
    assert sum(len(row.names) for row in rows.values()) > 3500
    assert sum(len(row.ops) for row in rows.values()) > 1500
    assert {"python.ops", "python.training", "contrib", "core.framework"} <= rows.keys()


def test_the_files_are_not_read_by_importing_headrace() -> None:
    import subprocess
    import sys

    source = "import sys, headrace; print([m for m in sys.modules if 'unmodified' in m or m.endswith('.replaced')])"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


OPS_OF_MODULES = sorted(
    {
        (form, name, module)
        for module, row in table.rows().items()
        for name, form in row.ops.items()
        if form.partition("(")[0] in OPS and name[0].islower()
    }
)


def test_functions_of_most_ops_are_there() -> None:
    assert len(OPS_OF_MODULES) > 500


@pytest.mark.parametrize(("form", "name", "module"), OPS_OF_MODULES, ids=lambda each: str(each))
def test_each_function_of_an_op_takes_exactly_its_inputs_and_attrs(
    form: str, name: str, module: str
) -> None:
    """So that none is lost and none is made up; attrs that inputs tell are not parameters."""
    function = facade.beneath(module, name)
    op, _, listed = form.rstrip(")").partition("(")
    spec = OPS[op]
    parameters = list(inspect.signature(function).parameters)
    assert parameters[-1] == "name"
    meant = [word.rpartition("=")[2] for word in filter(None, listed.split(","))]
    inputs = {arg.name for arg in spec.inputs}
    assert inputs <= {*meant}
    told = {arg.type_attr for arg in spec.inputs} | {arg.number_attr for arg in spec.inputs}
    told |= {arg.type_list_attr for arg in spec.inputs}
    attrs = {*spec.attrs} - told
    assert {*meant} - inputs <= attrs
    later = attrs - {*meant}  # which the op has got since 1.15
    assert all(spec.attrs[attr].default is not MISSING for attr in later)


def test_a_function_of_an_op_makes_its_node() -> None:
    from headrace.python.ops import data_flow_ops  # noqa: F401  (a real module beside facades)

    module: Any = facade.module_at("python.ops.gen_math_ops")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        by_place = module._sum([[1.0, 2.0]], 1, True, "total")
        by_name = module._sum(axis=0, input=[[1.0, 2.0]], name="again")
        assert (by_place.op.name, by_place.op.type) == ("total", "Sum")
        assert session.run([by_place, by_name])[0].tolist() == [[3.0]]
        assert graph.get_operation_by_name("again").get_attr("keep_dims") is False
        assert (
            module.mat_mul([[1.0]], [[2.0]], transpose_b=None).op.get_attr("transpose_b") is False
        )
        assert module.Add(x=1, y=2).op.type == "Add"


def test_several_outputs_come_as_a_named_tuple_and_none_as_the_operation() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        array: Any = facade.module_at("python.ops.gen_array_ops")
        found = array.unique([1, 1, 2])
        assert found._fields == ("y", "idx")
        assert session.run(found.y).tolist() == [1, 2]
        parts = array.split(0, [1, 2, 3, 4], num_split=2)
        assert [session.run(each).tolist() for each in parts] == [[1, 2], [3, 4]]
        nothing: Any = facade.module_at("python.ops.gen_control_flow_ops")
        assert nothing.no_op().type == "NoOp"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f: f(), r"sum\(\) missing 1 required positional argument: 'input'; it is _sum\(input"),
        (lambda f: f([1.0], 0, colour=3), r"unexpected keyword argument 'colour'.*_sum\(input, axis, keep_dims"),
        (lambda f: f([1.0], 0, False, "n", 5), r"too many positional arguments"),
        (lambda f: f([1.0], 0, keep_dims="x"), "keep_dims"),
    ],
)  # fmt: skip
def test_bad_arguments_are_type_errors_that_show_the_parameters(call: Any, said: str) -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError, match=said):
        call(raw_function("_sum", "Sum(input,axis=reduction_indices,keep_dims)"))


def test_an_op_that_headrace_lacks_has_no_function() -> None:
    assert raw_function("x", "NoSuchOpAtAll(x)") is None


def test_the_tables_are_installed_with_the_package() -> None:
    folder = Path(table.__file__).parent
    assert {path.name for path in folder.glob("*.txt")} == {
        "modules.txt",
        "raw_ops.txt",
        "rows.txt",
    }
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert '"*.txt"' in text
