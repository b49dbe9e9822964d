"""exp(x) - 1 and log(1 + exp(x)) of single precision, beside double precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from headrace.ops._kernels import exponentials
from headrace.ops.nn.activations import elu, selu, softplus_op
from headrace.run.exec.worker_pool import WorkerPool

X = np.concatenate(
    [-np.logspace(-40, 2, 60_001), -np.linspace(0, 20, 60_001), np.linspace(0, 90, 5_001)]
).astype(np.float32)
SCALE, SCALE_ALPHA = 1.0507009873554805, 1.7580993408473769


def units(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest error, in units of the last place."""
    return float(np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))))


def exact_elu(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return np.where(wide < 0, np.expm1(wide), wide)


def test_elu_is_within_a_unit_in_the_last_place() -> None:
    assert units(exponentials.in_pieces(exponentials.elu, X), exact_elu(X)) < 1


def test_selu_is_within_two_units() -> None:
    exact = exact_elu(X) * np.where(X < 0, SCALE_ALPHA, SCALE)
    assert units(selu.kernel(np, X), exact) < 2


def test_softplus_is_as_far_off_as_the_exponential_function_and_one_unit() -> None:
    wide = X.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        exact = np.log1p(np.exp(-np.abs(wide))) + np.maximum(wide, 0)
        singles = np.exp(-np.abs(X))
        of_exp = units(singles, np.exp(-np.abs(wide)))
        assert units(exponentials.in_pieces(exponentials.softplus, X), exact) < of_exp + 1


def test_values_at_the_ends() -> None:
    ends = np.array([-np.inf, np.inf, np.nan, 0, -0.0, -1e-45], np.float32)
    with np.errstate(all="ignore"):
        made = [spec.kernel(np, ends) for spec in (elu, selu, softplus_op)]
    assert made[0][:2].tolist() == [-1, np.inf]
    assert made[1][:2].tolist() == [np.float32(-SCALE_ALPHA), np.inf]
    assert made[2][:2].tolist() == [0, np.inf]
    assert all(np.isnan(each[2]) for each in made)
    assert made[0][3:].tolist() == [0, 0, ends[5]]
    assert made[2][3:].tolist() == [np.float32(np.log(2))] * 3


@pytest.mark.parametrize("spec", [elu, selu, softplus_op])
def test_large_arrays_that_threads_share_have_the_bits_of_small_ones(spec: object) -> None:
    x = np.linspace(-9, 9, 500_007, dtype=np.float32)
    few = np.concatenate([spec.kernel(np, x[at : at + 777]) for at in range(0, len(x), 777)])
    with WorkerPool(2) as pool:
        assert np.array_equal(spec.kernel(np, x), few)
        pool.close()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types_are_computed_in_single_precision(kind: type) -> None:
    x = np.linspace(-5, 5, 101).astype(kind).reshape(1, -1)
    found = elu.kernel(np, x)
    assert found.dtype == x.dtype
    assert found.tolist() == exact_elu(x.astype(np.float32)).astype(kind).tolist()
