"""Pooling of images: the largest or the mean value under a window that moves, and the gradients.

Called by: programs.  Threads: any.
Source: TF 1.15 core/kernels/maxpooling_op.cc, avgpooling_op.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.convolution import Geometry, channels_last, from_last, geometry, to_last

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_WINDOW = "ksize: list(int) >= 4; strides: list(int) >= 4"
_FORMAT = "data_format: {'NHWC', 'NCHW'} = 'NHWC'"
_SIMPLE = f"{_WINDOW}; padding: {{'SAME', 'VALID'}}; {_FORMAT}"
_EXPLICIT = (
    f"{_WINDOW}; padding: {{'SAME', 'VALID', 'EXPLICIT'}}; explicit_paddings: list(int) = []"
)
_FLOATS = "{half, bfloat16, float, double}"
_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_FLAT = (1, 1, 1, 1)


def _windows(
    size: Sequence[int], ksize: Sequence[int], strides: Sequence[int], padding: bytes, data_format: bytes,
    explicit: Sequence[int] = (),
) -> Geometry:  # fmt: skip
    window = ksize[1:-1] if channels_last(data_format) else ksize[2:]
    if np.prod(ksize) != np.prod(window):
        raise errors.unimplemented(
            f"pooling over the batch or the channels (ksize {list(ksize)}) is not supported: reshape first"
        )
    return geometry(size, window, strides, padding, data_format, _FLAT, explicit)


def _pool_shape(c: ShapeContext) -> Shape:
    x, data_format = c.with_rank(0, 4), c.attr("data_format")
    assert x is not None
    last = channels_last(data_format)
    size = x[1:-1] if last else x[2:]
    out: tuple[int | None, ...] = (None, None)
    known = [n for n in size if n is not None]
    if len(known) == len(size):
        explicit = c.op.attrs.get("explicit_paddings", ())
        where = _windows(
            known, c.attr("ksize"), c.attr("strides"), c.attr("padding"), data_format, explicit
        )
        out = where.out
    return (x[0], *out, x[-1]) if last else (x[0], x[1], *out)


def _images(x: Array, data_format: bytes) -> Array:
    if x.ndim != 4:
        raise errors.invalid_argument(
            f"the input must have the 4 dimensions {data_format.decode()}, not shape {text(x.shape)}"
        )
    return to_last(x, data_format)


def _lowest(kind: np.dtype[Any]) -> Any:
    if kind.kind in "iu":
        return np.iinfo(kind).min
    return kind.type(-np.inf)


def _padded(x: Array, where: Geometry, value: Any) -> Array:
    if not any(map(sum, where.pads)):
        return x
    size = [n + sum(pad) for n, pad in zip(where.size, where.pads, strict=True)]
    padded = np.full((len(x), *size, x.shape[-1]), value, x.dtype)
    where.inside(padded)[...] = x
    return padded


def _largest(x: Array, where: Geometry) -> Array:
    padded = _padded(x, where, _lowest(x.dtype))
    out = np.full((len(x), *where.out, x.shape[-1]), _lowest(x.dtype), x.dtype)
    for _, view in where.positions():
        np.maximum(out, padded[view], out=out)
    return out


@op(
    "MaxPool",
    inputs="input: T",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; "
    f"{_EXPLICIT}; data_format: {{'NHWC', 'NCHW', 'NCHW_VECT_C'}} = 'NHWC'",
    shape=_pool_shape,
)
def max_pool_op(
    xp: Any, x: Array, *, ksize: list[int], strides: list[int], padding: bytes, explicit_paddings: list[int],
    data_format: bytes,
) -> Any:  # fmt: skip
    """The largest value under each window of x [n, h, w, c]: [n, h', w', c].

    Raises InvalidArgument (rank), Unimplemented (windows over batch or channels).
    """
    given = _images(x, data_format)
    where = _windows(given.shape[1:-1], ksize, strides, padding, data_format, explicit_paddings)
    return from_last(_largest(given, where), data_format)


@op(
    "MaxPoolGrad",
    inputs="orig_input: T; orig_output: T; grad: T",
    outputs="output: T",
    attrs=f"{_EXPLICIT}; {_FORMAT}; T: realnumbertype = float",
    shape=lambda c: c.shape("orig_input"),
)
def max_pool_grad_op(
    xp: Any, x: Array, y: Array, dy: Array, *, ksize: list[int], strides: list[int], padding: bytes,
    explicit_paddings: list[int], data_format: bytes,
) -> Any:  # fmt: skip
    """The gradient of MaxPool with respect to its input: each value's goes to the first place that has it."""
    given, out, grad = (_images(a, data_format) for a in (x, y, dy))
    where = _windows(given.shape[1:-1], ksize, strides, padding, data_format, explicit_paddings)
    _check_gradient(grad, where, given)
    padded = _padded(given, where, _lowest(given.dtype))
    gathered = np.zeros_like(padded)
    left = np.ones(out.shape, bool)  # windows whose place has not been found yet
    for _, view in where.positions():
        here = left & (padded[view] == out)
        gathered[view] += np.where(here, grad, grad.dtype.type(0))
        left &= ~here
    return from_last(np.ascontiguousarray(where.inside(gathered)), data_format)


