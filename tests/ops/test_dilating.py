"""Dilation of floats, a few images at a time, beside what looks at all places of the window by masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.ops._kernels.dilating import Dilation
from headrace.ops._kernels.windows import Geometry, geometry
from headrace.ops.nn.morphology import _largest

Array = np.ndarray[Any, Any]
CASES = [
    # images, window, strides, rates, padding
    ((2, 7, 9, 3), (3, 3), (1, 1), (1, 1), b"SAME"),
    ((1, 1, 1, 1), (2, 3), (1, 1), (1, 1), b"SAME"),
    ((3, 12, 11, 5), (2, 3), (2, 1), (1, 2), b"VALID"),
    ((3, 12, 11, 5), (2, 2), (3, 2), (2, 2), b"SAME"),
    ((9, 40, 40, 32), (3, 3), (1, 1), (1, 1), b"SAME"),
    ((1, 5, 5, 2), (1, 1), (2, 2), (1, 1), b"VALID"),
    ((0, 5, 5, 2), (2, 2), (1, 1), (1, 1), b"SAME"),
    ((2, 5, 5, 0), (2, 2), (1, 1), (1, 1), b"SAME"),
]


def _case(
    shape: Any, window: Any, strides: Any, rates: Any, padding: bytes, kind: Any
) -> tuple[Array, Array, Geometry, Array]:
    rng = np.random.default_rng(shape[1])
    x = rng.integers(-3, 3, shape).astype(kind)  # many sums are alike
    numbers = rng.integers(-2, 2, (*window, shape[3])).astype(kind)
    if x.size > 20:
        x[0, 0, 0, 0], x[0, 1, 1, 0], x[0, 2, 2, 1] = np.nan, np.inf, -np.inf
        x[-1] = -np.inf  # none of whose sums is larger than the least number
        numbers[0, 0, 0] = -np.inf
    where = geometry(shape[1:3], window, (1, *strides, 1), padding, b"NHWC", (1, *rates, 1))
    dy = rng.standard_normal((shape[0], *where.out, shape[3])).astype(kind)
    return x, numbers, where, dy


@pytest.mark.parametrize(("shape", "window", "strides", "rates", "padding"), CASES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sums_and_slopes_are_those_of_masks(
    shape: Any, window: Any, strides: Any, rates: Any, padding: bytes, kind: Any
) -> None:
    x, numbers, where, dy = _case(shape, window, strides, rates, padding, kind)
    with np.errstate(invalid="ignore"):
        best, at = _largest(x, numbers, where)
        dilation = Dilation(x, numbers, where)
        found, to_input, to_window = (
            dilation.largest(),
            dilation.to_input(dy),
            dilation.to_window(dy),
        )
    assert found.dtype == to_input.dtype == to_window.dtype == kind
    assert np.array_equal(found, best)
    total = np.zeros((len(x), *where.padded_size, shape[3]), kind)
    of_window = np.zeros(numbers.shape, np.float64)
    for number, (place, view) in enumerate(where.positions()):
        taken = np.where(at == number, dy, 0)
        total[view] += taken
        of_window[place] = taken.sum(axis=(0, 1, 2), dtype=np.float64)
    assert np.array_equal(to_input, where.inside(total))
    np.testing.assert_allclose(to_window, of_window, rtol=1e-5, atol=1e-4)


def test_slopes_that_are_not_finite_stay_with_their_place() -> None:
    x = np.zeros((1, 3, 3, 1), np.float32)
    x[0, 1, 1] = 5
    where = geometry((3, 3), (2, 2), (1, 1, 1, 1), b"VALID", b"NHWC", (1, 1, 1, 1))
    dy = np.full((1, 2, 2, 1), np.inf, np.float32)
    made = Dilation(x, np.zeros((2, 2, 1), np.float32), where).to_input(dy)
    assert np.argwhere(np.isinf(made)).tolist() == [[0, 1, 1, 0]]
    assert np.count_nonzero(made) == 1
