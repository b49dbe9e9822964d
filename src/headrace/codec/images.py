"""Images: PNG, JPEG, GIF and BMP bytes to arrays and back, through Pillow; plain JPEGs through libjpeg-turbo.

Arrays are [height, width, channels], of 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA) channels, uint8; PNGs of 16 bits
can be uint16.  JPEGs that are not plain are decoded with the accurate DCT, whatever is asked for.
Called by: ops.image.codecs.  Threads: pure functions.
Source: TF 1.15 core/lib/png/png_io.cc, core/kernels/decode_image_op.cc, for behaviour; compared with the oracle
"""

from __future__ import annotations

import importlib
import io
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.limits import EXPANDED_BYTES, Growth
from headrace.codec import plain_jpeg, plain_png
from headrace.codec.plain_png import Share, one_by_one

Array = np.ndarray[Any, Any]

_PNG: Final = b"\x89PNG\r\n"
_JPEG: Final = b"\xff\xd8\xff"
_FORMATS: Final = (
    (_PNG, "PNG"),
    (_JPEG, "JPEG"),
    (b"GIF8", "GIF"),
    (b"BM", "BMP"),
)
_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_GRAY: Final = np.array([9797, 19234, 3737], np.int64)  # of 2**15: 0.299, 0.587, 0.114
_PIXEL_BYTES: Final = {"1": 1, "L": 1, "LA": 2, "RGB": 3}
"""By Pillow's mode; others are made RGBA or have numbers of up to 4 bytes."""
_WIDE: Final = ("I;16", "I;16B", "I;16L", "I")


def pillow() -> Any:
    """The module PIL.Image.  Raises Unimplemented where Pillow is not installed."""
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise errors.unimplemented(
            "images need the package Pillow in the process of the task that decodes or encodes them: pip install pillow"
        ) from error


def format_of(content: bytes) -> str:
    """PNG, JPEG, GIF or BMP, by how it begins.  Raises InvalidArgument."""
    for start, name in _FORMATS:
        if content.startswith(start):
            return name
    raise errors.invalid_argument(
        f"{'Unknown image file format' if content else 'Input is empty'}: a PNG, JPEG, GIF or BMP is wanted, and the "
        f"{len(content)} bytes begin with {content[:8]!r}"
    )


@contextmanager
def _reading(kind: str, content: bytes) -> Iterator[Any]:
    """The opened image; what Pillow says of broken ones is InvalidArgument."""
    image = pillow()
    try:
        with _opened(image, kind, content) as opened:
            yield opened
    except errors.OpError:
        raise
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        Warning,  # where those are errors
        image.DecompressionBombError,
    ) as error:
        raise errors.invalid_argument(
            f"Invalid {kind} data (size {len(content)}): {error}"
        ) from error


def _opened(image: Any, kind: str, content: bytes) -> Any:
    """As Image.open, which warns of images that are too large, and whose warnings are the whole process's to catch.

    Raises SyntaxError, OSError, ValueError.
    """
    image.preinit()
    make, accepts = image.OPEN[kind]
    try:
        opened = make(io.BytesIO(content), "") if accepts(content[:16]) else None
    except (IndexError, TypeError, struct.error) as error:
        raise SyntaxError(str(error)) from error
    if opened is None:
        raise SyntaxError("it does not begin like one")
    _check_size(image, opened)
    return opened


def _check_size(image: Any, opened: Any) -> None:
    width, height = opened.size
    EXPANDED_BYTES.check(
        width * height * _PIXEL_BYTES.get(opened.mode, 4),
        f"an image of {width} x {height} pixels takes",
    )
    if image.MAX_IMAGE_PIXELS is not None and width * height > image.MAX_IMAGE_PIXELS:
        raise ValueError(
            f"it has {width} x {height} pixels, more than PIL.Image.MAX_IMAGE_PIXELS = {image.MAX_IMAGE_PIXELS}"
        )


# -- decoding ---------------------------------------------------------------------------------


def decode_png(content: bytes, channels: int, wide: bool) -> Array:
    """channels 0: as in the file.  wide: uint16.  Raises InvalidArgument, Unimplemented (16 bits, interlaced)."""
    plain = plain_png.decoded(pillow(), content)
    if plain is None:
        plain = plain_png.decoded(pillow(), content, 16)
    pixels = _any_png(content, wide) if plain is None else plain
    return np.ascontiguousarray(_as_wanted(pixels, channels, wide))


