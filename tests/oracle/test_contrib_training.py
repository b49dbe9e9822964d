"""optimize_loss, create_train_op, losses, metrics and restoring of tf.contrib beside tf-slim, and a program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.contrib import framework, layers, slim
from tests.oracle.slim_names import PREPARED
from tests.support.limits import PROGRAM_WITHIN_S

PREPARED_TOO = (
    PREPARED
    + """
import tf_slim.learning, tf_slim.evaluation, tf_slim.model_analyzer, tf_slim.data.prefetch_queue
P = sys.modules["tf_slim.data.prefetch_queue"]
result = None
"""
)
BUILT = """
def built(what):
    tf.reset_default_graph()
    graph = tf.get_default_graph()
    x = tf.constant([[1.0, 2.0, 0.5], [0.25, 3.0, -1.0]], name="x")
    y = tf.constant([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], name="y")
    v = tf.get_variable("v", [2], initializer=tf.constant_initializer(3.0))
    w = tf.get_variable("w", [2], initializer=tf.constant_initializer(1.0))
    loss = tf.add(tf.reduce_sum(tf.square(v)), tf.reduce_sum(tf.square(w)), name="loss")
    step = tf.train.get_or_create_global_step()
    try:
        found = eval(what, {**globals(), "x": x, "y": y, "v": v, "w": w, "loss": loss, "step": step})
    except Exception as error:
        return "error", type(error).__name__, str(error)
    collections = {
        key: [v.name.partition(":")[0] for v in tf.get_collection(key)]
        for key in graph.get_all_collection_keys()
        if isinstance(key, str) and key not in ("cond_context", "queue_runners") and tf.get_collection(key)
    }
    nodes = sorted((n.name, n.op) for n in graph.as_graph_def().node if n.op not in ("Const", "Identity"))
    name = getattr(found, "name", None) or repr(found)
    values = None
    if isinstance(found, tf.Tensor) and found.dtype.base_dtype == tf.float32:
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            # TensorFlow may read a variable for the loss when a step has changed it.
            changes = "optimize_loss" in what or "train_op" in what
            values = [np.asarray(session.run(found.op if changes else found)).tolist() for _ in range(2)]
            values = [] if changes else values
            values += [np.asarray(session.run(each)).tolist() for each in tf.global_variables()]
    return name, collections, nodes, values
