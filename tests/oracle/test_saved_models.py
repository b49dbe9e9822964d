"""SavedModels beside TensorFlow's: what each makes of the other's directories, and the messages in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import headrace as tf
from headrace.codec import protos as pb

MODEL = """
text = tf.placeholder(tf.string, [None], name="text")
x = tf.placeholder(tf.float32, [None, 2], name="x")
w = tf.get_variable("w", initializer=[[1.0], [2.0]])
r = tf.get_variable("r", initializer=3.0, use_resource=True)
parts = tf.get_variable("p", [4], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2))
local = tf.Variable("", collections=["local_variables"], name="local")
y = tf.matmul(x, w, name="y") * r + tf.reduce_sum(parts)
sparse = tf.sparse_placeholder(tf.float32, [2, 3], name="sparse")
rows = tf.RaggedTensor.from_nested_row_splits(
    tf.placeholder(tf.float32, [None, 2], name="flat"),
    [tf.placeholder(tf.int64, [None], name=name) for name in ("outer", "inner")], validate=False)
slices = tf.IndexedSlices(x, tf.placeholder(tf.int32, [None], name="at"), dense_shape=tf.constant([9, 2], name="whole"))
file = tf.constant(asset, name="file")
main = tf.group(local.assign(tf.read_file(file)), name="main")
s = tf.saved_model
signatures = {
    "serving_default": s.predict_signature_def(
        {"x": x, "sparse": sparse, "rows": rows, "slices": slices}, {"y": y}),
    "regress": s.regression_signature_def(text, x),
    "classify": s.classification_signature_def(text, text, x),
    "classify_scores": s.classification_signature_def(text, None, x),
}
builder = s.Builder(path)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    builder.add_meta_graph_and_variables(
        session, ["serve", "cpu"], signatures, [file], main_op=main, clear_devices=True, strip_default_attrs=strip)
builder.save(as_text=as_text)
result = sorted(s.is_valid_signature(each) for each in signatures.values())
"""
LOADED = """
with tf.Session(graph=tf.Graph()) as session:
    found = tf.saved_model.load(session, ["cpu", "serve"], path, import_scope=scope)
    signature = found.signature_def["serving_default"]
    at = lambda info: tf.saved_model.get_tensor_from_tensor_info(info, import_scope=scope)
    local = [v for v in session.graph.get_operations() if v.name.endswith("local")][0]
    result = session.run([at(signature.outputs["y"]), local.outputs[0]], {at(signature.inputs["x"]): [[1.0, 2.0]]})
    result = [np.asarray(result[0]).tolist(), result[1]]
    rows, slices = at(signature.inputs["rows"]), at(signature.inputs["slices"])
    names = [rows.flat_values.name, *(each.name for each in rows.nested_row_splits), slices.values.name,
             slices.indices.name, slices.dense_shape.name]
    result.append([name.rpartition("/")[2] for name in names])
"""


PARTS = ["flat:0", "outer:0", "inner:0", "x:0", "at:0", "whole:0"]


def ours(source: str, **names: Any) -> Any:
    with tf.Graph().as_default():
        inside: dict[str, Any] = {"tf": tf, "np": np, **names}
        exec(source, inside)
        return inside["result"]


def shown(path: Path) -> dict[str, Any]:
    """What has to be the same of a SavedModel."""
    found = pb.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    (graph,) = found.meta_graphs
    assets = [
        (each.tensor_info.name, each.filename)
        for packed in graph.collection_def["saved_model_assets"].any_list.value
        for each in [pb.AssetFileDef.FromString(packed.value)]
    ]
    return {
        "version": found.saved_model_schema_version,
        "tags": list(graph.meta_info_def.tags),
        "stripped": graph.meta_info_def.stripped_default_attrs,
        "signatures": dict(graph.signature_def),
        "saver": graph.saver_def,
        "collections": {*graph.collection_def},
        "main": list(graph.collection_def["saved_model_main_op"].node_list.value),
        "assets": assets,
        "files": sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()),
    }


def test_each_loads_what_the_other_saves(oracle: Any, tmp_path: Path) -> None:
    asset = tmp_path / "words.txt"
    asset.write_text("some words")
    for number, (strip, as_text) in enumerate([(False, False), (True, True)]):
        paths = {"mine": tmp_path / f"mine{number}", "theirs": tmp_path / f"theirs{number}"}
        given = {"asset": str(asset), "strip": strip, "as_text": as_text}
        valid = ours(MODEL, path=str(paths["mine"]), **given)
        assert valid == oracle.run(MODEL, path=str(paths["theirs"]), **given)
        if not as_text:
            assert shown(paths["mine"]) == shown(paths["theirs"])
        for path in paths.values():
            for scope in ("", "inside"):
                expected = [[[19.0]], b"some words", PARTS]
                assert ours(LOADED, path=str(path), scope=scope) == expected
                assert oracle.run(LOADED, path=str(path), scope=scope) == expected
