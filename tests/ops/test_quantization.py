"""What TensorFlow's CPU kernels refuse, or give to the last bit or two: beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


def _drawn(kind: Any, *shape: int, step: int = 37) -> np.ndarray:
    numbers = np.arange(int(np.prod(shape))) * step % 256 - (128 if kind is np.int8 else 0)
    return numbers.astype(kind).reshape(shape)


def _sums(x: np.ndarray, filters: np.ndarray, pads: bool) -> np.ndarray:
    """Of products of integers, with as much beside the picture as keeps its size, or nothing."""
    high, wide = filters.shape[:2]
    if pads:
        before, after = ((high - 1) // 2, (wide - 1) // 2), (high // 2, wide // 2)
        x = np.pad(x, [(0, 0), (before[0], after[0]), (before[1], after[1]), (0, 0)])
    rows, columns = x.shape[1] - high + 1, x.shape[2] - wide + 1
    made = np.zeros((len(x), rows, columns, filters.shape[3]))
    for a in range(high):
        for b in range(wide):
            made += x[:, a : a + rows, b : b + columns].astype(float) @ filters[a, b].astype(float)
    return made


ENDS: list[Any] = [(-1.0, 0.75), ([-1.0, -0.5, 0.0], [0.7, 1.0, 0.25])]
SUMS = [(low, high, pads) for low, high in ENDS for pads in (True, False)]


@pytest.mark.parametrize(("low", "high", "pads"), SUMS)
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("bias", [np.float32, np.int32])
def test_a_convolution_plus_levels_of_a_range(
    low: Any, high: Any, pads: bool, kind: Any, bias: Any
) -> None:
    """TensorFlow's kernels end their process: beside the sum of what the levels stand for."""
    x, filters = _drawn(np.uint8, 2, 5, 6, 2), _drawn(np.int8, 3, 2, 2, 3, step=91)
    level = 3.0 / 255 * np.maximum(np.abs(low), np.abs(high)) / 127
    sums = _sums(x, filters, pads)
    summand = _drawn(kind, *sums.shape, step=53)
    added = np.array([-1.5, 0.3, 4.0]) if bias is np.float32 else np.array([-900, 35, 4000])
    name = f"QuantizedConv2DWithBias{'Signed' * (kind is np.int8)}SumAndReluAndRequantize"
    quantized = {np.uint8: tf.quint8, np.int8: tf.qint8}[kind]
    with tf.Graph().as_default(), tf.Session() as session:
        given = added.astype(bias)
        made = getattr(tf.raw_ops, name)(
            input=tf.bitcast(x, tf.quint8), filter=tf.bitcast(filters, tf.qint8),
            bias=given if bias is np.float32 else tf.bitcast(given, tf.qint32),
            min_input=-1.0, max_input=3.0, min_filter=low, max_filter=high, min_freezed_output=-4.0,
            max_freezed_output=20.0,
            summand=tf.bitcast(summand, quantized), min_summand=-6.0, max_summand=5.0, strides=[1, 1, 1, 1],
            padding="SAME" if pads else "VALID",
        )  # fmt: skip
        assert made.output.shape.as_list() == list(sums.shape)
        found, *ends = session.run([tf.bitcast(made.output, tf.uint8), *made[1:]])
    assert ends == [-4.0, 20.0]
    one = 6.0 / (255 if kind is np.uint8 else 127)
    wanted = (sums * level + (added if bias is np.float32 else added * level)) + summand * one
    levels = np.clip(wanted / (20.0 / 255), 0, 255)
    assert np.abs(found - levels).max() < 0.51
    assert len(np.unique(found)) > 20


@pytest.mark.parametrize(("low", "high", "pads"), SUMS[:2])
def test_a_convolution_plus_floats(low: float, high: float, pads: bool) -> None:
    """TensorFlow's kernel ends its process: beside the sum of what the levels stand for."""
    x, filters = _drawn(np.uint8, 2, 5, 6, 2), _drawn(np.int8, 3, 2, 2, 3, step=91)
    sums, level = _sums(x, filters, pads), 3.0 / 255 / 127
    summand = np.random.default_rng(5).normal(0, 8, sums.shape).astype(np.float32)
    added = np.array([-1.5, 0.3, 4.0], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.raw_ops.QuantizedConv2DWithBiasSumAndRelu(
            input=tf.bitcast(x, tf.quint8), filter=tf.bitcast(filters, tf.qint8), bias=added, min_input=0.0,
            max_input=3.0, min_filter=low, max_filter=high, summand=summand, strides=[1, 1, 1, 1],
            padding="SAME" if pads else "VALID",
        )  # fmt: skip
        found = session.run(tf.bitcast(made.output, tf.int32))
    wanted = np.maximum((sums * level + added + summand) / level, 0)
    assert np.abs(found - wanted).max() < 2
    assert 0 < (found == 0).sum() < found.size * 0.7


def test_a_summand_has_the_shape_and_the_type_of_the_result() -> None:
    x, filters = _drawn(np.uint8, 1, 3, 3, 1), _drawn(np.int8, 1, 1, 1, 2)
    ends = dict.fromkeys(("min_input", "min_filter", "min_freezed_output", "min_summand"), 0.0)
    ends |= dict.fromkeys(("max_input", "max_filter", "max_freezed_output", "max_summand"), 1.0)
    with tf.Graph().as_default(), tf.Session() as session:
        given = {
            "input": tf.bitcast(x, tf.quint8),
            "filter": tf.bitcast(filters, tf.qint8),
            "bias": [0.0, 1.0],
            **ends,
        }
        for shape, kind, said in (
            ((1, 3, 3, 1), np.uint8, "summand must have the shape"),
            ((1, 3, 3, 2), np.int8, "No OpKernel was registered"),
        ):
            quantized = {np.uint8: tf.quint8, np.int8: tf.qint8}[kind]
            made = tf.raw_ops.QuantizedConv2DWithBiasSumAndReluAndRequantize(
                summand=tf.bitcast(_drawn(kind, *shape), quantized), strides=[1, 1, 1, 1], padding="VALID", **given
            )  # fmt: skip
            with pytest.raises(tf.errors.InvalidArgumentError, match=said):
                session.run(tf.bitcast(made.output, tf.uint8))
