"""Heads: losses, metrics, predictions, exports and summaries are TensorFlow's, and so is what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

SETUP = """
E = tf.estimator
features = {"w": [[1.0], [0.5], [2.0]]}
two_reductions = E.MultiHead([E.BinaryClassHead(name="a"), E.BinaryClassHead(name="b", loss_reduction="sum")])
one = [[1.0], [-2.0], [0.5]]
three = [[1.0, 0.0, 2.0], [-2.0, 1.0, 1.0], [0.5, 2.0, 1.0]]
yes = [[1], [1], [0]]

def tensors(given):
    if isinstance(given, dict):
        return {key: tensors(value) for key, value in given.items()}
    return tf.SparseTensor(*given) if isinstance(given, tuple) else tf.constant(given)

def named(key):
    return "/".join(map(named, key)) if isinstance(key, tuple) else key

def shown(output):
    if hasattr(output, "outputs"):
        return sorted(output.outputs)
    has = [key for key in ("value", "scores", "classes") if getattr(output, key, None) is not None]
    return [type(output).__name__, has]

def spec(head, mode, logits, labels=None, **more):
    with tf.Graph().as_default(), tf.Session() as sess:
        step = tf.train.create_global_step()
        if mode == "train":
            more["train_op_fn"] = lambda loss: tf.assign_add(step, 1)
        labels = None if labels is None else tensors(labels)
        made = head.create_estimator_spec(
            features=tensors(features), mode=mode, logits=tensors(logits), labels=labels, **more)
        sess.run([tf.global_variables_initializer(), tf.tables_initializer(), tf.local_variables_initializer()])
        found = {}
        if made.loss is not None:
            found["loss"] = sess.run(made.loss)
        if mode == "train":
            sess.run(made.train_op)
            found["step"] = sess.run(step)
            found["summaries"] = sorted(each.name for each in tf.get_collection(tf.GraphKeys.SUMMARIES))
        if mode == "eval":
            sess.run([update for _, update in made.eval_metric_ops.values()])
            found["metrics"] = {key: sess.run(value) for key, (value, _) in made.eval_metric_ops.items()}
        if mode == "infer":
            found["predictions"] = {
                named(key): [value.dtype.name, sess.run(value)] for key, value in made.predictions.items()}
            found["outputs"] = {key: shown(value) for key, value in made.export_outputs.items()}
        return found

def all_of(head, logits, labels):
    return [head.name, head.logits_dimension] + [
        spec(head, "train", logits, labels), spec(head, "eval", logits, labels), spec(head, "infer", logits),
        spec(head, "eval", logits, labels, regularization_losses=[0.5, 0.25]),
        spec(head, "train", logits, labels, regularization_losses=[0.5, 0.25])]
