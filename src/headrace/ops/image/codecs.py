"""Images in a graph: decode PNG, JPEG, GIF and BMP, encode PNG and JPEG; through Pillow and libjpeg-turbo.

Called by: programs.  Threads: kernels run in any step's thread.
Source: TF 1.15 core/ops/image_ops.cc, core/kernels/{decode_image,encode_jpeg,encode_png}_op.cc,
python/ops/image_ops_impl.py; GraphDefs as 2.21, whose decoding ops take any of the formats
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import LETS_OTHERS_RUN, TOGETHER
from headrace.codec import images
from headrace.graph.names import name_scope
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.string.byte_strings import substr

__all__ = [
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "is_jpeg",
]

Array = np.ndarray[Any, Any]
_JPEG = (
    "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; "
    "acceptable_fraction: float = 1.0; dct_method: string = ''"
)


# -- what the decoding ops have in common -----------------------------------------------------


def _content(contents: Array) -> bytes:
    if contents.ndim:
        raise errors.invalid_argument(
            f"`contents` must be scalar but got shape{text(contents.shape)}"
        )
    found: Any = contents[()]
    return bytes(found)


def _image_shape(c: ShapeContext) -> Shape:
    c.with_rank("contents", 0)
    channels = c.attr("channels")
    if channels < 0:
        raise ValueError(f"channels must be 0 or more, and is {channels}")
    return (None, None, channels or None)


def checked_channels(channels: int, allowed: tuple[int, ...]) -> None:
    if channels not in allowed:
        raise errors.invalid_argument(f"channels must be one of {list(allowed)}, and is {channels}")


_ANY = ("PNG", "JPEG", "GIF", "BMP")
PNG_CHANNELS = (0, 1, 2, 3, 4)


def _any_image(
    content: bytes,
    channels: int,
    kind: DType,
    formats: tuple[str, ...] = _ANY[:3],
    **jpeg: Any,
) -> Array:
    """Of any of the formats, [height, width, channels] or of a GIF [frames, ...], as `kind`.

    jpeg: what `images.decode_jpeg` takes for those.
    """
    name = images.format_of(content)
    if name not in formats:
        raise errors.invalid_argument(
            f"a {name} is not decoded by this operation, only {', '.join(formats)}; tf.image.decode_image takes any"
        )
    if name == "PNG":
        pixels = images.decode_png(content, channels, kind is not dtypes.uint8)
    elif name == "JPEG":
        pixels = images.decode_jpeg(content, channels, **jpeg)
    elif name == "GIF":
        if channels not in (0, 3):
            raise errors.invalid_argument(f"a GIF has 3 channels, and {channels} are wanted")
        pixels = images.decode_gif(content)
    else:
        pixels = images.decode_bmp(content, channels)
    return _as_kind(pixels, kind)


def _as_kind(pixels: Array, kind: DType) -> Array:
    if kind is dtypes.float32:
        return pixels.astype(np.float32) * np.float32(1 / np.iinfo(pixels.dtype).max)
    if kind is dtypes.uint16 and pixels.dtype == np.uint8:
        return pixels.astype(np.uint16) * np.uint16(256)
    return pixels


def _still(pixels: Array) -> Array:
    """A GIF's only frame.  Raises InvalidArgument if there are more."""
    if pixels.ndim == 4:
        if len(pixels) > 1:
            raise errors.invalid_argument(
                f"a GIF of {len(pixels)} frames is decoded by tf.image.decode_gif or tf.image.decode_image"
            )
        pixels = pixels[0]
    return pixels


# -- decoding ---------------------------------------------------------------------------------


@op(
    "DecodePng",
    inputs="contents: string",
    outputs="image: dtype",
    attrs="channels: int = 0; dtype: {uint8, uint16} = uint8",
    shape=_image_shape,
    traits={TOGETHER},
    differentiable=False,
)
def decode_png_op(xp: Any, contents: Array, *, channels: int, dtype: DType) -> Array:
    """contents []; image [height, width, channels].  Raises InvalidArgument, Unimplemented."""
    checked_channels(channels, PNG_CHANNELS)
    return _still(_any_image(_content(contents), channels, dtype))


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None
) -> Tensor:
    """The image in a PNG, string []: [height, width, channels].  channels: 0 (as in the file), 1, 3 or 4."""
    made: Tensor = decode_png_op(contents, channels=channels, dtype=dtype, name=name)
    return made


