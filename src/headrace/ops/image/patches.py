"""Patches of images and volumes: what lies under a window that moves, as channels.

Called by: programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/extract_{image,volume}_patches_op.cc)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.windows import Geometry, geometry, static_out
from headrace.ops.array.packing import unstack
from headrace.ops.array.ranges import range as number_range
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast
from headrace.ops.tables import make

__all__ = ["extract_image_patches", "extract_patches", "extract_volume_patches"]

Array = np.ndarray[Any, Any]


def _check(name: str, values: Sequence[int], rank: int) -> None:
    if len(values) != rank or values[0] != 1 or values[-1] != 1 or min(values) < 1:
        raise errors.invalid_argument(
            f"{name} must be {rank} numbers, the first and the last of them 1, the others positive: {list(values)}"
        )


def _where(
    x: Array, ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: bytes
) -> Geometry:
    rank = len(ksizes)
    for name, values in (("ksizes", ksizes), ("strides", strides), ("rates", rates)):
        _check(name, values, rank)
    if x.ndim != rank:
        raise errors.invalid_argument(f"input must be {rank}-dimensional{text(x.shape)}")
    return geometry(
        x.shape[1:-1], ksizes[1:-1], strides, padding, b"NHWC" if rank == 4 else b"NDHWC", rates
    )


def _patches(x: Array, where: Geometry) -> Array:
    padded = where.padded(x)
    count = len(where.window)
    moved = [padded.strides[1 + at] * where.strides[at] for at in range(count)]
    within = [padded.strides[1 + at] * where.dilations[at] for at in range(count)]
    view = as_strided(
        padded,
        (len(x), *where.out, *where.window, x.shape[-1]),
        (padded.strides[0], *moved, *within, padded.strides[-1]),
        writeable=False,
    )
    return view.reshape(len(x), *where.out, int(np.prod(where.window)) * x.shape[-1])


def _patch_shape(c: ShapeContext) -> Shape:
    rank = len(c.attr("ksizes"))
    x = c.with_rank(0, rank)
    assert x is not None
    ksizes, strides = c.attr("ksizes"), c.attr("strides")
    rates = c.op.attrs.get("rates", [1] * rank)
    for name, values in (("ksizes", ksizes), ("strides", strides), ("rates", rates)):
        if len(values) != rank:
            raise ValueError(f"{name} must have {rank} entries, and is {list(values)}")
    out = static_out(
        x[1:-1], ksizes[1:-1], strides, c.attr("padding"), b"NHWC" if rank == 4 else b"NDHWC", rates
    )
    if None in out:
        out = (None,) * len(out)
    depth = None if x[-1] is None else x[-1] * int(np.prod(ksizes[1:-1]))
    return (x[0], *out, depth)


@op(
    "ExtractImagePatches",
    inputs="images: T",
    outputs="patches: T",
    attrs="ksizes: list(int) >= 4; strides: list(int) >= 4; rates: list(int) >= 4; "
    "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
    "complex128, bool}; padding: {'SAME', 'VALID'}",
    shape=_patch_shape,
)
def extract_image_patches_op(
    xp: Any,
    images: Array,
    *,
    ksizes: list[int],
    strides: list[int],
    rates: list[int],
    padding: bytes,
) -> Array:
    """images [n, h, w, c]: [n, h', w', kh * kw * c], of each window its pixels in order.  Raises InvalidArgument."""
    return _patches(images, _where(images, ksizes, strides, rates, padding))


@op(
    "ExtractVolumePatches",
    inputs="input: T",
    outputs="patches: T",
    attrs="ksizes: list(int) >= 5; strides: list(int) >= 5; "
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}; "
    "padding: {'SAME', 'VALID'}",
    shape=_patch_shape,
)
def extract_volume_patches_op(
    xp: Any, input: Array, *, ksizes: list[int], strides: list[int], padding: bytes
) -> Array:
    """input [n, d, h, w, c]: [n, d', h', w', kd * kh * kw * c], of each window its voxels in order.

    Raises InvalidArgument.
    """
    return _patches(input, _where(input, ksizes, strides, [1] * len(ksizes), padding))


def _back(op: Operation, dout: Any, numbered: Any) -> Tensor:
    """The sums of `dout` at the pixels that patches have.

    Pixels are numbered from 1 on, so that what is padded has 0; numbered(numbers [1, *size, 1]): patches of those.
    """
    count = len(op.get_attr("ksizes")) - 2
    sizes = unstack(shape_of(op.inputs[0], out_type=dtypes.int64), count + 2)
    batch, size, depth = sizes[0], sizes[1:-1], sizes[-1]
    out = unstack(shape_of(dout, out_type=dtypes.int64)[1 : 1 + count], count)
    pixels = functools.reduce(lambda x, y: x * y, size)
    numbers = reshape(number_range(1.0, pixels + 1, 1.0), (1, *size, 1))
    places = cast(numbered(numbers), dtypes.int64)
    window = op.get_attr("ksizes")[1:-1]
    rest = list(range(1, 2 * count + 1))
    parts = transpose(reshape(dout, (batch, *out, *window, depth)), [*rest, 0, 2 * count + 1])
    rows = reshape(parts, (-1, batch * depth))
    sums = make.UnsortedSegmentSum(rows, reshape(places, (-1,)) - 1, pixels)
    whole = reshape(sums, (*size, batch, depth))
    return transpose(whole, [count, *range(count), count + 1])


@extract_image_patches_op.gradient
def _(op: Operation, dout: Any) -> Any:
    attrs: dict[str, Any] = {
        name: op.get_attr(name) for name in ("ksizes", "strides", "rates", "padding")
    }
    return [_back(op, dout, lambda numbers: extract_image_patches_op(numbers, **attrs))]


@extract_volume_patches_op.gradient
def _(op: Operation, dout: Any) -> Any:
    attrs: dict[str, Any] = {name: op.get_attr(name) for name in ("ksizes", "strides", "padding")}
    return [_back(op, dout, lambda numbers: extract_volume_patches_op(numbers, **attrs))]


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Tensor:
    """images [n, h, w, c]: [n, h', w', kh * kw * c], the pixels of each window.  sizes (or ksizes): [1, kh, kw, 1].

    strides: how far windows are apart.  rates: how far pixels of a window are apart.  padding: "SAME" or "VALID".
    """
    if sizes is not None:
        if ksizes is not None:
            raise ValueError("ksizes is the older name of sizes: give one of them")
        ksizes = sizes
    made: Tensor = extract_image_patches_op(
        images, ksizes=ksizes, strides=strides, rates=rates, padding=padding, name=name
    )
    return made


def extract_patches(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: Any, name: str | None = None
) -> Tensor:
    """As `extract_image_patches`."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


def extract_volume_patches(
    input: Any, ksizes: Any, strides: Any, padding: Any, name: str | None = None
) -> Tensor:
    """input [n, d, h, w, c]: [n, d', h', w', kd * kh * kw * c], the voxels of each window."""
    made: Tensor = extract_volume_patches_op(
        input, ksizes=ksizes, strides=strides, padding=padding, name=name
    )
    return made
