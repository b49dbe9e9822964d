"""tf.contrib.image: images turned, moved and bent, beside sums in NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

image = tf.contrib.image
Array = np.ndarray[Any, Any]
GRID = np.arange(12.0, dtype=np.float32).reshape(3, 4)
STAYS = np.array([1.0, 0, 0, 0, 1, 0, 0, 0])


def value(tensor: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(tensor, feed)


def seen(images: Array, numbers: Any, bilinear: bool, height: int, width: int) -> Array:
    """One image [h, w, c] transformed, place by place."""
    h, w, channels = images.shape
    made = np.zeros((height, width, channels))

    def at(row: float, column: float) -> Any:
        inside = 0 <= row < h and 0 <= column < w
        return images[int(row), int(column)] if inside else np.zeros(channels)

    a0, a1, a2, b0, b1, b2, c0, c1 = numbers
    for y, x in itertools.product(range(height), range(width)):
        k = c0 * x + c1 * y + 1
        column, row = (a0 * x + a1 * y + a2) / k, (b0 * x + b1 * y + b2) / k
        if not bilinear:
            made[y, x] = at(
                *(math.floor(abs(s) + 0.5) * (1 if s > 0 else -1) for s in (row, column))
            )
            continue
        top, left = math.floor(row), math.floor(column)
        for down, right in itertools.product((0, 1), (0, 1)):
            share = abs(1 - down - (row - top)) * abs(1 - right - (column - left))
            made[y, x] += share * at(top + down, left + right)
    return made


@pytest.mark.parametrize("way", ["NEAREST", "BILINEAR", "bilinear"])
@pytest.mark.parametrize("size", [None, [6, 3]])
def test_images_are_transformed(way: str, size: list[int] | None) -> None:
    rng = np.random.RandomState(0)
    images = rng.rand(3, 5, 4, 2).astype(np.float32)
    numbers = STAYS + rng.randn(3, 8) * [0.4, 0.4, 1.3, 0.4, 0.4, 1.3, 0.05, 0.05]
    height, width = size or (5, 4)
    with tf.Graph().as_default():
        made = image.transform(images, numbers, way, size)
        assert made.shape.as_list() == [3, height, width, 2]
        found = value(made)
    wanted = [
        seen(each, row, way != "NEAREST", height, width)
        for each, row in zip(images, numbers, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_images_keep_their_rank(rank: int) -> None:
    shown = {2: GRID, 3: GRID[..., None], 4: GRID[None, ..., None]}[rank]
    with tf.Graph().as_default():
        moved = image.translate(shown, [1.0, -1.0])
        turned = image.rotate(tf.placeholder_with_default(shown, [None] * rank), math.pi)
        assert (moved.shape, turned.shape.ndims) == (shown.shape, rank)
        assert value(moved).reshape(3, 4).tolist() == [[0, 4, 5, 6], [0, 8, 9, 10], [0, 0, 0, 0]]
        assert np.array_equal(value(turned).reshape(3, 4), GRID[::-1, ::-1])


def test_turning_is_counterclockwise_and_each_image_has_its_angle() -> None:
    square = np.arange(9).reshape(1, 3, 3, 1)
    with tf.Graph().as_default():
        turned = value(image.rotate(np.repeat(square, 2, 0), [math.pi / 2, math.pi]))
    assert np.array_equal(turned[0, ..., 0], np.rot90(square[0, ..., 0]))
    assert np.array_equal(turned[1, ..., 0], square[0, ::-1, ::-1, 0])


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "float16", "float32", "float64"])
def test_kinds_of_images(kind: str) -> None:
    with tf.Graph().as_default():
        made = value(image.translate((GRID * 2).astype(kind), [0.25, 0.0], "BILINEAR"))
    assert made.dtype == kind
    exact = np.array([0, 1.5, 3.5, 5.5])
    assert made[0].tolist() == (exact if kind.startswith("float") else np.trunc(exact)).tolist()


def test_a_place_that_comes_from_nowhere_is_0() -> None:
    with tf.Graph().as_default():
        made = value(image.transform(GRID + 1, [1, 0, 0, 0, 1, 0, -0.5, 0], "BILINEAR"))
    # k is 0 where x is 2
    assert made[:, 2].tolist() == [0, 0, 0]
    assert made[0, 0] == 1


def test_no_images_and_images_of_no_rows() -> None:
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, [None, None, None, 2])
        angles = tf.placeholder(tf.float32, [None])
        turned = image.rotate(fed, angles, "BILINEAR")
        assert value(turned, {fed: np.zeros((0, 3, 3, 2)), angles: []}).shape == (0, 3, 3, 2)
        assert value(turned, {fed: np.zeros((2, 0, 3, 2)), angles: [1.0]}).shape == (2, 0, 3, 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_images x 8 or 1 x 8"):
            value(turned, {fed: np.zeros((1, 3, 3, 2)), angles: [1.0, 2.0]})


def test_transformations_follow_each_other() -> None:
    with tf.Graph().as_default():
        moves = image.translations_to_projective_transforms([[1.0, 2.0], [0.0, 1.0]])
        twice = [2.0, 0, 0, 0, 2, 0, 0, 0]
        both = image.compose_transforms(moves, twice)
        back = image.matrices_to_flat_transforms(3.0 * image.flat_transforms_to_matrices(both))
        half = image.angles_to_projective_transforms(math.pi, 3.0, 4.0)
        apart = image.transform(image.transform(GRID, half), moves[0])
        together = image.transform(GRID, image.compose_transforms(half, moves[0]))
        assert value(both).tolist() == [[2, 0, -1, 0, 2, -2, 0, 0], [2, 0, 0, 0, 2, -1, 0, 0]]
        assert value(back).tolist() == value(both).tolist()
        assert value(together).tolist() == value(apart).tolist()


def test_images_have_a_gradient_and_transformations_none() -> None:
    with tf.Graph().as_default():
        shown, numbers = tf.constant(GRID), tf.constant([1.0, 0, 0.5, 0, 1, 0, 0, 0])
        made = image.transform(shown, numbers, "BILINEAR")
        weights = np.arange(12.0).reshape(3, 4)
        of_images, of_numbers = tf.gradients(made * weights, [shown, numbers])
        assert of_numbers is None
        shares = np.eye(4) / 2 + np.eye(4, k=1) / 2
        np.testing.assert_allclose(value(of_images), weights @ shares)


def bent(shown: Array, flow: Array) -> Array:
    """[h, w, c] at each place less its flow [h, w, 2], place by place."""
    made = np.zeros_like(shown)
    for y, x in itertools.product(range(shown.shape[0]), range(shown.shape[1])):
        at = np.clip([y, x] - flow[y, x], 0, np.array(shown.shape[:2]) - 1)
        top, left = np.minimum(np.floor(at), np.array(shown.shape[:2]) - 2).astype(int)
        for down, right in itertools.product((0, 1), (0, 1)):
            share = abs(1 - down - (at[0] - top)) * abs(1 - right - (at[1] - left))
            made[y, x] += share * shown[top + down, left + right]
    return made


def test_images_are_bent() -> None:
    rng = np.random.RandomState(3)
    shown, flow = rng.rand(2, 4, 5, 3).astype("f"), (rng.randn(2, 4, 5, 2) * 2).astype("f")
    with tf.Graph().as_default():
        made = image.dense_image_warp(shown, flow)
        assert made.shape == shown.shape
        found = value(made)
    np.testing.assert_allclose(found, list(map(bent, shown, flow)), atol=1e-5)


def test_flows_have_a_gradient() -> None:
    with tf.Graph().as_default():
        flow = tf.constant(np.full((1, 3, 4, 2), 0.25, np.float32))
        made = image.dense_image_warp(GRID[None, ..., None], flow)
        (slope,) = tf.gradients(made, flow)
        # rows are 4 apart, columns 1; at the border nothing changes
        assert value(slope)[0, 1, 1].tolist() == [-4.0, -1.0]
        assert value(slope)[0, 0, 0].tolist() == [0.0, 0.0]


def spline(points: Array, values: Array, asked: Array, order: int, weight: float) -> Array:
    def basis(x: Array, y: Array) -> Array:
        r = np.sqrt(np.maximum(((x[:, None] - y[None]) ** 2).sum(-1), 1e-10))
        return r**order if order % 2 else r**order * np.log(r)

    size, flat = len(points), np.c_[points, np.ones(len(points))]
    left = np.block(
        [
            [basis(points, points) + weight * np.eye(size), flat],
            [flat.T, np.zeros((flat.shape[1], flat.shape[1]))],
        ]
    )
    right = np.r_[values, np.zeros((flat.shape[1], values.shape[1]))]
    solved = np.linalg.solve(left, right)
    found: Array = (
        basis(asked, points) @ solved[:size] + np.c_[asked, np.ones(len(asked))] @ solved[size:]
    )
    return found


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_splines_between_points(order: int, weight: float) -> None:
    rng = np.random.RandomState(order)
    points, values, asked = rng.rand(2, 9, 2), rng.rand(2, 9, 3), rng.rand(2, 4, 2)
    with tf.Graph().as_default():
        found = value(image.interpolate_spline(points, values, asked, order, weight))
    wanted = [spline(*each, order, weight) for each in zip(points, values, asked, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_points_of_an_image_are_taken_elsewhere() -> None:
    shown = np.zeros((2, 9, 11, 1), np.float32)
    shown[:, 3, 4] = 1.0
    with tf.Graph().as_default():
        warped, flows = image.sparse_image_warp(
            shown,
            np.float32([[[3, 4]]] * 2),
            np.float32([[[5, 4]], [[3, 7]]]),
            num_boundary_points=2,
        )
        found, moved = value([warped, flows])
    assert found[0, 5, 4] == pytest.approx(1.0, abs=1e-4)
    assert found[1, 3, 7] == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(moved[[0, 1], [5, 3], [4, 7]], [[2, 0], [0, 3]], atol=1e-4)
    # corners, and the middles between them, stay
    np.testing.assert_allclose(
        moved[:, ::4, ::5][:, [0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 2, 0, 2, 0, 1, 2]], 0, atol=1e-4
    )


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: image.rotate(tf.ones([2]), 0.1), TypeError, "Images should have rank between 2 and 4"),
    (lambda: image.rotate(tf.placeholder(tf.float32), 0.1), TypeError, "rank must be statically known"),
    (lambda: image.rotate([[True]], 0.1), TypeError, "Invalid dtype <dtype: 'bool'>"),
    (lambda: image.rotate(GRID, [[0.1]]), TypeError, "Angles should have rank 0 or 1"),
    (lambda: image.translate(GRID, 1.0), TypeError, "Translations should have rank 1 or 2"),
    (lambda: image.rotate(GRID, 0.1, "BICUBIC"), ValueError, "Invalid interpolation BICUBIC. .*NEAREST, BILINEAR"),
    (lambda: image.rotate(GRID, 0.1, None), TypeError, "interpolation must be one of 'NEAREST'"),
    (lambda: image.transform(GRID, tf.placeholder(tf.float32)), TypeError, "transform_or_transforms rank must be"),
    (lambda: image.transform(GRID, STAYS[None, None]), TypeError, "Transforms should have rank 1 or 2"),
    (lambda: image.transform(GRID, STAYS[:6]), ValueError, "eight numbers each"),
    (lambda: image.transform(GRID, np.stack([STAYS] * 3)), ValueError, "num_images x 8 .*: there are 3, and 1 im"),
    (lambda: image.transform(GRID, STAYS, output_shape=[3]), ValueError, "output_shape must be a 1-D Tensor of 2"),
    (lambda: image.compose_transforms(), ValueError, "transforms cannot be empty"),
    (lambda: image.flat_transforms_to_matrices(1.0), ValueError, "Transforms should be 1D or 2D"),
    (lambda: image.matrices_to_flat_transforms([1.0]), ValueError, "Matrices should be 2D or 3D"),
    (lambda: image.dense_image_warp(GRID, GRID), ValueError, "image must have four dimensions"),
    (
        lambda: image.sparse_image_warp(tf.placeholder(tf.float32, [1, None, 3, 1]), [[[1.0, 1.0]]], [[[1.0, 1.0]]]),
        ValueError, "needs an image of known sizes",
    ),
    (
        lambda: value(image.dense_image_warp(np.ones((1, 1, 3, 1)), np.ones((1, 1, 3, 2)))),
        tf.errors.InvalidArgumentError, "Grid height must be at least 2",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "said"), REFUSED)
def test_arguments_that_cannot_be_meant(
    call: Callable[[], Any], kind: type[Exception], said: str
) -> None:
    with tf.Graph().as_default(), pytest.raises(kind, match=said):
        call()
