"""Plain PNGs are decoded to the same pixels as Pillow's, and what is odd or broken is left to Pillow."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base import errors
from headrace.codec import images, plain_png

pytest.importorskip("PIL.Image")

Array = np.ndarray[Any, Any]
COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: colour type
NONE, SUB, UP, AVERAGE, PAETH = range(5)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def predicted(kind: int, left: int, above: int, corner: int) -> int:
    """What the filter takes away from a byte, as in the specification, chapter 9."""
    if kind == PAETH:
        estimate = left + above - corner
        return min((left, above, corner), key=lambda value: abs(estimate - value))
    return {NONE: 0, SUB: left, UP: above, AVERAGE: (left + above) // 2}.get(kind, 0)


def filtered(pixels: Array, kinds: list[int]) -> bytes:
    """The rows, each with the filter that `kinds` says in turn."""
    height, width, channels = pixels.shape
    rows = np.zeros((height + 1, (width + 1) * channels), int)
    rows[1:, channels:] = pixels.reshape(height, width * channels)
    made = bytearray()
    for y in range(1, height + 1):
        kind = kinds[(y - 1) % len(kinds)]
        made.append(kind)
        for x in range(channels, rows.shape[1]):
            left, above, corner = rows[y, x - channels], rows[y - 1, x], rows[y - 1, x - channels]
            made.append((rows[y, x] - predicted(kind, left, above, corner)) % 256)
    return bytes(made)


def png(
    pixels: Array, kinds: list[int], *, before: bytes = b"", pieces: int = 1, more: bytes = b"", after: bytes = b"",
) -> bytes:  # fmt: skip
    """before: chunks ahead of the pixels; pieces: how many IDATs; more: rows too many; after: what follows the end."""
    height, width, channels = pixels.shape
    depth = 8 * pixels.dtype.itemsize
    header = struct.pack(">II5B", width, height, depth, COLOURS[channels], 0, 0, 0)
    if depth == 16:
        pixels = np.ascontiguousarray(pixels, ">u2").view(np.uint8)
    data = zlib.compress(filtered(pixels, kinds) + more)
    each = -(-len(data) // pieces)
    cuts = [chunk(b"IDAT", data[at : at + each]) for at in range(0, len(data), each)]
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + before + b"".join(cuts) + chunk(b"IEND", b"") + after


def random(height: int, width: int, channels: int) -> Array:
    rng = np.random.default_rng(height * width + channels)
    return rng.integers(0, 256, (height, width, channels)).astype(np.uint8)


def by_itself(content: bytes) -> Array | None:
    return plain_png.decoded(images.pillow(), content)


def outcome(content: bytes) -> tuple[str, Any]:
    """What decoding gives: pixels, or the error's text."""
    try:
        found = images.decode_png(content, 0, False)
    except errors.OpError as error:
        return type(error).__name__, error.message
    return str(found.shape), found.tobytes()


@settings(max_examples=30)
@given(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 3, 4]),
    st.lists(st.integers(NONE, PAETH), min_size=1, max_size=9),
)  # fmt: skip
def test_every_filter_is_undone(height: int, width: int, channels: int, kinds: list[int]) -> None:
    pixels = random(height, width, channels)
    np.testing.assert_array_equal(by_itself(png(pixels, kinds)), pixels)


PIXELS = random(6, 5, 3)
KINDS = [PAETH, UP, AVERAGE, SUB, NONE]


@pytest.mark.parametrize(
    "content",
    [
        png(PIXELS, KINDS, pieces=3),
        png(PIXELS, KINDS, before=chunk(b"gAMA", bytes(4)) + chunk(b"pHYs", bytes(9))),
        images.encode_png(PIXELS, -1),
    ],
    ids=["in pieces", "with remarks", "as we write it"],
)  # fmt: skip
def test_these_are_plain(content: bytes) -> None:
    np.testing.assert_array_equal(by_itself(content), PIXELS)


@settings(max_examples=20)
@given(
    st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 2, 3, 4]),
    st.lists(st.integers(NONE, PAETH), min_size=1, max_size=7),
)  # fmt: skip
def test_sixteen_bits_are_read_with_every_filter(
    height: int, width: int, channels: int, kinds: list[int]
) -> None:
    pixels = random(height, width, 2 * channels).view(np.uint16)
    np.testing.assert_array_equal(images.decode_png(png(pixels, kinds), 0, True), pixels)
    written = images.encode_png(pixels, 9)
    np.testing.assert_array_equal(images.decode_png(written, 0, True), pixels)
    np.testing.assert_array_equal(images.decode_png(written, 0, False), pixels >> 8)


DEEP = images.encode_png(random(3, 3, 1).astype(np.uint16), -1)
PALETTE = chunk(b"PLTE", bytes(3)) + chunk(b"tRNS", bytes(6))


