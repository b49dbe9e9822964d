"""Plain JPEGs are decoded to the same pixels as by Pillow's own way, and what is odd or broken is left to Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from headrace.base import errors
from headrace.codec import images, plain_jpeg

Image = pytest.importorskip("PIL.Image")

Array = np.ndarray[Any, Any]


def jpeg(mode: str, size: tuple[int, int], **more: Any) -> bytes:
    width, height = size
    pixels = np.random.RandomState(0).randint(0, 256, (height, width, len(mode))).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode).save(out, "JPEG", **more)
    return out.getvalue()


def both(monkeypatch: pytest.MonkeyPatch, content: bytes, *arguments: Any) -> list[Any]:
    """[what comes of it, what comes of it if no JPEG is plain]"""
    found: list[Any] = []
    for plain in (plain_jpeg.decoded, lambda *_: None):
        monkeypatch.setattr(plain_jpeg, "decoded", plain)
        try:
            found.append(images.decode_jpeg(content, *arguments, fast=False))
        except errors.InvalidArgumentError as error:
            found.append(error.message)
    return found


@pytest.mark.filterwarnings("ignore:.*mode.*:DeprecationWarning")
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (17, 33), (64, 48)], ids=str)
@pytest.mark.parametrize("channels", [0, 1, 3])
def test_the_pixels_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    progressive: bool,
    size: tuple[int, int],
    channels: int,
) -> None:
    content = jpeg(mode, size, progressive=progressive, comment=b"a comment", quality=80)
    assert (plain_jpeg.decoded(Image, content) is None) == (mode == "CMYK")
    found, wanted = both(monkeypatch, content, channels)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("at", [3, 30, 0.5, -2])
def test_what_is_cut_short_is_pillows(
    monkeypatch: pytest.MonkeyPatch, at: float, truncated: bool
) -> None:
    content = jpeg("RGB", (40, 40))
    content = content[: int(at if at in (3, 30, -2) else len(content) * at)]
    found, wanted = both(monkeypatch, content, 0, 1, truncated)
    assert type(found) is type(wanted)
    assert np.array_equal(found, wanted)


def test_what_is_no_plain_jpeg_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    content = jpeg("RGB", (40, 40))
    frame = content.index(b"\xff\xc0")
    wrong = [
        b"",
        content[1:],
        content + b"\0",
        content[:frame] + b"\0" + content[frame:],
        content[:frame] + b"\xff\xc9" + content[frame + 2 :],  # an arithmetic code
        content[: frame + 4] + b"\x0c" + content[frame + 5 :],  # 12 bits
        content[: frame + 5] + b"\0\0" + content[frame + 7 :],  # no rows yet
    ]
    assert [plain_jpeg.decoded(Image, each) for each in wrong] == [None] * len(wrong)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1599)
    assert plain_jpeg.decoded(Image, content) is None


def test_many_are_those_of_each() -> None:
    alike = [jpeg("RGB", (17, 12), quality=quality) for quality in (50, 80, 95)]
    for ratio in (1, 2):
        found = images.decode_jpegs(alike, 0, ratio)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, [images.decode_jpeg(e, 0, ratio) for e in alike])
    others = [*alike, jpeg("L", (17, 12)), jpeg("RGB", (5, 6))]
    for mine, content in zip(images.decode_jpegs(others, 0), others, strict=True):
        np.testing.assert_array_equal(mine, images.decode_jpeg(content, 0))


def test_of_many_one_that_is_broken_fails_as_it_does_alone() -> None:
    good = jpeg("RGB", (17, 12))
    with pytest.raises(errors.InvalidArgumentError) as alone:
        images.decode_jpeg(good[:60], 0)
    with pytest.raises(errors.InvalidArgumentError) as found:
        images.decode_jpegs([good, good[:60], good], 0)
    assert found.value.message == alone.value.message
    with pytest.raises(ValueError, match="JPEGs"):
        images.decode_jpegs([good, b"no JPEG"], 0)


def test_many_that_are_large_are_not_held_at_once() -> None:
    large = jpeg("L", (2048, 2048))
    with pytest.raises(ValueError, match="together"):
        images.decode_jpegs([large] * 5, 0)
