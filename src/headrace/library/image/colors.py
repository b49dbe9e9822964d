"""Colours of images: types, brightness, contrast, hue, saturation, gray, YIQ and YUV.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/image_ops_impl.py); nodes as 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.operation import Operation
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.image.checking import as_image, check, check_image
from headrace.library.tensordot import tensordot
from headrace.ops.array.constants import ones
from headrace.ops.array.joining import concat
from headrace.ops.array.padding import tile
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import rank as rank_of
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal, assert_greater_equal
from headrace.ops.flow.identities import identity, with_dependencies
from headrace.ops.image.codecs import decode_jpeg
from headrace.ops.math.arithmetic import add, divide, floordiv, maximum, multiply
from headrace.ops.math.casting import cast, saturate_cast
from headrace.ops.math.elementwise import rsqrt
from headrace.ops.math.reductions import reduce_mean, reduce_prod, reduce_std
from headrace.ops.random.draws import random_uniform

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_jpeg_quality",
    "adjust_saturation",
    "convert_image_dtype",
    "grayscale_to_rgb",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_hue",
    "random_jpeg_quality",
    "random_saturation",
    "rgb_to_grayscale",
    "rgb_to_yiq",
    "rgb_to_yuv",
    "yiq_to_rgb",
    "yuv_to_rgb",
]

_GRAY = [0.2989, 0.5870, 0.1140]
_TO_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_FROM_YIQ: list[list[float]] = [
    [1, 1, 1],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]
_TO_YUV = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_FROM_YUV: list[list[float]] = [
    [1, 1, 1],
    [0, -0.394642334, 2.03206185],
    [1.13988303, -0.58062185, 0],
]


@of_ragged
def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Tensor:
    """An image as `dtype`, scaled: integers go up to the largest of their type, floats up to 1.

    saturate: what does not fit is cut off before it is cast.  Raises AttributeError: neither floats nor integers.
    """
    image = as_image(image)
    to = dtypes.as_dtype(dtype)
    own = image.dtype.base_dtype
    for what, kind in (("dtype", to), ("image dtype", own)):
        if not (kind.is_floating or kind.is_integer):
            raise AttributeError(
                f"{what} must be either floating point or integer, and is {kind.name}"
            )
    if own == to:
        same: Tensor = identity(image, name=name)
        return same
    with name_scope(name, "convert_image", [image]) as scope:
        if own.is_integer and to.is_integer:
            return _integers(image, own, to, saturate, scope)
        if own.is_floating and to.is_floating:
            made: Tensor = cast(image, to, name=scope)
            return made
        if own.is_integer:
            return multiply(cast(image, to), 1.0 / own.max, name=scope)
        scaled = multiply(image, to.max + 0.5)
        return saturate_cast(scaled, to, name=scope) if saturate else cast(scaled, to, name=scope)


def _integers(image: Tensor, own: Any, to: Any, saturate: bool, scope: str) -> Tensor:
    if own.max > to.max:
        scaled = floordiv(image, (int(own.max) + 1) // (int(to.max) + 1))
        return saturate_cast(scaled, to, name=scope) if saturate else cast(scaled, to, name=scope)
    wide = saturate_cast(image, to) if saturate else cast(image, to)
    return multiply(wide, (int(to.max) + 1) // (int(own.max) + 1), name=scope)


def _as_floats(image: Tensor) -> Tensor:
    if image.dtype.base_dtype in (dtypes.float16, dtypes.float32):
        return image
    return convert_image_dtype(image, dtypes.float32)


@of_ragged
def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """An image, `delta` (of floats from 0 to 1) brighter; integers stay within what they can hold."""
    with name_scope(None, "adjust_brightness", [image, delta]) as scope:
        image = as_image(image)
        floats = _as_floats(image)
        made = add(floats, cast(delta, floats.dtype), name=scope)
        return convert_image_dtype(made, image.dtype, saturate=True)


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Each channel of each image, contrast_factor times as far from its mean."""
    with name_scope(None, "adjust_contrast", [images, contrast_factor]) as scope:
        images = convert_to_tensor(images, name="images")
        made = get("AdjustContrastv2")(_as_floats(images), contrast_factor, name=scope)
        return convert_image_dtype(made, images.dtype, saturate=True)


@of_ragged
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """gain * image ** gamma, of floats from 0 to 1.  Raises ValueError, in the step InvalidArgument: gamma below 0."""
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        image = as_image(image)
        floats = _as_floats(image)
        checks = check(gamma >= 0, ValueError, "Gamma should be a non-negative real number.")
        if checks:
            gamma = with_dependencies(checks, gamma)
        made = gain * floats**gamma
        return convert_image_dtype(made, image.dtype, saturate=True)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """RGB images with another hue: `delta`, from -1 to 1, of the whole circle."""
    with name_scope(name, "adjust_hue", [image]):
        image = as_image(image)
        return convert_image_dtype(get("AdjustHue")(_as_floats(image), delta), image.dtype)


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """RGB images, saturation_factor times as saturated."""
    with name_scope(name, "adjust_saturation", [image]):
        image = as_image(image)
        made = get("AdjustSaturation")(_as_floats(image), saturation_factor)
        return convert_image_dtype(made, image.dtype)


