"""The error function of single precision and what is left to 1, beside the C library's in double precision."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from headrace.ops._kernels.error_function import erf_of_singles, erfc_of_singles
from headrace.ops.math.special import erf


def test_values_are_those_of_double_precision_rounded_but_for_a_thirtieth_of_a_unit() -> None:
    x = np.concatenate([np.linspace(-5, 5, 100_001), np.logspace(-44, 0.7, 50_001)])
    singles = x.astype(np.float32)
    exact = np.array([math.erf(each) for each in singles.tolist()])
    units = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    found = erf_of_singles(singles)
    assert found.dtype == np.float32
    assert np.max(np.abs(found - exact) / units) < 0.54


def test_values_at_the_ends_and_of_any_shape() -> None:
    ends = np.array([[np.inf, -np.inf, 0.0, -0.0, 3e38, np.nan]], np.float32)
    found = erf_of_singles(ends)
    assert found[0, :5].tolist() == [1, -1, 0, 0, 1]
    assert np.signbit(found[0]).tolist()[:4] == [False, True, False, True]
    assert np.isnan(found[0, 5])
    assert erf_of_singles(np.float32(0.5).reshape(())).shape == ()
    assert erf_of_singles(np.empty((0, 3), np.float32)).shape == (0, 3)
    large = np.linspace(-2, 2, 90_000, dtype=np.float32).reshape(300, 300)
    parts = np.stack([erf_of_singles(row) for row in large])
    assert erf_of_singles(large).tolist() == parts.tolist()
    assert erf_of_singles(large.T).tolist() == parts.T.tolist()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_each_type_has_its_own(kind: type) -> None:
    x = np.array([-1.5, 0.25, 3.0], kind)
    found = erf.kernel(np, x)
    assert found.dtype == x.dtype
    wanted = np.array([math.erf(float(each)) for each in x]).astype(kind)
    assert found.tolist() == wanted.tolist()


def test_what_is_left_to_1_is_that_of_double_precision_rounded() -> None:
    x = np.concatenate([np.linspace(-6, 10.3, 60_001), np.logspace(-44, 1, 20_001)])
    singles = np.concatenate([x, -x]).astype(np.float32)
    exact = np.array([math.erfc(each) for each in singles.tolist()])
    units = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(erfc_of_singles(singles) - exact) / units) < 0.54
    ends = erfc_of_singles(np.array([np.inf, -np.inf, 0.0, -0.0, 20, -20, np.nan], np.float32))
    assert ends[:6].tolist() == [0, 2, 1, 1, 0, 2]
    assert np.isnan(ends[6])
