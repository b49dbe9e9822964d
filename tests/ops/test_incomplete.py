"""Incomplete gamma functions of some numbers at a time, and of others that settle earlier or later."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace.ops._kernels import incomplete

Array = np.ndarray[Any, Any]
FUNCTIONS: list[Callable[[Array, Array], Array]] = [
    incomplete.gamma_p,
    lambda a, x: incomplete.gamma_p(a, x, upper=True),
    incomplete.gamma_p_slope,
    incomplete.gamma_sample_slope,
]


def _numbers(count: int) -> tuple[Array, Array]:
    """Of all sizes; x near a takes most terms where both are large."""
    rng = np.random.default_rng(count)
    a = 10 ** rng.uniform(-3, 4, count)
    near = a * (1 + rng.standard_normal(count) / np.sqrt(a + 1))
    return a, np.where(rng.uniform(size=count) < 0.5, np.abs(near), 10 ** rng.uniform(-3, 4, count))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_number_among_others_has_the_value_that_it_has_alone(
    function: Callable[[Array, Array], Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incomplete, "_TOGETHER", 64)
    a, x = _numbers(300)
    together = function(a, x)
    alone = [function(a[at : at + 1], x[at : at + 1])[0] for at in range(len(a))]
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-300)
    assert np.isfinite(together).all()


@pytest.mark.parametrize("half", range(1, 12))
def test_whole_shapes_are_finite_sums(half: int) -> None:
    """Q(n, x) is exp(-x) times the first n terms of its series."""
    x = np.linspace(0.01, 40, 500)
    wanted = sum(np.exp(-x) * x**k / math.factorial(k) for k in range(half))
    a = np.full_like(x, half)
    np.testing.assert_allclose(incomplete.gamma_p(a, x, upper=True), wanted, rtol=1e-12)
    np.testing.assert_allclose(incomplete.gamma_p(a, x), 1 - wanted, rtol=1e-9, atol=1e-14)


def test_slopes_are_differences() -> None:
    a, x = (10 ** np.random.default_rng(0).uniform(-1, 1.5, 400) for _ in range(2))
    step = 1e-6 * a
    a_slope = (incomplete.gamma_p(a + step, x) - incomplete.gamma_p(a - step, x)) / (2 * step)
    np.testing.assert_allclose(incomplete.gamma_p_slope(a, x), a_slope, rtol=1e-5, atol=1e-8)
    step = 1e-6 * x
    x_slope = (incomplete.gamma_p(a, x + step) - incomplete.gamma_p(a, x - step)) / (2 * step)
    known = x_slope > 1e-4
    found = incomplete.gamma_sample_slope(a, x)[known]
    np.testing.assert_allclose(found, (-a_slope / x_slope)[known], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_shapes_are_kept(function: Callable[[Array, Array], Array]) -> None:
    a, x = np.ones((3, 0, 2)), np.ones((3, 0, 2))
    assert function(a, x).shape == (3, 0, 2)
    a, x = np.broadcast_arrays(np.array([[0.5], [3.0]]), np.array([0.2, 4.0, 9.0]))
    found = function(a, x)
    assert found.shape == (2, 3)
    alone = function(np.array([3.0]), np.array([9.0]))[0]
    np.testing.assert_allclose(found[1, 2], alone, rtol=1e-12)
