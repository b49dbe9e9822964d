"""Channels second (NCHW, NCDHW, NCW): values and gradients are those of channels last, turned.

TensorFlow has kernels of most of these for GPUs alone; here they work on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

Make = Callable[[Any, Any], Any]
LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
FIRST = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
SEED = 20


def across(x: Any, *sizes: int) -> list[int]:
    """An entry for each axis of `x`, a pair of data format and rank, from those of the spatial ones."""
    return [1, *sizes, 1] if x.endswith("C") else [1, 1, *sizes]


def weights(*shape: int) -> Any:
    draw = np.random.default_rng(SEED + len(shape)).standard_normal(shape)
    return tf.Variable(draw.astype(np.float32))


def pads(format_: str) -> list[list[int]]:
    return (
        [[0, 0], [1, 2], [0, 1], [0, 0]] if format_ == "NHWC" else [[0, 0], [0, 0], [1, 2], [0, 1]]
    )


def layered(name: str, *args: Any, **more: Any) -> Make:
    def make(x: Any, format_: str) -> Any:
        order = "channels_last" if format_.endswith("C") else "channels_first"
        with tf.variable_scope("layer", initializer=tf.constant_initializer(0.3)):
            return getattr(tf.layers, name)(x, *args, data_format=order, **more)

    return make


def normalized(training: bool) -> Make:
    def make(x: Any, format_: str) -> Any:
        given = () if training else (weights(3), tf.square(weights(3)) + 1.0)
        return tf.nn.fused_batch_norm(
            x, weights(3), weights(3) * 2.0, *given, data_format=format_, is_training=training
        )[0]

    return make


def layer_of_norms(x: Any, format_: str) -> Any:
    at = -1 if format_.endswith("C") else 1
    return tf.layers.batch_normalization(x, axis=at, training=True)


CASES: dict[str, tuple[int, Make]] = {
    "conv1d": (3, lambda x, f: tf.nn.conv1d(x, weights(3, 3, 2), 2, "SAME", data_format=f)),
    "conv2d": (4, lambda x, f: tf.nn.conv2d(x, weights(3, 2, 3, 4), across(f, 2, 1), "SAME", data_format=f)),
    "conv2d, padded": (4, lambda x, f: tf.nn.conv2d(x, weights(3, 2, 3, 4), 1, pads(f), data_format=f)),
    "conv2d, dilated": (4, lambda x, f: tf.nn.conv2d(
        x, weights(3, 2, 3, 4), 1, "VALID", data_format=f, dilations=across(f, 1, 2))),
    "conv2d of 17 channels made": (4, lambda x, f: tf.nn.conv2d(x, weights(3, 3, 3, 17), 1, "SAME", data_format=f)),
    "depthwise": (4, lambda x, f: tf.nn.depthwise_conv2d(
        x, weights(3, 2, 3, 2), across(f, 2, 2), "SAME", data_format=f)),
    "separable": (4, lambda x, f: tf.nn.separable_conv2d(
        x, weights(3, 2, 3, 2), weights(1, 1, 6, 4), across(f, 1, 1), "VALID", data_format=f)),
    "transposed": (4, lambda x, f: tf.nn.conv2d_transpose(
        x, weights(3, 2, 4, 3), [2, 14, 12, 4] if f == "NHWC" else [2, 4, 14, 12], across(f, 2, 2), data_format=f)),
    "conv3d": (5, lambda x, f: tf.nn.conv3d(x, weights(2, 3, 2, 3, 4), across(f, 1, 2, 1), "SAME", data_format=f)),
    "conv3d_transpose": (5, lambda x, f: tf.nn.conv3d_transpose(
        x, weights(2, 2, 2, 4, 3), [2, 8, 10, 6, 4] if f == "NDHWC" else [2, 4, 8, 10, 6],
        across(f, 2, 2, 2), data_format=f)),
    "max_pool1d": (3, lambda x, f: tf.nn.max_pool1d(x, [3], [2], "SAME", f)),
    "avg_pool1d": (3, lambda x, f: tf.nn.avg_pool1d(x, [3], [2], "SAME", f)),
    "max_pool": (4, lambda x, f: tf.nn.max_pool(x, across(f, 3, 2), across(f, 2, 1), "SAME", data_format=f)),
    "max_pool, tiled": (4, lambda x, f: tf.nn.max_pool(x, across(f, 2, 2), across(f, 2, 2), "VALID", data_format=f)),
    "avg_pool": (4, lambda x, f: tf.nn.avg_pool(x, across(f, 3, 2), across(f, 2, 1), "SAME", data_format=f)),
    "max_pool3d": (5, lambda x, f: tf.nn.max_pool3d(
        x, across(f, 2, 3, 2), across(f, 1, 2, 2), "SAME", data_format=f)),
    "avg_pool3d": (5, lambda x, f: tf.nn.avg_pool3d(
        x, across(f, 2, 3, 2), across(f, 1, 2, 2), "SAME", data_format=f)),
    "pool": (4, lambda x, f: tf.nn.pool(x, [2, 3], "MAX", "VALID", dilation_rate=[2, 1], data_format=f)),
    "bias_add": (4, lambda x, f: tf.nn.bias_add(x, weights(3), data_format=f)),
    "bias_add of volumes": (5, lambda x, f: tf.nn.bias_add(x, weights(3), data_format=f)),
    "batch norm, training": (4, normalized(training=True)),
    "batch norm of volumes": (5, normalized(training=True)),
    "batch norm, given": (4, normalized(training=False)),
    "layers.conv1d": (3, layered("conv1d", 4, 3)),
    "layers.conv2d": (4, layered("conv2d", 4, 3, 2, activation=tf.nn.relu)),
    "layers.conv3d": (5, layered("conv3d", 4, 2)),
    "layers.separable_conv2d": (4, layered("separable_conv2d", 4, 3)),
    "layers.conv2d_transpose": (4, layered("conv2d_transpose", 4, 3, 2)),
    "layers.conv3d_transpose": (5, layered("conv3d_transpose", 4, 2, 2)),
    "layers.max_pooling2d": (4, layered("max_pooling2d", 3, 2)),
    "layers.average_pooling3d": (5, layered("average_pooling3d", 2, 2)),
    "layers.batch_normalization": (4, layer_of_norms),
}  # fmt: skip


def values_of(make: Make, x: Any, format_: str) -> list[Any]:
    """What is made, its gradients with respect to x and every variable, and, but for batch normalization, those of
    the gradients with respect to x."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(x)
        y = make(given, format_)
        (to_x,) = tf.gradients(tf.reduce_sum(tf.square(y)), given)
        others = tf.gradients(tf.reduce_sum(tf.square(y)), tf.trainable_variables())
        again: list[Any] = []
        if all("FusedBatchNorm" not in op.type for op in session.graph.get_operations()):
            again = tf.gradients(tf.square(to_x), tf.trainable_variables() or [given])
        session.run(tf.global_variables_initializer())
        found = session.run([y, to_x, *(each for each in (*others, *again) if each is not None)])
        assert y.shape == found[0].shape
        return found


@pytest.mark.parametrize("case", CASES)
def test_channels_second_give_what_channels_last_give(case: str) -> None:
    rank, make = CASES[case]
    x = np.random.default_rng(SEED).standard_normal((*(2, 7, 6, 5)[: rank - 1], 3))
    if rank == 5:
        x = x[:, :4, :5, :3]
    wanted = values_of(make, x.astype(np.float32), LAST[rank])
    turned = np.ascontiguousarray(np.moveaxis(x, -1, 1)).astype(np.float32)
    found = values_of(make, turned, FIRST[rank])
    assert len(found) == len(wanted)
    for number, (mine, other) in enumerate(zip(found, wanted, strict=True)):
        back = np.moveaxis(mine, 1, -1) if number < 2 or mine.shape == turned.shape else mine
        assert back.shape == other.shape
        np.testing.assert_allclose(back, other, rtol=2e-4, atol=2e-4 * np.abs(other).max(initial=1))
