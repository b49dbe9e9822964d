"""Canned estimators; beside TensorFlow's they are compared in tests/estimator_oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import in_process
from tests.training.estimator.tables import AGE, AGES, CITY, CROSSED, YES, columns, once, rows

E = tf.estimator


def names(estimator: Any) -> list[str]:
    """Of the model's own variables."""
    slots = ("Adagrad", "Ftrl", "Adam")
    return [each for each in estimator.get_variable_names() if not any(s in each for s in slots)]


def test_a_linear_classifier_learns_what_it_is_shown(tmp_path: Path) -> None:
    classifier = E.LinearClassifier([AGES, CITY, CROSSED], str(tmp_path))
    classifier.train(rows(), steps=40)
    found = classifier.evaluate(once())
    assert found["accuracy"] == 1.0
    assert found["accuracy_baseline"] == 0.5
    assert found["average_loss"] * 3 == pytest.approx(found["loss"], rel=1e-5)
    assert [each["class_ids"][0] for each in classifier.predict(once())] == YES[:, 0].tolist()
    assert names(classifier) == [
        "global_step",
        "linear/linear_model/age_bucketized/weights",
        "linear/linear_model/age_bucketized_X_city/weights",
        "linear/linear_model/bias_weights",
        "linear/linear_model/city/weights",
    ]


def test_a_network_has_the_variables_of_tensorflows(tmp_path: Path) -> None:
    made = [AGE, columns.embedding_column(CITY, 2)]
    regressor = E.DNNRegressor([4, 3], made, str(tmp_path), batch_norm=True, dropout=0.1)
    regressor.train(rows(YES.astype(np.float32)), steps=2)
    layers = [
        f"dnn/hiddenlayer_{number}/{each}"
        for number in (0, 1)
        for each in (
            f"batchnorm_{number}/beta",
            f"batchnorm_{number}/gamma",
            f"batchnorm_{number}/moving_mean",
            f"batchnorm_{number}/moving_variance",
            "bias",
            "kernel",
        )
    ]
    assert names(regressor) == [
        *layers,
        "dnn/input_from_feature_columns/input_layer/city_embedding/embedding_weights",
        "dnn/logits/bias",
        "dnn/logits/kernel",
        "global_step",
    ]
    assert regressor.get_variable_value("dnn/hiddenlayer_0/kernel").shape == (3, 4)
    moved = regressor.get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_variance")
    assert not np.allclose(moved, 1.0)
    slots = [each for each in regressor.get_variable_names() if "Adagrad" in each]
    assert "dnn/logits/kernel/t_0/Adagrad" in slots


def test_wide_and_deep_are_trained_by_an_optimizer_each(tmp_path: Path) -> None:
    both = E.DNNLinearCombinedClassifier(
        str(tmp_path),
        linear_feature_columns=[CITY],
        linear_optimizer=lambda: tf.train.GradientDescentOptimizer(0.1),
        dnn_feature_columns=[AGE],
        dnn_optimizer="Adam",
        dnn_hidden_units=[3],
        label_vocabulary=["no", "so"],
    )
    words = np.where(YES == 1, "so", "no")
    both.train(rows(words), steps=5)
    kinds = both.get_variable_names()
    assert "dnn/hiddenlayer_0/kernel/Adam" in kinds
    assert not any(each.startswith("linear") and "Adam" in each for each in kinds)
    assert both.get_variable_value("global_step") == 5
    assert {each["classes"][0] for each in both.predict(once(words))} <= {b"no", b"so"}


def test_a_baseline_says_how_often(tmp_path: Path) -> None:
    labels = np.array([[0], [2], [2], [2], [1], [2]])
    baseline = E.BaselineClassifier(str(tmp_path), n_classes=3)
    baseline.train(rows(labels, batch=6), steps=60)
    first = next(iter(baseline.predict(once(labels))))
    assert first["probabilities"] == pytest.approx([1 / 6, 1 / 6, 4 / 6], abs=0.05)
    assert first["class_ids"] == [2]


def test_slots_of_parts_are_saved_and_restored_with_them(tmp_path: Path) -> None:
    """Two trainings of three steps are one of six."""
    found = []
    for folder, lengths in (("one", [6]), ("two", [3, 3])):
        for steps in lengths:
            classifier = E.LinearClassifier(
                [CITY, AGES], str(tmp_path / folder), partitioner=tf.fixed_size_partitioner(2)
            )
            classifier.train(rows(batch=6), steps=steps)
        found.append(
            [classifier.get_variable_value(each) for each in names(classifier)]
            + list(classifier.predict(once()))
        )
        assert "linear/linear_model/city/weights/part_1/Ftrl" in classifier.get_variable_names()
    np.testing.assert_equal(*found)


