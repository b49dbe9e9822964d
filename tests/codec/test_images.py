"""Images without files: what is broken or unknown says what it is, and Pillow's absence names the package."""

from __future__ import annotations

import builtins
import importlib
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from headrace.base import errors
from headrace.codec import images

pytest.importorskip("PIL.Image")

PICTURE = np.random.RandomState(1).randint(0, 256, (5, 7, 4)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_png_comes_back_as_it_was(channels: int) -> None:
    picture = PICTURE[..., :channels]
    np.testing.assert_array_equal(
        images.decode_png(images.encode_png(picture, -1), 0, False), picture
    )


def test_sixteen_bits_come_back_and_lose_the_lower_ones_as_bytes() -> None:
    picture = PICTURE[..., :1].astype(np.uint16) * 251
    content = images.encode_png(picture, 9)
    np.testing.assert_array_equal(images.decode_png(content, 0, True), picture)
    np.testing.assert_array_equal(images.decode_png(content, 0, False), picture >> 8)


def test_channels_are_made_or_left_out() -> None:
    content = images.encode_png(PICTURE, -1)
    colours = images.decode_png(content, 3, False)
    np.testing.assert_array_equal(colours, PICTURE[..., :3])
    gray = images.decode_png(content, 1, False).astype(int)[..., 0]
    exact = PICTURE[..., :3] @ np.array([0.299, 0.587, 0.114])
    assert np.abs(gray - exact).max() < 1.01
    opaque = images.decode_png(images.encode_png(colours, -1), 4, False)
    assert (opaque[..., 3] == 255).all()


def test_a_jpeg_has_its_size_and_about_its_colours() -> None:
    flat = np.full((16, 24, 3), (200, 100, 50), np.uint8)
    content = images.encode_jpeg(flat, 95, False, False, True, (300, 300), b"")
    assert images.jpeg_shape(content) == [16, 24, 3]
    assert np.abs(images.decode_jpeg(content, 0).astype(int) - flat).max() < 4
    assert images.decode_jpeg(content, 1, ratio=4).shape == (4, 6, 1)


def test_a_truncated_jpeg_is_refused_or_filled_up() -> None:
    content = images.encode_jpeg(
        PICTURE[..., :3].repeat(32, 0).repeat(32, 1), 95, False, False, True, (1, 1), b""
    )
    with pytest.raises(errors.InvalidArgumentError, match=r"Invalid JPEG data .size"):
        images.decode_jpeg(content[: len(content) // 2], 3)
    recovered = images.decode_jpeg(content[: len(content) // 2], 3, truncated=True)
    assert recovered.shape == (160, 224, 3)
    whole = images.decode_jpeg(content, 3)
    np.testing.assert_array_equal(recovered[:8], whole[:8])
    assert (recovered[-1] == 128).all()


def decoded(content: bytes) -> Any:
    assert images.format_of(content) == "PNG"
    return images.decode_png(content, 0, False)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "0 bytes"), (b"just text", "begin with b'just tex'"), (b"\x89PNG\r\n\x1a\n and no more", "Invalid PNG")],
)  # fmt: skip
def test_what_is_no_image_is_shown(content: bytes, says: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=says):
        decoded(content)


def test_an_image_that_is_too_large_is_refused_before_it_is_decoded() -> None:
    content = bytearray(images.encode_png(PICTURE, -1))
    content[16:24] = struct.pack(">II", 20_000, 10_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    with pytest.raises(errors.InvalidArgumentError, match="20000 x 10000 pixels, more than"):
        images.decode_png(bytes(content), 0, False)


def test_without_pillow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, package: str | None = None) -> Any:
        raise builtins.ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(errors.UnimplementedError, match="pip install pillow"):
        images.encode_png(PICTURE, -1)