result = [built(what) for what in sources]
"""
OF_TRAINING = [
    "L.optimize_loss(loss, step, 0.1, 'SGD', summaries=L.OPTIMIZER_SUMMARIES)",
    "L.optimize_loss(loss, None, 0.1, 'Momentum', increment_global_step=False)",
    "L.optimize_loss(loss, step, None, tf.train.GradientDescentOptimizer(0.1), clip_gradients=1.0, summaries=['loss'])",
    "L.optimize_loss(loss, step, 0.1, lambda lr: tf.train.AdamOptimizer(lr), clip_gradients=L.adaptive_clipping_fn(), "
    "learning_rate_decay_fn=lambda lr, gs: tf.train.exponential_decay(lr, gs, 10, 0.9), name='opt')",
    "L.optimize_loss(loss, step, tf.constant(0.1), tf.train.AdagradOptimizer, gradient_multipliers={v: 2.0}, "
    "variables=[v])",
    "L.batch_norm(x) is x or L.optimize_loss(loss, step, 0.1, 'RMSProp')",
    # An update of a variable that the loss reads would happen before its gradient, between, or after the step.
    "L.optimize_loss(loss, step, 0.1, 'Ftrl', update_ops=[tf.assign_add(tf.get_variable('u', [2], "
    "initializer=tf.ones_initializer(), trainable=False), [1.0, 2.0])], summaries=[])",
    "slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.1))",
    "L.batch_norm(x) is x or slim.learning.create_train_op(loss, tf.train.MomentumOptimizer(0.1, 0.9), None, "
    "clip_gradient_norm=1.0, summarize_gradients=True, check_numerics=False, gradient_multipliers={'v': 2.0}, "
    "variables_to_train=[v])",
    "slim.learning.multiply_gradients([(x, v)], {'v': 2.0})[0][0]",
    "slim.learning.clip_gradient_norms([(x, v), (None, w)], 2.0)[0][0]",
    "slim.learning.add_gradients_summaries([(x, v)])[0]",
    "P.prefetch_queue([x, y]).dequeue()[0].shape.as_list()",
    "sorted(P.prefetch_queue({'a': x, 'b': y}, capacity=4, num_threads=2, name='pq').dequeue())",
    "P.prefetch_queue([x], dynamic_pad=True).name",
    "slim.metrics.accuracy(tf.constant([1, 2]), tf.constant([1, 1]))",
    "slim.metrics.aggregate_metrics((1, 2), (3, 4))",
    "slim.metrics.aggregate_metric_map({'a': (1, 2), 'b': (3, 4)})",
    "slim.metrics.streaming_accuracy(tf.constant([1, 2]), tf.constant([1, 1]), name='n')[1]",
    "slim.metrics.streaming_mean(x)[1]",
    "slim.model_analyzer.analyze_vars([v, w])",
    "slim.model_analyzer.tensor_description(x)",
    "slim.evaluation.get_or_create_eval_step()",
    "F.get_unique_variable('v')",
    "[each.name for each in F.get_variables_to_restore(exclude=['w'])]",
    "[each.name for each in F.get_variables_to_restore(include=['w'])]",
    "[each.name for each in F.filter_variables(F.get_variables(), ['v', 'st'], ['^gl'])]",
    "[each.name for each in F.get_variables_by_suffix('w')]",
    "[each.name for each in F.get_variables_by_name('v')]",
    "[each.device for each in [F.variable(n, [1], device=d) for d in [F.VariableDeviceChooser(2)] for n in 'abc']]",
    "F.model_variable('m', [2], collections=['c'], initializer=tf.ones_initializer())",
    "F.add_model_variable(v)",
    "F.get_variable_full_name(v)",
]
LOSSES = [
    "slim.losses.softmax_cross_entropy(x, y, weights=0.5)",
    "slim.losses.softmax_cross_entropy(x, y, weights=tf.constant([0.5, 0.0]), label_smoothing=0.1)",
    "slim.losses.sparse_softmax_cross_entropy(x, tf.constant([1, 0]), weights=tf.constant([1.0, 0.0]))",
    "slim.losses.sparse_softmax_cross_entropy(x, tf.constant([[1], [0]]))",
    "slim.losses.sigmoid_cross_entropy(x, y, label_smoothing=0.1)",
    "slim.losses.absolute_difference(x, y, weights=tf.constant([0.5, 0.0]))",
    "slim.losses.mean_squared_error(x, y, weights=2.0, scope='mine')",
    "slim.losses.log_loss(tf.nn.sigmoid(x), y, epsilon=1e-3)",
    "slim.losses.hinge_loss(x, y)",
    "slim.losses.mean_pairwise_squared_error(x, y)",
    "slim.losses.cosine_distance(x, y, axis=1)",
    "slim.losses.cosine_distance(x, y, dim=1)",
    "slim.losses.add_loss(loss) or slim.losses.get_total_loss()",
    "slim.losses.add_loss(loss) or slim.losses.get_losses()",
    "slim.losses.compute_weighted_loss(x, weights=tf.constant([1.0, 2.0]))",
    "slim.losses.get_regularization_losses()",
    "slim.metrics.accuracy(tf.constant([1, 2]), tf.constant([1, 1]), weights=[1.0, 2.0])",
]
ERRORS = [
    ("L.optimize_loss(loss, step, 0.1, 'Foo')", "Optimizer name should be one of"),
    ("L.optimize_loss(loss, step, -0.1, 'SGD')", "Invalid learning_rate -0.1."),
    (
        "L.optimize_loss(loss, step, 'x', 'SGD')",
        "Learning rate should be 0d Tensor or float. Got x",
    ),
    ("L.optimize_loss(loss, step, 0.1, 5)", "Unrecognized optimizer: should be string"),
    ("L.optimize_loss(loss, step, 0.1, 'SGD', summaries=['foo'])", "Summaries should be one of"),
    (
        "L.optimize_loss(loss, step, 0.1, 'SGD', clip_gradients='x')",
        "Unknown type <class 'str'> for clip_gradients",
    ),
    ("L.optimize_loss(loss, step, None, 'SGD')", "Learning rate is None"),
    (
        "slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.1), variables_to_train=[])",
        "",
    ),
    (
        "slim.learning.multiply_gradients([(None, v)], {'v': 2.0})",
        "Requested multiple of `None` gradient",
    ),
    ("slim.learning.multiply_gradients({}, {'v': 2.0})", "must be a list"),
    ("slim.learning.multiply_gradients([(x, v)], {})", "is empty"),
    ("slim.learning.train(None, None)", "train_op cannot be None."),
    (
        "slim.learning.train(loss, None, summary_op=x)",
        "Cannot provide summary_op because logdir=None",
    ),
    (
        "slim.learning.train(loss, None, saver=tf.train.Saver())",
        "Cannot provide saver because logdir=None",
    ),
    (
        "slim.learning.train(loss, None, trace_every_n_steps=1)",
        "Cannot provide trace_every_n_steps",
    ),
    (
        "slim.learning.train(loss, None, number_of_steps=0)",
        "must be either None or a positive number",
    ),
    ("slim.losses.get_total_loss()", "at least one Tensor"),
    ("slim.losses.mean_squared_error(x, tf.zeros([2, 4]))", "are incompatible"),
    ("slim.losses.softmax_cross_entropy(x, tf.zeros([2, 4]))", "are incompatible"),
    ("slim.losses.compute_weighted_loss(x, weights=None)", "None values not supported."),
    (
        "slim.metrics.accuracy(tf.constant([1, 2]), tf.constant([1.0, 1]))",
        "Labels should have bool, integer",
    ),
    ("P.prefetch_queue([tf.placeholder(tf.float32, [None])])", "hapes must be fully defined"),
    ("F.get_unique_variable('foo')", "Couldn't find variable foo"),
    (
        "F.get_variables_to_restore(include='v')",
        "include is provided but is not a list or a tuple.",
    ),
    (
        "F.assign_from_values({'v': np.ones([3], np.float32)})",
        "cannot reshape array of size 3 into shape (2,)",
    ),
    ("F.assign_from_checkpoint_fn('x', [])", "var_list cannot be empty"),
    ("slim.evaluation.SummaryAtEndHook()", "One of log_dir or summary_writer should be used."),
]


class _Quiet:
    """headrace, whose default graph here is the test's own."""

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "reset_default_graph" else getattr(hr, name)


