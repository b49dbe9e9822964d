"""Crops and their gradients, some at a time, give what index arrays of all of them give, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS
from headrace.ops._kernels import crops
from headrace.ops.image.boxes import _lines

Array = np.ndarray[Any, Any]
F = np.float32
CASES = [
    # images, boxes, crop
    ((2, 9, 11, 5), 7, (4, 6)),
    ((1, 1, 1, 1), 3, (2, 2)),
    ((3, 20, 7, 40), 5, (1, 9)),
    ((2, 16, 16, 64), 40, (14, 14)),
    ((1, 30, 30, 3), 2, (300, 301)),
    ((2, 8, 8, 4), 0, (3, 3)),
    ((2, 8, 8, 0), 2, (3, 3)),
]


def _kernel(name: str) -> Any:
    kernel = OPS[name].kernel
    assert kernel is not None
    return kernel


def _boxes(count: int, images: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some of which reach out of the image, lie the other way round or are not finite."""
    boxes = rng.uniform(-0.3, 1.3, (count, 4)).astype(F)
    if count > 2:
        boxes[0] = 0, 0, 1, 1
        boxes[1, 0] = np.nan
    return boxes, rng.integers(0, images, count).astype(np.int32)


class Plain:
    """With index arrays of all crops."""

    def __init__(self, shape: Any, boxes: Array, box_ind: Array, size: Any, nearest: bool) -> None:
        self.rows, self.columns = _lines(boxes, shape[1:3], size, nearest)
        self.batch = box_ind[:, None, None]
        self.inside = self.rows.inside[:, :, None] & self.columns.inside[:, None, :]
        self.across = self.columns.share[:, None, :, None]
        self.down = self.rows.share[:, :, None, None]
        self.shape, self.nearest = shape, nearest

    def at(self, row: str, column: str) -> tuple[Array, ...]:
        rows, columns = getattr(self.rows, row), getattr(self.columns, column)
        return self.batch, rows[:, :, None], columns[:, None, :]

    def crops(self, image: Array, outside: float) -> Array:
        made: Array = image[self.at("low", "low")].astype(F)
        if not self.nearest:
            made += (image[self.at("low", "high")].astype(F) - made) * self.across
            bottom = image[self.at("high", "low")].astype(F)
            bottom += (image[self.at("high", "high")].astype(F) - bottom) * self.across
            made += (bottom - made) * self.down
        made[~self.inside] = F(outside)
        return made

    def to_image(self, grads: Array, kind: Any) -> Array:
        made = np.zeros(self.shape, kind)
        given = np.where(self.inside[..., None], grads, F(0))
        for row, down in (("low", 1 - self.down), ("high", self.down)):
            for column, across in (("low", 1 - self.across), ("high", self.across)):
                if not self.nearest or (row, column) == ("low", "low"):
                    np.add.at(made, self.at(row, column), given * (down * across))
        return made

    def slopes(self, grads: Array, image: Array) -> tuple[Array, Array]:
        one, two, three, four = (
            image[self.at(row, column)].astype(F)
            for row in ("low", "high")
            for column in ("low", "high")
        )
        given = np.where(self.inside[..., None], grads, F(0))
        across, down = self.across, self.down
        by_row = given * ((1 - across) * (three - one) + across * (four - two))
        by_column = given * ((1 - down) * (two - one) + down * (four - three))
        return by_row.sum(axis=(2, 3)), by_column.sum(axis=(1, 3))


@pytest.mark.parametrize(("shape", "count", "size"), CASES)
@pytest.mark.parametrize("method", [b"bilinear", b"nearest"])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64, np.float16])
def test_crops_are_those_of_index_arrays(
    shape: Any, count: int, size: Any, method: bytes, dtype: Any
) -> None:
    rng = np.random.default_rng(count)
    boxes, box_ind = _boxes(count, shape[0], rng)
    image = (rng.uniform(0, 200, shape)).astype(dtype)
    if image.size and dtype != np.uint8:
        image[0, 0, 0] = np.inf
    attrs = {"method": method, "extrapolation_value": 7.5}
    with np.errstate(invalid="ignore"):
        found = _kernel("CropAndResize")(
            np, image, boxes, box_ind, np.array(size, np.int32), **attrs
        )
        wanted = Plain(shape, boxes, box_ind, size, method == b"nearest").crops(image, 7.5)
    assert found.dtype == np.float32
    assert np.array_equal(found, wanted, equal_nan=True)


@pytest.mark.parametrize(("shape", "count", "size"), CASES)
@pytest.mark.parametrize("method", [b"bilinear", b"nearest"])
@pytest.mark.parametrize("kind", [tf.float32, tf.float64, tf.float16])
def test_images_get_what_they_get_one_by_one(
    shape: Any, count: int, size: Any, method: bytes, kind: Any
) -> None:
    rng = np.random.default_rng(count)
    boxes, box_ind = _boxes(count, shape[0], rng)
    grads = rng.standard_normal((count, *size, shape[3])).astype(F)
    plain = Plain(shape, boxes, box_ind, size, method == b"nearest")
    grads[~plain.inside] = np.nan
    found = _kernel("CropAndResizeGradImage")(
        np, grads, boxes, box_ind, np.array(shape, np.int32), T=kind, method=method
    )
    in_double = shape[3] <= crops._THIN and grads.size >= crops._SMALL
    wide = np.float64 if kind is tf.float64 or in_double else np.float32
    assert found.dtype == kind.np
    assert np.array_equal(found, plain.to_image(grads, wide).astype(kind.np))


@pytest.mark.parametrize(("shape", "count", "size"), CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
def test_boxes_get_what_they_get_all_at_once(shape: Any, count: int, size: Any, dtype: Any) -> None:
    rng = np.random.default_rng(count)
    boxes, box_ind = _boxes(count, shape[0], rng)
    image = rng.uniform(0, 200, shape).astype(dtype)
    grads = rng.standard_normal((count, *size, shape[3])).astype(F)
    plain = Plain(shape, boxes, box_ind, size, False)
    grads[~plain.inside] = np.nan
    found = _kernel("CropAndResizeGradBoxes")(np, grads, image, boxes, box_ind)
    assert (found.dtype, found.shape) == (np.float32, boxes.shape)
    by_row, by_column = plain.slopes(grads, image)
    for slopes, side, edge in ((by_row, shape[1], 0), (by_column, shape[2], 1)):
        limit, places = F(side - 1), slopes.shape[1]
        if places == 1:
            first = last = slopes[:, 0] * F(0.5) * limit
        else:
            shares = np.arange(places, dtype=F) * (limit / F(places - 1))
            first, last = (slopes * (limit - shares)).sum(axis=1), (slopes * shares).sum(axis=1)
        assert np.array_equal(found[:, edge], first)
        assert np.array_equal(found[:, edge + 2], last)
