"""Networks' operations on images and volumes, each with its gradients: programs for devices to agree on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import headrace as tf

Program = Callable[[], list[Any]]
"""Adds the operations to the default graph; tensors to be fetched."""


def _drawn(*shape: Any, ties: bool = False) -> Any:
    """Numbers that are the same every time, which no step folds.  ties: many are equal."""
    values = np.random.RandomState(len(shape) + sum(shape)).normal(size=shape)
    kept = np.float32(np.round(values) if ties else values)
    return tf.placeholder_with_default(kept, shape)


def _with_gradients(made: Any, *inputs: Any) -> list[Any]:
    """It, the gradients of a sum of it, and of the sum of their squares again."""
    first = tf.gradients(made * _drawn(*made.shape.as_list()), inputs)
    second = tf.gradients([tf.reduce_sum(each * each) for each in first], inputs)
    return [made, *first, *[each for each in second if each is not None]]


def _conv2d(shape: tuple[int, ...], filters: tuple[int, ...], **attrs: Any) -> Program:
    def program() -> list[Any]:
        x, weights = _drawn(*shape), _drawn(*filters)
        # The second gradient of groups is not supported, here or there.
        made = tf.nn.conv2d(x, weights, **attrs)
        if shape[-1] != filters[-2] and attrs.get("data_format") != "NCHW":
            return [made]
        return _with_gradients(made, x, weights)

    return program


def _conv3d(**attrs: Any) -> Program:
    def program() -> list[Any]:
        x, weights = _drawn(2, 4, 5, 4, 3), _drawn(2, 3, 2, 3, 4)
        return _with_gradients(tf.nn.conv3d(x, weights, **attrs), x, weights)

    return program


def _depthwise(shape: tuple[int, ...], filters: tuple[int, ...], **attrs: Any) -> Program:
    def program() -> list[Any]:
        x, weights = _drawn(*shape), _drawn(*filters)
        made = tf.nn.depthwise_conv2d_native(x, weights, **attrs)
        return [made, *tf.gradients(made * _drawn(*made.shape.as_list()), [x, weights])]

    return program


def _pool(pool: Any, shape: tuple[int, ...], **attrs: Any) -> Program:
    def program() -> list[Any]:
        x = _drawn(*shape, ties=True)
        return _with_gradients(pool(x, **attrs), x)

    return program


def _batch_norm(shape: tuple[int, ...], **attrs: Any) -> Program:
    def program() -> list[Any]:
        x = _drawn(*shape)
        channels = shape[1] if attrs.get("data_format") == "NCHW" else shape[-1]
        scale, offset, mean = (_drawn(channels) + number for number in range(3))
        y, *statistics = tf.nn.fused_batch_norm(
            x, scale, offset, mean, tf.square(mean) + 1.0, **attrs
        )
        weighted = y * _drawn(*shape)
        return [y, *statistics, *tf.gradients(weighted, [x, scale, offset])]

    return program


def _lrn() -> list[Any]:
    x = _drawn(2, 3, 2, 7)
    made = tf.nn.lrn(x, depth_radius=2, bias=1.5, alpha=0.3, beta=0.7)
    return [made, *tf.gradients(made * _drawn(2, 3, 2, 7), [x])]


_IMAGES, _FIRST = (2, 7, 6, 4), (2, 4, 7, 6)
_VOLUMES = (2, 4, 5, 4, 3)
_CHANNELS_FIRST: dict[str, Any] = {"data_format": "NCHW", "padding": "SAME"}

PROGRAMS: dict[str, Program] = {
    "a convolution": _conv2d(_IMAGES, (3, 3, 4, 5), strides=[1, 1, 1, 1], padding="SAME"),
    "one with strides": _conv2d(_IMAGES, (3, 2, 4, 5), strides=[1, 2, 3, 1], padding="SAME"),
    "one without padding": _conv2d(_IMAGES, (3, 2, 4, 5), strides=[1, 2, 1, 1], padding="VALID"),
    "one with larger steps than windows": _conv2d(
        _IMAGES, (1, 1, 4, 5), strides=[1, 2, 3, 1], padding="VALID"
    ),
    "a dilated one": _conv2d(
        _IMAGES, (3, 2, 4, 5), strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 3, 1]
    ),
    "one padded as is said": _conv2d(
        _IMAGES, (3, 2, 4, 5), strides=[1, 2, 1, 1], padding=[[0, 0], [3, 1], [0, 2], [0, 0]]
    ),
    "one with channels first": _conv2d(
        _FIRST, (3, 2, 4, 5), strides=[1, 1, 2, 1], **_CHANNELS_FIRST
    ),
    "one in groups": _conv2d(_IMAGES, (3, 2, 2, 6), strides=[1, 1, 1, 1], padding="SAME"),
    "one of volumes": _conv3d(strides=[1, 1, 2, 1, 1], padding="SAME"),
    "one of volumes without padding": _conv3d(strides=[1, 1, 1, 2, 1], padding="VALID"),
    "a depthwise one": _depthwise(_IMAGES, (3, 2, 4, 2), strides=[1, 2, 2, 1], padding="SAME"),
    "a depthwise one of one channel": _depthwise(
        (2, 5, 5, 1), (3, 3, 1, 3), strides=[1, 1, 1, 1], padding="VALID"
    ),
    "a depthwise one with channels first": _depthwise(
        _FIRST, (3, 2, 4, 2), strides=[1, 1, 1, 1], **_CHANNELS_FIRST
    ),
    "the largest": _pool(
        tf.nn.max_pool, _IMAGES, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
    ),
    "the largest of windows that overlap": _pool(
        tf.nn.max_pool, _IMAGES, ksize=[1, 3, 3, 1], strides=[1, 2, 1, 1], padding="SAME"
    ),
    "the largest with channels first": _pool(
        tf.nn.max_pool, _FIRST, ksize=[1, 1, 3, 2], strides=[1, 1, 2, 2], **_CHANNELS_FIRST
    ),
    "the largest of volumes": _pool(
        tf.nn.max_pool3d, _VOLUMES, ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 1, 1], padding="SAME"
    ),
    "the mean": _pool(
        tf.nn.avg_pool, _IMAGES, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding="SAME"
    ),
    "the mean with channels first": _pool(
        tf.nn.avg_pool, _FIRST, ksize=[1, 1, 3, 2], strides=[1, 1, 1, 2], **_CHANNELS_FIRST
    ),
    "the mean of volumes": _pool(
        tf.nn.avg_pool3d, _VOLUMES, ksize=[1, 2, 3, 2, 1], strides=[1, 1, 2, 1, 1], padding="VALID"
    ),
    "a batch's statistics": _batch_norm(_IMAGES),
    "those with channels first": _batch_norm(_FIRST, data_format="NCHW"),
    "those that were given": _batch_norm(_IMAGES, is_training=False),
    "neighbouring channels": _lrn,
}


def outcome(program: Program, device: str) -> list[Any]:
    """What it gives there."""
    with tf.Graph().as_default():
        with tf.device(device):
            wanted = program()
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            found: list[Any] = session.run(wanted)
    return found
