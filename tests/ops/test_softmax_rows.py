"""Softmax and the cross entropies, a few rows after the others, give what one call over all rows gives, bit by bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.graph.registry import OPS

Array = np.ndarray[Any, Any]
SHAPES = [(0, 5), (3, 0), (1, 1), (7, 3), (400, 1001), (3, 200_000), (300_000, 2)]
KINDS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def _kernel(name: str) -> Any:
    kernel = OPS[name].kernel
    assert kernel is not None
    return kernel


def _logits(shape: tuple[int, ...], kind: Any) -> Array:
    x = (4 * np.random.default_rng(0).standard_normal(shape)).astype(kind)
    if x.size > 20:
        x[0, 0], x[1, 1] = -np.inf, np.nan
        x[2] = -np.inf
    return x


def _wide(x: Array) -> Array:
    return x if x.dtype == np.float64 else x.astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_softmax_is_that_of_all_rows(shape: tuple[int, ...], kind: Any) -> None:
    x = _logits(shape, kind)
    with np.errstate(invalid="ignore", divide="ignore"):
        found, log_found = (_kernel(name)(np, x) for name in ("Softmax", "LogSoftmax"))
        shifted = _wide(x) - _wide(x).max(axis=-1, keepdims=True, initial=-np.inf)
        powers = np.exp(shifted)
        total = powers.sum(axis=-1, keepdims=True)
        wanted, log_wanted = powers / total, shifted - np.log(total)
    for each, other in ((found, wanted), (log_found, log_wanted)):
        assert each.dtype == kind
        assert np.array_equal(_wide(each), _wide(other.astype(kind)), equal_nan=True)


def test_softmax_of_what_lies_in_another_order() -> None:
    x = np.random.default_rng(1).standard_normal((6, 50, 1000)).astype(np.float32)
    turned = x.transpose(2, 0, 1)
    found = _kernel("Softmax")(np, turned)
    assert np.array_equal(found, _kernel("Softmax")(np, turned.copy()))
    assert found.shape == turned.shape


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["both", "row", "column"])
def test_cross_entropy_is_that_of_all_rows(shape: tuple[int, int], kind: Any, which: str) -> None:
    x = _logits(shape, kind)
    of = {"both": shape, "row": (1, shape[1]), "column": (shape[0], 1)}[which]
    labels = np.random.default_rng(2).uniform(0, 1, of).astype(kind)
    with np.errstate(invalid="ignore", divide="ignore"):
        loss, backprop = _kernel("SoftmaxCrossEntropyWithLogits")(np, x, labels)
        targets = np.broadcast_to(_wide(labels), shape)
        shifted = _wide(x) - _wide(x).max(axis=1, keepdims=True, initial=-np.inf)
        powers = np.exp(shifted)
        total = powers.sum(axis=1, keepdims=True)
        wanted = (targets * (np.log(total) - shifted)).sum(axis=1).astype(kind)
        slopes = (powers / total - targets).astype(kind)
    assert loss.dtype == backprop.dtype == kind
    assert np.array_equal(_wide(loss), _wide(wanted), equal_nan=True)
    assert np.array_equal(_wide(backprop), _wide(slopes), equal_nan=True)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[1]])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_cross_entropy_is_that_of_all_rows(shape: tuple[int, int], kind: Any) -> None:
    x = _logits(shape, kind)
    labels = np.random.default_rng(3).integers(0, shape[1], shape[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        loss, backprop = _kernel("SparseSoftmaxCrossEntropyWithLogits")(np, x, labels)
        shifted = _wide(x) - _wide(x).max(axis=1, keepdims=True, initial=-np.inf)
        powers = np.exp(shifted)
        total = powers.sum(axis=1, keepdims=True)
        rows = np.arange(shape[0])
        wanted = (np.log(total[:, 0]) - shifted[rows, labels]).astype(kind)
        slopes = powers / total
        slopes[rows, labels] -= 1
    assert loss.dtype == backprop.dtype == kind
    assert np.array_equal(_wide(loss), _wide(wanted), equal_nan=True)
    assert np.array_equal(_wide(backprop), _wide(slopes.astype(kind)), equal_nan=True)


@pytest.mark.parametrize("rows", [4, 40_000])
def test_cross_entropies_of_what_lies_in_another_order(rows: int) -> None:
    turned = np.random.default_rng(4).standard_normal((9, rows)).astype(np.float32).T
    numbers = np.random.default_rng(5).integers(0, 9, rows)
    for name, labels in (
        ("SparseSoftmaxCrossEntropyWithLogits", numbers),
        ("SoftmaxCrossEntropyWithLogits", np.eye(9, dtype=np.float32)[numbers]),
    ):
        found = _kernel(name)(np, turned, labels)
        wanted = _kernel(name)(np, turned.copy(), labels)
        assert all(map(np.array_equal, found, wanted))
        np.testing.assert_allclose(found[1].sum(axis=1), 0, atol=1e-5)
