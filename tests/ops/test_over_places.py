"""Sums along all axes but the last one, or but the first and the last one, go over lines of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base import errors
from headrace.graph.registry import OPS
from headrace.ops._kernels.channels import is_over_places

SHAPES = [
    (3, 40, 30, 16),
    (2, 1000, 17),
    (5000, 4),
    (2, 9, 9, 9, 31),
    (1, 129, 128, 1),
    (2, 300, 60, 2),
]


def _kernel(name: str) -> Any:
    kernel = OPS[name].kernel
    assert kernel is not None
    return kernel


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("keep", [False, True])
def test_sums_and_means_are_right(shape: tuple[int, ...], dtype: Any, keep: bool) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    rank, seen = len(shape), 0
    for axes in (tuple(range(rank - 1)), tuple(range(1, rank - 1)), (-2,)):
        seen += is_over_places(x, axes)
        indices = np.array(axes, np.int32)
        for name, exact in (("Sum", np.sum), ("Mean", np.mean)):
            found = _kernel(name)(np, x, indices, keep_dims=keep)
            wanted = exact(x.astype(np.float64), axis=axes, keepdims=keep)
            assert (found.dtype, found.shape) == (dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
    assert seen


def test_a_record_has_the_sum_that_it_has_among_others() -> None:
    many = np.random.default_rng(1).standard_normal((4, 33, 41, 16)).astype(np.float32)
    together = _kernel("Sum")(np, many, np.array([1, 2], np.int32), keep_dims=False)
    for one, found in zip(many, together, strict=True):
        alone = _kernel("Sum")(np, one, np.array([0, 1], np.int32), keep_dims=False)
        assert np.array_equal(alone, found)


@pytest.mark.parametrize("axes", [(0, 4), (1, 1), (-5, 1), (1, -3)])
def test_axes_that_are_none_are_refused(axes: tuple[int, ...]) -> None:
    x = np.ones((2, 90, 90, 16), np.float32)
    assert not is_over_places(x, axes)
    with pytest.raises(errors.InvalidArgumentError, match="Invalid reduction"):
        _kernel("Sum")(np, x, np.array(axes, np.int32), keep_dims=False)


def test_no_pictures_have_no_sums() -> None:
    found = _kernel("Sum")(
        np, np.ones((0, 40, 30, 16), np.float32), np.array([1, 2], np.int32), keep_dims=True
    )
    assert found.shape == (0, 1, 1, 16)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("keep", [False, True])
def test_extremes_are_those_of_all_places(shape: tuple[int, ...], dtype: Any, keep: bool) -> None:
    x = (50 + 9 * np.random.default_rng(2).standard_normal(shape)).astype(dtype)
    rank, seen = len(shape), 0
    if x.dtype.kind == "f":
        x[(0,) * rank], x[(-1,) * rank] = np.nan, np.inf
    for axes in (tuple(range(rank - 1)), tuple(range(1, rank - 1)), (-2,)):
        seen += is_over_places(x, axes, "fiu")
        indices = np.array(axes, np.int32)
        for name, exact in (("Max", np.max), ("Min", np.min)):
            found = _kernel(name)(np, x, indices, keep_dims=keep)
            wanted = exact(x, axis=axes, keepdims=keep)
            assert found.dtype == dtype
            assert np.array_equal(found, wanted, equal_nan=x.dtype.kind == "f")
    assert bool(seen) == (dtype != np.float16)
