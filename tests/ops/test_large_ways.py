"""Kernels that have a way of their own for large arrays, beside what they make of small ones, or plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes
from headrace.graph.registry import OPS
from headrace.ops._kernels.blocks import LARGE
from headrace.ops.math.segments import means, reduced
from headrace.run.exec.worker_pool import WorkerPool

Array = np.ndarray[Any, Any]
F = np.float32


def kernel(name: str, *inputs: Any, **attrs: Any) -> Any:
    """What the op's kernel makes of them, in a task with two threads."""
    with WorkerPool(2) as pool, np.errstate(all="ignore"):
        found = OPS[name].kernel(np, *inputs, **attrs)
        pool.close()
    return found


def in_pieces(name: str, arrays: list[Array], *rest: Any, **attrs: Any) -> Array:
    """The same of 1,000 elements at a time."""
    starts = range(0, len(arrays[0]), 1000)
    return np.concatenate(
        [kernel(name, *(each[at : at + 1000] for each in arrays), *rest, **attrs) for at in starts]
    )


BITS = {"num_bits": 8, "narrow_range": False}


def test_fake_quantization_of_many_is_that_of_few() -> None:
    rng = np.random.default_rng(1)
    x, dy = (rng.normal(0, 5, LARGE + 77).astype(F) for _ in range(2))
    x[:2] = np.nan, np.inf
    range_ = {"min": -6.0, "max": 6.0, **BITS}
    name = "FakeQuantWithMinMaxArgs"
    wanted = in_pieces(name, [x], **range_)
    assert np.array_equal(kernel(name, x, **range_), wanted, equal_nan=True)
    wanted = in_pieces(f"{name}Gradient", [dy, x], **range_)
    assert np.array_equal(kernel(f"{name}Gradient", dy, x, **range_), wanted)


def test_ranges_a_channel_of_many_are_those_of_few() -> None:
    rng = np.random.default_rng(2)
    x, dy = (rng.normal(0, 5, (LARGE // 2, 3)).astype(F) for _ in range(2))
    ends = np.array([-1, 0, -9], F), np.array([2, 0, 9], F)
    name = "FakeQuantWithMinMaxVarsPerChannel"
    assert np.array_equal(kernel(name, x, *ends, **BITS), in_pieces(name, [x], *ends, **BITS))
    found = kernel(f"{name}Gradient", dy, x, *ends, **BITS)[0]
    pieces = [
        kernel(f"{name}Gradient", dy[at : at + 1000], x[at : at + 1000], *ends, **BITS)[0]
        for at in range(0, len(x), 1000)
    ]
    assert np.array_equal(found, np.concatenate(pieces))


@pytest.mark.parametrize("kind", [dtypes.quint8, dtypes.qint16])
def test_quantized_many_are_those_of_few(kind: Any) -> None:
    x = np.linspace(-4, 4, LARGE + 5, dtype=F)
    attrs = {
        "T": kind,
        "mode": b"MIN_COMBINED",
        "round_mode": b"HALF_AWAY_FROM_ZERO",
        "narrow_range": False,
        "axis": -1,
        "ensure_minimum_range": 0.01,
    }
    ends = np.array(-3, F), np.array(3, F)
    found = kernel("QuantizeV2", x, *ends, **attrs)[0]
    pieces = [
        kernel("QuantizeV2", x[at : at + 1000], *ends, **attrs)[0] for at in range(0, len(x), 1000)
    ]
    assert np.array_equal(found, np.concatenate(pieces))


def test_in_top_k_of_many_rows_and_of_few() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, (600, 500)).astype(F)
    x[5, 0], x[6, 0] = np.nan, np.inf
    targets = rng.integers(-1, 501, 600).astype(np.int32)
    wanted = []
    for row, target in zip(x, targets.tolist(), strict=True):
        valid = 0 <= target < 500 and bool(np.isfinite(row).all())
        wanted.append(valid and int((row > row[target]).sum()) < 250)
    assert kernel("InTopK", x, targets, k=250).tolist() == wanted


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_ranges_up_to_the_last_number_of_their_type(kind: Any) -> None:
    last = int(np.iinfo(kind).max)
    values = [np.array(each, kind) for each in (last - 5, last, 2)]
    found = kernel("Range", *values)
    assert found.dtype == kind
    assert found.tolist() == [last - 5, last - 3, last - 1]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int32, np.complex64])