def decode_pngs(
    contents: Sequence[bytes],
    channels: int,
    wide: bool,
    share: Share = one_by_one,
    threads: int = 1,
) -> Array | list[Array]:
    """As `decode_png` of each: [n, height, width, channels] where they are of one size.

    share, threads: see `plain_png.decoded_together`.
    Raises what `decode_png` raises of one of them, and ValueError: they are no PNGs, or take too much memory together.
    """
    if not all(content.startswith(_PNG) for content in contents):
        raise ValueError("not all are PNGs")
    found: list[Array | None] = [None] * len(contents)
    for places, alike in plain_png.decoded_together(pillow(), contents, share, threads):
        pixels = _as_wanted(alike, channels, wide)
        if len(places) == len(contents):
            return pixels
        for at, picture in zip(places, pixels, strict=True):
            found[at] = picture.copy()
    return [
        decode_png(content, channels, wide) if picture is None else picture
        for content, picture in zip(contents, found, strict=True)
    ]


def _as_wanted(pixels: Array, channels: int, wide: bool) -> Array:
    """Of [..., channels] uint8 or uint16: uint16 if `wide`, and `channels` of them."""
    deep = pixels.dtype == np.uint16
    if wide and not deep:
        pixels = pixels.astype(np.uint16) * np.uint16(257)
    elif deep and not wide:
        pixels = (pixels >> 8).astype(np.uint8)
    return _with_channels(pixels, channels)


def _any_png(content: bytes, wide: bool) -> Array:
    """uint8, or uint16 if there is one channel of 16 bits.  Raises as `decode_png` does."""
    with _reading("PNG", content) as opened:
        colours16 = content[24:25] == b"\x10" and opened.mode not in _WIDE
        if wide and colours16:
            raise errors.unimplemented(
                "a PNG with several channels of 16 bits that is interlaced, transparent or broken cannot be decoded as "
                "uint16; decode it as uint8"
            )
        return _pixels(opened)


def _pixels(opened: Any) -> Array:
    """As in the file: palettes as colours, bits as bytes."""
    mode = opened.mode
    if mode in _WIDE:
        return np.asarray(opened).astype(np.uint16)[..., None]
    if mode in ("P", "PA"):
        opened = opened.convert("RGBA" if "transparency" in opened.info or mode == "PA" else "RGB")
    elif mode == "1":
        opened = opened.convert("L")
    elif mode not in _MODES.values():
        opened = opened.convert("RGB")
    pixels = np.asarray(opened)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _with_channels(pixels: Array, channels: int) -> Array:
    """`channels` of them, the last axis: gray of colours, opaque where there was no alpha."""
    there = pixels.shape[-1]
    if channels in (0, there):
        return pixels
    alpha = pixels[..., -1:] if there in (2, 4) else None
    colours = pixels if alpha is None else pixels[..., :-1]
    if channels in (1, 2) and colours.shape[-1] == 3:
        colours = _gray(colours)
    elif channels in (3, 4) and colours.shape[-1] == 1:
        colours = np.repeat(colours, 3, axis=-1)
    if channels in (1, 3):
        return colours
    if alpha is None:
        alpha = np.full((*pixels.shape[:-1], 1), np.iinfo(pixels.dtype).max, pixels.dtype)
    return np.concatenate([colours, alpha], axis=-1)


def _gray(colours: Array) -> Array:
    found: Array = (colours.astype(np.int64) @ _GRAY) >> 15
    return found.astype(colours.dtype)[..., None]