def test_large_variables_are_cut_into_a_part_for_each_parameter_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = columns.categorical_column_with_hash_bucket("city", 300_000)
    deep = columns.embedding_column(columns.categorical_column_with_hash_bucket("city", 9), 700)
    jobs = {"ps": 2, "chief": 1}
    with in_process(jobs) as cluster:
        addresses = {
            job: [cluster.target(f"{job}:{n}").removeprefix("grpc://") for n in range(count)]
            for job, count in jobs.items()
        }
        config = {"cluster": addresses, "task": {"type": "chief", "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        model = E.DNNLinearCombinedClassifier(
            str(tmp_path),
            linear_feature_columns=[wide],
            linear_optimizer="SGD",
            dnn_feature_columns=[deep],
            dnn_optimizer="SGD",
            dnn_hidden_units=[100],
            input_layer_partitioner=tf.min_max_variable_partitioner(2, min_slice_size=1 << 18),
        )
        placed: dict[str, str] = {}

        class Placed(tf.train.SessionRunHook):
            def begin(self) -> None:
                placed.update({each.op.name: each.device for each in tf.global_variables()})

        model.train(rows(), steps=2, hooks=[Placed()])
        assert model.evaluate(once())["global_step"] == 2
    parts = "linear/linear_model/city/weights/part_"
    assert {placed[f"{parts}0"], placed[f"{parts}1"]} == {"/job:ps/task:0", "/job:ps/task:1"}
    assert "dnn/hiddenlayer_0/kernel/part_1" in placed
    assert "dnn/logits/kernel/part_1" not in placed
    assert model.get_variable_value("linear/linear_model/city/weights").shape == (300_000, 1)


def test_logits_of_features_are_functions_that_a_model_fn_may_call() -> None:
    experimental = E.experimental
    wide = experimental.linear_logit_fn_builder(2, [AGES, CITY])
    deep = experimental.dnn_logit_fn_builder((2, 3), [4], [AGE], tf.nn.relu, 0.5, None)
    with tf.Graph().as_default(), tf.Session() as sess:
        features, _ = rows()().make_one_shot_iterator().get_next()
        found = [experimental.call_logit_fn(wide, features, "train", {}, None)]
        with tf.variable_scope("again"):
            found.append(wide(features))
        found += deep(features, "train")
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        assert [each.shape for each in sess.run(found)] == [(3, 2), (3, 2), (3, 2), (3, 3)]
        tags = [each.name for each in tf.get_collection(tf.GraphKeys.SUMMARIES)]
        assert {"bias:0", "again/bias:0", "again/fraction_of_zero_weights:0"} <= set(tags)
    with pytest.raises(ValueError, match="must include features argument"):
        experimental.call_logit_fn(lambda mode: mode, {}, "train", {}, None)


def test_metrics_are_added_to_those_of_an_estimator(tmp_path: Path) -> None:
    classifier = E.LinearClassifier([CITY], str(tmp_path))

    def more(features: Any, predictions: Any) -> Any:
        return {
            "oldest": tf.metrics.mean(tf.reduce_max(features["age"])),
            "accuracy": tf.metrics.mean(predictions["logistic"]),
        }

    added = E.add_metrics(classifier, more)
    added.train(rows(), steps=2)
    found, before = added.evaluate(once()), classifier.evaluate(once())
    assert found["oldest"] == pytest.approx((45 + 65) / 2)
    assert found["accuracy"] == pytest.approx(found["prediction/mean"])
    assert set(found) - set(before) == {"oldest"}
    with pytest.raises(ValueError, match=r"not expected args: \['mode'\]"):
        E.add_metrics(classifier, lambda mode: {})


def test_labels_and_weights_are_parsed_with_the_features() -> None:
    spec = E.classifier_parse_example_spec([AGES, CITY], "label", tf.string, "no", "weight")
    assert spec == {
        "age": tf.FixedLenFeature((1,), tf.float32),
        "city": tf.VarLenFeature(tf.string),
        "label": tf.FixedLenFeature((1,), tf.string, "no"),
        "weight": tf.FixedLenFeature((1,), tf.float32),
    }
    assert E.regressor_parse_example_spec([CITY], "y", label_dimension=3)["y"].shape == (3,)
    for given, says in (
        ({"label_key": "age"}, "label should not be used as feature"),
        ({"label_key": "y", "weight_column": "age"}, "weight_column should not be used as feature"),
        (
            {"label_key": "y", "weight_column": CITY},
            "should be an instance of tf.feature_column.num",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            E.classifier_parse_example_spec([AGES], **given)


REFUSED = [
    (lambda: E.DNNLinearCombinedClassifier(), "Either linear_feature_columns or dnn_feature_columns"),
    (
        lambda: E.DNNLinearCombinedClassifier(dnn_feature_columns=[AGE]).train(rows(), steps=1),
        "dnn_hidden_units must be defined",
    ),
    (lambda: E.LinearClassifier([]).train(rows(), steps=1), "feature_columns must not be empty"),
    (lambda: E.DNNClassifier([3], [CITY]).train(rows(), steps=1), "embedding_column or indicator_column"),
    (lambda: E.LinearClassifier([AGE], n_classes=1), "n_classes must be > 2: 1"),
    (lambda: E.LinearClassifier([AGE], loss_reduction="none"), "Invalid loss_reduction: none"),
    (lambda: E.LinearClassifier([AGE], optimizer="Foo").train(rows(), steps=1), "Unsupported optimizer name: Foo"),
    (lambda: E.LinearClassifier([AGE], optimizer=3).train(rows(), steps=1), "not an Optimizer instance"),
    (
        lambda: E.LinearClassifier([AGE]).train(lambda: (tf.ones([1, 1]), tf.ones([1])), steps=1),
        "features should be a dictionary",
    ),
    (lambda: E.BaselineClassifier().train(lambda: ({}, tf.ones([1])), steps=1), "features should be a dictionary"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_model_that_cannot_be_is_refused_in_words(number: int) -> None:
    act, says = REFUSED[number]
    with pytest.raises(ValueError, match=says):
        act()
