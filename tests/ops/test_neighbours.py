"""Local response normalization sums along all pixels at once what it would sum channel by channel, bit by bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.graph.registry import OPS

Array = np.ndarray[Any, Any]
SHAPES = [(2, 3, 5, 7), (1, 1, 1, 1), (3, 20, 30, 96), (2, 40, 40, 300), (0, 2, 2, 3), (2, 2, 2, 0)]
KINDS = [np.float32, np.float16, ml_dtypes.bfloat16]


def _kernel(name: str) -> Any:
    kernel = OPS[name].kernel
    assert kernel is not None
    return kernel


def _sums(values: Array, radius: int) -> Array:
    channels = values.shape[-1]
    total = np.zeros_like(values)
    for at in range(channels):
        for other in range(max(at - radius, 0), min(at + radius + 1, channels)):
            total[..., at] += values[..., other]
    return total


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0, 1, 5, 400])
def test_sums_are_those_of_each_channel(shape: tuple[int, ...], kind: Any, radius: int) -> None:
    rng = np.random.default_rng(radius)
    if radius == 400 and shape[-1] > 100:
        radius = 20
    given, grads = (rng.standard_normal(shape).astype(kind) for _ in range(2))
    attrs = {"depth_radius": radius, "bias": 1.5, "alpha": 0.2, "beta": 0.75}
    x, dy = given.astype(np.float32), grads.astype(np.float32)
    made = _kernel("LRN")(np, given, **attrs)
    scale = np.float32(1.5) + np.float32(0.2) * _sums(x * x, radius)
    power = scale ** np.float32(-0.75)
    assert made.dtype == kind
    assert np.array_equal(made, (x * power).astype(kind))
    slopes = _kernel("LRNGrad")(np, grads, given, made, **attrs)
    through = _sums(dy * made.astype(np.float32) / scale, radius)
    wanted = dy * power - np.float32(2 * 0.2 * 0.75) * x * through
    assert slopes.dtype == kind
    assert np.array_equal(slopes, wanted.astype(kind))


def test_what_is_no_number_stays_where_it_is() -> None:
    x = np.ones((1, 1, 3, 9), np.float32)
    x[0, 0, 1, 8] = np.nan
    made = _kernel("LRN")(np, x, depth_radius=2, bias=1.0, alpha=1.0, beta=0.5)
    assert np.argwhere(np.isnan(made)).tolist() == [[0, 0, 1, at] for at in (6, 7, 8)]
