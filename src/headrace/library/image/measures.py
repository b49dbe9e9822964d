"""How alike images are, and how much changes within them.

Called by: programs.  Threads: as graph.
Source: Wang et al., "Image quality assessment: from error visibility to structural similarity", 2004, and "Multiscale
structural similarity for image quality assessment", 2003; nodes as TF 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor
from headrace.library.image.colors import convert_image_dtype
from headrace.ops.array.constants import constant, zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack, unstack
from headrace.ops.array.padding import pad, tile
from headrace.ops.array.ranges import range as numbers
from headrace.ops.array.shapes import expand_dims, reshape, shape_n
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import identity
from headrace.ops.math.arithmetic import pow, squared_difference, subtract
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, greater_equal, not_equal
from headrace.ops.math.elementwise import log
from headrace.ops.math.magnitudes import abs, square
from headrace.ops.math.reductions import (
    reduce_all,
    reduce_any,
    reduce_mean,
    reduce_prod,
    reduce_sum,
)
from headrace.ops.nn.activations import relu
from headrace.ops.nn.convolution_calls import depthwise_conv2d
from headrace.ops.nn.pooling_calls import avg_pool
from headrace.ops.nn.softmax import softmax

__all__ = [
    "image_gradients",
    "psnr",
    "sobel_edges",
    "ssim",
    "ssim_multiscale",
    "total_variation",
]

_POWERS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def _compatible(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, list[Operation]]:
    """Shapes of two images, and what asserts that they fit.  Raises ValueError."""
    known_a, known_b = a.shape.with_rank_at_least(3), b.shape.with_rank_at_least(3)
    known_a[-3:].assert_is_compatible_with(known_b[-3:])
    if known_a.ndims is not None and known_b.ndims is not None:
        batches = zip(reversed(known_a[:-3]), reversed(known_b[:-3]), strict=False)
        for one, other in batches:
            if not (one == 1 or other == 1 or one.is_compatible_with(other)):
                raise ValueError(f"Two images are not compatible: {known_a} and {known_b}")
    shape_a, shape_b = shape_n([a, b])
    checks = [
        Assert(greater_equal(size_of(shape_a), 3), [shape_a, shape_b], summarize=10),
        Assert(reduce_all(equal(shape_a[-3:], shape_b[-3:])), [shape_a, shape_b], summarize=10),
    ]
    return shape_a, shape_b, checks


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sums of the distances of neighbours: [] of [h, w, c], [n] of [n, h, w, c].  Raises ValueError."""
    with name_scope(name, "total_variation"):
        rank = images.shape.ndims
        if rank == 3:
            down = images[1:, :, :] - images[:-1, :, :]
            across = images[:, 1:, :] - images[:, :-1, :]
            axes = None
        elif rank == 4:
            down = images[:, 1:, :, :] - images[:, :-1, :, :]
            across = images[:, :, 1:, :] - images[:, :, :-1, :]
            axes = [1, 2, 3]
        else:
            raise ValueError(
                f"'images' must be either 3 or 4-dimensional: one image or a batch; their shape is {images.shape}"
            )
        made: Tensor = reduce_sum(abs(down), axis=axes) + reduce_sum(abs(across), axis=axes)
        return made


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """The peak signal-to-noise ratio of images [..., h, w, c], in dB: float32 [...].

    max_val: how far apart the lowest and highest number can be, such as 255 of uint8.  Raises ValueError.
    """
    with name_scope(name, "PSNR", [a, b]):
        max_val = convert_image_dtype(cast(max_val, a.dtype), dtypes.float32)
        a, b = (convert_image_dtype(each, dtypes.float32) for each in (a, b))
        error = reduce_mean(squared_difference(a, b), [-3, -2, -1])
        made = subtract(
            20 * log(max_val) / log(10.0), np.float32(10 / np.log(10)) * log(error), name="psnr"
        )
        _, _, checks = _compatible(a, b)
        with control_dependencies(checks):
            found: Tensor = identity(made)
            return found


def _gaussian(size: Tensor, sigma: Tensor) -> Tensor:
    """[size, size, 1, 1]: sums to 1."""
    at = cast(numbers(size), sigma.dtype)
    at = at - cast(size - 1, sigma.dtype) / 2.0
    logs = square(at)
    logs = logs * (-0.5 / square(sigma))
    both = reshape(logs, shape=[1, -1]) + reshape(logs, shape=[-1, 1])
    return reshape(softmax(reshape(both, shape=[1, -1])), shape=[size, size, 1, 1])


