"""tf.layers of images: variables, names and shapes as programs find them, values as of the ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

IMAGES = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def value(*tensors: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(tensors))


def test_a_convolution_has_a_kernel_and_a_bias() -> None:
    y = tf.layers.conv2d(IMAGES, 5, 3, padding="same", activation=tf.nn.relu)
    kernel, bias = tf.trainable_variables()
    assert [v.name for v in (kernel, bias)] == ["conv2d/kernel:0", "conv2d/bias:0"]
    assert (kernel.shape, bias.shape, y.shape) == ((3, 3, 3, 5), (5,), (2, 8, 8, 5))
    assert (y.name, y.op.inputs[0].name) == ("conv2d/Relu:0", "conv2d/BiasAdd:0")
    wanted = tf.nn.relu(tf.nn.conv2d(IMAGES, kernel, 1, "SAME") + bias)
    np.testing.assert_array_equal(*value(y, wanted))


def test_each_layer_has_a_name_of_its_own_unless_it_is_reused() -> None:
    tf.layers.conv2d(IMAGES, 2, [3, 2], name="first")
    again = tf.layers.conv2d(IMAGES, 2, [3, 2], name="first", reuse=True)
    assert len(tf.trainable_variables()) == 2
    tf.layers.conv2d(again, 2, 1)
    tf.layers.conv2d(again, 2, 1, use_bias=False)
    names = [v.op.name for v in tf.trainable_variables()]
    assert names[2:] == ["conv2d/kernel", "conv2d/bias", "conv2d_1/kernel"]


def test_strides_dilations_and_channels_first() -> None:
    assert tf.layers.conv2d(IMAGES, 4, 3, strides=(2, 1)).shape == (2, 3, 6, 4)
    dilated = tf.layers.conv2d(IMAGES, 4, 3, dilation_rate=2, name="dilated")
    assert dilated.shape == (2, 4, 4, 4)
    kernel = tf.trainable_variables()[2]
    wanted = tf.nn.conv2d(IMAGES, kernel, 1, "VALID", dilations=2)
    np.testing.assert_allclose(*value(dilated, wanted), rtol=1e-5, atol=1e-6)
    first = np.moveaxis(IMAGES, -1, 1)
    y = tf.layers.conv2d(first, 4, 3, data_format="channels_first", name="first")
    kernel = tf.trainable_variables()[4]
    wanted = tf.transpose(tf.nn.conv2d(IMAGES, kernel, 1, "VALID"), [0, 3, 1, 2])
    np.testing.assert_allclose(*value(y, wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_a_transposed_convolution_undoes_the_size(padding: str) -> None:
    x = tf.placeholder_with_default(IMAGES, [None, 8, None, 3])
    y = tf.layers.conv2d_transpose(x, 4, 3, strides=2, padding=padding)
    assert y.shape.as_list() == [None, 16 if padding == "same" else 17, None, 4]
    assert value(y)[0].shape == (2, *[16 if padding == "same" else 17] * 2, 4)


def test_pooling() -> None:
    largest = tf.layers.max_pooling2d(IMAGES, 2, 2)
    mean = tf.layers.average_pooling2d(IMAGES, [3, 2], (2, 1), padding="same")
    assert (largest.op.name, mean.op.name) == ("max_pooling2d/MaxPool", "average_pooling2d/AvgPool")
    assert (largest.shape, mean.shape) == ((2, 4, 4, 3), (2, 4, 8, 3))
    blocks = IMAGES.reshape(2, 4, 2, 4, 2, 3)
    np.testing.assert_array_equal(value(largest)[0], blocks.max((2, 4)))
    first = tf.layers.max_pooling2d(np.moveaxis(IMAGES, -1, 1), 2, 2, data_format="channels_first")
    np.testing.assert_array_equal(value(first)[0], np.moveaxis(blocks.max((2, 4)), -1, 1))


@pytest.mark.parametrize("first", [False, True])
def test_pooling_of_sequences_and_volumes_is_that_of_images(first: bool) -> None:
    """A dimension of one place, or one that the window does not reach over, changes nothing."""

    def given(x: Any) -> Any:
        return np.moveaxis(x, -1, 1) if first else x

    def back(x: Any) -> Any:
        return np.moveaxis(x, 1, -1) if first else x

    order = {"data_format": "channels_first" if first else "channels_last"}
    lines = IMAGES.reshape(16, 8, 3)
    for kind in ("max", "average"):
        image, line, volume = (
            getattr(tf.layers, f"{kind}_pooling{n}d") for n in (2, 1, 3)
        )  # fmt: skip
        wanted, flat = value(image(IMAGES, [3, 2], 2, "same"), image(IMAGES, (1, 3), (1, 2)))
        made = volume(given(IMAGES[:, None]), (1, 3, 2), (1, 2, 2), "same", **order)
        narrow = line(given(lines), 3, 2, **order)
        assert (narrow.op.type, narrow.op.name.split("/")[1]) == ("Squeeze", "Squeeze")
        assert back(np.empty(made.shape)).shape == (2, 1, 4, 4, 3)
        np.testing.assert_allclose(back(value(made)[0])[:, 0], wanted, rtol=1e-6)
        np.testing.assert_allclose(back(value(narrow)[0]), flat.reshape(16, 3, 3), rtol=1e-6)


def test_a_transposed_convolution_of_volumes() -> None:
    x = tf.placeholder_with_default(IMAGES[:, None], [None, 1, 8, None, 3])
    y = tf.layers.conv3d_transpose(x, 4, (1, 3, 3), strides=(1, 2, 2), activation=tf.nn.relu)
    kernel, bias = tf.trainable_variables()
    assert (kernel.shape, bias.name) == ((1, 3, 3, 4, 3), "conv3d_transpose/bias:0")
    assert y.shape.as_list() == [None, 1, 17, None, 4]
    flat = tf.nn.conv2d_transpose(IMAGES, kernel[0], [2, 17, 17, 4], 2, "VALID")
    found, wanted = value(y, tf.nn.relu(flat))
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-5, atol=1e-6)


def test_a_separable_convolution_is_one_of_channels_and_one_of_places() -> None:
    y = tf.layers.separable_conv2d(IMAGES, 5, 3, 2, "same", depth_multiplier=2)
    apart, points, bias = tf.trainable_variables()
    assert [v.op.name for v in (apart, points, bias)] == [
        f"separable_conv2d/{name}" for name in ("depthwise_kernel", "pointwise_kernel", "bias")
    ]
    assert (apart.shape, points.shape, y.shape) == ((3, 3, 3, 2), (1, 1, 6, 5), (2, 4, 4, 5))
    wanted = tf.nn.conv2d(
        tf.nn.depthwise_conv2d_native(IMAGES, apart, [1, 2, 2, 1], "SAME"), points, 1, "SAME"
    )
    np.testing.assert_allclose(*value(y, wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "order", [{}, {"data_format": "channels_first"}, {"strides": 2}, {"dilation_rate": 2}]
)
def test_a_separable_convolution_of_sequences_is_that_of_lines(order: dict[str, Any]) -> None:
    first = "data_format" in order
    line = IMAGES[:, 0]
    y = tf.layers.separable_conv1d(line.transpose(0, 2, 1) if first else line, 4, 3, **order)
    apart, points, _ = tf.trainable_variables()
    assert (apart.shape, points.shape) == ((3, 3, 1), (1, 3, 4))
    step, rate = order.get("strides", 1), order.get("dilation_rate", 1)
    lines = tf.nn.depthwise_conv2d_native(
        line[:, None], apart[None], [1, step, step, 1], "VALID", dilations=[1, rate, rate, 1]
    )
    wanted = tf.matmul(lines[:, 0], tf.broadcast_to(points[0], [2, 3, 4]))
    found, expected = value(y, wanted)
    assert y.shape == found.shape
    found = found.transpose(0, 2, 1) if first else found
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_loss_of_activities_is_collected() -> None:
    y = tf.layers.conv2d(IMAGES, 2, 3, activity_regularizer=lambda x: tf.reduce_sum(x * x))
    (loss,) = tf.losses.get_regularization_losses()
    found, outputs = value(loss, y)
    np.testing.assert_allclose(found, (outputs**2).sum() / 2, rtol=1e-5)


def test_sequences_and_volumes() -> None:
    assert tf.layers.conv1d(IMAGES[:, 0], 4, 3, strides=2).shape == (2, 3, 4)
    assert tf.layers.conv3d(IMAGES[None], 4, (1, 3, 3), padding="same").shape == (1, 2, 8, 8, 4)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"padding": "full"}, ValueError),
        ({"kernel_size": [3, 3, 3]}, ValueError),
        ({"data_format": "NHWC"}, ValueError),
        ({"inputs": tf.TensorShape([None, 8, 8, None])}, ValueError),
        ({"inputs": tf.TensorShape([8, 8, 3])}, ValueError),
    ],
)
def test_a_layer_refuses(arguments: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {"inputs": tf.TensorShape([2, 8, 8, 3]), "filters": 2, "kernel_size": 3}
    given |= arguments
    given["inputs"] = tf.placeholder(tf.float32, given["inputs"])
    with pytest.raises(error):
        tf.layers.conv2d(**given)


def test_a_network_learns_to_tell_squares_from_lines() -> None:
    tf.set_random_seed(1)
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 64)
    images = np.zeros((64, 8, 8, 1), np.float32)
    for image, label in zip(images, labels, strict=True):
        y, x = rng.integers(0, 5, 2)
        image[y : y + (3 if label else 1), x : x + 3] = 1
    h = tf.layers.max_pooling2d(tf.layers.conv2d(images, 4, 3, activation=tf.nn.relu), 2, 2)
    logits = tf.layers.dense(tf.layers.flatten(h), 2)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            session.run(train)
        assert session.run(loss) < 0.1
