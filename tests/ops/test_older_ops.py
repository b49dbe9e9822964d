"""Ops of earlier versions give what their successors do, and so do the gradients that are ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops.tables import make

RNG = np.random.default_rng(5)
X, DY, W = (RNG.normal(size=(2, 3, 4, 2)).astype(np.float32) for _ in range(3))
SCALE, OFFSET = np.array([0.5, 2.0], np.float32), np.array([1.0, -1.0], np.float32)
MEAN, VARIANCE = np.array([0.1, 0.2], np.float32), np.array([0.5, 2.0], np.float32)


def run(*fetches: Any) -> list[Any]:
    with tf.Session() as session:
        found: list[Any] = session.run(list(fetches))
    return found


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("version", ["", "V2"])
def test_fused_batch_norms_of_all_versions_agree(version: str, training: bool) -> None:
    """Values, and the first two derivatives."""
    found = []
    for each in (version, "V3"):
        x, scale, offset = tf.constant(X), tf.constant(SCALE), tf.constant(OFFSET)
        given = (tf.constant([]),) * 2 if training else (MEAN, VARIANCE)
        y = getattr(make, f"FusedBatchNorm{each}")(x, scale, offset, *given, is_training=training)
        first = tf.gradients(y[0], [x, scale, offset], DY)
        total = tf.reduce_sum(first[0] * W) + tf.reduce_sum(first[1] ** 2)
        second = [g for g in tf.gradients(total, [x, scale]) if g is not None]
        found.append(run(*y[:5], *first, *second))
    for ours, third in zip(*found, strict=True):
        np.testing.assert_allclose(ours, third, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("training", [True, False])
def test_the_second_derivative_of_batch_norm_is_that_of_differences(
    training: bool, data_format: str
) -> None:
    x = tf.placeholder(tf.float32, [2, 3, 4, 2])
    image = x if data_format == "NHWC" else tf.transpose(x, [0, 3, 1, 2])
    given = {} if training else {"mean": MEAN, "variance": VARIANCE}
    y = tf.nn.fused_batch_norm(
        image, SCALE, OFFSET, data_format=data_format, is_training=training, **given
    )[0]
    (slope,) = tf.gradients(tf.reduce_sum(y**3), x)
    total = tf.reduce_sum(slope * W)
    (second,) = tf.gradients(total, x)
    step = RNG.normal(size=X.shape).astype(np.float32)
    with tf.Session() as session:
        small = 1e-2
        above, below = (session.run(total, {x: X + sign * small * step}) for sign in (1, -1))
        found = np.sum(session.run(second, {x: X}) * step)
    assert found == pytest.approx((above - below) / (2 * small), rel=2e-2)


def test_pooling_with_windows_of_a_step_is_pooling_with_attrs() -> None:
    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 1, 1]}
    inputs = [tf.constant(each) for each in window.values()]
    found = []
    for name, more, attrs in (("V2", inputs, {}), ("", [], window)):
        x = tf.constant(X)
        y = getattr(make, f"MaxPool{name}")(x, *more, padding="SAME", **attrs)
        (dx,) = tf.gradients(y, x, DY[:, :2])
        grad = getattr(make, f"MaxPoolGrad{name}")
        dy = tf.constant(DY[:, :2])
        again = grad(x, y, dy, *more, padding="SAME", **attrs)
        (ddy,) = tf.gradients(again, dy, W)
        (third,) = tf.gradients(ddy, again.op.inputs[2], None) or [None]
        assert third is None
        found.append(run(y, dx, again, ddy))
    for ours, others in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, others)


def test_a_graph_of_version_8_normalizes_as_it_says() -> None:
    y = make.BatchNormWithGlobalNormalization(
        X, MEAN, VARIANCE, OFFSET, SCALE, variance_epsilon=0.1, scale_after_normalization=True
    )
    z = make.BatchNormWithGlobalNormalization(
        X, MEAN, VARIANCE, OFFSET, SCALE, variance_epsilon=0.1, scale_after_normalization=False
    )
    plain = (X - MEAN) / np.sqrt(VARIANCE + 0.1)
    scaled, bare = run(y, z)
    np.testing.assert_allclose(scaled, plain * SCALE + OFFSET, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(bare, plain + OFFSET, rtol=1e-5, atol=1e-6)
