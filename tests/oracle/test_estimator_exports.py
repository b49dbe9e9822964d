"""What an Estimator exports is read by a TensorFlow that has no estimators any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from tests.training.estimator.models import E, estimator, receiver, rows

LOAD = """
with tf.Session() as session:
    loaded = tf.saved_model.loader.load(session, ["serve"], path)
    signature = loaded.signature_def["serving_default"]
    fed = {signature.inputs[name].name: value for name, value in feeds.items()}
    result = signature.method_name, session.run(signature.outputs["y"].name, fed).tolist()
"""
LOAD_LATER = """
loaded = tf.compat.v2.saved_model.load(path)
result = sorted(loaded.signatures)
"""


def test_exported_models_are_loaded_and_asked(oracle: Any, tmp_path: Path) -> None:
    one = estimator(tmp_path / "model").train(rows(), steps=100)
    slope = float(one.get_variable_value("slope"))
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[3.0]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    parsing = E.export.build_parsing_serving_input_receiver_fn(
        {"x": tf.FixedLenFeature([], tf.float32)}
    )
    for receiver_fn, feeds, wanted in (
        (receiver, {"x": [1.0, 3.0]}, [slope, 3 * slope]),
        (parsing, {"examples": [example.SerializeToString()]}, [3 * slope]),
    ):
        path = one.export_saved_model(str(tmp_path / receiver_fn.__name__), receiver_fn).decode()
        method, found = oracle.run(LOAD, path=path, feeds=feeds)
        assert method == "tensorflow/serving/predict"
        assert found == pytest.approx(wanted)
        assert oracle.run(LOAD_LATER, path=path) == ["serving_default"]
    tf.summary.FileWriterCache.clear()
