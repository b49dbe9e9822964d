"""Max pooling whose windows and strides are inputs: what a step computes says how large they are.

Called by: programs (as raw ops).  Threads: any; gradients as graph.
Source: TF 1.15 core/ops/nn_ops.cc
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.base.shapes import Shape, merge, text
from headrace.base.traits import SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.windows import Array, channels_last, static_out
from headrace.ops.array.constants import zeros_like
from headrace.ops.nn.pooling import max_pool_grad_grad_op, max_pool_grad_op, max_pool_op

__all__: list[str] = []

_PADDING = "padding: {'SAME', 'VALID'}"
_WINDOW = "ksize: int32; strides: int32"


def _window(ksize: Array, strides: Array) -> dict[str, list[int]]:
    """As attrs.  Raises InvalidArgument unless both are vectors of four positive numbers."""
    for name, each in (("ksize", ksize), ("strides", strides)):
        if each.shape != (4,) or min(each) < 1:
            raise errors.invalid_argument(
                f"Sliding window {name} must be a vector of 4 positive numbers, not {each.tolist()} of shape "
                f"{text(each.shape)}"
            )
    return {"ksize": ksize.tolist(), "strides": strides.tolist()}


def _pool_shape(c: ShapeContext, images: str = "input") -> Shape:
    data_format = c.attr("data_format")
    x = c.with_rank(images, 4)
    for name in ("ksize", "strides"):
        (count,) = c.with_rank(name, 1) or (None,)
        if count not in (None, 4):
            raise ValueError(f"Dimension must be 4 but is {count}: {name} has as many as the input")
    ksize, strides = c.value("ksize"), c.value("strides")
    if x is None or ksize is None or strides is None:
        return None
    if min(strides) < 1:
        raise ValueError(f"Stride must be > 0, but got {int(min(strides))}")
    last = channels_last(data_format)
    size = x[1:-1] if last else x[2:]
    window = ksize.tolist()[1:-1] if last else ksize.tolist()[2:]
    out = static_out(size, window, strides.tolist(), c.attr("padding"), data_format, (1,) * 4)
    return (x[0], *out, x[-1]) if last else (x[0], x[1], *out)


def _slope_shape(c: ShapeContext) -> Shape:
    """Of what a slope of the size of the input comes to."""
    merge(c.shape("orig_input"), c.shape("grad"))
    output = _pool_shape(c, "orig_input")
    if output is not None:
        merge(output, c.shape("orig_output"))
    return output


@op(
    "MaxPoolV2",
    inputs=f"input: T; {_WINDOW}",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; "
    f"{_PADDING}; data_format: {{'NHWC', 'NCHW', 'NCHW_VECT_C'}} = 'NHWC'",
    shape=_pool_shape,
    traits={SHARES},
)
def max_pool_v2_op(
    xp: Any, input: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes
) -> Any:
    """MaxPool with ksize [4] and strides [4].  Raises InvalidArgument, and as MaxPool."""
    return _run(max_pool_op, xp, (input,), ksize, strides, padding, data_format)


def _run(
    spec: OpSpec,
    xp: Any,
    values: tuple[Array, ...],
    ksize: Array,
    strides: Array,
    padding: bytes,
    data_format: bytes,
) -> Any:
    assert spec.kernel is not None
    attrs = _window(ksize, strides)
    return spec.kernel(xp, *values, padding=padding, data_format=data_format, **attrs)


@op(
    "MaxPoolGradV2",
    inputs=f"orig_input: T; orig_output: T; grad: T; {_WINDOW}",
    outputs="output: T",
    attrs=f"{_PADDING}; data_format: {{'NHWC', 'NCHW'}} = 'NHWC'; T: realnumbertype = float",
    shape=lambda c: c.with_rank("orig_input", 4),
    traits={SHARES},
)
def max_pool_grad_v2_op(
    xp: Any,
    x: Array,
    y: Array,
    dy: Array,
    ksize: Array,
    strides: Array,
    *,
    padding: bytes,
    data_format: bytes,
) -> Any:
    """MaxPoolGrad with ksize [4] and strides [4].  Raises InvalidArgument, and as MaxPoolGrad."""
    return _run(max_pool_grad_op, xp, (x, y, dy), ksize, strides, padding, data_format)


@op(
    "MaxPoolGradGradV2",
    inputs=f"orig_input: T; orig_output: T; grad: T; {_WINDOW}",
    outputs="output: T",
    attrs=f"{_PADDING}; data_format: {{'NHWC', 'NCHW'}} = 'NHWC'; T: realnumbertype",
    shape=_slope_shape,
)
def max_pool_grad_grad_v2_op(
    xp: Any,
    x: Array,
    y: Array,
    ddx: Array,
    ksize: Array,
    strides: Array,
    *,
    padding: bytes,
    data_format: bytes,
) -> Any:
    """MaxPoolGradGrad with ksize [4] and strides [4].  Raises InvalidArgument, and as MaxPoolGradGrad."""
    return _run(max_pool_grad_grad_op, xp, (x, y, ddx), ksize, strides, padding, data_format)


def _attrs(op: Operation) -> dict[str, Any]:
    return {"padding": op["padding"], "data_format": op["data_format"]}


@max_pool_v2_op.gradient
def _(op: Operation, dout: Any) -> Any:
    x, *window = op.inputs
    made = max_pool_grad_v2_op(x, op.outputs[0], dout, *window, **_attrs(op))
    return made, None, None


@max_pool_grad_v2_op.gradient
def _(op: Operation, dout: Any) -> Any:
    x, y, _, *window = op.inputs
    made = max_pool_grad_grad_v2_op(x, y, dout, *window, **_attrs(op))
    return zeros_like(x), zeros_like(y), made, None, None


@max_pool_grad_grad_v2_op.gradient
def _(op: Operation, dout: Any) -> Any:
    x, y, _, *window = op.inputs
    made = max_pool_grad_v2_op(x, y, dout, *window, **_attrs(op))
    return zeros_like(x), zeros_like(y), made, None, None
