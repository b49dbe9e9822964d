"""Fractional pooling and its gradients, beside loops over windows and their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.base import errors
from headrace.graph.registry import OPS
from headrace.ops.nn.fractional_pooling import _largest, _mean

Array = np.ndarray[Any, Any]
Window = tuple[int, int, range, range]
CASES = [
    # images, rows, columns
    ((2, 7, 9, 3), [0, 2, 3, 5, 7], [0, 1, 2, 4, 9]),
    ((1, 5, 5, 1), [0, 5], [0, 1, 2, 3, 4, 5]),
    ((3, 6, 6, 40), [1, 2, 4], [0, 3, 5]),  # some lines are under no window
    ((9, 30, 31, 16), [*range(0, 29, 3), 30], [*range(0, 31, 2), 31]),
    ((0, 4, 4, 2), [0, 2, 4], [0, 2, 4]),
    ((2, 4, 4, 0), [0, 2, 4], [0, 2, 4]),
]
KINDS = [np.float32, np.float64, np.int32, np.int64]


def _windows(shape: Any, rows: Array, columns: Array, overlapping: bool) -> Iterator[Window]:
    spans = []
    for edges, size in ((rows, shape[1]), (columns, shape[2])):
        ends = [min(int(end) + overlapping, size) for end in edges[1:]]
        spans.append([range(int(begin), end) for begin, end in zip(edges, ends, strict=False)])
    for row, high in enumerate(spans[0]):
        for column, wide in enumerate(spans[1]):
            yield row, column, high, wide


def _case(shape: Any, rows: Any, columns: Any, kind: Any) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(len(rows))
    x, dy = rng.integers(-9, 9, shape), rng.integers(-99, 99, (*shape[:3], shape[3]))
    dy = dy[:, : len(rows) - 1, : len(columns) - 1]
    scale = 1 if np.issubdtype(kind, np.integer) else kind(0.37)
    return (x * scale).astype(kind), (dy * scale).astype(kind), np.array(rows), np.array(columns)


def _gradient(name: str, *operands: Array, overlapping: bool) -> Array:
    kernel = OPS[name].kernel
    assert kernel is not None
    found: Array = kernel(np, *operands, overlapping=overlapping)
    return found


@pytest.mark.parametrize(("shape", "rows", "columns"), CASES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("overlapping", [False, True])
def test_values_are_those_under_the_windows(
    shape: Any, rows: Any, columns: Any, kind: Any, overlapping: bool
) -> None:
    x, dy, down, along = _case(shape, rows, columns, kind)
    if down[-1] != shape[1] or down[0]:
        down, along = np.array([0, *rows[1:-1], shape[1]]), np.array([0, *columns[1:-1], shape[2]])
    largest, mean = (made(x, down, along, overlapping) for made in (_largest, _mean))
    assert largest.dtype == mean.dtype == kind
    assert largest.shape == mean.shape == dy.shape
    for row, column, high, wide in _windows(shape, down, along, overlapping):
        under = x[:, high.start : high.stop, wide.start : wide.stop]
        if under.size:
            assert np.array_equal(largest[:, row, column], under.max(axis=(1, 2)))
        exact = under.sum(axis=(1, 2), dtype=np.float64) / (len(high) * len(wide))
        if np.issubdtype(kind, np.integer):
            assert np.array_equal(mean[:, row, column], np.trunc(exact))
        else:
            np.testing.assert_allclose(mean[:, row, column], exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shape", "rows", "columns"), CASES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("overlapping", [False, True])
def test_gradients_go_to_the_places_of_windows(
    shape: Any, rows: Any, columns: Any, kind: Any, overlapping: bool
) -> None:
    x, dy, down, along = _case(shape, rows, columns, kind)
    y, shared = np.zeros_like(dy), np.zeros(shape, np.float64)
    to_first = np.zeros(shape, kind)
    # The first place of all windows comes before the second of any.
    order: list[tuple[int, int, Window]] = []
    for window in _windows(shape, down, along, overlapping):
        row, column, high, wide = window
        under = x[:, high.start : high.stop, wide.start : wide.stop]
        if under.size:
            y[:, row, column] = under.max(axis=(1, 2))
        order += [(i, k, window) for i in range(len(high)) for k in range(len(wide))]
    taken = np.zeros(dy.shape, bool)
    for i, k, (row, column, high, wide) in sorted(order, key=lambda each: each[:2]):
        place, window_at = np.s_[:, high[i], wide[k]], np.s_[:, row, column]
        shared[place] += dy[window_at].astype(np.float64) / (len(high) * len(wide))
        here = (x[place] == y[window_at]) & ~taken[window_at]
        taken[window_at] |= here
        to_first[place] += np.where(here, dy[window_at], 0).astype(kind)
    sizes = np.array(shape, np.int64)
    of_mean = _gradient("FractionalAvgPoolGrad", sizes, dy, down, along, overlapping=overlapping)
    of_largest = _gradient("FractionalMaxPoolGrad", x, y, dy, down, along, overlapping=overlapping)
    assert of_mean.dtype == of_largest.dtype == kind
    assert np.array_equal(of_mean, shared.astype(kind))
    assert np.array_equal(of_largest, to_first)


def test_values_that_no_window_has_are_refused() -> None:
    x, edges = np.zeros((2, 4, 4, 1), np.float32), np.array([0, 2, 4])
    y = np.zeros((2, 2, 2, 1), np.float32)
    y[1, 1, 0] = 7
    with pytest.raises(errors.InvalidArgumentError, match="tensor_out_dup is not the same"):
        _gradient("FractionalMaxPoolGrad", x, y, y, edges, edges, overlapping=True)