"""

HEADS = {
    "smoke_binary": ("E.BinaryClassHead()", "one", "yes"),
    "binary_weighted": (
        "E.BinaryClassHead(weight_column='w', thresholds=[0.3, 0.7], name='nm', loss_reduction='sum')",
        "one",
        "yes",
    ),
    "binary_at_one_threshold_twice": ("E.BinaryClassHead(thresholds=[0.5, 0.5])", "one", "yes"),
    "binary_words": (
        "E.BinaryClassHead(label_vocabulary=['n', 'y'])",
        "one",
        "[['y'], ['y'], ['n']]",
    ),
    "binary_flat": ("E.BinaryClassHead()", "one", "[1, 0, 1]"),
    "binary_loss": (
        "E.BinaryClassHead(loss_fn=lambda labels, logits: tf.abs(labels - logits))",
        "one",
        "yes",
    ),
    "classes": ("E.MultiClassHead(3, weight_column='w')", "three", "[[1], [2], [0]]"),
    "classes_words": (
        "E.MultiClassHead(3, label_vocabulary=['a', 'b', 'c'], name='m')",
        "three",
        "[['a'], ['c'], ['b']]",
    ),
    "numbers": ("E.RegressionHead()", "one", "[[1.0], [1.0], [0.0]]"),
    "two_numbers": (
        "E.RegressionHead(label_dimension=2, weight_column='w', inverse_link_fn=tf.exp)",
        "[[1.0, 2.0], [-2.0, 3.0], [0.5, 4.0]]",
        "[[1.0, 1.0], [1.0, 2.0], [0.0, 3.0]]",
    ),
    "logistic": ("E.LogisticRegressionHead()", "one", "[[1.0], [0.2], [0.0]]"),
    "poisson": ("E.PoissonRegressionHead()", "one", "[[1.0], [3.0], [0.0]]"),
    "poisson_in_short": (
        "E.PoissonRegressionHead(compute_full_loss=False)",
        "one",
        "[[1.0], [3.0], [0.0]]",
    ),
    "labels": (
        "E.MultiLabelHead(3, weight_column='w', thresholds=[0.5], classes_for_class_based_metrics=[0, 2])",
        "three",
        "[[1, 0, 1], [0, 1, 0], [0, 0, 0]]",
    ),
    "labels_of_words": (
        "E.MultiLabelHead(3, label_vocabulary=['a', 'b', 'c'], classes_for_class_based_metrics=['b'])",
        "three",
        "([[0, 0], [0, 1], [1, 0]], ['a', 'b', 'c'], [3, 2])",
    ),
    "labels_by_number": (
        "E.MultiLabelHead(3)",
        "three",
        "([[0, 0], [0, 1], [1, 0]], [1, 2, 0], [3, 2])",
    ),
    "several": (
        "E.MultiHead([E.BinaryClassHead(name='h1'), E.RegressionHead(name='h2')], head_weights=[1.0, 2.0])",
        "{'h1': one, 'h2': one}",
        "{'h1': yes, 'h2': [[1.0], [1.0], [0.0]]}",
    ),
    "several_of_one_tensor": (
        "E.MultiHead([E.BinaryClassHead(name='h1'), E.MultiClassHead(3, name='h2')])",
        "[[1.0, 1.0, 2.0, 3.0], [-2.0, 2.0, 1.0, 0.0], [0.5, 1.0, 2.0, 0.0]]",
        "{'h1': yes, 'h2': yes}",
    ),
    "several_of_one_name_and_one_tensor": (
        "E.MultiHead([E.BinaryClassHead(name='h'), E.BinaryClassHead(name='h', weight_column='w')])",
        "[[1.0, 2.0], [-2.0, 1.0], [0.5, 0.0]]",
        "{'h': yes}",
    ),
    "three_of_which_two_are_of_one_name": (
        "E.MultiHead([E.BinaryClassHead(name=n) for n in 'aba'])",
        "{'a': one, 'b': [[1.5], [0.5], [0.0]]}",
        "{'a': yes, 'b': [[0], [1], [1]]}",
    ),
    "several_of_several": (
        "E.MultiHead([E.RegressionHead(name='c'), E.MultiHead([E.BinaryClassHead(name=n) for n in 'ab'])])",
        "{'c': one, 'a_b': {'a': one, 'b': one}}",
        "{'c': yes, 'a_b': {'a': yes, 'b': yes}}",
    ),
    "one_of_several": ("E.MultiHead([E.RegressionHead(name='c')])", "one", "{'c': yes}"),
}

ERRORS = [
    ("E.MultiClassHead(2)", "n_classes must be > 2: 2."),
    ("E.MultiClassHead(None)", "n_classes cannot be None"),
    (
        "E.MultiClassHead(3, label_vocabulary=['a'])",
        '"label_vocabulary" does not have "n_classes" items.',
    ),
    (
        "E.MultiClassHead(3, label_vocabulary='abc')",
        "label_vocabulary should be a list or a tuple.",
    ),
    ("E.BinaryClassHead(thresholds=[0.5, 1.5])", "thresholds not in (0, 1)"),
    ("E.BinaryClassHead(loss_reduction='none')", "Invalid loss_reduction: none."),
    ("E.BinaryClassHead(loss_reduction='weighted_sum')", "Invalid loss_reduction: weighted_sum."),
    ("E.BinaryClassHead(loss_fn=lambda labels: 1)", "loss_fn must contain argument: logits."),
    (
        "E.BinaryClassHead(loss_fn=lambda labels, logits, foo: 1)",
        "loss_fn has unexpected args: ['foo']",
    ),
    ("E.MultiLabelHead(1)", "n_classes must be > 1 for multi-label classification."),
    (
        "E.MultiLabelHead(3, classes_for_class_based_metrics=[0, 5])",
        "All classes_for_class_based_metrics must be in range [0, 2]. Given: 5",
    ),
    ("E.RegressionHead(label_dimension=0)", "Invalid label_dimension 0"),
    ("E.MultiHead([])", "Must specify heads."),
    ("E.MultiHead([E.BinaryClassHead()])", "All given heads must have name specified."),
    (
        "E.MultiHead([E.BinaryClassHead(name='a')], head_weights=[1.0, 2.0])",
        "heads and head_weights must have the same size.",
    ),
    ("spec(E.BinaryClassHead(), 'eval', one)", "You must provide a labels Tensor. Given: None."),
    (
        "spec(E.BinaryClassHead(), 'eval', one, ([[0, 0]], [1], [3, 1]))",
        "SparseTensor labels are not supported.",
    ),
    ("spec(E.BinaryClassHead(), 'eval', one, [[1, 2], [0, 1], [1, 0]])", "Mismatched label shape."),
    (
        "spec(E.BinaryClassHead(), 'eval', one, [[1], [0]])",
        "`logits` and `labels` must have the same shape",
    ),
    (
        "spec(E.BinaryClassHead(), 'eval', three, yes)",
        "logits shape must be [D0, D1, ... DN, logits_dimension], got",
    ),
    ("spec(E.BinaryClassHead(), 'eval', [1.0, 2.0], yes)", "must have rank at least 2."),
    ("spec(E.BinaryClassHead(), 'eval', one, [[1], [0], [2]])", "Labels must be <= n_classes - 1"),
    (
        "spec(E.BinaryClassHead(weight_column='z'), 'eval', one, yes)",
        "Feature z is not in features dictionary.",
    ),
    (
        "spec(E.BinaryClassHead(weight_column=3), 'eval', one, yes)",
        "Weight column must be either a string or NumericColumn.",
    ),
    ("spec(E.MultiClassHead(3), 'eval', three, [1, 0, 3])", "Labels must be <= n_classes - 1"),
    ("spec(E.MultiClassHead(3), 'eval', three, [1, 0, -1])", "Labels must be >= 0"),
    (
        "spec(E.MultiClassHead(3), 'eval', three, [1.0, 0.0, 1.0])",
        "Labels dtype should be integer.",
    ),
    (
        "spec(E.MultiClassHead(3, label_vocabulary=['a', 'b', 'c']), 'eval', three, [1, 0, 1])",
        "Labels dtype should be string if there is a vocabulary.",
    ),
    (
        "spec(E.MultiClassHead(3, label_vocabulary=['a', 'b', 'c']), 'eval', three, ['a', 'z', 'c'])",
        "Labels must be >= 0",
    ),
    (
        "spec(E.MultiLabelHead(3), 'eval', three, ([[0, 0]], [5], [3, 2]))",
        "labels must be an integer SparseTensor with values in [0, 3)",
    ),
    (
        "spec(E.MultiLabelHead(3), 'eval', three, [[1, 0, 2]] * 3)",
        "labels must be an integer indicator Tensor with values in [0, 1]",
    ),
    (
        "spec(E.BinaryClassHead(loss_fn=lambda labels, logits: tf.zeros([3])), 'eval', one, yes)",
        "loss_fn must return Tensor of shape",
    ),
    (
        "E.BinaryClassHead().create_estimator_spec({}, 'train', tf.constant(one), tf.constant(yes))",
        "train_op_fn and optimizer cannot both be None.",
    ),
    (
        "spec(E.BinaryClassHead(), 'train', one, yes, optimizer=tf.train.AdamOptimizer())",
        "train_op_fn and optimizer cannot both be set.",
    ),
    (
        "E.BinaryClassHead().predictions(tf.constant(one), keys=['zz'])",
        "Prediction key must be in PredictionKeys, given: zz.",
    ),
    (
        "spec(E.MultiHead([E.BinaryClassHead(name=n) for n in 'ab']), 'eval', {'a': one, 'b': one}, {'a': yes})",
        "labels has missing values for head(s): ['b']",
    ),
    (
        "spec(E.MultiHead([E.BinaryClassHead(name=n) for n in 'ab']), 'eval', {'a': one}, {'a': yes, 'b': yes})",
        "logits has missing values for head(s): ['b']",
    ),
    (
        "spec(E.MultiHead([E.BinaryClassHead(name=n) for n in 'ab']), 'eval', one, {'a': yes, 'b': yes})",
        "Could not split logits of shape",
    ),
    (
        "spec(E.MultiHead([E.BinaryClassHead(name='h'), E.MultiClassHead(3, name='h')]), 'eval', [[1.0] * 4] * 3, "
        "{'h': yes})",
        "logits shape must be [D0, D1, ... DN, logits_dimension], got",
    ),
    (
        "spec(E.MultiHead([E.BinaryClassHead(name='a')]), 'eval', {'a': one})",
        "You must provide a labels Tensor. Given: None.",
    ),
    (
        "spec(two_reductions, 'train', {'a': one, 'b': one}, {'a': yes, 'b': yes})",
        "The loss_reduction must be the same for different heads.",
    ),
    (
        "E.BinaryClassHead().create_estimator_spec({}, 'train', tf.constant(one), tf.constant(yes), "
        "train_op_fn=lambda loss: loss, update_ops=3)",
        "update_ops should be a list or a tuple. Given type: <class 'int'>.",
    ),
    ("two_reductions.loss_reduction", "The loss_reduction must be the same for different heads."),
]


@pytest.mark.parametrize("name", HEADS)
def test_a_head_makes_of_logits_and_labels_what_tensorflows_does(agree: Any, name: str) -> None:
    head, logits, labels = HEADS[name]
    agree(f"{SETUP}\nresult = all_of({head}, {logits}, {labels})", rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_is_refused_as_tensorflow_refuses_it(agree: Any) -> None:
    found = agree(
        f"{SETUP}\n"
        "def refused(text, phrase):\n"
        "    with tf.Graph().as_default():\n"
        "        tf.train.create_global_step()\n"
        "        return attempt(lambda: eval(text), phrase)\n"
        "result = [refused(text, phrase) for text, phrase in cases]",
        cases=ERRORS,
    )
    for (text, phrase), each in zip(ERRORS, found, strict=True):
        assert each.get("says") == phrase, (text, each)


def test_heads_of_several_reductions_only_cannot_train(agree: Any) -> None:
    agree(
        f"{SETUP}\n"
        "given = {'a': one, 'b': one}\n"
        "result = [spec(two_reductions, 'eval', given, {'a': yes, 'b': yes}), spec(two_reductions, 'infer', given)]"
    )


def test_metrics_of_several_heads_are_those_of_their_losses_until_they_are_updated(
    agree: Any,
) -> None:
    found = agree(
        f"{SETUP}\n"
        "head = E.MultiHead([E.BinaryClassHead(name=n) for n in 'aba'])\n"
        "of = tensors({'a': one, 'b': one}), tensors({'a': yes, 'b': yes})\n"
        "made = head.metrics([0.5])\n"
        "result = [sorted(made), sorted(head.update_metrics(made, {}, *of, [0.5])), sorted(made)]"
    )
    assert found[0] == ["loss/a", "loss/b", "regularization_loss/a_b_a"]
    assert "accuracy/a" in found[2]


def test_heads_of_one_name_and_several_kinds_train_and_predict_together(agree: Any) -> None:
    """Metrics that both have cannot be read in TensorFlow, whose variables have gone with the first head's."""
    agree(
        f"{SETUP}\n"
        "head = E.MultiHead([E.BinaryClassHead(name='h'), E.RegressionHead(name='h')], head_weights=[1.0, 2.0])\n"
        "given, labels = {'h': one}, {'h': [[1.0], [1.0], [0.0]]}\n"
        "result = [head.name, spec(head, 'train', given, labels), spec(head, 'infer', given)]"
    )