def _check_gradient(dy: Array, where: Geometry, x: Array) -> None:
    wanted = (len(x), *where.out, x.shape[-1])
    if dy.shape != wanted:
        raise errors.invalid_argument(
            f"the gradient must have the shape of the output, {text(wanted)} (channels last), not {text(dy.shape)}"
        )


def _counts(where: Geometry, kind: np.dtype[Any]) -> Array:
    """How many places of each window are not padding: [1, *out, 1]."""
    ones = _padded(np.ones((1, *where.size, 1), kind), where, 0)
    total = np.zeros((1, *where.out, 1), kind)
    for _, view in where.positions():
        total += ones[view]
    return total


@op(
    "AvgPool",
    inputs="value: T",
    outputs="output: T",
    attrs=f"{_SIMPLE}; T: {_FLOATS}",
    shape=_pool_shape,
)
def avg_pool_op(
    xp: Any, x: Array, *, ksize: list[int], strides: list[int], padding: bytes, data_format: bytes
) -> Any:
    """The mean under each window of x [n, h, w, c], padding not counted: [n, h', w', c].  Raises as MaxPool."""
    given = _images(x.astype(np.float32) if x.dtype in _NARROW else x, data_format)
    where = _windows(given.shape[1:-1], ksize, strides, padding, data_format)
    padded = _padded(given, where, 0)
    out = np.zeros((len(given), *where.out, given.shape[-1]), given.dtype)
    for _, view in where.positions():
        out += padded[view]
    out /= _counts(where, given.dtype)
    return from_last(out.astype(x.dtype, copy=False), data_format)


@op(
    "AvgPoolGrad",
    inputs="orig_input_shape: int32; grad: T",
    outputs="output: T",
    attrs=f"{_SIMPLE}; T: {_FLOATS}",
    shape=lambda c: c.shape_value("orig_input_shape"),
)
def avg_pool_grad_op(
    xp: Any, input_shape: Array, dy: Array, *, ksize: list[int], strides: list[int], padding: bytes,
    data_format: bytes,
) -> Any:  # fmt: skip
    """The gradient of AvgPool with respect to its input, of shape orig_input_shape [4]."""
    grad = _images(dy.astype(np.float32) if dy.dtype in _NARROW else dy, data_format)
    like = _images(
        np.broadcast_to(np.zeros((), grad.dtype), [int(n) for n in input_shape]), data_format
    )
    where = _windows(like.shape[1:-1], ksize, strides, padding, data_format)
    _check_gradient(grad, where, like)
    size = [n + sum(pad) for n, pad in zip(where.size, where.pads, strict=True)]
    gathered = np.zeros((len(like), *size, like.shape[-1]), grad.dtype)
    share = grad / _counts(where, grad.dtype)
    for _, view in where.positions():
        gathered[view] += share
    return from_last(
        np.ascontiguousarray(where.inside(gathered)).astype(dy.dtype, copy=False), data_format
    )
