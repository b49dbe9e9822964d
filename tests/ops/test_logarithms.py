"""log(1 + x) of float32, made of NumPy's logarithm where that has vector instructions and this one has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from headrace.ops._kernels import logarithms

Array = np.ndarray[Any, Any]
SINGLES = st.floats(width=32, allow_nan=True, allow_infinity=True)


@pytest.fixture(autouse=True)
def by_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this processor has."""
    monkeypatch.setattr(logarithms, "BY_ELEMENTS", True)


def check(x: Array) -> None:
    with np.errstate(all="ignore"):
        found = logarithms.log1p(x)
        wanted = np.log1p(x.astype(np.float64))
    assert found.dtype == np.float32
    assert found.shape == x.shape
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    unit = np.spacing(np.abs(wanted[finite]).astype(np.float32))
    assert (np.abs(found[finite] - wanted[finite]) <= 4 * unit).all()


@settings(max_examples=200, deadline=None)
@given(x=some.arrays(np.float32, some.array_shapes(max_dims=3, max_side=9), elements=SINGLES))
def test_any_numbers(x: Array) -> None:
    """Those at which nothing is left of 1 + x, or nothing of 1, those below -1, infinite ones and none included."""
    check(x)


@pytest.mark.parametrize("scale", [1e-4, 0.3, 1.0, 4.0, 30.0])
def test_ranges(scale: float) -> None:
    x = np.random.default_rng(3).standard_normal(100_000)
    check(np.exp(np.minimum(x * scale, 88)).astype(np.float32))
    check(-np.exp(-np.abs(x * scale)).astype(np.float32))
    check((x * scale).astype(np.float32))


def test_an_elements_bits_do_not_depend_on_what_is_beside_it() -> None:
    x = np.random.default_rng(4).exponential(1, 50_001).astype(np.float32)
    x[::1000] = [-1, np.inf, np.nan, -2, 3e38] * 10 + [0]
    with np.errstate(all="ignore"):
        whole = logarithms.log1p(x)
        parts = [logarithms.log1p(x[first : first + 7]) for first in range(0, len(x), 7)]
        turned = logarithms.log1p(x.reshape(3, -1).T).T.reshape(-1)
    assert whole.tobytes() == np.concatenate(parts).tobytes() == turned.tobytes()


def test_the_result_may_be_written_over_what_is_given() -> None:
    x = np.array([0.5, -1, np.inf, np.nan, 1e-9], np.float32)
    with np.errstate(all="ignore"):
        wanted = logarithms.log1p(x)
        assert logarithms.log1p(x, out=x) is x
    assert x.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.complex64])
def test_other_types_and_scalars_are_numpys(kind: type) -> None:
    x = np.array([0.5, 2], kind)
    np.testing.assert_array_equal(logarithms.log1p(x), np.log1p(x))
    assert logarithms.log1p(np.float32(0.5)) == np.log1p(np.float32(0.5))
