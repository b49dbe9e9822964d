"""EstimatorSpec and export outputs: what they make of their arguments, and which they refuse."""

from __future__ import annotations

from typing import Any

import pytest

SETUP = """
Spec, M, X = tf.estimator.EstimatorSpec, tf.estimator.ModeKeys, tf.estimator.export
def c(v=1.0, dtype=None):
    return tf.constant(v, dtype)
def other(v=1.0):
    with tf.Graph().as_default():
        return tf.constant(v)
def signature(output, *fed):
    made = output.as_signature_def({str(at): each for at, each in enumerate(fed)})
    return made.method_name, {k: [v.name, v.dtype] for k, v in made.inputs.items()}, {
        k: [v.name, v.dtype] for k, v in made.outputs.items()}
"""

CASES = [
    ("Spec(M.TRAIN)", "Missing train_op."),
    ("Spec(M.TRAIN, train_op=tf.no_op())", "Missing loss."),
    ("Spec(M.TRAIN, loss=c(), train_op=3)", "train_op must be Operation or Tensor, given: 3"),
    ("Spec(M.TRAIN, loss=3.0, train_op=tf.no_op())", "loss must be Tensor, given: 3.0"),
    (
        "Spec(M.TRAIN, loss=c([1.0, 2.0]), train_op=tf.no_op())",
        'Loss must be scalar, given: Tensor("Const:0", shape=(2,), dtype=float32)',
    ),
    ("Spec(M.TRAIN, loss=c([1.0]), train_op=tf.no_op()).loss.name", ""),
    ("Spec(M.TRAIN, loss=tf.placeholder(tf.float32, [None]), train_op=tf.no_op()).loss.name", ""),
    ("Spec(M.TRAIN, loss=tf.placeholder(tf.float32), train_op=tf.no_op()).loss.name", ""),
    ("Spec(M.TRAIN, loss=tf.Variable(1.0), train_op=tf.Variable(1.0)).train_op.name", ""),
    ("Spec(M.EVAL)", "Missing loss."),
    ("Spec(M.PREDICT)", "Missing predictions."),
    ("Spec(M.PREDICT, predictions=3)", "predictions must be Tensor, given: 3"),
    ("Spec(M.PREDICT, predictions={'a': 3})", "predictions[a] must be Tensor, given: 3"),
    ("Spec(M.PREDICT, predictions=[c()])", "predictions must be Tensor, given: ["),
    (
        "Spec(M.PREDICT, predictions=tf.SparseTensor([[0]], [1], [1]))",
        "predictions must be Tensor, given: SparseTensor(",
    ),
    (
        "Spec(M.PREDICT, predictions=c(), export_outputs=[3])",
        "`export_outputs` must be dict, received: [3].",
    ),
    (
        "Spec(M.PREDICT, predictions=c(), export_outputs={'a': 3})",
        "Values in `export_outputs` must be ExportOutput objects, received: {'a': 3}.",
    ),
    (
        "Spec(M.PREDICT, predictions=c(), export_outputs={k: X.PredictOutput(c()) for k in 'ab'})",
        "Multiple `export_outputs` were provided, but none of them are specified as the default.",
    ),
    (
        "sorted(Spec(M.PREDICT, predictions=c(), export_outputs={'a': X.PredictOutput(c())}).export_outputs)",
        "",
    ),
    (
        "{k: v.name for k, v in Spec(M.PREDICT, predictions=c()).export_outputs['serving_default'].outputs.items()}",
        "",
    ),
    ("Spec(M.EVAL, loss=c(), eval_metric_ops=[1])", "eval_metric_ops must be a dict, given: [1]"),
    (
        "Spec(M.EVAL, loss=c(), eval_metric_ops={'a': [1, 2]})",
        "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: [1, 2] for key: a",
    ),
    (
        "Spec(M.EVAL, loss=c(), evaluation_hooks=[3])",
        "All hooks must be SessionRunHook instances, given: 3",
    ),
    (
        "Spec(M.EVAL, loss=c(), training_hooks=[3])",
        "All hooks must be SessionRunHook instances, given: 3",
    ),
    ("Spec(M.EVAL, loss=c(), scaffold=3)", "scaffold must be tf.train.Scaffold. Given: 3"),
    (
        "Spec(M.EVAL, loss=other())",
        'loss with "Const:0" must be from the default graph',
    ),
    (
        "Spec(M.TRAIN, loss=c(), train_op=other())",
        'train_op with "Const:0" must be from the default graph',
    ),
    (
        "Spec(M.PREDICT, predictions=other())",
        'prediction values with "Const:0" must be from the default graph',
    ),
    (
        "Spec(M.PREDICT, predictions={'k': other()})",
        'prediction values with "k: Const:0" must be from the default graph',
    ),
    (
        "Spec(M.EVAL, loss=c(), eval_metric_ops={'a': (other(), c())})",
        'eval_metric_ops with "a: Const:0" must be from the default graph',
    ),
    ("Spec('foo').mode", ""),
    ("Spec(M.EVAL, loss=c())._replace(mode='x')", "mode of EstimatorSpec cannot be changed."),
    ("Spec(M.EVAL, loss=c())._replace(loss=3)", "loss must be Tensor, given: 3"),
    ("list(Spec._fields)", ""),
    ("[M.TRAIN, M.EVAL, M.PREDICT]", ""),
    ("X.PredictOutput(3)", "Prediction output value must be a Tensor; got 3."),
    ("X.PredictOutput({'a': 3})", "Prediction output value must be a Tensor; got 3."),
    ("X.PredictOutput({3: c()})", "Prediction output key must be a string; got 3."),
    ("X.PredictOutput(tf.Variable(1.0))", "Prediction output value must be a Tensor; got <tf.Var"),
    ("list(X.PredictOutput({('a', 'b'): c()}).outputs)", ""),
    ("signature(X.PredictOutput(c()), c(1), c('a'))", ""),
    ("signature(X.PredictOutput({}), c(1))", "Prediction `outputs` cannot be None or empty."),
    ("signature(X.PredictOutput(c()))", "Prediction `inputs` cannot be None or empty."),
    (
        "X.ClassificationOutput()",
        "At least one of `scores` and `classes` must be defined.",
    ),
    ("X.ClassificationOutput(3)", "Classification scores must be a float32 Tensor; got 3"),
    ("X.ClassificationOutput(classes=3)", "Classification classes must be a string Tensor; got 3"),
    ("signature(X.ClassificationOutput(c(), c('a')), c('a'))", ""),
    (
        "signature(X.ClassificationOutput(c()), c(1))",
        "Classification signatures can only accept a single tensor input of type tf.string",
    ),
    ("X.RegressionOutput(c(3))", "Regression output value must be a float32 Tensor; got Tensor("),
    ("signature(X.RegressionOutput(c()), c('a'))", ""),
    (
        "signature(X.RegressionOutput(c()), c('a'), c('b'))",
        "Regression signatures can only accept a single tensor input of type tf.string",
    ),
    ("signature(X.EvalOutput(c(), {'p': c()}, {'m': (c(), tf.no_op())}), c('a'))", ""),
    ("signature(X.EvalOutput(c(), c(), (c(), c())), c())", ""),
    (
        "signature(X.EvalOutput(c()))",
        "tensorflow/supervised/eval `inputs` cannot be None or empty.",
    ),
    ("X.EvalOutput(c(), None, {'a': (3, c())})", "metrics/a output value must be a Tensor; got 3."),
    (
        "X.EvalOutput(c(), None, {'a': (c(), 3)})",
        "metrics/a update_op must be a Tensor or Operation; got 3.",
    ),
    ("signature(X.EvalOutput({'loss': c()}, {'predictions': c(), ('a', 'b'): c()}), c())", ""),
    ("X.EvalOutput({3: c()})", "key must be a string; got 3."),
    ("X.EvalOutput(3)", "must be a Tensor; got 3."),
]


@pytest.mark.parametrize(("made", "phrase"), CASES, ids=[each[0] for each in CASES])
def test_specs_and_outputs_are_made_and_refused_alike(agree: Any, made: str, phrase: str) -> None:
    agree(SETUP + f"result = attempt(lambda: {made}, {phrase!r})")