def decode_jpeg(
    content: bytes,
    channels: int,
    ratio: int = 1,
    truncated: bool = False,
    fast: bool = True,
    fancy: bool = True,
) -> Array:
    """uint8; ratio: 1, 2, 4 or 8 times smaller; truncated: what is missing is gray.  Raises InvalidArgument.

    fast: by the fast DCT.  fancy: with colours of less resolution made smooth.
    """
    if channels not in (0, 1, 3):
        raise errors.invalid_argument(f"a JPEG has 1 or 3 channels, and {channels} are wanted")
    if truncated:
        content += b"\xff\xd9"
    plain = plain_jpeg.decoded(pillow(), content, channels, ratio, fast, fancy)
    if plain is not None:
        return plain
    with _reading("JPEG", content) as opened:
        size = tuple(-(-side // ratio) for side in opened.size)
        opened.draft("L" if channels == 1 else None, [max(1, s // ratio) for s in opened.size])
        picture = opened.convert("RGB") if opened.mode == "CMYK" else opened
        pixels = np.asarray(picture if picture.size == size else picture.resize(size))
    pixels = pixels if pixels.ndim == 3 else pixels[..., None]
    return np.ascontiguousarray(_with_channels(pixels, channels))


def decode_jpegs(
    contents: Sequence[bytes],
    channels: int,
    ratio: int = 1,
    truncated: bool = False,
    fast: bool = True,
    fancy: bool = True,
    share: Share = one_by_one,
) -> Array | list[Array]:
    """As `decode_jpeg` of each: [n, height, width, channels] where they are of one size and plain.

    Raises what `decode_jpeg` raises of one of them, and ValueError: no JPEG, or too much memory.
    """
    if not all(content.startswith(_JPEG) for content in contents):
        raise ValueError("not all are JPEGs")
    if channels in (0, 1, 3) and not truncated:
        alike = plain_jpeg.decoded_together(pillow(), contents, channels, ratio, fast, fancy, share)
        if alike is not None:
            return alike
    return [decode_jpeg(each, channels, ratio, truncated, fast, fancy) for each in contents]


def jpeg_shape(content: bytes) -> list[int]:
    """[height, width, channels] without decoding.  Raises InvalidArgument."""
    with _reading("JPEG", content) as opened:
        return [opened.size[1], opened.size[0], len(opened.getbands())]


def decode_bmp(content: bytes, channels: int) -> Array:
    """uint8, in colours or as it is.  Raises InvalidArgument."""
    if channels == 1:
        raise errors.invalid_argument(
            "a BMP is not made gray; decode it as it is, with channels=0, or in colours, with channels=3"
        )
    with _reading("BMP", content) as opened:
        pixels = _pixels(opened)
    return np.ascontiguousarray(_with_channels(pixels, channels))


def decode_gif(content: bytes) -> Array:
    """[frames, height, width, 3] uint8.  Raises InvalidArgument, ResourceExhausted."""
    with _reading("GIF", content) as opened:
        frames = []
        growth = Growth("the frames of a GIF")
        for number in range(getattr(opened, "n_frames", 1)):
            opened.seek(number)
            _check_size(pillow(), opened)  # a frame may make it larger
            growth.add(opened.size[0] * opened.size[1] * 3)
            frames.append(np.asarray(opened.convert("RGB")))
    return np.stack(frames)


# -- encoding ---------------------------------------------------------------------------------


def encode_png(pixels: Array, level: int) -> bytes:
    """uint8 or uint16; level: zlib's, -1 for its default.  Raises InvalidArgument."""
    height, width, channels = pixels.shape
    if not height or not width or channels not in _MODES:
        raise errors.invalid_argument(
            f"image must have 1, 2, 3, or 4 channels, got {channels}, and some pixels: its shape is "
            f"{list(pixels.shape)}"
        )
    if not -1 <= level <= 9:
        raise errors.invalid_argument(f"compression must be between -1 and 9, and is {level}")
    if pixels.dtype == np.uint16 and channels > 1:
        return plain_png.encoded(pixels, level)
    return _saved(pixels, "PNG", compress_level=6 if level < 0 else level)


def _saved(pixels: Array, kind: str, **options: Any) -> bytes:
    plain = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    out = io.BytesIO()
    try:
        pillow().fromarray(np.ascontiguousarray(plain)).save(out, kind, **options)
    except (OSError, ValueError) as error:
        raise errors.invalid_argument(
            f"an image of shape {list(pixels.shape)} could not be encoded as {kind}: {error}"
        ) from error
    return out.getvalue()


def encode_jpeg(
    pixels: Array,
    quality: int,
    progressive: bool,
    optimize: bool,
    downsample: bool,
    density: tuple[int, int],
    xmp: bytes,
) -> bytes:
    """uint8 of 1 or 3 channels; density in dots per inch.  Raises InvalidArgument."""
    more: dict[str, Any] = {"xmp": xmp} if xmp else {}
    return _saved(
        pixels,
        "JPEG",
        quality=quality,
        progressive=progressive,
        optimize=optimize,
        dpi=density,
        subsampling=2 if downsample else 0,
        **more,
    )
