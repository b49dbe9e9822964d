"""Sums, products and rectifiers of quantized numbers, which give 32 bits and the range that those stand for.

Called by: imported graphs, programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/quantized_add_op.cc, quantized_mul_op.cc, quantized_matmul_op.cc,
quantized_bias_add_op.cc, quantized_activation_ops.cc, quantized_reshape_op.cc)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import qint8, qint32, quint8
from headrace.base.shapes import Shape, text
from headrace.base.traits import ALIASES, QUANTIZED
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, broadcast
from headrace.graph.tensor import Tensor
from headrace.ops.array.shapes import reshape_op, reshape_shape
from headrace.ops.linalg.products import product_shape
from headrace.ops.quantization.levels import (
    TYPES,
    Array,
    F,
    checked_ranges,
    checked_scalars,
    checked_type,
    floats,
    integers,
    nearest,
    quantized,
    range_of_sums,
    scalar_ends,
    value_of_level,
    with_range,
    zero,
)

__all__ = ["quantized_relu_x"]

_TWO: Final = "x: T1; y: T2; min_x: float; max_x: float; min_y: float; max_y: float"
_TWO_TYPES: Final = f"T1: {TYPES}; T2: {TYPES}; Toutput: {TYPES} = DT_QINT32"
Result = tuple[Array, Array, Array]


def _product_of_each_shapes(c: ShapeContext) -> list[Shape]:
    return with_range(broadcast(c))


def _sum_shapes(c: ShapeContext) -> list[Shape]:
    scalar_ends(c, "min_x", "max_x", "min_y", "max_y")
    return with_range(broadcast(c))


def _range_of_sums(*given: Array, factor: int) -> tuple[np.float32, np.float32]:
    """Wide enough for sums of numbers of ranges with these ends."""
    high = F(max(abs(F(each)) for each in given) * F(factor))
    return F(-high), high


def _checked_broadcast(x: Array, y: Array) -> None:
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise errors.invalid_argument(
            f"Incompatible shapes: {text(x.shape)} vs. {text(y.shape)}"
        ) from None


@op(
    "QuantizedAdd",
    inputs=_TWO,
    outputs="z: Toutput; min_z: float; max_z: float",
    attrs=_TWO_TYPES,
    shape=_sum_shapes,
)
def quantized_add_op(
    xp: Any,
    x: Array,
    y: Array,
    min_x: Array,
    max_x: Array,
    min_y: Array,
    max_y: Array,
    *,
    T1: dtypes.DType,
    T2: dtypes.DType,
    Toutput: dtypes.DType,
) -> Result:
    """x + y with broadcasting, as integers of 32 bits; and their range.

    x, y: quint8 of shapes that broadcast; ends [].  A level of x or y is a whole number of levels of the sum, so that
    the sum differs from that of the floats by up to 1 in 500 of a level of x or y.
    Raises InvalidArgument (shapes, types, ranges).
    """
    for kind in (T1, T2):
        checked_type("QuantizedAdd", kind, quint8)
    checked_type("QuantizedAdd", Toutput, qint32)
    checked_scalars(min_x=min_x, max_x=max_x, min_y=min_y, max_y=max_y)
    checked_ranges(x=(min_x, max_x), y=(min_y, max_y))
    _checked_broadcast(x, y)
    low, high = _range_of_sums(min_x, max_x, min_y, max_y, factor=1 << 14)
    total = _in_range(x, F(min_x), F(max_x), low, high) + _in_range(
        y, F(min_y), F(max_y), low, high
    )
    return quantized(total, qint32), np.asarray(low), np.asarray(high)


def _in_range(x: Array, low: Any, high: Any, new_low: Any, new_high: Any) -> Array:
    if x.size == 1:
        return nearest(floats(integers(x, quint8), low, high, quint8), new_low, new_high, qint32)
    none, one = nearest(floats([0, 1], low, high, quint8), new_low, new_high, qint32)
    found: Array = integers(x, quint8) * (one - none) + none
    return found


@op(
    "QuantizedMul",
    inputs=_TWO,
    outputs="z: Toutput; min_z: float; max_z: float",
    attrs=_TWO_TYPES,
    shape=_product_of_each_shapes,
)
def quantized_mul_op(
    xp: Any,
    x: Array,
    y: Array,
    min_x: Array,
    max_x: Array,
    min_y: Array,
    max_y: Array,
    *,
    T1: dtypes.DType,
    T2: dtypes.DType,
    Toutput: dtypes.DType,
) -> Result:
    """x * y with broadcasting, as integers of 32 bits; and their range.

    x, y: quint8 of shapes that broadcast; ends [].  Raises InvalidArgument (shapes, types, ranges).
    """
    for kind in (T1, T2):
        checked_type("QuantizedMul", kind, quint8)
    checked_type("QuantizedMul", Toutput, qint32)
    checked_scalars(min_x=min_x, max_x=max_x, min_y=min_y, max_y=max_y)
    checked_ranges(x=(min_x, max_x), y=(min_y, max_y))
    _checked_broadcast(x, y)
    product = _from_zero(x, min_x, max_x, T1) * _from_zero(y, min_y, max_y, T2)
    level = value_of_level(min_x, max_x, T1) * value_of_level(min_y, max_y, T2)
    return quantized(product, qint32), *range_of_sums(level)


def _from_zero(x: Array, low: Array, high: Array, kind: dtypes.DType) -> Array:
    """int64: how many levels from what stands for 0."""
    found: Array = integers(x, kind) - zero(low, high, kind)
    return found


def _product_shapes(c: ShapeContext) -> list[Shape]:
    shape = product_shape(c)
    scalar_ends(c, "min_a", "max_a", "min_b", "max_b")
    return with_range(shape)


@op(
    "QuantizedMatMul",
    inputs="a: T1; b: T2; min_a: float; max_a: float; min_b: float; max_b: float",
    outputs="out: Toutput; min_out: float; max_out: float",
    attrs=f"{_TWO_TYPES}; transpose_a: bool = false; transpose_b: bool = false; Tactivation: {TYPES} = DT_QUINT8",
    shape=_product_shapes,
)
def quantized_matmul_op(
    xp: Any,
    a: Array,
    b: Array,
    min_a: Array,
    max_a: Array,
    min_b: Array,
    max_b: Array,
    *,
    T1: dtypes.DType,
    T2: dtypes.DType,
    Toutput: dtypes.DType,
    transpose_a: bool,
    transpose_b: bool,
) -> Result:
    """The product of two matrices, each transposed first if asked for, as integers of 32 bits; and their range.

    a [m, k], b [k, n]: quint8; ends [].  out [m, n].  Raises InvalidArgument (shapes, types).
    """
    for kind in (T1, T2):
        checked_type("QuantizedMatMul", kind, quint8)
    checked_type("QuantizedMatMul", Toutput, qint32)
    checked_scalars(min_a=min_a, max_a=max_a, min_b=min_b, max_b=max_b)
    for name, each in (("First", a), ("Second", b)):
        if each.ndim != 2:
            raise errors.invalid_argument(
                f"{name} input must be a matrix: it has shape {text(each.shape)}"
            )
    given = _from_zero(a, min_a, max_a, T1), _from_zero(b, min_b, max_b, T2)
    left, right = (
        each.T if turned else each
        for each, turned in zip(given, (transpose_a, transpose_b), strict=True)
    )
    if left.shape[1] != right.shape[0]:
        raise errors.invalid_argument(
            f"Matrix size-incompatible: In[0]: {text(a.shape)}, In[1]: {text(b.shape)}: "
            f"{left.shape[1]} columns, {right.shape[0]} rows"
        )
    # Whole numbers below 2**53 are exact in float64, whose product is BLAS's.
    made = (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    level = value_of_level(min_a, max_a, T1) * value_of_level(min_b, max_b, T2)
    return quantized(made, qint32), *range_of_sums(level)


def _bias_shapes(c: ShapeContext) -> list[Shape]:
    shape = c.with_rank_at_least("input", 2)
    bias = c.with_rank("bias", 1)
    scalar_ends(c, "min_input", "max_input", "min_bias", "max_bias")
    assert bias is not None
    if shape is not None and None not in (shape[-1], bias[0]) and shape[-1] != bias[0]:
        raise ValueError(f"Dimensions must be equal, but are {shape[-1]} and {bias[0]}")
    return with_range(shape)


@op(
    "QuantizedBiasAdd",
    inputs="input: T1; bias: T2; min_input: float; max_input: float; min_bias: float; max_bias: float",
    outputs="output: out_type; min_out: float; max_out: float",
    attrs=f"T1: {TYPES}; T2: {TYPES}; out_type: {TYPES}",
    shape=_bias_shapes,
)
def quantized_bias_add_op(
    xp: Any,
    x: Array,
    bias: Array,
    min_input: Array,
    max_input: Array,
    min_bias: Array,
    max_bias: Array,
    *,
    T1: dtypes.DType,
    T2: dtypes.DType,
    out_type: dtypes.DType,
) -> Result:
    """x with the bias added to each of its last dimension, as integers of 32 bits; and their range.

    x [..., c], bias [c]: quint8 or qint8, both the same; ends [].  Raises InvalidArgument (shapes, types).
    """
    checked_type("QuantizedBiasAdd", T1, quint8, qint8)
    checked_type("QuantizedBiasAdd", T2, T1)
    checked_type("QuantizedBiasAdd", out_type, qint32)
    checked_scalars(min_input=min_input, max_input=max_input, min_bias=min_bias, max_bias=max_bias)
    if not x.ndim:
        raise errors.invalid_argument(f"Input tensor must be at least 1D: {text(x.shape)}")
    if bias.ndim != 1:
        raise errors.invalid_argument(f"Biases must be 1D: {text(bias.shape)}")
    if bias.shape[0] != x.shape[-1]:
        raise errors.invalid_argument(
            f"Must provide as many biases as the last dimension of the input tensor: "
            f"{text(bias.shape)} vs. {text(x.shape)}"
        )
    low, high = _range_of_sums(min_input, max_input, min_bias, max_bias, factor=1 << 17)
    total = nearest(floats(integers(x, T1), min_input, max_input, T1), low, high, qint32)
    added = floats(integers(bias, T2), min_bias, max_bias, T2)
    total = total + nearest(added, low, high, qint32, around_zero=True)
    return quantized(total, qint32), np.asarray(low), np.asarray(high)


# -- rectifiers -------------------------------------------------------------------------------


_ACTIVATIONS: Final = "activations: out_type; min_activations: float; max_activations: float"
_RECTIFIER_TYPES: Final = f"Tinput: {TYPES}; out_type: {TYPES} = DT_QUINT8"


def _activation_shapes(c: ShapeContext) -> list[Shape]:
    scalar_ends(c, "min_features", "max_features")
    return with_range(c.shape("features"))


def _rectified(
    name: str, x: Array, low: Array, high: Array, kind: dtypes.DType, out: dtypes.DType, most: Any
) -> Result:
    checked_type(name, kind, quint8, qint32)
    checked_type(name, out, kind)
    checked_scalars(min_features=low, max_features=high)
    found = np.maximum(integers(x, kind), nearest(0.0, low, high, kind))
    if most is not None:
        found = np.minimum(found, nearest(most, low, high, kind))
    return quantized(found, kind), low, high


def _rectifier(name: str, most: float | None, doc: str) -> OpSpec:
    """An op of features and their range alone."""

    def kernel(
        xp: Any,
        features: Array,
        min_features: Array,
        max_features: Array,
        *,
        Tinput: dtypes.DType,
        out_type: dtypes.DType,
    ) -> Result:
        return _rectified(name, features, min_features, max_features, Tinput, out_type, most)

    kernel.__doc__ = f"""{doc}; the range stays.

    features: quint8 or qint32, as out_type; ends [].  Raises InvalidArgument (shapes, types).
    """
    return op(
        name,
        inputs="features: Tinput; min_features: float; max_features: float",
        outputs=_ACTIVATIONS,
        attrs=_RECTIFIER_TYPES,
        shape=_activation_shapes,
        traits={ALIASES},
    )(kernel)


quantized_relu_op = _rectifier("QuantizedRelu", None, "What lies below 0 becomes what stands for 0")
quantized_relu6_op = _rectifier(
    "QuantizedRelu6", 6.0, "What lies below 0 becomes 0, above 6 becomes 6"
)


@op(
    "QuantizedReluX",
    inputs="features: Tinput; max_value: float; min_features: float; max_features: float",
    outputs=_ACTIVATIONS,
    attrs=_RECTIFIER_TYPES,
    shape=lambda c: (c.with_rank("max_value", 0), _activation_shapes(c))[1],
    traits={ALIASES},
)
def quantized_relu_x_op(
    xp: Any,
    features: Array,
    max_value: Array,
    min_features: Array,
    max_features: Array,
    *,
    Tinput: dtypes.DType,
    out_type: dtypes.DType,
) -> Result:
    """As QuantizedRelu, and what lies above max_value becomes what stands for it; TensorFlow has no kernel for it.

    Raises InvalidArgument (shapes, types).
    """
    checked_scalars(max_value=max_value)
    return _rectified(
        "QuantizedReluX", features, min_features, max_features, Tinput, out_type, max_value
    )


def quantized_relu_x(
    features: Any,
    max_value: Any,
    min_features: Any,
    max_features: Any,
    out_type: Any = quint8,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantized features between 0 and max_value, and their range, which stays; see the op."""
    made: tuple[Tensor, Tensor, Tensor] = quantized_relu_x_op(
        features,
        max_value,
        min_features,
        max_features,
        out_type=out_type,
        name=name,
    )
    return made


# -- another shape ----------------------------------------------------------------------------


def _reshape_shapes(c: ShapeContext) -> list[Shape]:
    scalar_ends(c, "input_min", "input_max")
    return with_range(reshape_shape(c))


@op(
    "QuantizedReshape",
    inputs="tensor: T; shape: Tshape; input_min: float; input_max: float",
    outputs="output: T; output_min: float; output_max: float",
    attrs="T: type; Tshape: {int32, int64} = int32",
    shape=_reshape_shapes,
    traits={ALIASES, QUANTIZED},
)
def quantized_reshape_op(
    xp: Any, tensor: Array, shape: Array, input_min: Array, input_max: Array
) -> Result:
    """The same values in another shape, and their range, which stays.  Raises InvalidArgument, as Reshape."""
    checked_scalars(input_min=input_min, input_max=input_max)
    made: Array = reshape_op.kernel(xp, tensor, shape)  # type: ignore[misc]
    return made, input_min, input_max
