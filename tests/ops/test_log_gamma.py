"""log |Γ(x)| and its derivative of single precision, beside those of double precision."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from headrace.ops._kernels import log_gamma
from headrace.ops._kernels.log_gamma import digamma_of_singles, log_gamma_of_singles
from headrace.ops.math.special import digamma, lgamma


def exact(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    def one(each: float) -> float:
        try:
            return math.lgamma(each)
        except (ValueError, OverflowError):
            return math.inf

    return np.array([one(each) for each in x.astype(np.float64).tolist()])


def test_values_are_those_of_double_precision_rounded() -> None:
    near = np.linspace(-1e-3, 1e-3, 5001)
    x = np.concatenate(
        [np.linspace(0, 60, 20_001), np.logspace(-44, 36, 20_001), 1 + near, 2 + near]
    )
    singles = np.unique(x.astype(np.float32)[x.astype(np.float32) > 0])
    wanted = exact(singles)
    units = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(log_gamma_of_singles(singles) - wanted) / units) < 1.0


def test_values_below_zero_are_too_but_where_they_are_near_zero() -> None:
    x = np.concatenate([np.linspace(-30.3, -1e-3, 20_001), -np.logspace(-44, 6, 20_001)])
    singles = np.unique(x.astype(np.float32))
    wanted = exact(singles)
    known = np.isfinite(wanted)
    found = log_gamma_of_singles(singles)
    assert np.isposinf(found[~known]).all()
    units = np.spacing(np.maximum(np.abs(wanted[known]), 1e-3).astype(np.float32))
    assert np.max(np.abs(found[known] - wanted[known]) / units) < 1.0


def test_poles_zeros_infinities_and_any_shape() -> None:
    x = np.array([[0.0, -0.0, -1, -50, -np.inf, np.inf, 1, 2, 3e38]], np.float32)
    assert log_gamma_of_singles(x)[0].tolist() == [math.inf] * 6 + [0, 0, math.inf]
    assert np.isnan(log_gamma_of_singles(np.array(np.nan, np.float32)))
    assert log_gamma_of_singles(np.empty((0, 3), np.float32)).shape == (0, 3)
    large = np.linspace(-5, 9, 3 * log_gamma._TOGETHER, dtype=np.float32).reshape(3, -1)
    rows = np.stack([log_gamma_of_singles(row) for row in large])
    assert log_gamma_of_singles(large.T).tolist() == rows.T.tolist()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_each_type_has_its_own(kind: type) -> None:
    x = np.array([0.25, 2.5, 7.0, -0.5], kind)
    found = lgamma.kernel(np, x)
    assert found.dtype == x.dtype
    assert found.tolist() == exact(x).astype(kind).tolist()


def slopes(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """In double precision."""
    with np.errstate(all="ignore"):
        found: np.ndarray = digamma.kernel(np, x.astype(np.float64))  # type: ignore[type-arg]
        return found


def test_slopes_are_those_of_double_precision_rounded() -> None:
    near = np.linspace(-1e-3, 1e-3, 5001)  # of where digamma is 0, of the first step and the last
    x = np.concatenate(
        [
            np.linspace(-30.3, 60, 30_001),
            np.logspace(-44, 36, 20_001),
            -np.logspace(-44, 6, 20_001),
            *(at + near for at in (0.5, 1.4616321, 9, 10)),
        ]
    ).astype(np.float32)
    wanted = slopes(x)
    found = digamma_of_singles(x)
    known = np.abs(wanted) < np.finfo(np.float32).max
    with np.errstate(over="ignore"):
        assert np.array_equal(found[~known], wanted[~known].astype(np.float32), equal_nan=True)
    units = np.spacing(np.abs(wanted[known]).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(found[known] - wanted[known]) / units) < 0.51


def test_slopes_of_poles_infinities_and_any_shape() -> None:
    x = np.array([[0.0, -0.0, -1, -50, -np.inf, np.nan, np.inf]], np.float32)
    assert np.isnan(digamma_of_singles(x)[0, :6]).all()
    assert digamma_of_singles(x)[0, 6] == np.inf
    assert digamma_of_singles(np.empty((0, 3), np.float32)).shape == (0, 3)
    large = np.linspace(-5, 99, 3 * log_gamma._TOGETHER, dtype=np.float32).reshape(3, -1)
    rows = np.stack([digamma_of_singles(row) for row in large])
    assert np.array_equal(digamma_of_singles(large.T), rows.T, equal_nan=True)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_each_type_has_its_own_slopes(kind: type) -> None:
    x = np.array([0.25, 2.5, 7.0, -0.5], kind)
    found = digamma.kernel(np, x)
    assert found.dtype == x.dtype
    assert found.tolist() == slopes(x).astype(kind).tolist()
