"""What graph optimizers make of several nodes: products with an epilogue, norms, chains of functions.

A TensorFlow master optimizes the partitions that it sends; users do not write these ops, and they have no gradients.
An epilogue is a list of names: BiasAdd, FusedBatchNorm, Add and Mul take their further operands from `args` in order,
everything else is an activation.
Called by: serve.worker.worker (graphs of TensorFlow masters).  Threads: any.
Source: TF 2.21's registered ops, and its results, which tests compare.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.traits import SHARES
from headrace.graph.registry import OPS, op
from headrace.graph.shape_fns import unchanged, unknown
from headrace.ops._kernels.axes import checked_axis
from headrace.ops._kernels.convolving import convolved
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.windows import from_last, to_last
from headrace.ops.linalg.products import multiplied, product_shape
from headrace.ops.nn.batch_norm import batch_norm, batch_norm_shape, normalized
from headrace.ops.nn.convolution import conv_shape
from headrace.ops.nn.depthwise import depthwise

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_EPILOGUE = (
    "fused_ops: list(string) = []; epsilon: float = 9.999999747378752e-05; "
    "leakyrelu_alpha: float = 0.20000000298023224"
)


def _function(name: str) -> Callable[[Array], Array]:
    """The kernel of an elementwise op, to be called with an array."""
    spec = OPS[name]
    assert spec.kernel is not None
    kernel = spec.kernel
    return lambda x: kernel(np, x)


def _gelu_approximate(x: Array) -> Array:
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    result: Array = np.float32(0.5) * x * (1 + np.tanh(inner))
    return result


def _gelu_exact(x: Array) -> Array:
    result: Array = np.float32(0.5) * x * (1 + _function("Erf")(x * np.float32(0.7071067811865476)))
    return result


def _hard_swish(x: Array) -> Array:
    result: Array = x * np.clip(x + 3, 0, 6).astype(x.dtype) * x.dtype.type(1 / 6)
    return result


def _swish(x: Array) -> Array:
    result: Array = x * _function("Sigmoid")(x)
    return result


_OPERANDS = {"BiasAdd": 1, "FusedBatchNorm": 4, "Add": 1, "Mul": 1}
_PLAIN = ("Relu", "Relu6", "Elu", "Tanh", "Sigmoid")
_CHAINS = {
    "GeluApproximate": _gelu_approximate,
    "GeluExact": _gelu_exact,
    "_FusedHardSwish": _hard_swish,
    "_MklSwish": _swish,
}


def _activation(name: str, alpha: float, names: list[str]) -> Callable[[Array], Array]:
    """Raises Unimplemented, saying what there is."""
    if name == "LeakyRelu":
        return lambda x: np.where(x > 0, x, x * x.dtype.type(alpha))
    if name in _PLAIN:
        return _function(name)
    if name in _CHAINS:
        return _CHAINS[name]
    raise errors.unimplemented(
        f"{name} in fused_ops {names}: known are {', '.join((*_OPERANDS, 'LeakyRelu', *_PLAIN, *_CHAINS))}; turn the "
        "optimizer that fuses it off in the master's ConfigProto (graph_options.rewrite_options.remapping)"
    )


def _finished(
    x: Array,
    args: Sequence[Array],
    fused_ops: list[bytes],
    epsilon: float,
    alpha: float,
    data_format: bytes = b"NHWC",
) -> Array:
    """`x` after its epilogue.

    Raises Unimplemented for a name that is not known, InvalidArgument if the operands are not as many as wanted.
    """
    x, operands = to_last(x, data_format), iter(map(single, args))
    names = [name.decode() for name in fused_ops]
    wanted = sum(_OPERANDS.get(name, 0) for name in names)
    if wanted != len(args):
        raise errors.invalid_argument(f"fused_ops {names} take {wanted} args, not {len(args)}")
    for name in names:
        if name == "BiasAdd":
            x = x + next(operands)
        elif name == "FusedBatchNorm":
            scale, offset, mean, variance = itertools.islice(operands, 4)
            x = normalized(x, scale, offset, mean, variance, epsilon)
        elif name in ("Add", "Mul"):
            operand = next(operands)
            operand = to_last(operand, data_format) if operand.ndim == x.ndim else operand
            x = x + operand if name == "Add" else x * operand
        else:
            x = _activation(name, alpha, names)(x)
    return from_last(x, data_format)


# -- products ---------------------------------------------------------------------------------


@op(
    "_FusedMatMul",
    inputs="a: T; b: T; args: num_args * T",
    outputs="product: T",
    attrs="transpose_a: bool = false; transpose_b: bool = false; T: {bfloat16, half, float}; "
    f"num_args: int >= 0; {_EPILOGUE}",
    shape=product_shape,
    traits={SHARES},
)
def fused_matmul_op(
    xp: Any,
    a: Array,
    b: Array,
    *args: Array,
    transpose_a: bool,
    transpose_b: bool,
    fused_ops: list[bytes],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Any:
    """MatMul with an epilogue.  Raises as MatMul, and Unimplemented for an epilogue that is not known."""
    product = multiplied(xp, single(a), single(b), transpose_a, transpose_b)
    return _finished(product, args, fused_ops, epsilon, leakyrelu_alpha).astype(a.dtype, copy=False)


@op(
    "_MklFusedBatchMatMulV2",
    inputs="x: T; y: T; args: num_args * T",
    outputs="output: T",
    attrs="T: {bfloat16, float, half}; adj_x: bool = false; adj_y: bool = false; num_args: int >= 0; "
    f"{_EPILOGUE}",
    shape=unknown,
    traits={SHARES},
)
def fused_batch_matmul_op(
    xp: Any,
    x: Array,
    y: Array,
    *args: Array,
    adj_x: bool,
    adj_y: bool,
    fused_ops: list[bytes],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Any:
    """BatchMatMulV2 with an epilogue.  Raises as BatchMatMulV2, and as _FusedMatMul."""
    kernel = OPS["BatchMatMulV2"].kernel
    assert kernel is not None
    product = kernel(xp, single(x), single(y), adj_x=adj_x, adj_y=adj_y)
    return _finished(product, args, fused_ops, epsilon, leakyrelu_alpha).astype(x.dtype, copy=False)


@op(
    "_FusedConv2D",
    inputs="input: T; filter: T; args: TArgs; host_args: num_host_args * float",
    outputs="output: T",
    attrs="T: {half, float, double, int8, qint8}; TArgs: list(type) >= 1; num_args: int >= 0; "
    "num_host_args: int >= 0 = 0; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; "
    "explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'; "
    "filter_format: {'HWIO', 'OIHW', 'OIHW_VECT_I'} = 'HWIO'; dilations: list(int) = [1, 1, 1, 1]; "
    f"use_cudnn_on_gpu: bool = true; {_EPILOGUE}",
    shape=conv_shape,
    traits={SHARES},
)
def fused_conv2d_op(
    xp: Any,
    x: Array,
    filters: Array,
    *args: Array,
    strides: list[int],
    padding: bytes,
    explicit_paddings: list[int],
    data_format: bytes,
    filter_format: bytes,
    dilations: list[int],
    fused_ops: list[bytes],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Any:
    """Conv2D with an epilogue.  Raises as Conv2D, and Unimplemented for filters that are not HWIO."""
    if filter_format != b"HWIO" or data_format not in (b"NHWC", b"NCHW") or x.dtype.kind in "iu":
        raise errors.unimplemented(
            f"_FusedConv2D of {x.dtype}, {data_format.decode()} with filters {filter_format.decode()}: only floats, "
            "NHWC or NCHW, with HWIO"
        )
    out = convolved(single(x), filters, strides, padding, data_format, dilations, explicit_paddings)
    made = _finished(out, args, fused_ops, epsilon, leakyrelu_alpha, data_format)
    return made.astype(x.dtype, copy=False)


@op(
    "_FusedConv3D",
    inputs="input: T; filter: T; args: num_args * T",
    outputs="output: T",
    attrs="T: {bfloat16, float, half}; num_args: int >= 0; strides: list(int) >= 5; "
    "padding: {'SAME', 'VALID'}; data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; "
    f"dilations: list(int) = [1, 1, 1, 1, 1]; padding_list: list(int) = []; {_EPILOGUE}",
    shape=conv_shape,
)
def fused_conv3d_op(
    xp: Any,
    x: Array,
    filters: Array,
    *args: Array,
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    dilations: list[int],
    padding_list: list[int],
    fused_ops: list[bytes],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Any:
    """Conv3D with an epilogue; padding_list: explicit padding instead of `padding`.  Raises as _FusedConv2D."""
    if padding_list:
        padding = b"EXPLICIT"
    out = convolved(single(x), filters, strides, padding, data_format, dilations, padding_list)
    made = _finished(out, args, fused_ops, epsilon, leakyrelu_alpha, data_format)
    return made.astype(x.dtype, copy=False)


@op(
    "_FusedDepthwiseConv2dNative",
    inputs="input: T; filter: T; args: num_args * T",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double}; num_args: int >= 0; strides: list(int); "
    "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
    f"dilations: list(int) = [1, 1, 1, 1]; {_EPILOGUE}",
    shape=conv_shape,
)
def fused_depthwise_conv2d_op(
    xp: Any,
    x: Array,
    filters: Array,
    *args: Array,
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    dilations: list[int],
    fused_ops: list[bytes],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Any:
    """DepthwiseConv2dNative with an epilogue.  Raises as _FusedConv2D."""
    out = depthwise(single(x), filters, strides, padding, data_format, dilations, [])
    made = _finished(out, args, fused_ops, epsilon, leakyrelu_alpha, data_format)
    return made.astype(x.dtype, copy=False)


# -- norms ------------------------------------------------------------------------------------


@op(
    "_FusedBatchNormEx",
    inputs="x: T; scale: U; offset: U; mean: U; variance: U; side_input: num_side_inputs * T",
    outputs="y: T; batch_mean: U; batch_variance: U; reserve_space_1: U; reserve_space_2: U; reserve_space_3: U",
    attrs="T: {half, float, bfloat16}; U: {float}; epsilon: float = 9.999999747378752e-05; "
    "exponential_avg_factor: float = 1.0; num_side_inputs: int >= 0 = 0; activation_mode: string = 'Identity'; "
    "data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
    shape=batch_norm_shape,
)
def fused_batch_norm_ex_op(
    xp: Any,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    *side_input: Array,
    epsilon: float,
    exponential_avg_factor: float,
    activation_mode: bytes,
    data_format: bytes,
    is_training: bool,
) -> Any:
    """FusedBatchNormV3, a side input [shape of x] added, an activation applied to y.  Raises as FusedBatchNormV3."""
    y, *others = batch_norm(
        x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format, is_training
    )
    names = [b"Add"] * len(side_input) + (
        [] if activation_mode == b"Identity" else [activation_mode]
    )
    y = _finished(single(y), side_input, names, epsilon, 0.0, data_format)
    return (y.astype(x.dtype, copy=False), *others)


def _checked_norm(x: Array, axes: tuple[int, ...], scale: Array, offset: Array) -> None:
    """Raises InvalidArgument unless there is something along each of the distinct axes, and parameters are vectors."""
    if len(set(axes)) < len(axes) or scale.ndim != 1 or scale.shape != offset.shape:
        raise errors.invalid_argument(
            f"axes {list(axes)} must be distinct, scale and offset vectors of one size, not of shapes "
            f"{list(scale.shape)} and {list(offset.shape)}"
        )
    if not x.size:
        raise errors.invalid_argument(f"x of shape {list(x.shape)} has no mean: it is empty")


@op(
    "_MklFusedInstanceNorm",
    inputs="x: T; gamma: T; beta: T",
    outputs="y: T",
    attrs=f"T: {{float, bfloat16, half}}; {_EPILOGUE}; reduction_axes: list(int)",
    shape=unchanged,
)
def fused_instance_norm_op(
    xp: Any,
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    reduction_axes: list[int],
    fused_ops: list[bytes],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Any:
    """x with mean 0 and variance 1 over reduction_axes, scaled by gamma and moved by beta, both [channels].

    Channels are the last axis, or the second if the last one is reduced.
    Raises InvalidArgument if axes or parameters do not fit.
    """
    axes = tuple(checked_axis(axis, x.ndim, "reduction axis") for axis in reduction_axes)
    given = single(x)
    _checked_norm(given, axes, gamma, beta)
    mean, variance = given.mean(axes, keepdims=True), given.var(axes, keepdims=True)
    channels = [1] * x.ndim
    channels[1 if x.ndim - 1 in axes else -1] = -1
    scale, offset = (single(p).reshape(channels) for p in (gamma, beta))
    y = normalized(given, scale, offset, mean, variance, epsilon)
    return _finished(y, [], fused_ops, epsilon, leakyrelu_alpha).astype(x.dtype, copy=False)


@op(
    "_MklLayerNorm",
    inputs="x: T; scale: T; offset: T",
    outputs="y: T",
    attrs="T: {float, bfloat16, half}; epsilon: float = 0.0010000000474974513",
    shape=unchanged,
)
def layer_norm_op(xp: Any, x: Array, scale: Array, offset: Array, *, epsilon: float) -> Any:
    """x with mean 0 and variance 1 along its last axis, scaled and moved, both [size of that axis].

    Raises InvalidArgument if the parameters do not fit.
    """
    given = single(x)
    _checked_norm(given, (checked_axis(-1, x.ndim),), scale, offset)
    mean, variance = given.mean(-1, keepdims=True), given.var(-1, keepdims=True)
    y = normalized(given, single(scale), single(offset), mean, variance, epsilon)
    return y.astype(x.dtype, copy=False)


# -- functions of single elements -------------------------------------------------------------


@op(
    "_MklSwish",
    inputs="features: T",
    outputs="activations: T",
    attrs="T: {float, bfloat16, half} = float",
    shape=unchanged,
)
def swish_op(xp: Any, features: Array) -> Any:
    """x * sigmoid(x)."""
    return _swish(single(features)).astype(features.dtype, copy=False)


@op(
    "_MklFusedMish",
    inputs="features: T",
    outputs="activations: T",
    attrs="T: {bfloat16, float, half}",
    shape=unchanged,
)
def mish_op(xp: Any, features: Array) -> Any:
    """x * tanh(softplus(x))."""
    x = single(features)
    return (x * np.tanh(np.logaddexp(x, x.dtype.type(0)))).astype(features.dtype, copy=False)


_COMPOSED = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Exp Expm1 Floor Inv Log Log1p Neg Reciprocal Relu "
    "Relu6 Rint Round Rsqrt Selu Sigmoid Sin Sinh Sqrt Square Tan Tanh".split()
)


@op(
    "_UnaryOpsComposition",
    inputs="x: T",
    outputs="y: T",
    attrs="T: {float, half, double}; op_names: list(string)",
    shape=unchanged,
)
def unary_ops_composition_op(xp: Any, x: Array, *, op_names: list[bytes]) -> Any:
    """x through the elementwise ops of these names, the first one first.

    Raises Unimplemented naming one that is not known.
    """
    for name in op_names:
        if name.decode() not in _COMPOSED:
            raise errors.unimplemented(
                f"{name.decode()} in a chain of elementwise ops; known are {', '.join(sorted(_COMPOSED))}"
            )
        x = _function(name.decode())(x)
    return x


@op("Snapshot", inputs="input: T", outputs="output: T", attrs="T: type", shape=unchanged)
def snapshot_op(xp: Any, input: Array) -> Any:
    """A copy, which no later assignment changes."""
    return np.copy(input)