@pytest.mark.parametrize("shape", [(40, 300), (3, 50, 90), (2, 1, 400), (0, 300), (5, 0, 300)])
@pytest.mark.parametrize("name", ["Cumsum", "Cumprod"])
def test_running_sums_of_many_columns(name: str, shape: tuple[int, ...], kind: Any) -> None:
    x = np.random.default_rng(4).uniform(0.5, 1.5, shape).astype(kind)
    axis = len(shape) - 2
    ufunc = np.add if name == "Cumsum" else np.multiply
    for reverse in (False, True):
        given = np.flip(x, axis) if reverse else x
        wanted = ufunc.accumulate(given, axis=axis, dtype=kind)
        found = kernel(name, x, np.int32(axis), exclusive=False, reverse=reverse)
        assert found.dtype == kind
        assert np.array_equal(found, np.flip(wanted, axis) if reverse else wanted)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum])
@pytest.mark.parametrize("width", [(7,), (2, 5), (1,), ()])
@pytest.mark.parametrize("ordered", [False, True])
def test_segments_of_many_rows_are_reduced_in_order(
    ordered: bool, width: tuple[int, ...], ufunc: np.ufunc, kind: Any
) -> None:
    rng = np.random.default_rng(5)
    data = rng.integers(1, 3, (900, *width)).astype(kind)
    indices, ids = rng.integers(0, 900, 9000), rng.integers(0, 700, 9000)
    ids[ids == 13] = 14
    if ordered:
        ids.sort()
    wanted = np.full((700, *width), 5, kind)
    for number in np.unique(ids):
        rows = data[indices[ids == number]]
        wanted[number] = ufunc.accumulate(rows, axis=0, dtype=kind)[-1]
    found = reduced(ufunc, data, ids, 700, 5, indices)
    assert found.dtype == kind
    assert np.array_equal(found, wanted)
    assert np.array_equal(reduced(ufunc, data[indices], ids, 700, 5), wanted)


def test_segments_of_one_row_each_are_the_rows() -> None:
    data = np.random.default_rng(6).normal(size=(3000, 8)).astype(F)
    ids = np.arange(3000)
    for found in (reduced(np.add, data, ids, 3000, 0), means(data, ids, 3000)):
        assert np.array_equal(found, data)
        assert not np.shares_memory(found, data)


def test_sums_of_many_numbers_in_no_order_are_rounded_once() -> None:
    rng = np.random.default_rng(7)
    data, ids = rng.normal(size=20_000).astype(F), rng.integers(0, 90, 20_000)
    wanted = [data[ids == each].astype(np.float64).sum() for each in range(90)]
    np.testing.assert_allclose(reduced(np.add, data, ids, 90, 0), np.array(wanted, F), rtol=2e-7)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.complex64])
@pytest.mark.parametrize("shape", [(30, 20, 16), (600, 4), (20, 30, 5, 3), (900,)])
def test_many_scattered_updates_of_one_place_add_up(shape: tuple[int, ...], kind: Any) -> None:
    rng = np.random.default_rng(8)
    depth = min(2, len(shape)) if len(shape) != 2 else 1
    indices = np.stack([rng.integers(0, size, 4000) for size in shape[:depth]], 1)
    updates = rng.integers(-9, 9, (4000, *shape[depth:])).astype(kind)
    wanted = np.zeros(shape, kind)
    np.add.at(wanted, tuple(indices.T), updates)
    policy = {"bad_indices_policy": b""}
    assert np.array_equal(kernel("ScatterNd", indices, updates, np.array(shape), **policy), wanted)
    base = rng.integers(-9, 9, shape).astype(kind)
    given = np.asfortranarray(base)
    assert np.array_equal(
        kernel("TensorScatterAdd", given, indices, updates, **policy), base + wanted
    )
    taken = kernel("GatherNd", base, indices, **policy)
    assert np.array_equal(taken, base[tuple(indices.T)])
    assert np.array_equal(kernel("GatherNd", given, indices, **policy), taken)