@pytest.mark.parametrize(
    "content",
    [
        DEEP,
        png(PIXELS, KINDS, before=PALETTE),
        png(PIXELS, KINDS, before=chunk(b"gAMA", bytes(3))),
        png(PIXELS, KINDS, more=bytes(16)),
        png(PIXELS, KINDS, after=b"and more"),
        png(PIXELS, [5]),
        png(PIXELS[:0], KINDS),
    ],
    ids=["16 bits", "transparent", "odd", "a row too many", "followed", "no such filter", "empty"],
)
def test_these_are_left_to_pillow(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_itself(content) is None
    found = outcome(content)
    monkeypatch.setattr(plain_png, "decoded", lambda image, content, depth=8: None)
    assert outcome(content) == found


def test_what_is_broken_has_the_outcome_that_pillow_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = png(PIXELS, KINDS, pieces=2, before=chunk(b"sRGB", b"\0"))
    broken = [content[:end] for end in range(len(content))]
    for at in range(len(content)):
        for change in (0x01, 0x80):
            broken.append(content[:at] + bytes([content[at] ^ change]) + content[at + 1 :])
    assert all(by_itself(each) is None for each in broken)
    found = [outcome(each) for each in broken if each.startswith(b"\x89PNG\r\n")]
    monkeypatch.setattr(plain_png, "decoded", lambda image, content, depth=8: None)
    assert found == [outcome(each) for each in broken if each.startswith(b"\x89PNG\r\n")]


def test_a_bomb_is_not_inflated_whole() -> None:
    content = png(PIXELS, KINDS, more=bytes(1 << 23))
    tracemalloc.start()
    assert by_itself(content) is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


# -- many at once -----------------------------------------------------------------------------


def together(contents: list[bytes]) -> list[Array]:
    return list(images.decode_pngs(contents, 0, False))


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(NONE, PAETH)), min_size=1, max_size=6),
    st.sampled_from([1, 2, 3, 4]),
)  # fmt: skip
def test_a_filter_sees_nothing_of_the_picture_before(
    drawn: list[tuple[int, int]], channels: int
) -> None:
    pictures = [
        np.random.default_rng(seed).integers(0, 256, (3, 4, channels)).astype(np.uint8)
        for seed, _ in drawn
    ]
    contents = [
        png(pixels, [first, PAETH, AVERAGE])
        for pixels, (_, first) in zip(pictures, drawn, strict=True)
    ]
    ((places, found),) = plain_png.decoded_together(images.pillow(), contents)
    assert places == list(range(len(contents)))
    np.testing.assert_array_equal(found, pictures)


def test_pictures_of_many_kinds_come_in_their_order() -> None:
    sizes = [(6, 5, 3), (6, 5, 4), (6, 5, 3), (2, 9, 1), (6, 5, 3)]
    pictures = [random(*size) + np.uint8(n) for n, size in enumerate(sizes)]
    contents = [png(each, [1 + n % 4]) for n, each in enumerate(pictures)]
    contents.insert(1, png(PIXELS, KINDS, before=PALETTE))
    found = together(contents)
    wanted = [images.decode_png(each, 0, False) for each in contents]
    assert [each.shape for each in found] == [each.shape for each in wanted]
    for mine, alone in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, alone)


def test_rows_that_fill_several_blocks() -> None:
    wide = random(2, 40_000, 3)
    for mine in together([png(wide, [UP]), images.encode_png(wide, 1)]):
        np.testing.assert_array_equal(mine, wide)


@pytest.mark.parametrize("channels", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("there", [1, 2, 3, 4])
@pytest.mark.parametrize("wide", [False, True])
def test_channels_of_many_are_those_of_each(channels: int, there: int, wide: bool) -> None:
    contents = [images.encode_png(random(4, 3, there) // n, -1) for n in (1, 2, 3)]
    found = images.decode_pngs(contents, channels, wide)
    alone = [images.decode_png(each, channels, wide) for each in contents]
    assert found[0].dtype == alone[0].dtype
    np.testing.assert_array_equal(found, alone)


def test_one_that_is_broken_fails_as_it_does_alone() -> None:
    good = png(PIXELS, KINDS)
    broken = good[:-30] + b"?" + good[-29:]
    with pytest.raises(errors.InvalidArgumentError) as alone:
        images.decode_png(broken, 0, False)
    with pytest.raises(errors.InvalidArgumentError) as found:
        together([good, broken, good])
    assert found.value.message == alone.value.message
    assert [each.tolist() for each in together([good, png(PIXELS, [UP])])] == [PIXELS.tolist()] * 2


def test_a_filter_that_there_is_not_leaves_the_others_as_they_are() -> None:
    contents = [png(PIXELS, KINDS), png(PIXELS, [5])]
    assert plain_png.decoded_together(images.pillow(), contents) == []
    alone = outcome(contents[1])
    if alone[0].endswith("Error"):
        with pytest.raises(errors.InvalidArgumentError):
            together(contents)


def test_what_is_no_png_or_large_is_not_for_many() -> None:
    with pytest.raises(ValueError, match="PNGs"):
        together([png(PIXELS, KINDS), b"\xff\xd8\xff"])
    large = images.encode_png(np.zeros((2048, 2048, 1), np.uint8), 1)
    assert len(together([large] * 3)) == 3
    with pytest.raises(ValueError, match="together"):
        together([large] * 5)
