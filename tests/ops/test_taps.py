"""Images resized by taps, some lines at a time, are what whole arrays along one axis after the other give."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.ops._kernels import resampling
from headrace.ops._kernels.resampling import Taps
from headrace.ops.image.resizing import _by_taps

Array = np.ndarray[Any, Any]
CASES = [
    # images, size
    ((2, 5, 7, 3), (11, 4)),
    ((1, 1, 1, 1), (3, 3)),
    ((3, 30, 20, 9), (20, 70)),
    ((2, 64, 64, 64), (128, 128)),
    ((1, 300, 300, 4), (50, 500)),
    ((1, 8, 8, 5000), (6, 20)),
    ((2, 40, 40, 1), (400, 401)),
    ((0, 5, 5, 3), (7, 7)),
    ((2, 5, 5, 0), (7, 7)),
]


def _applied(taps: Taps, x: Array, axis: int) -> Array:
    along = [1] * x.ndim
    along[axis] = -1
    total = np.zeros((), x.dtype)
    for at in range(taps.indices.shape[1]):
        weights = taps.weights[:, at]
        if not at or weights.any():
            term = np.take(x, taps.indices[:, at], axis=axis)
            term = term * weights.reshape(along).astype(x.dtype)
            total = term if not at else total + term
    return total


@pytest.mark.parametrize(("shape", "size"), CASES)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8, ml_dtypes.bfloat16])
@pytest.mark.parametrize("out", [np.float32, np.float64])
@pytest.mark.parametrize("half_pixel", [False, True])
def test_all_pixels_are_the_sums_of_their_taps(
    shape: Any, size: Any, kind: Any, out: Any, half_pixel: bool
) -> None:
    x = np.random.default_rng(0).uniform(0, 200, shape).astype(kind)
    rows, columns = (
        resampling.cubic(side, to, False, half_pixel)
        for side, to in zip(shape[1:3], size, strict=True)
    )
    wide = x.astype(np.float64 if kind == out == np.float64 else np.float32)
    if size[0] * shape[2] <= shape[1] * size[1]:
        wanted = _applied(columns, _applied(rows, wide, 1), 2)
    else:
        wanted = _applied(rows, _applied(columns, wide, 2), 1)
    found = _by_taps(x, rows, columns, out)
    assert found.dtype == out
    # The same to the bit, unless NumPy is compiled to round a product and a sum at once.
    unit = float(np.finfo(wide.dtype).eps)
    np.testing.assert_allclose(found, wanted.astype(out), rtol=8 * unit, atol=2000 * unit)
