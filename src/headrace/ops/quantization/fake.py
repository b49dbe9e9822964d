"""Floats as if they had few bits: what training must see of numbers that will be quantized.

Called by: programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/fake_quant_ops.cc, quantize_and_dequantize_op.cc); Jacob et al.,
"Quantization and training of neural networks for efficient integer-arithmetic-only inference", 2017
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.fake_quantizing import gradient_inside, gradients_of, quantized

__all__ = [
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_args_gradient",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient",
    "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient",
    "quantize_and_dequantize",
]

Array = np.ndarray[Any, Any]
F = np.float32
_BITS = "num_bits: int = 8; narrow_range: bool = false"
_RANGE = f"min: float = -6.0; max: float = 6.0; {_BITS}"


# -- a range of attrs -------------------------------------------------------------------------


def _ends(low: float, high: float) -> tuple[Array, Array]:
    if low >= high:
        raise errors.invalid_argument(f"min has to be smaller than max, was: {low} >= {high}")
    return np.array(low, F), np.array(high, F)


@op(
    "FakeQuantWithMinMaxArgs",
    inputs="inputs: float",
    outputs="outputs: float",
    attrs=_RANGE,
    shape=unchanged,
    traits={SHARES},
)
def fake_quant_with_min_max_args_op(
    xp: Any, inputs: Array, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> Array:
    """inputs in the 2 ** num_bits steps from min to max.  Raises InvalidArgument."""
    return quantized(inputs, *_ends(min, max), num_bits, narrow_range, by_inverse=True)


@op(
    "FakeQuantWithMinMaxArgsGradient",
    inputs="gradients: float; inputs: float",
    outputs="backprops: float",
    attrs=_RANGE,
    shape=unchanged,
    differentiable=False,
    traits={SHARES},
)
def fake_quant_with_min_max_args_gradient_op(
    xp: Any,
    gradients: Array,
    inputs: Array,
    *,
    min: float,
    max: float,
    num_bits: int,
    narrow_range: bool,
) -> Array:
    """gradients where inputs are within the range, else 0.  Raises InvalidArgument."""
    return gradient_inside(gradients, inputs, *_ends(min, max), num_bits, narrow_range)


def _bits(op: Operation) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("num_bits", "narrow_range")}


@fake_quant_with_min_max_args_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return fake_quant_with_min_max_args_gradient_op(
        dout, op.inputs[0], min=op.get_attr("min"), max=op.get_attr("max"), **_bits(op)
    )


# -- a range of tensors -----------------------------------------------------------------------


def _vars_shape(c: ShapeContext) -> Shape:
    c.with_rank("min", 0)
    c.with_rank("max", 0)
    return c.shape("inputs")


def _check_scalars(low: Array, high: Array) -> None:
    for name, each in (("min", low), ("max", high)):
        if each.ndim:
            raise errors.invalid_argument(f"`{name}` must be rank 0 but is rank {each.ndim}")


@op(
    "FakeQuantWithMinMaxVars",
    inputs="inputs: float; min: float; max: float",
    outputs="outputs: float",
    attrs=_BITS,
    shape=_vars_shape,
    traits={SHARES},
)
def fake_quant_with_min_max_vars_op(
    xp: Any, inputs: Array, min: Array, max: Array, *, num_bits: int, narrow_range: bool
) -> Array:
    """inputs in the 2 ** num_bits steps from min [] to max [].  Raises InvalidArgument."""
    _check_scalars(min, max)
    return quantized(inputs, min, max, num_bits, narrow_range)


def _vars_grad_shape(c: ShapeContext) -> list[Shape]:
    c.with_rank("min", 0)
    c.with_rank("max", 0)
    return [shape_rules.merge(c.shape("gradients"), c.shape("inputs")), (), ()]


@op(
    "FakeQuantWithMinMaxVarsGradient",
    inputs="gradients: float; inputs: float; min: float; max: float",
    outputs="backprops_wrt_input: float; backprop_wrt_min: float; backprop_wrt_max: float",
    attrs=_BITS,
    shape=_vars_grad_shape,
    differentiable=False,
    traits={SHARES},
)
def fake_quant_with_min_max_vars_gradient_op(
    xp: Any,
    gradients: Array,
    inputs: Array,
    min: Array,
    max: Array,
    *,
    num_bits: int,
    narrow_range: bool,
) -> Any:
    """gradients within the range, and the sums of those below and above it.  Raises InvalidArgument."""
    _check_scalars(min, max)
    inside, below, above = gradients_of(gradients, inputs, min, max, num_bits, narrow_range)
    return inside, np.asarray(below.sum(dtype=F)), np.asarray(above.sum(dtype=F))


@fake_quant_with_min_max_vars_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return fake_quant_with_min_max_vars_gradient_op(dout, *op.inputs, **_bits(op))


# -- a range a channel ------------------------------------------------------------------------


def _channels_shape(c: ShapeContext) -> Shape:
    x = c.with_rank_at_least("inputs", 1)
    depth = shape_rules.merge(c.with_rank("min", 1), c.with_rank("max", 1))
    if x is None:
        return None
    last = shape_rules.merge(depth, x[-1:])
    return (*x[:-1], *(last or (None,)))


def _check_channels(x: Array, low: Array, high: Array) -> None:
    depth = x.shape[-1:]
    for name, each in (("min", low), ("max", high)):
        if each.shape != depth or not x.ndim:
            raise errors.invalid_argument(
                f"{name} has incorrect size, expected {text(depth)} was {text(each.shape)}: one a channel"
            )


@op(
    "FakeQuantWithMinMaxVarsPerChannel",
    inputs="inputs: float; min: float; max: float",
    outputs="outputs: float",
    attrs=_BITS,
    shape=_channels_shape,
)
def fake_quant_with_min_max_vars_per_channel_op(
    xp: Any, inputs: Array, min: Array, max: Array, *, num_bits: int, narrow_range: bool
) -> Array:
    """inputs [..., d] in the 2 ** num_bits steps from min [d] to max [d].  Raises InvalidArgument."""
    _check_channels(inputs, min, max)
    return quantized(inputs, min, max, num_bits, narrow_range, by_inverse=True)


def _channels_grad_shape(c: ShapeContext) -> list[Shape]:
    depth = shape_rules.merge(c.with_rank("min", 1), c.with_rank("max", 1))
    return [shape_rules.merge(c.shape("gradients"), c.shape("inputs")), depth, depth]


@op(
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    inputs="gradients: float; inputs: float; min: float; max: float",
    outputs="backprops_wrt_input: float; backprop_wrt_min: float; backprop_wrt_max: float",
    attrs=_BITS,
    shape=_channels_grad_shape,
    differentiable=False,
)
def fake_quant_with_min_max_vars_per_channel_gradient_op(
    xp: Any,
    gradients: Array,
    inputs: Array,
    min: Array,
    max: Array,
    *,
    num_bits: int,
    narrow_range: bool,
) -> Any:
    """As FakeQuantWithMinMaxVarsGradient, with a sum a channel [d].  Raises InvalidArgument."""
    if gradients.shape != inputs.shape:
        raise errors.invalid_argument(
            f"gradient and input must be the same size: {text(gradients.shape)} and {text(inputs.shape)}"
        )
    _check_channels(inputs, min, max)
    inside, below, above = gradients_of(gradients, inputs, min, max, num_bits, narrow_range)
    axes = tuple(range(inputs.ndim - 1))
    return inside, below.sum(axis=axes, dtype=F), above.sum(axis=axes, dtype=F)


@fake_quant_with_min_max_vars_per_channel_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return fake_quant_with_min_max_vars_per_channel_gradient_op(dout, *op.inputs, **_bits(op))


# -- there and back ---------------------------------------------------------------------------


def _there_and_back(
    x: Array,
    low: Array,
    high: Array,
    bits: int,
    signed: bool,
    given: bool,
    half_up: bool,
    narrow: bool,
    axis: int,
) -> Array:
    if not 0 < bits < (64 if signed else 63):
        raise errors.invalid_argument(
            f"num_bits is out of range: {bits} with signed_input {signed}"
        )
    if not -1 <= axis < x.ndim:
        raise errors.invalid_argument(
            f"Axis requested is larger than input dimensions. Axis: {axis} Input Dimensions: {x.ndim}"
        )
    along = [1] * x.ndim
    if axis >= 0:
        along[axis] = x.shape[axis]
    kind = x.dtype if x.dtype == np.float64 else np.dtype(F)
    wide = x.astype(kind)
    if given:
        count = x.shape[axis] if axis >= 0 else 1
        for name, each in (("input_min", low), ("input_max", high)):
            if (axis >= 0 and each.shape != (count,)) or (axis < 0 and each.size != 1):
                raise errors.invalid_argument(
                    f"Shape must be rank {int(axis >= 0)}: {name} has shape {text(each.shape)}, and axis is {axis}"
                )
        low, high = low.astype(kind).reshape(along), high.astype(kind).reshape(along)
        if (low > high).any():
            raise errors.invalid_argument(
                f"Invalid range: input_min {low.ravel()[:4].tolist()} > input_max {high.ravel()[:4].tolist()}"
            )
    else:
        others = tuple(at for at in range(x.ndim) if at != axis)
        if not x.size:
            return x
        low, high = wide.min(axis=others).reshape(along), wide.max(axis=others).reshape(along)
    return _stepped(wide, low, high, bits, signed, given, half_up, narrow).astype(x.dtype)


def _stepped(
    x: Array,
    low: Array,
    high: Array,
    bits: int,
    signed: bool,
    given: bool,
    half_up: bool,
    narrow: bool,
) -> Array:
    kind = x.dtype.type
    first = kind(-(1 << (bits - 1)) + narrow if signed else 0)
    last = kind((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    most = kind(np.finfo(kind).max)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        by_low = np.where(first * low > 0, first / low, most)
        by_high = np.where(last * high > 0, last / high, most)
        low_rules = by_low < by_high
        scale = np.where(low_rules, by_low, by_high)
        back = np.where(low_rules, low / first if first else low, high / last)
        ends = (
            np.where(low_rules, low, first * back),
            np.where(low_rules, last * back, high),
        )
        inside = np.clip(x, *ends) if given else x
        steps = inside * scale
        steps = np.floor(steps + kind(0.5)) if half_up else np.rint(steps)
        found: Array = steps * back
    return found


_FLOATS = "T: {bfloat16, half, float, double}"
_ROUND = "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'"
_V2 = (
    f"signed_input: bool = true; num_bits: int = 8; range_given: bool = false; {_FLOATS}; {_ROUND}; "
    "narrow_range: bool = false; axis: int = -1"
)


def _with_axis(c: ShapeContext) -> Shape:
    if c.attr("axis") < -1:
        raise ValueError(f"axis should be at least -1, got {c.attr('axis')}: -1 is for all of it")
    if len(c.op.inputs) > 1:
        shape_rules.merge(c.with_rank("input_min", int(c.attr("axis") != -1)), c.shape("input_max"))
    return c.shape("input")


@op(
    "QuantizeAndDequantizeV2",
    inputs="input: T; input_min: T; input_max: T",
    outputs="output: T",
    attrs=_V2,
    shape=_with_axis,
)
def quantize_and_dequantize_v2_op(
    xp: Any,
    input: Array,
    input_min: Array,
    input_max: Array,
    *,
    signed_input: bool,
    num_bits: int,
    range_given: bool,
    round_mode: bytes,
    narrow_range: bool,
    axis: int,
) -> Array:
    """The input in steps of num_bits between input_min and input_max, or its own ends if those are not given.

    axis: each part along it has a range of its own.  Raises InvalidArgument.
    """
    return _there_and_back(
        input,
        input_min,
        input_max,
        num_bits,
        signed_input,
        range_given,
        round_mode == b"HALF_UP",
        narrow_range,
        axis,
    )


@quantize_and_dequantize_v2_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return [dout, None, None]


@op(
    "QuantizeAndDequantizeV3",
    inputs="input: T; input_min: T; input_max: T; num_bits: int32",
    outputs="output: T",
    attrs=f"signed_input: bool = true; range_given: bool = true; {_FLOATS}; narrow_range: bool = false; axis: int = -1",
    shape=lambda c: (c.with_rank("num_bits", 0), _with_axis(c))[1],
)
def quantize_and_dequantize_v3_op(
    xp: Any,
    input: Array,
    input_min: Array,
    input_max: Array,
    num_bits: Array,
    *,
    signed_input: bool,
    range_given: bool,
    narrow_range: bool,
    axis: int,
) -> Array:
    """As QuantizeAndDequantizeV2, with num_bits [].  Raises InvalidArgument."""
    if num_bits.ndim:
        raise errors.invalid_argument(
            f"Invalid shape. The `num_bits` tensor should be a scalar, and has shape {text(num_bits.shape)}"
        )
    return _there_and_back(
        input,
        input_min,
        input_max,
        int(num_bits.reshape(())),
        signed_input,
        range_given,
        False,
        narrow_range,
        axis,
    )


@quantize_and_dequantize_v3_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return [dout, None, None, None]


# -- functions --------------------------------------------------------------------------------


def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """inputs in the 2 ** num_bits steps from min to max; gradients pass where they are within."""
    made: Tensor = fake_quant_with_min_max_args_op(
        inputs, min=min, max=max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return made


def fake_quant_with_min_max_args_gradient(
    gradients: Any,
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """The gradient of `fake_quant_with_min_max_args`: gradients where inputs are within the range."""
    made: Tensor = fake_quant_with_min_max_args_gradient_op(
        gradients, inputs, min=min, max=max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return made


def fake_quant_with_min_max_vars(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """inputs in the 2 ** num_bits steps from min [] to max [], which are trained too."""
    made: Tensor = fake_quant_with_min_max_vars_op(
        inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return made


def fake_quant_with_min_max_vars_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of `fake_quant_with_min_max_vars` with respect to inputs, min and max."""
    return fake_quant_with_min_max_vars_gradient_op(
        gradients, inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )


def fake_quant_with_min_max_vars_per_channel(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """inputs [..., d] in the 2 ** num_bits steps from min [d] to max [d]."""
    made: Tensor = fake_quant_with_min_max_vars_per_channel_op(
        inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )
    return made


def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of `fake_quant_with_min_max_vars_per_channel` with respect to inputs, min and max."""
    return fake_quant_with_min_max_vars_per_channel_gradient_op(
        gradients, inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )


def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """The input in steps of num_bits, between its own ends, or input_min and input_max if range_given.

    Gradients pass as they are.  axis: each part along it has a range of its own.
    """
    made: Tensor = quantize_and_dequantize_v2_op(
        input,
        input_min,
        input_max,
        signed_input=signed_input,
        num_bits=num_bits,
        range_given=range_given,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        name=name,
    )
    return made
