"""tf.contrib.image.transform beside the op that TensorFlow 2.21 has for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

THEIRS = """
with tf.Graph().as_default(), tf.Session() as session:
    result = [
        session.run(
            tf.raw_ops.ImageProjectiveTransformV2(
                images=images, transforms=transforms, output_shape=size, interpolation=way
            )
        )
        for images, transforms, size, way in cases
    ]
"""


def _cases(kind: str) -> list[tuple[Any, ...]]:
    """Images and transformations, of which some look from far away, over a horizon or between places."""
    rng = np.random.RandomState(0)
    stays = np.array([[1, 0, 0, 0, 1, 0, 0, 0]], np.float32)
    found: list[tuple[Any, ...]] = []
    for shape in [(2, 5, 7, 3), (1, 4, 4, 1), (3, 6, 5, 2)]:
        images = (rng.rand(*shape) * 200).astype(kind)
        odd = (
            stays + rng.randn(shape[0], 8) * [0.5, 0.5, 2, 0.5, 0.5, 2, 0.1, 0.1],
            stays + np.array([0, 0, 0.5, 0, 0, -1.5, 0, 0]),
            stays + np.array([0, 0, 0, 0, 0, 0, -0.5, 0]),
            stays * 1e30,
        )
        for transforms in odd:
            for size in (shape[1:3], (8, 3)):
                for way in ("NEAREST", "BILINEAR"):
                    sizes = np.array(size, np.int32)
                    found.append((images, transforms.astype(np.float32), sizes, way))
    return found


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "float16", "float32", "float64"])
def test_images_are_transformed_as_by_tensorflow(kind: str, oracle: Any) -> None:
    cases = _cases(kind)
    with hr.Graph().as_default(), hr.Session() as session:
        ours = session.run(
            [
                hr.contrib.image.transform(images, transforms, way, size)
                for images, transforms, size, way in cases
            ]
        )
    for case, found, wanted in zip(cases, ours, oracle.run(THEIRS, cases=cases), strict=True):
        assert found.dtype == wanted.dtype == kind
        # half a unit of whole numbers, that are cut off after another order of sums
        loose = {"atol": 1} if kind[0] in "ui" and case[3] == "BILINEAR" else {"rtol": 1e-5}
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), **loose)
