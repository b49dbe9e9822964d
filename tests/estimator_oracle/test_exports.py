"""SavedModels and checkpoints: signatures, files, and that either side reads the other's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from tests.estimator_oracle.runner import executed

SETUP = """
E, M, X = tf.estimator, tf.estimator.ModeKeys, tf.estimator.export

def model(outputs):
    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(2.0))
        y = tf.multiply(features["x"], w, name="product")
        if mode == M.PREDICT:
            return E.EstimatorSpec(mode, predictions={"y": y}, export_outputs=outputs(y))
        loss = tf.reduce_mean(tf.square(y - (0.0 if labels is None else labels)))
        train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, tf.train.get_global_step())
        return E.EstimatorSpec(mode, predictions={"y": y}, loss=loss, train_op=train_op,
                               eval_metric_ops={"mean": tf.metrics.mean(y)})
    return model_fn

def input_fn():
    return tf.data.Dataset.from_tensors(({"x": np.float32([1, 2])}, np.float32([3, 6]))).repeat()

def trained(outputs=lambda y: None, steps=2):
    one = E.Estimator(model(outputs), os.path.join(folder, "model"))
    return one.train(input_fn, steps=steps)

def raw():
    x = tf.placeholder(tf.float32, [None], name="x")
    return X.ServingInputReceiver({"x": x}, {"x": x})

def parsing():
    return X.build_parsing_serving_input_receiver_fn({"x": tf.FixedLenFeature([], tf.float32)})()

def alternatives():
    x, s, b = (tf.placeholder(t, [None], name=n) for t, n in ((tf.float32, "x"), (tf.string, "s"), (tf.bool, "b")))
    return X.ServingInputReceiver({"x": tf.where(b, x, 2 * x)}, {"x": x, "b": b}, {
        "other": {"b": b, "x": x, "s": s}, "lacking": x, "unread": s})

def signatures(path, tag="serve"):
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, [tag], path)
        value = session.run("product:0", {"x:0": [1.0, 4.0]}) if "x" in {n.name for n in loaded.graph_def.node} else 0
    return [{key: [each.method_name, {k: [v.name, v.dtype] for k, v in each.inputs.items()},
                   {k: [v.name, v.dtype] for k, v in each.outputs.items()}]
             for key, each in loaded.signature_def.items()}, sorted(loaded.collection_def), value]
"""

OUTPUTS = [
    ("None", "raw"),
    ("{'a': X.PredictOutput(y), 'serving_default': X.RegressionOutput(y)}", "raw"),
    (
        "{'a': X.PredictOutput(y), 'serving_default': X.RegressionOutput(y), 'c': X.ClassificationOutput(y)}",
        "parsing",
    ),
    ("{'a': X.RegressionOutput(y)}", "raw"),
    ("{}", "raw"),
]


@pytest.mark.parametrize(("outputs", "receiver"), OUTPUTS)
def test_signatures_files_and_collections_are_the_same(
    agree: Any, outputs: str, receiver: str
) -> None:
    agree(
        SETUP
        + f"""
path = trained(lambda y: {outputs}).export_saved_model(os.path.join(folder, "out"), {receiver})
result = [isinstance(path, bytes), files(path.decode()), signatures(path)]
"""
    )


def test_alternatives_that_lack_what_the_model_needs_have_no_signature(agree: Any) -> None:
    found = agree(
        SETUP
        + """
path = trained().export_saved_model(os.path.join(folder, "out"), alternatives)
with tf.Graph().as_default(), tf.Session() as session:
    result = sorted(tf.saved_model.loader.load(session, ["serve"], path).signature_def)
"""
    )
    assert found == ["other:serving_default", "serving_default"]


def test_a_graph_is_exported_for_each_mode(agree: Any) -> None:
    agree(
        SETUP
        + """
def supervised():
    x, y = (tf.placeholder(tf.float32, [None], name=name) for name in ("x", "y"))
    receiver = X.ServingInputReceiver({"x": x}, {"x": x, "y": y})
    class WithLabels:
        features, labels, receiver_tensors = receiver.features, y, receiver.receiver_tensors
    return WithLabels
one = trained()
path = one.experimental_export_all_saved_models(os.path.join(folder, "out"), {
    M.TRAIN: supervised, M.EVAL: supervised, M.PREDICT: raw})
result = [files(path.decode()), [signatures(path, tag) for tag in ("train", "eval", "serve")]]
"""
    )


def test_extra_assets_text_and_older_names(agree: Any) -> None:
    agree(
        SETUP
        + """
one = trained()
source = os.path.join(folder, "words.txt")
with open(source, "w") as words:
    words.write("a b")
path = one.export_savedmodel(os.path.join(folder, "out"), raw, {"lists/words.txt": source}, as_text=True,
                             checkpoint_path=os.path.join(folder, "model", "model.ckpt-0"))
