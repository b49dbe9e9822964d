"""What TensorFlow's CPU kernels refuse, or give to the last bit or two: beside NumPy."""

from __future__ import annotations

import numpy as np

import headrace as tf


def test_each_part_along_an_axis_has_a_range_of_its_own() -> None:
    x = np.random.default_rng(1).normal(size=(3, 7)).astype(np.float32) * [[1], [10], [100]]
    x = x.astype(np.float32)
    low, high = np.array([-1, -5, -200], np.float32), np.array([2, 12, 90], np.float32)
    quantized = tf.quantization.quantize_and_dequantize
    with tf.Graph().as_default(), tf.Session() as session:
        together = session.run(quantized(x, low, high, range_given=True, axis=0))
        own = session.run(quantized(x, np.zeros(3), np.zeros(3), axis=0))
        apart = [
            session.run(quantized(row, a, b, range_given=True))
            for row, a, b in zip(x, low, high, strict=True)
        ]
        of_rows = [session.run(quantized(row, 0.0, 0.0)) for row in x]
    np.testing.assert_array_equal(together, apart)
    np.testing.assert_array_equal(own, of_rows)


def _levels(numbers: np.ndarray, low: float, high: float) -> np.ndarray:
    return low + numbers.astype(np.float64) * (high - low) / 255


def test_what_lies_above_a_value_becomes_what_stands_for_it() -> None:
    numbers = np.arange(256, dtype=np.uint8)
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.nn.quantized_relu_x(tf.bitcast(numbers, tf.quint8), 3.0, -4.0, 6.2)
        found, low, high = session.run([tf.bitcast(made[0], tf.uint8), *made[1:]])
    assert (low, high) == (np.float32(-4.0), np.float32(6.2))
    wanted = np.clip(_levels(numbers, -4.0, 6.2), 0, 3)
    assert np.abs(_levels(found, -4.0, 6.2) - wanted).max() < 10.2 / 255
    assert np.array_equal(found[101:170], numbers[101:170])


def test_an_instance_has_mean_0_and_variance_1_in_every_channel() -> None:
    numbers = (np.arange(2 * 4 * 5 * 3) * 37 % 251).astype(np.uint8).reshape(2, 4, 5, 3)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.bitcast(numbers, tf.quint8)
        for given in ({}, {"output_range_given": True, "given_y_min": -2.0, "given_y_max": 3.0}):
            made = tf.raw_ops.QuantizedInstanceNorm(x=x, x_min=-1.0, x_max=3.0, **given)
            found, low, high = session.run([tf.bitcast(made[0], tf.uint8), *made[1:]])
            value = _levels(numbers, -1.0, 3.0)
            apart = value - value.mean((1, 2), keepdims=True)
            wanted = apart / np.sqrt((apart**2).mean((1, 2), keepdims=True) + 1e-5)
            ends = (-2.0, 3.0) if given else (wanted.min(), wanted.max())
            np.testing.assert_allclose((low, high), ends, rtol=1e-5)
            inside = np.clip(wanted, low, high)
            assert np.abs(_levels(found, low, high) - inside).max() < (high - low) / 255


def test_images_of_32_bits_are_resized_to_their_last_bits() -> None:
    numbers = (np.arange(2 * 3 * 4).astype(np.int64) * 987654321 % 2**31).astype(np.int32)
    images = numbers.reshape(1, 4, 6, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        of_32_bits = tf.bitcast(images, tf.qint32)
        made = tf.raw_ops.QuantizedResizeBilinear(images=of_32_bits, size=[7, 5], min=-1.0, max=1.0)
        plain = tf.image.resize_bilinear(images.astype(np.float32), [7, 5])
        found, wanted = session.run([tf.bitcast(made[0], tf.int32), plain])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
