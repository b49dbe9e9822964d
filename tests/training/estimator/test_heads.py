"""Heads; beside TensorFlow's they are compared in tests/estimator_oracle, whose values these are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

E = tf.estimator
M = E.ModeKeys
LOGITS = [[1.0], [-2.0], [0.5]]
YES = [[1], [1], [0]]
WEIGHTS = {"w": [[1.0], [0.5], [2.0]]}


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        yield graph


def evaluated(spec: Any) -> dict[str, Any]:
    """The metrics of one batch."""
    with tf.Session() as sess:
        sess.run([tf.local_variables_initializer(), tf.tables_initializer()])
        sess.run([update for _, update in spec.eval_metric_ops.values()])
        return {key: sess.run(value) for key, (value, _) in spec.eval_metric_ops.items()}


def run(value: Any) -> Any:
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return sess.run(value)


def test_a_binary_head_weighs_examples_in_loss_and_metrics() -> None:
    head = E.BinaryClassHead(weight_column="w", thresholds=[0.3], name="said")
    spec = head.create_estimator_spec(WEIGHTS, M.EVAL, LOGITS, YES)
    assert run(spec.loss) == pytest.approx(1.1082932)
    found = evaluated(spec)
    assert {key: round(float(value), 5) for key, value in found.items()} == {
        "accuracy/said": 0.28571,
        "accuracy_baseline/said": 0.57143,
        "accuracy/positive_threshold_0.3/said": 0.28571,
        "auc/said": 0.66667,
        "auc_precision_recall/said": 0.79447,
        "average_loss/said": 0.94997,
        "label/mean/said": 0.42857,
        "precision/said": 0.33333,
        "precision/positive_threshold_0.3/said": 0.33333,
        "prediction/mean/said": 0.58159,
        "recall/said": 0.66667,
        "recall/positive_threshold_0.3/said": 0.66667,
    }


def test_a_head_of_contrib_reports_as_canned_estimators_do() -> None:
    summed = tf.losses.Reduction.SUM
    head = tf.contrib.estimator.binary_classification_head(
        weight_column="w", thresholds=[0.3], loss_reduction=summed
    )
    spec = head.create_estimator_spec(
        WEIGHTS, M.TRAIN, LOGITS, YES, train_op_fn=lambda loss: tf.no_op()
    )
    assert run([spec.loss, tf.losses.get_losses()[0]]) == pytest.approx([3.3248796] * 2)
    tags = [each.name for each in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert tags == ["loss:0", "average_loss:0"]
    spec = head.create_estimator_spec(WEIGHTS, M.EVAL, LOGITS, YES)
    assert "accuracy/positive_threshold_0.300000" in spec.eval_metric_ops


def test_a_head_minimizes_by_an_optimizer_and_runs_updates_with_it() -> None:
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer(), trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(seen, 1.0))
    spec = E.RegressionHead().create_estimator_spec(
        {}, M.TRAIN, weight * [[2.0]], [[0.0]], optimizer=tf.train.GradientDescentOptimizer(0.1)
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(spec.loss) == 4.0
        sess.run(spec.train_op)
        found = sess.run([weight, seen, tf.train.get_global_step()])
    assert found == pytest.approx([0.2, 1.0, 1])


def test_classes_may_have_names() -> None:
    head = E.MultiClassHead(3, label_vocabulary=["a", "b", "c"])
    logits = [[1.0, 0.0, 2.0], [-2.0, 1.0, 1.5]]
    spec = head.create_estimator_spec({}, M.PREDICT, tf.constant(logits))
    found = run(spec.predictions)
    assert found["classes"].tolist() == [[b"c"], [b"c"]]
    assert found["class_ids"].tolist() == [[2], [2]]
    assert found["all_classes"].tolist() == [[b"a", b"b", b"c"]] * 2
    assert sorted(spec.export_outputs) == ["classification", "predict", "serving_default"]
    loss = head.loss(tf.constant([["c"], ["b"]]), tf.constant(logits))
    terms = np.exp(logits)
    shares = [terms[0][2] / terms[0].sum(), terms[1][1] / terms[1].sum()]
    assert run(loss) == pytest.approx(-np.log(shares).mean())


def test_labels_of_several_classes_may_be_sparse() -> None:
    head = E.MultiLabelHead(3, label_vocabulary=["a", "b", "c"])
    dense = tf.constant([[1, 1, 0], [0, 0, 1]])
    sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["a", "b", "c"], [2, 2])
    logits = tf.constant([[1.0, 0.0, 2.0], [-2.0, 1.0, 1.0]])
    ours, theirs = run([head.loss(dense, logits), head.loss(sparse, logits)])
    assert ours == theirs


def test_counts_are_exponentials() -> None:
    head = E.PoissonRegressionHead()
    assert run(head.predictions(tf.constant([[1.0]]))["predictions"]) == pytest.approx(np.e)
    whole, part = (
        E.PoissonRegressionHead(compute_full_loss=full).loss([[3.0]], [[1.0]]) for full in (1, 0)
    )
    assert run(whole - part) == pytest.approx(3 * np.log(3) - 3 + 0.5 * np.log(2 * np.pi * 3))


def test_several_heads_share_a_model() -> None:
    heads = [E.BinaryClassHead(name="a"), E.RegressionHead(name="b")]
    both = E.MultiHead(heads, head_weights=[1.0, 2.0])
    assert (both.name, both.logits_dimension) == ("a_b", 2)
    logits = tf.constant([[1.0, 2.0], [-2.0, 3.0]])
    labels = {"a": [[1], [1]], "b": [[1.0], [1.0]]}
    spec = both.create_estimator_spec({}, M.EVAL, logits, labels)
    apart = [head.loss(labels[head.name], logits[:, at : at + 1]) for at, head in enumerate(heads)]
    assert run(spec.loss - apart[0] - 2.0 * apart[1]) == pytest.approx(0.0, abs=1e-6)
    found = evaluated(spec)
    assert found["loss/b"] == pytest.approx(2.5)
    assert {"accuracy/a", "average_loss/a", "label/mean/b"} <= set(found)
    spec = both.create_estimator_spec({}, M.PREDICT, logits)
    assert ("a", "logistic") in spec.predictions
    assert {"serving_default", "a", "a/classification", "b", "b/regression", "predict"} <= set(
        spec.export_outputs
    )


def test_metrics_of_a_head_are_given_batches_one_at_a_time() -> None:
    head = E.RegressionHead()
    metrics = head.metrics()
    with pytest.raises(ValueError, match="has no batch yet"):
        metrics["label/mean"].result()
    head.update_metrics(metrics, {}, tf.constant(LOGITS), tf.constant([[1.0], [2.0], [6.0]]))
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert sess.run(metrics["label/mean"].as_tuple()[1]) == 3.0
        assert sess.run(metrics["label/mean"].result()) == 3.0


def test_logits_of_unknown_shape_are_looked_at_by_the_step() -> None:
    logits = tf.placeholder(tf.float32, None)
    found = E.RegressionHead(label_dimension=2).predictions(logits)["predictions"]
    with tf.Session() as sess:
        assert sess.run(found, {logits: [[1.0, 2.0]]}).tolist() == [[1.0, 2.0]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="logits shape must be"):
            sess.run(found, {logits: [[1.0]]})


REFUSED: list[tuple[Any, str]] = [
    (lambda: E.MultiClassHead(2), "n_classes must be > 2: 2"),
    (lambda: E.BinaryClassHead(loss_reduction="weighted_sum"), "Invalid loss_reduction"),
    (lambda: E.BinaryClassHead(loss_fn=lambda labels: 1), "must contain argument: logits"),
    (lambda: E.MultiHead([E.BinaryClassHead()]), "must have name specified"),
    (lambda: E.BinaryClassHead().loss(None, LOGITS), "must provide a labels Tensor"),
    (lambda: E.BinaryClassHead().loss([[1, 2]] * 3, LOGITS), "Mismatched label shape"),
    (lambda: E.BinaryClassHead().loss(["a"] * 3, LOGITS), "need a label_vocabulary"),
    (lambda: E.BinaryClassHead().loss(YES, [[1.0, 2.0]] * 3), "logits shape must be"),
    (lambda: E.BinaryClassHead(weight_column="z").loss(YES, LOGITS, {}), "Feature z is not in"),
    (
        lambda: E.BinaryClassHead().create_estimator_spec({}, M.TRAIN, LOGITS, YES),
        "cannot both be None",
    ),
    (lambda: E.BinaryClassHead().predictions(LOGITS, ["zz"]), "given: zz"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_does_not_fit_is_refused_in_words(number: int) -> None:
    act, says = REFUSED[number]
    with pytest.raises(ValueError, match=says):
        act()
