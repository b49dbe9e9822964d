"""Metrics and losses of tf.contrib beside sums over all pairs and thresholds in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

metrics, learning = tf.contrib.metrics, tf.contrib.losses.metric_learning
rng = np.random.RandomState(3)
P = (rng.randint(0, 11, 40) / 10).astype(np.float32)
Y = rng.rand(40) < 0.3 + 0.4 * P
W = rng.randint(1, 4, 40).astype(np.float32)


def test_areas_f1_and_equal_thresholds() -> None:
    halves = [slice(0, 15), slice(15, 40)]
    with tf.Graph().as_default(), tf.Session() as session:
        p, w = (tf.placeholder(tf.float32, [None]) for _ in range(2))
        y = tf.placeholder(tf.bool, [None])
        roc = metrics.streaming_dynamic_auc(y, p, weights=w)
        pr = metrics.streaming_dynamic_auc(y, p, "PR", weights=w)
        f1 = metrics.f1_score(y, p, w, num_thresholds=12)
        equal = metrics.precision_recall_at_equal_thresholds(y, p, w, num_thresholds=11)
        session.run(tf.local_variables_initializer())
        assert session.run([roc[0], pr[0]]) == [-1, -1]
        for half in halves:
            session.run([roc[1], pr[1], f1[1], equal[1]], {p: P[half], y: Y[half], w: W[half]})
        found = session.run([roc[0], pr[0], f1[0]])
        data = session.run(equal[0])
        with pytest.raises(ValueError, match="either ROC or PR, X unknown"):
            metrics.streaming_dynamic_auc(y, p, "X")
        with pytest.raises(ValueError, match="must be in the range"):
            metrics.precision_at_recall(y, p, 2.0)
    pairs = (P[Y][:, None] - P[~Y][None, :]) / 2
    chance = np.where(pairs == 0, 0.5, pairs > 0) * W[Y][:, None] * W[~Y][None, :]
    assert found[0] == pytest.approx(chance.sum() / W[Y].sum() / W[~Y].sum(), rel=1e-5)
    limits = np.unique(P)[::-1]
    tp = np.array([W[Y & (at <= P)].sum() for at in limits])
    every = np.array([W[at <= P].sum() for at in limits])
    assert found[1] == pytest.approx((np.diff(tp, prepend=0) * tp / every).sum() / tp[-1], rel=1e-5)
    best = max(2 * t / (e + W[Y].sum()) for t, e in zip(tp, every, strict=True))
    assert found[2] == pytest.approx(best, rel=1e-5)
    steps = np.linspace(0, 1, 11)
    np.testing.assert_allclose(data.thresholds, steps, rtol=1e-6)
    counted = np.array([W[Y & (at - 0.05 < P)].sum() for at in steps])
    np.testing.assert_allclose(data.tp, counted)
    np.testing.assert_allclose(data.recall, counted / W[Y].sum(), rtol=1e-6)
    np.testing.assert_allclose(data.fn + data.tp, W[Y].sum())
    np.testing.assert_allclose(data.tn + data.fp, W[~Y].sum())


def _pairs(x: Any, labels: Any) -> tuple[Any, Any]:
    return np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)), labels[:, None] == labels[None]


def _triplets(x: Any, labels: Any, margin: float) -> float:
    apart, same = _pairs(x, labels)
    apart, found = apart**2, []
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j and same[i, j]:
                negatives = apart[i][~same[i]]
                farther = negatives[negatives > apart[i, j]]
                chosen = farther.min() if len(farther) else negatives.max()
                found.append(max(0.0, margin + apart[i, j] - chosen))
    return float(np.mean(found))


def _lifted(x: Any, labels: Any, margin: float) -> float:
    apart, same = _pairs(x, labels)
    found = []
    for i in range(len(x)):
        for j in range(len(x)):
            if i < j and same[i, j]:
                away = sum(np.exp(margin - apart[k][~same[k]]).sum() for k in (i, j))
                found.append(max(0.0, np.log(away) + apart[i, j]) ** 2)
    return float(np.mean(found)) / 2


def _n_pairs(a: Any, b: Any, shares: Any) -> float:
    logits = a @ b.T
    targets = shares / shares.sum(1, keepdims=True)
    losses = np.log(np.exp(logits).sum(1)) - (targets * logits).sum(1)
    return float(losses.mean() + 0.25 * 0.002 * ((a**2).sum(1).mean() + (b**2).sum(1).mean()))


def test_losses_of_embeddings() -> None:
    a, b = (rng.standard_normal((8, 4)) * 0.7 for _ in range(2))
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 1])
    several = rng.rand(8, 5) < 0.4
    several[:, 0] = True
    with tf.Graph().as_default(), tf.Session() as session:
        va, vb = tf.constant(a), tf.constant(b)
        rows = []
        for row in several:
            at = np.flatnonzero(row)
            where = np.stack([0 * at, at], 1)
            rows.append(tf.SparseTensor(where, np.ones(len(at), np.int64), [1, 5]))
        losses = [
            learning.contrastive_loss(labels == 0, va, vb, 1.5),
            learning.triplet_semihard_loss(labels, va, 0.8),
            learning.lifted_struct_loss(labels, va, 0.8),
            learning.npairs_loss(labels, va, vb),
            learning.npairs_loss_multilabel(rows, va, vb),
        ]
        slopes = [tf.gradients(loss, va)[0] for loss in losses]
        found, slopes = session.run([losses, slopes])
        with pytest.raises(TypeError, match="list of SparseTensors"):
            learning.npairs_loss_multilabel([labels], va, vb)
    apart = np.sqrt(((a - b) ** 2).sum(1))
    near = np.where(labels == 0, apart**2, np.maximum(1.5 - apart, 0) ** 2)
    expected = [
        near.mean(),
        _triplets(a, labels, 0.8),
        _lifted(a, labels, 0.8),
        _n_pairs(a, b, (labels[:, None] == labels[None]) * 1.0),
        _n_pairs(a, b, several * 1.0 @ several.T),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert all(np.isfinite(slope).all() for slope in slopes)