result = [files(path.decode()), signatures(path)[2]]
"""
    )


REFUSED = [
    ("trained().export_saved_model(folder, len)", ""),
    (
        "trained().experimental_export_all_saved_models(folder, {})",
        "No valid modes for exporting found. Got ",
    ),
    (
        "trained().export_saved_model(folder, raw, checkpoint_path='/nope/x')",
        "The passed save_path is not a valid checkpoint: /nope/x",
    ),
    (
        "trained().export_saved_model(folder, raw, assets_extra={'a': '/nope/x'})",
        "/nope/x; No such file or directory",
    ),
    (
        "X.ServingInputReceiver({'a': 3}, tf.constant(1))",
        "feature a must be a Tensor, SparseTensor, or RaggedTensor.",
    ),
    ("X.ServingInputReceiver(None, tf.constant(1))", "features must be defined."),
    ("X.ServingInputReceiver({'a': tf.constant(1)}, None)", "receiver_tensors must be defined."),
    (
        "X.ServingInputReceiver({'a': tf.constant(1)}, {3: tf.constant(1)})",
        "receiver_tensor keys must be strings: 3.",
    ),
    (
        "X.ServingInputReceiver({'a': tf.constant(1)}, {'b': 3})",
        "receiver_tensor b must be a Tensor, SparseTensor, or RaggedTensor.",
    ),
    (
        "X.ServingInputReceiver({'a': tf.constant(1)}, tf.constant(1), 3)",
        "receiver_tensors_alternatives must be a dict: 3.",
    ),
    (
        "X.ServingInputReceiver({'a': tf.constant(1)}, tf.constant(1), {'b': 3})",
        "receiver_tensors_alternative input must be a Tensor, SparseTensor, or RaggedTensor.",
    ),
    (
        "X.TensorServingInputReceiver({'a': tf.constant(1)}, 3)",
        "feature must be a Tensor, SparseTensor, or",
    ),
    ("X.TensorServingInputReceiver(None, 3)", "features must be defined."),
    ("list(X.ServingInputReceiver(tf.constant(1), tf.constant(1)).features)", ""),
    ("list(X.TensorServingInputReceiver(tf.constant(1), tf.constant(1)).receiver_tensors)", ""),
    (
        "nodes(X.build_raw_serving_input_receiver_fn({'a': tf.zeros([2, 3]), 'b': tf.zeros([2])}))",
        "",
    ),
    (
        "nodes(X.build_raw_serving_input_receiver_fn({'a': tf.zeros([]), 'b': tf.zeros([2])}, 4))",
        "",
    ),
    ("nodes(X.build_parsing_serving_input_receiver_fn({'a': tf.VarLenFeature(tf.string)}, 4))", ""),
]
NODES = """
def nodes(receiver_fn):
    receiver = receiver_fn()
    return [[op.name, op.type] for op in tf.get_default_graph().get_operations()], {
        name: [each.name, str(each.shape), each.dtype.name] for name, each in receiver.receiver_tensors.items()}
"""


@pytest.mark.parametrize(("made", "phrase"), REFUSED)
def test_receivers_are_made_and_exports_refused_alike(agree: Any, made: str, phrase: str) -> None:
    if made.endswith("(folder, len)"):
        phrase = "len() takes exactly one argument (0 given)"
    agree(SETUP + NODES + f"result = attempt(lambda: {made}, {phrase!r})")


GO_ON = (
    SETUP
    + "one = trained(steps=2)\nresult = [one.get_variable_value('w'), checkpoints(one.model_dir)]"
)
READ = SETUP + "result = signatures(path)"
EXPORT = SETUP + "result = trained().export_saved_model(os.path.join(folder, 'out'), raw).decode()"


@pytest.mark.parametrize("ours_first", [True, False])
def test_a_training_is_handed_over_by_its_directory(
    both: Any, tmp_path: Path, ours_first: bool
) -> None:
    def on(ours: bool, folder: Path) -> Any:
        if ours:
            return json.loads(json.dumps(executed(GO_ON, tf, str(folder), {})))
        return both.peer.run(GO_ON, str(folder), {})

    on(ours_first, tmp_path / "two")
    handed = on(not ours_first, tmp_path / "two")
    on(True, tmp_path / "one")
    alone = on(True, tmp_path / "one")
    assert handed[0] == pytest.approx(alone[0])
    assert handed[1] == alone[1] == [f"model.ckpt-{step}" for step in (0, 2, 4)]


def test_each_side_reads_what_the_other_exported(both: Any, tmp_path: Path) -> None:
    ours = executed(EXPORT, tf, str(tmp_path / "ours"), {})
    theirs = both.peer.run(EXPORT, str(tmp_path / "theirs"), {})
    read = [
        json.loads(json.dumps(executed(READ, tf, str(tmp_path), {"path": theirs}))),
        both.peer.run(READ, str(tmp_path), {"path": ours}),
    ]
    assert read[0][0] == read[1][0]
    assert read[0][2] == pytest.approx(read[1][2])
    assert os.path.isdir(ours)


def test_a_model_begins_with_another_ones_variables(agree: Any) -> None:
    agree(
        SETUP
        + """
first = trained(steps=3)
def begun(settings):
    one = E.Estimator(model(lambda y: None), None, warm_start_from=settings)
    return [each["y"] for each in one.predict(lambda: input_fn().take(1))]
directory = first.model_dir
exported = first.export_saved_model(os.path.join(folder, "out"), raw)
result = [
    begun(directory), begun(first.latest_checkpoint()), begun(exported.decode()),
    begun(E.WarmStartSettings(directory, vars_to_warm_start="nothing")),
    begun(E.WarmStartSettings(directory, var_name_to_prev_var_name={"w": "w/Momentum"})),
    attempt(lambda: begun(E.WarmStartSettings(directory, var_name_to_prev_var_name={"z": "w"})),
            "You provided the following variables in "),
]
"""
    )
