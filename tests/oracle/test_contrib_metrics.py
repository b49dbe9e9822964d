"""Metrics of tf.contrib that tf.metrics has not, beside tf-slim: variables, updates and values of three batches."""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as hr
from tests.oracle.slim_names import PREPARED

SOURCES = [
    "M.count(p)",
    "M.count(p, weights=w)",
    "M.count(p, weights=2.0, name='mine')",
    "M.streaming_false_positive_rate(p > 0.5, y)",
    "M.streaming_false_positive_rate(p > 0.5, y, weights=w)",
    "M.streaming_false_negative_rate(p > 0.5, y, weights=w)",
    "M.streaming_false_positive_rate_at_thresholds(p, y, [0.2, 0.5], weights=w)",
    "M.streaming_false_negative_rate_at_thresholds(p, y, [0.2, 0.5])",
    "M.streaming_curve_points(y, p, num_thresholds=5)",
    "M.streaming_curve_points(y, p, w, num_thresholds=5, curve='PR')",
    "M.precision_at_recall(y, p, 0.57, num_thresholds=20)",
    "M.precision_at_recall(y, p, 0.3, w, num_thresholds=20)",
    "M.recall_at_precision(y, p, 0.57, weights=w, num_thresholds=20)",
    "M.recall_at_precision(y, p, 0.57, num_thresholds=20, strict_mode=True)",
    "M.streaming_covariance(p, q)",
    "M.streaming_covariance(p, q, weights=w)",
    "M.streaming_pearson_correlation(p, q)",
    "M.streaming_pearson_correlation(p, q, weights=w)",
    "M.cohen_kappa(k, j, 3)",
    "M.cohen_kappa(k, j, 3, weights=w)",
    "M.streaming_concat(p)",
    "M.streaming_concat(tf.reshape(p, [2, 3]), axis=1, max_size=7)",
    "M.sparse_recall_at_top_k(tf.cast(tf.reshape(k, [6, 1]), tf.int64), tf.cast(tf.stack([j, k], 1), tf.int64))",
]
MOVED = """
from tensorflow.python.ops import array_ops, math_ops
for module in (array_ops, math_ops):
    for name in ("stack", "to_double", "to_float", "to_int32", "to_int64", "bincount"):
        if not hasattr(module, name):
            setattr(module, name, getattr(tf, name))
"""
BUILT = """
def built(what):
    with tf.Graph().as_default(), tf.Session() as session:
        p, q, w = (tf.placeholder(tf.float32, [6], name=n) for n in "pqw")
        y = tf.placeholder(tf.bool, [6], name="y")
        k, j = (tf.placeholder(tf.int32, [6], name=n) for n in "kj")
        found = eval(what, {**globals(), **locals()})
        names = sorted(v.op.name for v in tf.local_variables())
        session.run(tf.local_variables_initializer())
        rng = np.random.RandomState(5)
        values = []
        for _ in range(3):
            fed = {p: rng.rand(6), q: rng.rand(6), w: rng.randint(0, 3, 6), y: rng.rand(6) > 0.4}
            fed |= {k: rng.randint(0, 3, 6), j: rng.randint(0, 3, 6)}
            values.append(np.asarray(session.run(found[1], fed)).tolist())
            values.append(np.asarray(session.run(found[0])).tolist())
        return names, found[0].dtype.name, values
result = [built(what) for what in sources]
"""


def test_values_of_three_batches_are_those_of_tf_slim(oracle: Any) -> None:
    prepared = PREPARED + MOVED + '\nimport tf_slim.metrics\nM = sys.modules["tf_slim.metrics"]\n'
    theirs = oracle.run(prepared + BUILT, sources=SOURCES)
    names: dict[str, Any] = {"tf": hr, "np": np, "M": hr.contrib.metrics, "sources": SOURCES}
    exec(BUILT, names)
    for source, ours, other in zip(SOURCES, names["result"], theirs, strict=True):
        assert ours[:2] == other[:2], source
        for mine, its in zip(ours[2], other[2], strict=True):
            assert (mine is None) == (its is None), source
            np.testing.assert_allclose(mine or 0, its or 0, rtol=2e-5, atol=1e-6, err_msg=source)