@pytest.mark.parametrize("sizes", [((9, 7), (21, 15)), ((20, 31), (8, 12)), ((5, 5), (5, 5))])
@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_pixels_get_the_sum_of_those_they_are_nearest_to(sizes: Any, kind: Any) -> None:
    small, large = sizes
    rng = np.random.default_rng(9)
    dy = rng.integers(-3, 3, (2, *large, 3)).astype(kind)
    images = np.arange(small[0] * small[1], dtype=np.int64).reshape(1, *small, 1)
    corners = {"align_corners": False, "half_pixel_centers": False}
    nearest = kernel("ResizeNearestNeighbor", images, np.array(large, np.int32), **corners)
    wanted = np.zeros((2, small[0] * small[1], 3), kind)
    for number in range(2):
        np.add.at(wanted[number], nearest.reshape(-1), dy[number].reshape(-1, 3))
    found = kernel("ResizeNearestNeighborGrad", dy, np.array(small, np.int32), **corners)
    assert np.array_equal(found, wanted.reshape(2, *small, 3))


@pytest.mark.parametrize("mode", [b"REFLECT", b"SYMMETRIC"])
def test_mirror_images_are_added_to_what_they_mirror(mode: bytes) -> None:
    paddings = np.array([[0, 0], [2, 1], [0, 3]])
    places = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    mirrored = kernel("MirrorPad", places, paddings, mode=mode)
    dy = np.random.default_rng(10).integers(-9, 9, mirrored.shape).astype(F)
    wanted = np.zeros(places.size, F)
    np.add.at(wanted, mirrored.reshape(-1), dy.reshape(-1))
    found = kernel("MirrorPadGrad", dy, paddings, mode=mode)
    assert np.array_equal(found.reshape(-1), wanted)
    none = np.zeros((3, 2), np.int64)
    assert not np.shares_memory(kernel("MirrorPadGrad", dy, none, mode=mode), dy)


@pytest.mark.parametrize("name", ["RGBToHSV", "HSVToRGB", "AdjustHue", "AdjustSaturation"])
def test_colors_of_many_pixels_are_those_of_few(name: str) -> None:
    x = np.random.default_rng(11).uniform(0, 1, (70_000, 1, 1, 3)).astype(F)
    x[:3] = [[[[0, 0, 0]]], [[[1, 1, 1]]], [[[0.5, 0.5, 0.2]]]]
    rest = [np.array(0.3, F)] if name.startswith("Adjust") else []
    assert np.array_equal(kernel(name, x, *rest), in_pieces(name, [x], *rest))


@pytest.mark.parametrize("delta", [-1.0, -0.4, 0.0, 0.7, 1.0, 5.3])
def test_hues_go_round_the_circle(delta: float) -> None:
    x = np.random.default_rng(12).uniform(0, 1, (20, 20, 3)).astype(F)
    hsv = kernel("RGBToHSV", x)
    hsv[..., 0] = np.mod(hsv[..., 0].astype(np.float64) + delta, 1)
    found = kernel("AdjustHue", x, np.array(delta, F))
    np.testing.assert_allclose(found, kernel("HSVToRGB", hsv), atol=4e-6)


def test_contrast_is_about_the_mean_of_each_channel() -> None:
    x = np.random.default_rng(13).uniform(0, 1, (2, 3, 50, 60, 3)).astype(F)
    mean = x.mean(axis=(2, 3), keepdims=True, dtype=np.float64)
    found = kernel("AdjustContrastv2", x, np.array(1.5, F))
    np.testing.assert_allclose(found, (x - mean) * 1.5 + mean, atol=1e-6)


def test_a_string_that_is_gathered_alone_is_a_string_still() -> None:
    strings = np.array([[b"a", b"bc"], [b"", b"d"]], object)
    for indices, wanted in ([0, 1], b"bc"), ([[1, 1], [0, 0]], [b"d", b"a"]):
        found = kernel("GatherNd", strings, np.array(indices), bad_indices_policy=b"")
        assert found.dtype == object
        assert found.tolist() == wanted