def _similarity(
    x: Tensor, y: Tensor, mean: Callable[[Tensor], Tensor], max_val: Tensor, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """Of luminance, and of contrast and structure."""
    c1 = (k1 * max_val) ** 2
    c2 = (k2 * max_val) ** 2
    of_x, of_y = mean(x), mean(y)
    product = of_x * of_y * 2.0
    squares = square(of_x) + square(of_y)
    luminance = (product + c1) / (squares + c1)
    products = mean(x * y) * 2.0
    all_squares = mean(square(x) + square(y))
    c2 = c2 * 1.0
    return luminance, (products - product + c2) / (all_squares - squares + c2)


def _ssim_per_channel(
    a: Tensor,
    b: Tensor,
    max_val: Tensor,
    filter_size: int,
    filter_sigma: float,
    k1: float,
    k2: float,
    reduced: bool = True,
) -> tuple[Tensor, Tensor]:
    size = constant(filter_size, dtype=dtypes.int32)
    sigma = constant(filter_sigma, dtype=a.dtype)
    shape_a, shape_b = shape_n([a, b])
    checks = [
        Assert(reduce_all(greater_equal(shape[-3:-1], size)), [shape, size], summarize=8)
        for shape in (shape_a, shape_b)
    ]
    with control_dependencies(checks):
        a = identity(a)
    kernel = tile(_gaussian(size, sigma), multiples=[1, 1, shape_a[-1], 1])

    def mean(x: Tensor) -> Tensor:
        shape = shape_of(x)
        flat = reshape(x, shape=concat([[-1], shape[-3:]], 0))
        y = depthwise_conv2d(flat, kernel, strides=[1, 1, 1, 1], padding="VALID")
        return reshape(y, concat([shape[:-3], shape_of(y)[1:]], 0))

    luminance, structure = _similarity(a, b, mean, max_val, k1, k2)
    axes = constant([-3, -2], dtype=dtypes.int32)
    if not reduced:
        return luminance * structure, structure
    return reduce_mean(luminance * structure, axes), reduce_mean(structure, axes)


def _as_floats(a: Any, b: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    a = convert_to_tensor(a, name="img1")
    b = convert_to_tensor(b, name="img2")
    shape_a, shape_b, checks = _compatible(a, b)
    with control_dependencies(checks):
        a = identity(a)
    max_val = convert_image_dtype(cast(max_val, a.dtype), dtypes.float32)
    a, b = (convert_image_dtype(each, dtypes.float32) for each in (a, b))
    return a, b, max_val, shape_a, shape_b


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """The structural similarity of images [..., h, w, c]: float32 [...], 1 of equal ones.

    max_val: how far apart the lowest and highest number can be.  Raises ValueError, in the step InvalidArgument.
    """
    with name_scope(None, "SSIM", [img1, img2]):
        a, b, max_val, _, _ = _as_floats(img1, img2, max_val)
        found, _ = _ssim_per_channel(a, b, max_val, filter_size, filter_sigma, k1, k2)
        made: Tensor = reduce_mean(found, [-1])
        return made


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = _POWERS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """`ssim` at as many scales as there are power_factors, each half as large as the one before: float32 [...]."""
    with name_scope(None, "MS-SSIM", [img1, img2]):
        a, b, max_val, *shapes = _as_floats(img1, img2, max_val)
        images = [a, b]
        heads = [shape[:-3] for shape in shapes]
        tails = [shape[-3:] for shape in shapes]
        halves = constant([2, 2, 1], dtype=dtypes.int32)
        structures: list[Tensor] = []
        for scale in range(len(power_factors)):
            with name_scope(None, f"Scale{scale}", images):
                if scale:
                    images, tails = _halved(images, heads, tails, halves)
                found, structure = _ssim_per_channel(
                    images[0], images[1], max_val, filter_size, filter_sigma, k1, k2
                )
                structures.append(relu(structure))
        structures.pop()
        everything = stack([*structures, relu(found)], axis=-1)
        made = reduce_prod(pow(everything, list(power_factors)), [-1])
        mean: Tensor = reduce_mean(made, [-1])
        return mean


def _halved(
    images: list[Tensor], heads: list[Tensor], tails: list[Tensor], halves: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    flat = [
        reshape(image, concat([[-1], tail], 0)) for image, tail in zip(images, tails, strict=True)
    ]
    left = tails[0] % halves

    def padded() -> list[Tensor]:
        paddings = pad(expand_dims(left, -1), [[1, 0], [1, 0]])
        return [pad(each, paddings, mode="SYMMETRIC") for each in flat]

    even: Any = cond(reduce_any(not_equal(left, 0)), padded, lambda: flat)
    smaller = [
        avg_pool(each, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID") for each in even
    ]
    tails = [shape[1:] for shape in shape_n(smaller)]
    made = [
        reshape(each, concat([head, tail], 0))
        for each, head, tail in zip(smaller, heads, tails, strict=True)
    ]
    return made, tails


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """What each pixel of [n, h, w, c] lacks to the one below it, and to the one right of it; 0 at the end.

    Raises ValueError.
    """
    if image.shape.ndims != 4:
        raise ValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], not one of shape {image.shape}."
        )
    whole = shape_of(image)
    batch, height, width, depth = unstack(whole)
    down = image[:, 1:, :, :] - image[:, :-1, :, :]
    across = image[:, :, 1:, :] - image[:, :, :-1, :]
    last = zeros(stack([batch, 1, width, depth]), image.dtype)
    down = reshape(concat([down, last], 1), whole)
    last = zeros(stack([batch, height, 1, depth]), image.dtype)
    across = reshape(concat([across, last], 2), whole)
    return down, across


_SOBEL = np.array(
    [[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], np.float32
)


def sobel_edges(image: Any) -> Tensor:
    """Sobel's filters of [n, h, w, c]: [n, h, w, c, 2], how it changes downwards and to the right."""
    known: TensorShape = image.shape
    whole = shape_of(image)
    kernels = np.expand_dims(_SOBEL.transpose(1, 2, 0), -2)
    filters = constant(kernels, dtype=image.dtype)
    filters = tile(filters, [1, 1, whole[-1], 1], name="sobel_filters")
    padded = pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    made = depthwise_conv2d(padded, filters, [1, 1, 1, 1], "VALID")
    made = reshape(made, shape=concat([whole, [2]], 0))
    made.set_shape(known.concatenate([2]))
    return made
