"""Hue, saturation and contrast: what Python's `colorsys` makes of each pixel, and the same of one picture or many."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS
from headrace.ops._kernels import hues

COLORS = np.array(
    [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1],
     [0.3, 0.3, 0.7], [0.7, 0.3, 0.3], [0.3, 0.7, 0.3], [0.2, 0.2001, 0.2], [1e-30, 2e-30, 0], [3e-39, 1e-39, 0]],
    np.float32,
)  # fmt: skip
PIXELS = np.concatenate([COLORS, np.random.default_rng(0).random((241, 3), np.float32)])
PICTURE = PIXELS.reshape(16, 16, 3)
NUMBERS = [0.0, 0.05, 1 / 3, -0.5, 0.999, 1.7, -3.2, 40.25]
KERNELS = {
    "AdjustHue": hues.turned,
    "AdjustSaturation": hues.saturated,
    "AdjustContrastv2": hues.contrasted,
}


def adjusted(name: str, images: Any, number: float) -> Any:
    return OPS[name].kernel(np, images, np.asarray(number, np.float32))


@pytest.mark.parametrize("delta", NUMBERS)
def test_hues_are_turned(delta: float) -> None:
    found = adjusted("AdjustHue", PICTURE, delta).reshape(-1, 3)
    for pixel, mine in zip(PIXELS.tolist(), found, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        turned = (hue + float(np.float32(delta))) % 1
        assert mine == pytest.approx(colorsys.hsv_to_rgb(turned, saturation, value), abs=4e-6)


@pytest.mark.parametrize("scale", [each for each in NUMBERS if each >= 0])
def test_saturation_goes_as_far_as_it_goes(scale: float) -> None:
    found = adjusted("AdjustSaturation", PICTURE, scale).reshape(-1, 3)
    for pixel, mine in zip(PIXELS.tolist(), found, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        scaled = min(saturation * float(np.float32(scale)), 1)
        assert mine == pytest.approx(colorsys.hsv_to_rgb(hue, scaled, value), abs=1e-6)


def test_what_shines_less_than_nothing_has_no_saturation() -> None:
    pixels = np.array([[[[-1, -2, -3], [0, -1, -1], [-0.5, 0.25, 0.1]]]], np.float32)
    found = adjusted("AdjustSaturation", pixels, 0.5)
    assert found.tolist()[0][0][:2] == [[-1, -1, -1], [0, 0, 0]]
    assert found[0, 0, 2] == pytest.approx([0, 0.25, 0.2], abs=1e-6)
    assert adjusted("AdjustSaturation", pixels, -2.0).tolist() == [
        [[[-1] * 3, [0] * 3, [0.25] * 3]]
    ]


@pytest.mark.parametrize("channels", [1, 3, 50, 1030])
@pytest.mark.parametrize("sizes", [(1, 1), (7, 11), (30, 40)])
def test_contrast_is_distance_from_the_mean(sizes: tuple[int, int], channels: int) -> None:
    images = np.random.default_rng(1).random((2, *sizes, channels), np.float32)
    wide = images.astype(np.float64)
    mean = wide.mean(axis=(1, 2), keepdims=True)
    found = adjusted("AdjustContrastv2", images, 1.5)
    assert found.dtype == np.float32
    assert np.allclose(found, (wide - mean) * 1.5 + mean, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("pixels", [1, 5, 60, 200])
@pytest.mark.parametrize("name", KERNELS)
def test_one_picture_is_as_one_of_many(
    name: str, pixels: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(2).normal(size=(9, pixels, 3)).astype(kind)
    numbers = np.linspace(-0.7, 1.9, 9).astype(np.float32)
    alone = [KERNELS[name](images[at : at + 1], numbers[at : at + 1])[0] for at in range(9)]
    for block in (7, 64, 1 << 15):
        monkeypatch.setattr(hues, "_PIXELS", block)
        found = KERNELS[name](images, numbers)
        assert found.dtype == kind
        assert found.tobytes() == np.stack(alone).tobytes()


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_comes_of_nothing(name: str) -> None:
    for shape in ((0, 4, 3), (2, 0, 5, 3), (0, 2, 2, 3)):
        assert adjusted(name, np.zeros(shape, np.float32), 0.5).shape == shape


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_no_picture_is_refused(name: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least 3-D"):
        adjusted(name, np.zeros((2, 3), np.float32), 0.5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be scalar"):
        OPS[name].kernel(np, PICTURE, np.zeros(1, np.float32))