def adjust_jpeg_quality(
    image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Tensor:
    """An image after it was a JPEG of that quality (0 to 100)."""
    with name_scope(name, "adjust_jpeg_quality", [image]):
        image = as_image(image)
        channels = image.shape.as_list()[-1] or 0
        own = image.dtype.base_dtype
        pixels = convert_image_dtype(image, dtypes.uint8, saturate=True)
        if not isinstance(jpeg_quality, Tensor):
            jpeg_quality = convert_to_tensor(jpeg_quality, dtype=dtypes.int32)
        content = get("EncodeJpegVariableQuality")(pixels, jpeg_quality)
        made = decode_jpeg(content, channels=channels, dct_method=dct_method)
        return convert_image_dtype(made, own, saturate=True)


# -- at random --------------------------------------------------------------------------------


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_brightness` by a delta in [-max_delta, max_delta).  Raises ValueError if that is below 0."""
    if max_delta < 0:
        raise ValueError(f"max_delta must be non-negative, and is {max_delta}")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


def _check_range(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError(f"upper must be > lower, and they are {upper} and {lower}")
    if lower < 0:
        raise ValueError(f"lower must be non-negative, and is {lower}")


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_contrast` by a factor in [lower, upper).  Raises ValueError."""
    _check_range(lower, upper)
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_hue` by a delta in [-max_delta, max_delta).  Raises ValueError unless that is from 0 to 0.5."""
    if not 0 <= max_delta <= 0.5:
        side = "<= 0.5" if max_delta > 0.5 else "non-negative"
        raise ValueError(f"max_delta must be {side}, and is {max_delta}")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_saturation` by a factor in [lower, upper).  Raises ValueError."""
    _check_range(lower, upper)
    return adjust_saturation(image, random_uniform([], lower, upper, seed=seed))


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """`adjust_jpeg_quality` by a quality in [min_jpeg_quality, max_jpeg_quality).  Raises ValueError."""
    if not (0 <= min_jpeg_quality <= 100 and 0 <= max_jpeg_quality <= 100):
        raise ValueError(
            f"jpeg encoding range must be between 0 and 100, and is {min_jpeg_quality} to {max_jpeg_quality}"
        )
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError(
            f"`min_jpeg_quality` must be less than `max_jpeg_quality`: {min_jpeg_quality} and {max_jpeg_quality}"
        )
    drawn = random_uniform([], min_jpeg_quality, max_jpeg_quality, seed=seed, dtype=dtypes.int32)
    return adjust_jpeg_quality(image, drawn)


# -- other spaces -----------------------------------------------------------------------------


def per_image_standardization(image: Any) -> Tensor:
    """Each image less its mean, over its standard deviation, taken to be 1 / sqrt(numbers) at least: float32."""
    with name_scope(None, "per_image_standardization", [image]) as scope:
        image = as_image(image)
        image = with_dependencies(check_image(image), image)
        image = cast(image, dtypes.float32)
        count = reduce_prod(shape_of(image)[-3:])
        axes = [-1, -2, -3]
        mean = reduce_mean(image, axis=axes, keepdims=True)
        deviation = reduce_std(image, axis=axes, keepdims=True)
        least = rsqrt(cast(count, dtypes.float32))
        divisor = maximum(deviation, least)
        return divide(image - mean, divisor, name=scope)


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """[..., 3] to [..., 1]: what the eye sees of red, green and blue."""
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        floats = convert_image_dtype(images, dtypes.float32)
        gray = expand_dims(tensordot(floats, _GRAY, [-1, -1]), -1)
        return convert_image_dtype(gray, images.dtype, name=scope)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """[..., 1] to [..., 3].  Raises ValueError, in the step InvalidArgument, if there are other channels."""
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        images = with_dependencies(_check_gray(images), images)
        others = expand_dims(rank_of(images) - 1, 0)
        multiples = concat([ones(others, dtypes.int32), expand_dims(3, 0)], 0)
        made = tile(images, multiples, name=scope)
        made.set_shape(images.shape[:-1].concatenate([3]))
        found: Tensor = made
        return found


def _check_gray(image: Tensor) -> list[Operation]:
    shape = image.shape
    if shape.ndims is not None and shape.ndims < 2:
        raise ValueError(
            f"A grayscale image (shape {shape}) must be at least two-dimensional: [..., width, 1]"
        )
    last = "Last dimension of a grayscale image should be size 1."
    if shape.is_fully_defined():
        if shape[-1].value != 1:
            raise ValueError(f"{last[:-1]}: its shape is {shape}")
        return []
    return [
        assert_equal(shape_of(image)[-1], 1, message=last),
        assert_greater_equal(
            rank_of(image), 3, message="A grayscale image must be at least two-dimensional."
        ),
    ]


def _by_matrix(images: Any, matrix: list[list[float]]) -> Tensor:
    images = convert_to_tensor(images, name="images")
    kernel = convert_to_tensor(matrix, dtype=images.dtype.base_dtype, name="kernel")
    return tensordot(images, kernel, axes=[[images.shape.ndims - 1], [0]])


def rgb_to_yiq(images: Any) -> Tensor:
    """[..., 3] of red, green and blue (0 to 1) to luminance, in-phase and quadrature."""
    return _by_matrix(images, _TO_YIQ)


def yiq_to_rgb(images: Any) -> Tensor:
    """[..., 3] of luminance, in-phase and quadrature to red, green and blue."""
    return _by_matrix(images, _FROM_YIQ)


def rgb_to_yuv(images: Any) -> Tensor:
    """[..., 3] of red, green and blue (0 to 1) to luminance and two of chrominance."""
    return _by_matrix(images, _TO_YUV)


def yuv_to_rgb(images: Any) -> Tensor:
    """[..., 3] of luminance and chrominance to red, green and blue."""
    return _by_matrix(images, _FROM_YUV)
