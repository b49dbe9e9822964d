"""Images."""

from __future__ import annotations

import numpy as np

from tests.ops.slopes import Cases, op

RNG = np.random.default_rng(5)
IMAGES = RNG.normal(size=(2, 4, 5, 2))
COLORS = RNG.permuted(np.arange(1, 19) / 20).reshape(2, 3, 3)
FLAT = {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"}

CASES: Cases = {
    "ResizeNearestNeighbor": (op("ResizeNearestNeighbor", [3, 7]), [IMAGES]),
    "RGBToHSV": (op("RGBToHSV"), [COLORS]),
    "ExtractImagePatches": (op("ExtractImagePatches", ksizes=[1, 2, 3, 1], **FLAT), [IMAGES]),
    "ExtractVolumePatches": (
        op(
            "ExtractVolumePatches", ksizes=[1, 2, 1, 2, 1], strides=[1, 2, 1, 1, 1], padding="VALID"
        ),
        [RNG.normal(size=(2, 3, 3, 2, 2))],
    ),
}
# Their outputs are of single precision: test_image_ops.py asks whether the gradient is the adjoint, or for its slope.
ELSEWHERE = {"CropAndResize", "ResizeBicubic", "ResizeBilinear", "ScaleAndTranslate"}
