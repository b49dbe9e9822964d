"""BiasAdd: a vector added along the channels, and its gradient; xw_plus_b, relu_layer.

Called by: layers, programs.  Threads: any.
Source: TF 1.15 core/ops/nn_ops.cc, core/kernels/bias_op.cc
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape
from headrace.base.traits import ELEMENTWISE, NEVER_FAILS
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.narrow import single
from headrace.ops.array.constants import ones_like
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import rank
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.linalg.products import matmul
from headrace.ops.tables import make

__all__ = ["bias_add", "relu_layer", "xw_plus_b"]

Array = np.ndarray[Any, Any]
_NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "qint16, quint16, uint16, complex128, half, uint32, uint64}"
)
_LONG = 1024  # elements of a row
_TOGETHER = 8  # short rows, of which as many are one
_FORMAT = "data_format: {'NHWC', 'NCHW'} = 'NHWC'"


def _channel_axis(data_format: bytes, rank: int) -> int:
    return rank - 1 if data_format == b"NHWC" or rank < 3 else 1


def _bias_add_shape(c: ShapeContext) -> Shape:
    value = c.with_rank_at_least("value", 3 if c.op.attrs.get("data_format") == b"NCHW" else 2)
    bias = c.with_rank("bias", 1)
    if value is None or bias is None:
        return value
    format_ = c.attr("data_format") if "data_format" in c.op.attrs else b"NHWC"
    at = _channel_axis(format_, len(value))
    size = shapes.merge_sizes(value[at], bias[0], "the value's channels and the bias's elements")
    return (*value[:at], size, *value[at + 1 :])


def _bias_add(value: Array, bias: Array, data_format: bytes) -> Any:
    if value.ndim < 2 or bias.ndim != 1:
        raise errors.invalid_argument(
            f"Biases must be 1D: {shapes.text(bias.shape)}"
            if bias.ndim != 1
            else f"Input tensor must be at least 2D: {shapes.text(value.shape)}"
        )
    at = _channel_axis(data_format, value.ndim)
    if value.shape[at] != len(bias):
        raise errors.invalid_argument(
            f"Must provide as many biases as the last dimension of the input tensor: {shapes.text(bias.shape)} vs. "
            f"{shapes.text(value.shape)}; it has {value.shape[at]} channels in axis {at} "
            f"({data_format.decode()}), and the bias has {len(bias)} elements"
        )
    return value + bias.reshape((-1,) + (1,) * (value.ndim - 1 - at))


@op(
    "BiasAdd",
    inputs="value: T; bias: T",
    outputs="output: T",
    attrs=f"T: {_NUMBERS}; {_FORMAT}",
    shape=_bias_add_shape,
    traits={NEVER_FAILS, ELEMENTWISE},
)
def bias_add_op(xp: Any, value: Array, bias: Array, *, data_format: bytes) -> Any:
    """value + bias along the channels: the last axis (NHWC) or axis 1 (NCHW).

    Raises InvalidArgument if bias is not a vector of as many elements as there are channels.
    """
    return _bias_add(value, bias, data_format)


@bias_add_op.into
def _bias_add_into(value: Array, bias: Array, out: Array) -> Any:
    if bias.ndim != 1 or value.shape[-1:] != bias.shape:
        raise ValueError("one element of the bias for each channel")
    width = len(bias)
    together = _LONG // max(width, 1)
    apart = not (value.flags.c_contiguous and out.flags.c_contiguous)
    if together < 2 or value.size % (together * width) or apart:
        return np.add(value, bias, out=out)
    # Short rows are added several at a time, as NumPy adds long ones faster.
    long = np.broadcast_to(bias, (together, width)).reshape(-1)
    np.add(value.reshape(-1, len(long)), long, out=out.reshape(-1, len(long)))
    return out


@op(
    "BiasAddV1",
    inputs="value: T; bias: T",
    outputs="output: T",
    attrs=f"T: {_NUMBERS}",
    shape=_bias_add_shape,
)
def bias_add_v1_op(xp: Any, value: Array, bias: Array) -> Any:
    """value + bias along the last axis.  Raises InvalidArgument as BiasAdd."""
    return _bias_add(value, bias, b"NHWC")


def _bias_add_grad_shape(c: ShapeContext) -> Shape:
    value = c.with_rank_at_least("out_backprop", 3 if c.attr("data_format") == b"NCHW" else 2)
    if value is None:
        return (None,)
    return (value[_channel_axis(c.attr("data_format"), len(value))],)


@op(
    "BiasAddGrad",
    inputs="out_backprop: T",
    outputs="output: T",
    attrs=f"T: {_NUMBERS}; {_FORMAT}",
    shape=_bias_add_grad_shape,
    traits={NEVER_FAILS},
)
def bias_add_grad_op(xp: Any, out_backprop: Array, *, data_format: bytes) -> Any:
    """[channels]: the sum over all other axes.  Raises InvalidArgument below two dimensions."""
    if out_backprop.ndim < 2:
        raise errors.invalid_argument(
            f"BiasAddGrad needs at least two dimensions, not {shapes.text(out_backprop.shape)}"
        )
    at = _channel_axis(data_format, out_backprop.ndim)
    kind = out_backprop.dtype
    values = single(out_backprop)
    if at == out_backprop.ndim - 1 and values.flags.c_contiguous:
        rows = math.prod(values.shape[:-1])
        return sum_of_rows(values.reshape(rows, values.shape[-1])).astype(kind, copy=False)
    axes = tuple(axis for axis in range(out_backprop.ndim) if axis != at)
    return values.sum(axis=axes, dtype=values.dtype).astype(kind, copy=False)


def sum_of_rows(values: Array) -> Any:
    """[columns]: short rows are added several at a time, as NumPy adds long ones faster."""
    count, width = values.shape
    together = _LONG // max(width, 1)
    if together < _TOGETHER or count < 4 * together:
        return values.sum(axis=0, dtype=values.dtype)
    whole = count // together * together
    sums = values[:whole].reshape(-1, together * width).sum(axis=0, dtype=values.dtype)
    if whole == count:
        return sums.reshape(-1, width).sum(axis=0, dtype=values.dtype)
    rest = np.concatenate([sums.reshape(-1, width), values[whole:]])
    return rest.sum(axis=0, dtype=values.dtype)


@bias_add_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return dout, bias_add_grad_op(dout, data_format=op["data_format"])


@bias_add_v1_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    others = make.Range(0, make.Sub(rank(dout), 1), 1, name="range")
    return dout, make.Sum(dout, others)


@bias_add_grad_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    whole, channels = shape_of(op.inputs[0]), shape_of(dout)
    if op["data_format"] == b"NCHW":
        before = ones_like(whole[:1])
        expanded = concat([before, channels, ones_like(whole[2:])], 0)
        tiles = concat([whole[:1], [1], whole[2:]], 0)
    else:
        expanded = concat([ones_like(whole[:-1]), channels], 0)
        tiles = concat([whole[:-1], [1]], 0)
    return make.Tile(make.Reshape(dout, expanded), tiles)


def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """value + bias along the channels; data_format: NHWC (default; last axis) or NCHW (axis 1).

    Any spelling of channels-first (NC…) or channels-last (N…C) is understood.  Raises ValueError.
    """
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        layout = "NHWC"
        if data_format is not None:
            if data_format.startswith("NC"):
                layout = "NCHW"
            elif not (data_format.startswith("N") and data_format.endswith("C")):
                raise ValueError(
                    f"`data_format` must be of the form `N...C` or `NC...`, not {data_format!r}"
                )
        values = convert(value, name="input")
        biases = convert(bias, values.dtype.base_dtype, "bias")
        result: Tensor = bias_add_op(values, biases, data_format=layout, name=scope)
        return result


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """matmul(x, weights) + biases: x [n, in], weights [in, out], biases [out]."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        x = convert(x, name="x")
        weights = convert(weights, name="weights")
        biases = convert(biases, name="biases")
        return bias_add(matmul(x, weights), biases, name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(matmul(x, weights) + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        x = convert(x, name="x")
        weights = convert(weights, name="weights")
        biases = convert(biases, name="biases")
        result: Tensor = make.Relu(bias_add(matmul(x, weights), biases), name=scope)
        return result