def _both(oracle: Any, sources: list[str]) -> list[tuple[Any, Any]]:
    theirs = oracle.run(
        PREPARED_TOO + "F = slim\n" + BUILT + "\nresult = result if has_keras else None",
        sources=sources,
    )
    if theirs is None:
        pytest.skip(
            "the oracle has no tf-keras, which tf-slim's layers need; `make oracle` installs it"
        )
    ours = []
    for source in sources:
        with hr.Graph().as_default():
            names: dict[str, Any] = {
                "tf": _Quiet(),
                "np": np,
                "L": layers,
                "F": framework,
                "slim": slim,
            }
            names |= {"P": slim.prefetch_queue, "sources": [source]}
            exec(BUILT, names)
            ours += names["result"]
    return list(zip(ours, theirs, strict=True))


def test_training_ops_and_variables_are_those_of_tf_slim(oracle: Any) -> None:
    for source, (ours, theirs) in zip(OF_TRAINING, _both(oracle, OF_TRAINING), strict=True):
        assert ours[:-1] == theirs[:-1], source
        _close(ours[-1], theirs[-1], source)


def test_losses_have_the_names_collections_and_values_of_tf_slim(oracle: Any) -> None:
    for source, (ours, theirs) in zip(LOSSES, _both(oracle, LOSSES), strict=True):
        assert ours[:2] == theirs[:2], source
        _close(ours[-1], theirs[-1], source)


def _close(ours: Any, theirs: Any, source: str) -> None:
    assert not isinstance(theirs, str), (source, theirs)
    if theirs is None or ours is None:
        assert ours == theirs, source
        return
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5, err_msg=source)


def test_errors_of_training_are_those_of_tf_slim(oracle: Any) -> None:
    both = _both(oracle, [source for source, _ in ERRORS])
    for (source, phrase), (ours, theirs) in zip(ERRORS, both, strict=True):
        assert ours[:2] == theirs[:2], source
        assert phrase in theirs[2], source
        assert phrase in ours[2], source


CONVNET = Path(__file__).with_name("programs") / "slim_convnet.py"


def test_a_convnet_trains_and_is_evaluated_as_by_tf_slim(
    oracle_python: str, oracle: Any, tmp_path: Path
) -> None:
    if not oracle.run(PREPARED + "\nresult = has_keras"):
        pytest.skip(
            "the oracle has no tf-keras, which tf-slim's layers need; `make oracle` installs it"
        )
    prepared = tmp_path / "prepared.py"
    prepared.write_text("import tensorflow.compat.v1 as tf\n" + PREPARED)
    ours = _said([sys.executable, "-m", "headrace", "run", str(CONVNET), str(tmp_path / "ours")])
    theirs = _said([oracle_python, str(CONVNET), str(tmp_path / "theirs"), str(prepared)])
    assert len(ours) == len(theirs) > 3
    for mine, other in zip(ours, theirs, strict=True):
        numbers = r"-?\d+\.\d+"
        assert re.sub(numbers, "#", mine) == re.sub(numbers, "#", other)
        for found, wanted in zip(
            re.findall(numbers, mine), re.findall(numbers, other), strict=True
        ):
            assert abs(float(found) - float(wanted)) < 0.02, (mine, other)


def _said(command: list[str]) -> list[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROGRAM_WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("> ")]
