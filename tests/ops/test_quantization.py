"""What TensorFlow's CPU kernels refuse: ranges along an axis."""

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