def checked_jpeg(ratio: int, truncated: bool, fancy: bool, dct_method: bytes) -> dict[str, Any]:
    """What `images.decode_jpeg` takes.  Raises InvalidArgument."""
    if ratio not in (1, 2, 4, 8):
        raise errors.invalid_argument(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    if dct_method not in (b"", b"INTEGER_FAST", b"INTEGER_ACCURATE"):
        raise errors.invalid_argument(
            f"dct_method must be one of '', 'INTEGER_FAST' and 'INTEGER_ACCURATE', and is {dct_method!r}"
        )
    fast = dct_method != b"INTEGER_ACCURATE"
    return {"ratio": ratio, "truncated": truncated, "fast": fast, "fancy": fancy}


@op(
    "DecodeJpeg",
    inputs="contents: string",
    outputs="image: uint8",
    attrs=_JPEG,
    shape=_image_shape,
    traits={LETS_OTHERS_RUN, TOGETHER},
    differentiable=False,
)
def decode_jpeg_op(
    xp: Any,
    contents: Array,
    *,
    channels: int,
    ratio: int,
    fancy_upscaling: bool,
    try_recover_truncated: bool,
    dct_method: bytes,
) -> Array:
    """contents []; image [height, width, channels].  Raises InvalidArgument, Unimplemented."""
    checked_channels(channels, (0, 1, 3, 4))
    jpeg = checked_jpeg(ratio, try_recover_truncated, fancy_upscaling, dct_method)
    return _still(_any_image(_content(contents), channels, dtypes.uint8, **jpeg))


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """The image in a JPEG, string []: uint8 [height, width, channels], `ratio` times smaller.

    dct_method: INTEGER_FAST, which is the default, or INTEGER_ACCURATE.  fancy_upscaling: whether colours of less
    resolution are made smooth.  What is cut short or in CMYK is always decoded accurately.
    """
    made: Tensor = decode_jpeg_op(
        contents,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
        name=name,
    )
    return made


def _crop_shape(c: ShapeContext) -> Shape:
    whole = _image_shape(c)
    (count,) = c.with_rank("crop_window", 1) or (None,)
    if count not in (None, 4):
        raise ValueError(
            f"Dimension must be 4 but is {count}: crop_window is y, x, height and width"
        )
    window = c.value("crop_window")
    sides = (None, None) if window is None else (int(window[2]), int(window[3]))
    return (*sides, *(whole or ())[2:])


@op(
    "DecodeAndCropJpeg",
    inputs="contents: string; crop_window: int32",
    outputs="image: uint8",
    attrs=_JPEG,
    shape=_crop_shape,
    traits={LETS_OTHERS_RUN},
    differentiable=False,
)
def decode_and_crop_jpeg_op(
    xp: Any,
    contents: Array,
    crop_window: Array,
    *,
    channels: int,
    ratio: int,
    fancy_upscaling: bool,
    try_recover_truncated: bool,
    dct_method: bytes,
) -> Array:
    """crop_window [4]: y, x, height, width.  Raises InvalidArgument, Unimplemented."""
    if crop_window.shape != (4,):
        raise errors.invalid_argument(
            f"crop_size must have four elements {text(crop_window.shape)}: y, x, height and width"
        )
    checked_channels(channels, (0, 1, 3))
    jpeg = checked_jpeg(ratio, try_recover_truncated, fancy_upscaling, dct_method)
    pixels = images.decode_jpeg(_content(contents), channels, **jpeg)
    y, x, height, width = (int(each) for each in crop_window)
    if (
        min(y, x) < 0
        or min(height, width) < 1
        or y + height > len(pixels)
        or x + width > pixels.shape[1]
    ):
        raise errors.invalid_argument(
            f"Invalid JPEG data or crop window: {crop_window.tolist()} (y, x, height, width) does not lie "
            "inside the image of "
            f"{len(pixels)} rows and {pixels.shape[1]} columns"
        )
    return pixels[y : y + height, x : x + width].copy()


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """As `decode_jpeg`, of the part that crop_window (y, x, height, width) says."""
    made: Tensor = decode_and_crop_jpeg_op(
        contents,
        crop_window,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
        name=name,
    )
    return made


def _gif_shape(c: ShapeContext) -> Shape:
    c.with_rank("contents", 0)
    return (None, None, None, 3)


@op(
    "DecodeGif",
    inputs="contents: string",
    outputs="image: uint8",
    shape=_gif_shape,
    differentiable=False,
)
def decode_gif(xp: Any, contents: Array) -> Array:
    """The frames of a GIF, string []: uint8 [frames, height, width, 3].

    Raises InvalidArgument, Unimplemented (without Pillow).
    """
    pixels = _any_image(_content(contents), 3, dtypes.uint8)
    return pixels if pixels.ndim == 4 else pixels[None]


@op(
    "DecodeBmp",
    inputs="contents: string",
    outputs="image: uint8",
    attrs="channels: int = 0",
    shape=_image_shape,
    differentiable=False,
)
def decode_bmp_op(xp: Any, contents: Array, *, channels: int) -> Array:
    """contents []; image [height, width, channels].  Raises InvalidArgument, Unimplemented."""
    checked_channels(channels, (0, 1, 3, 4))
    return _any_image(_content(contents), channels, dtypes.uint8, ("BMP",))


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """The image in a BMP, string []: uint8 [height, width, channels]."""
    made: Tensor = decode_bmp_op(contents, channels=channels, name=name)
    return made


def _unknown_image(c: ShapeContext) -> Shape:
    c.with_rank("contents", 0)
    channels = c.attr("channels")
    return None if c.attr("expand_animations") else (None, None, channels or None)


@op(
    "DecodeImage",
    inputs="contents: string",
    outputs="image: dtype",
    attrs="channels: int = 0; dtype: {uint8, uint16, float} = uint8; expand_animations: bool = true",
    shape=_unknown_image,
    differentiable=False,
)
def decode_image_op(
    xp: Any, contents: Array, *, channels: int, dtype: DType, expand_animations: bool
) -> Array:
    """Of any format; a GIF is [frames, ...] if expand_animations, else its first frame.

    Raises InvalidArgument, Unimplemented.
    """
    checked_channels(channels, (0, 1, 3, 4))
    pixels = _any_image(_content(contents), channels, dtype, _ANY)
    return pixels if expand_animations or pixels.ndim == 3 else pixels[0]


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """The image in a PNG, JPEG, GIF or BMP, string [], as uint8, uint16 or float32 (from 0 to 1).

    Its rank is known with `expand_animations=False` only, which takes the first frame of a GIF.  Raises ValueError.
    """
    kind = dtypes.as_dtype(dtype)
    if kind not in (dtypes.uint8, dtypes.uint16, dtypes.float32):
        raise ValueError(
            f"decode_image gives uint8, uint16 or float32, and not {kind.name}; use tf.cast on what it gives"
        )
    with name_scope(name, "decode_image"):
        made: Tensor = decode_image_op(
            contents, channels=channels or 0, dtype=kind, expand_animations=expand_animations
        )
    return made


def _jpeg_shape_shape(c: ShapeContext) -> Shape:
    c.with_rank("contents", 0)
    return (3,)


@op(
    "ExtractJpegShape",
    inputs="contents: string",
    outputs="image_shape: output_type",
    attrs="output_type: {int32, int64} = int32",
    shape=_jpeg_shape_shape,
    differentiable=False,
)
def extract_jpeg_shape_op(xp: Any, contents: Array, *, output_type: DType) -> Array:
    """height, width, channels.  Raises InvalidArgument, Unimplemented."""
    return np.array(images.jpeg_shape(_content(contents)), output_type.np)


def extract_jpeg_shape(
    contents: Any, output_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Height, width and channels of a JPEG, string []: [3], without decoding it."""
    made: Tensor = extract_jpeg_shape_op(contents, output_type=output_type, name=name)
    return made


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether `contents`, string [], begins as a JPEG does: bool []."""
    with name_scope(name, "is_jpeg"):
        found: Tensor = get("Equal")(substr(contents, 0, 3), b"\xff\xd8\xff", name=name)
    return found


# -- encoding ---------------------------------------------------------------------------------


def _png_shape(c: ShapeContext) -> Shape:
    image = c.with_rank_at_least("image", 3)
    return None if image is None else image[:-3]


@op(
    "EncodePng",
    inputs="image: T",
    outputs="contents: string",
    attrs="compression: int = -1; T: {uint8, uint16} = uint8",
    shape=_png_shape,
    differentiable=False,
)
def encode_png_op(xp: Any, image: Array, *, compression: int) -> Array:
    """image [..., height, width, 1 to 4]; contents [...].  Raises InvalidArgument, Unimplemented."""
    if image.ndim < 3:
        raise errors.invalid_argument(
            f"images must be at least rank 3{text(image.shape)}: they have height, width and channels"
        )
    out = np.empty(image.shape[:-3], object)
    for at in np.ndindex(out.shape):
        out[at] = images.encode_png(image[at], compression)
    return out


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """A PNG, string [], of uint8 [height, width, 1 to 4], or uint16 of one channel.

    compression: 0 to 9, -1 for zlib's own.
    """
    made: Tensor = encode_png_op(image, compression=compression, name=name)
    return made


def _jpeg_out_shape(c: ShapeContext) -> Shape:
    c.with_rank("image", 3)
    return ()


_CM_PER_INCH = 2.54
_CHANNELS = {b"": (1, 3), b"grayscale": (1,), b"rgb": (3,)}


@op(
    "EncodeJpeg",
    inputs="image: uint8",
    outputs="contents: string",
    attrs="format: {'', 'grayscale', 'rgb'} = ''; quality: int = 95; progressive: bool = false; "
    "optimize_size: bool = false; chroma_downsampling: bool = true; density_unit: {'in', 'cm'} = 'in'; "
    "x_density: int = 300; y_density: int = 300; xmp_metadata: string = ''",
    shape=_jpeg_out_shape,
    differentiable=False,
)
def encode_jpeg_op(
    xp: Any,
    image: Array,
    *,
    format: bytes,
    quality: int,
    progressive: bool,
    optimize_size: bool,
    chroma_downsampling: bool,
    density_unit: bytes,
    x_density: int,
    y_density: int,
    xmp_metadata: bytes,
) -> Array:
    """image [height, width, 1 or 3]; contents [].  Raises InvalidArgument, Unimplemented."""
    if image.ndim != 3 or not image.size:
        raise errors.invalid_argument(
            f"image must be 3-dimensional{text(image.shape)}, and have some pixels: height, width and channels"
        )
    if not 0 <= quality <= 100:
        raise errors.invalid_argument(f"quality must be between 0 and 100, and is {quality}")
    if image.shape[2] not in _CHANNELS[format]:
        raise errors.invalid_argument(
            f"{f'format {format.decode()} expects' if format else 'image must have'} "
            f"{' or '.join(map(str, _CHANNELS[format]))} channels, got {text(image.shape)}"
        )
    per_inch = 1 if density_unit == b"in" else _CM_PER_INCH
    out = np.empty((), object)
    out[()] = images.encode_jpeg(
        image,
        quality,
        progressive,
        optimize_size,
        chroma_downsampling,
        (round(x_density * per_inch), round(y_density * per_inch)),
        xmp_metadata,
    )
    return out


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """A JPEG, string [], of uint8 [height, width, 1 or 3]."""
    made: Tensor = encode_jpeg_op(
        image,
        format=format,
        quality=quality,
        progressive=progressive,
        optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling,
        density_unit=density_unit,
        x_density=x_density,
        y_density=y_density,
        xmp_metadata=xmp_metadata,
        name=name,
    )
    return made


def _quality_shape(c: ShapeContext) -> Shape:
    c.with_rank("images", 3)
    c.with_rank("quality", 0)
    return ()


@op(
    "EncodeJpegVariableQuality",
    inputs="images: uint8; quality: int32",
    outputs="contents: string",
    shape=_quality_shape,
)
def encode_jpeg_variable_quality_op(xp: Any, images_: Array, quality: Array) -> Array:
    """images [height, width, 1 or 3], quality [] from 0 to 100; contents [].  Raises InvalidArgument, Unimplemented."""
    if quality.ndim:
        raise errors.invalid_argument(f"quality must be scalar: {text(quality.shape)}")
    if images_.ndim != 3 or not images_.size or images_.shape[2] not in (1, 3):
        raise errors.invalid_argument(
            f"image must be 3-dimensional{text(images_.shape)}, and have some pixels, of 1 or 3 channels"
        )
    if not 0 <= quality <= 100:
        raise errors.invalid_argument(f"quality must be in [0,100], got {int(quality)}")
    out = np.empty((), object)
    out[()] = images.encode_jpeg(images_, int(quality), False, False, True, (300, 300), b"")
    return out
