"""Exported models: their directories, their signatures, and that a session is asked of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.training.estimator import exporting
from tests.training.estimator.models import E, estimator, receiver, rows


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    one = estimator(tmp_path_factory.mktemp("trained")).train(rows(), steps=100)
    tf.summary.FileWriterCache.clear()
    return one


def asked(path: Any, **fed: Any) -> Any:
    """What the default signature gives."""
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], path)
        signature = loaded.signature_def["serving_default"]
        feeds = {signature.inputs[name].name: value for name, value in fed.items()}
        return session.run(signature.outputs["y"].name, feeds)


def test_an_exported_line_is_asked(trained: Any, tmp_path: Path) -> None:
    path = trained.export_saved_model(str(tmp_path), receiver)
    assert isinstance(path, bytes)
    assert os.listdir(tmp_path) == [os.path.basename(path).decode()]
    assert asked(path, x=[1.0, 10.0]) == pytest.approx([2.0, 20.0], rel=0.01)


def test_serialized_examples_are_parsed(trained: Any, tmp_path: Path) -> None:
    spec = {"x": tf.FixedLenFeature([], tf.float32)}
    receiver_fn = E.export.build_parsing_serving_input_receiver_fn(spec)
    path = trained.export_saved_model(str(tmp_path), receiver_fn)
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[3.0]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    assert asked(path, examples=[example.SerializeToString()]) == pytest.approx([6.0], rel=0.01)


def test_raw_features_are_fed_in_batches_of_any_size(trained: Any, tmp_path: Path) -> None:
    receiver_fn = E.export.build_raw_serving_input_receiver_fn({"x": np.zeros([2], np.float32)})
    path = trained.export_saved_model(str(tmp_path), receiver_fn)
    assert asked(path, x=[1.0, 2.0, 3.0]) == pytest.approx([2.0, 4.0, 6.0], rel=0.01)


def test_exports_of_the_same_second_have_directories_of_their_own(tmp_path: Path) -> None:
    now = [100.25]

    def pause(seconds: float) -> None:
        now[0] += seconds

    (tmp_path / "100").mkdir()
    (tmp_path / "101").mkdir()
    found = exporting.timestamped_directory(str(tmp_path), lambda: now[0], pause)
    assert found == str(tmp_path / "102")
    for second in range(102, 120):
        (tmp_path / str(second)).mkdir()
    now[0] = 100.0
    with pytest.raises(RuntimeError, match="after 10 attempts"):
        exporting.timestamped_directory(str(tmp_path), lambda: now[0], pause)


def test_a_model_that_cannot_be_built_leaves_no_directory_that_looks_whole(
    trained: Any, tmp_path: Path
) -> None:
    def receiver_fn() -> Any:
        return E.export.ServingInputReceiver(
            {"z": tf.placeholder(tf.float32)}, tf.placeholder(tf.float32)
        )

    with pytest.raises(KeyError, match="x"):
        trained.export_saved_model(str(tmp_path), receiver_fn)
    assert not exporting.exports_in(str(tmp_path))


def test_a_checkpoint_of_another_model_is_refused(trained: Any, tmp_path: Path) -> None:
    def other(features: Any) -> Any:
        w = tf.get_variable("another", [])
        return E.EstimatorSpec("infer", predictions={"y": features["x"] * w})

    one = E.Estimator(other, trained.model_dir)
    with pytest.raises(ValueError, match="another model_fn may have written"):
        one.export_saved_model(str(tmp_path), receiver)


def test_extra_assets_are_copied(trained: Any, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("a b")
    path = os.fsdecode(
        trained.export_saved_model(str(tmp_path / "out"), receiver, {"lists/words": str(words)})
    )
    assert Path(path, "assets.extra", "lists", "words").read_text() == "a b"
    with pytest.raises(tf.errors.NotFoundError, match="asset"):
        trained.export_saved_model(str(tmp_path / "out"), receiver, {"a": str(tmp_path / "nope")})


def test_outputs_that_cannot_be_served_have_no_signature(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        score = tf.identity(features["x"], name="score")
        outputs = {
            "serving_default": E.export.ClassificationOutput(score),
            "plain": E.export.PredictOutput(score),
        }
        step = tf.assign_add(tf.train.get_global_step(), 1)
        return E.EstimatorSpec(
            mode, {"y": score}, tf.reduce_sum(score), step, export_outputs=outputs
        )

    one = E.Estimator(model_fn, str(tmp_path)).train(rows(), steps=1)
    path = one.export_saved_model(str(tmp_path / "out"), receiver)
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], path)
    assert list(loaded.signature_def) == ["plain"]
