"""Operands that fit: images.  (See the package for what a row is.)"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from tests.ops.shaped import Row


def _jpeg() -> bytes:
    """An image of 8 rows and 6 columns, in one grey: what any decoder makes of it is the same."""
    made = io.BytesIO()
    Image.new("L", (6, 8), 100).save(made, "JPEG", quality=100)
    return made.getvalue()


_IMAGE, _EMPTY = (1, 3, 4, 2), (0, 3, 4, 2)
_RGB = (2, 3, 4, 3)
_BOXES = [[0.1, 0.2, 0.8, 0.9], [0.5, 0.0, 1.0, 0.5], [0.2, 0.2, 0.7, 0.9]]
_ZEROS = [0, 0, 0]
_SCORES = [0.5, 0.9, 0.2]
_JPEG = _jpeg()
_CLASSES = np.random.default_rng(1).uniform(size=(1, 5, 2, 4))

SHAPED: dict[str, list[Row]] = {
    "Resize(Bilinear|Bicubic|NearestNeighbor|Area)": [(_IMAGE, [2, 5]), (_EMPTY, [1, 1]), (_IMAGE, [3, 4])],
    "Resize(Bilinear|Bicubic)Grad": [((1, 2, 5, 2), _IMAGE), ((0, 2, 5, 2), _EMPTY)],
    "ResizeNearestNeighborGrad": [((1, 2, 5, 2), [3, 4]), ((0, 2, 5, 2), [3, 4])],
    "ScaleAndTranslate": [(_IMAGE, [2, 5], [0.7, 1.4], [0.2, -0.3]), (_EMPTY, [1, 1], [1, 1], [0, 0])],
    "ScaleAndTranslateGrad": [((1, 2, 5, 2), _IMAGE, [0.7, 1.4], [0.2, -0.3])],
    "Adjust(Contrastv2|Hue|Saturation)": [(_RGB, 0.3), ((0, 3, 4, 3), 0.3), ((3, 4, 3), 1.5)],
    "AdjustContrast": [(_RGB, 0.3, -1.0, 1.0), ((3, 4, 3), 1.5, 0.0, 2.0)],
    "RGBToHSV|HSVToRGB": [(_RGB,), ((0, 3),), ((3,),)],
    "CropAndResize": [(_IMAGE, _BOXES, _ZEROS, [2, 3]), (_IMAGE, (0, 4), [], [2, 3]), (_IMAGE, _BOXES, _ZEROS, [1, 1])],
    "CropAndResizeGradImage": [((3, 2, 3, 2), _BOXES, [0, 0, 0], [1, 3, 4, 2])],
    "CropAndResizeGradBoxes": [((3, 2, 3, 2), _IMAGE, _BOXES, [0, 0, 0]), ((3, 1, 1, 2), _IMAGE, _BOXES, [0, 0, 0])],
    "ExtractImagePatches": [(_IMAGE,), (_EMPTY,)],
    "ExtractVolumePatches": [((1, 2, 3, 4, 2),), ((0, 2, 3, 4, 2),)],
    "ExtractGlimpse(V2)?": [(_IMAGE, [2, 2], [[0.0, 0.1]]), (_EMPTY, [1, 1], (0, 2))],
    "DrawBoundingBoxes": [(_RGB, [_BOXES, _BOXES]), ((1, 9, 9, 1), [_BOXES]), ((0, 3, 3, 3), (0, 2, 4))],
    "DrawBoundingBoxesV2": [(_RGB, [_BOXES, _BOXES], (2, 3)), ((1, 9, 9, 4), [_BOXES], (1, 4))],
    "SampleDistortedBoundingBox": [([30, 40, 3], [_BOXES])],
    "SampleDistortedBoundingBoxV2": [([30, 40, 3], [_BOXES], 0.1)],
    "NonMaxSuppression": [(_BOXES, _SCORES, 2), ((0, 4), (0,), 2)],
    "NonMaxSuppressionV2": [(_BOXES, _SCORES, 2, 0.5), ((0, 4), (0,), 2, 0.5)],
    "NonMaxSuppressionV[34]": [(_BOXES, _SCORES, 2, 0.5, 0.3), ((0, 4), (0,), 2, 0.5, 0.0)],
    "NonMaxSuppressionV5": [(_BOXES, _SCORES, 2, 0.5, 0.3, 0.0), (_BOXES, _SCORES, 3, 0.5, 0.1, 0.5)],
    "NonMaxSuppressionWithOverlaps": [([[1, 0.6, 0], [0.6, 1, 0.2], [0, 0.2, 1]], _SCORES, 3, 0.5, 0.0)],
    "CombinedNonMaxSuppression": [(_CLASSES, (1, 5, 2), 2, 3, 0.5, 0), (_CLASSES[:, :, :1], (1, 5, 2), 1, 1, 0.5, 0)],
    "DecodeJpeg|ExtractJpegShape": [(_JPEG,)],
    "DecodeAndCropJpeg": [(_JPEG, [1, 2, 4, 3]), (_JPEG, [0, 0, 8, 6]), (_JPEG, [5, 0, 4, 1]), (_JPEG, [0, 4, 1, 3])],
    "EncodeJpegVariableQuality": [((4, 4, 3), 50), ((4, 4, 1), 90)],
}  # fmt: skip
