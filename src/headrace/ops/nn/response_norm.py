"""Local response normalization, and its gradient.

Called by: programs.  Threads: any; gradients as graph.
Source: TF 1.15 core/kernels/lrn_op.cc; Krizhevsky, Sutskever, Hinton, NIPS 2012, section 3.3
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, merge, text
from headrace.base.traits import NEVER_FAILS
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.windows import Array

__all__ = ["local_response_normalization", "lrn"]

_ATTRS = (
    "depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; "
    "T: {half, bfloat16, float} = float"
)


def _shape(c: ShapeContext) -> Shape:
    found: Shape = None
    for at in range(len(c.op.inputs)):
        found = merge(found, c.with_rank(at, 4))
    return found


def _over_neighbours(values: Array, radius: int) -> Array:
    """For each channel the sum over those at most `radius` away."""
    channels = values.shape[-1]
    total = np.zeros_like(values)
    for step in range(-min(radius, channels - 1), min(radius, channels - 1) + 1):
        into, of = (
            slice(max(0, -step), channels - max(0, step)),
            slice(max(0, step), channels + min(0, step)),
        )
        total[..., into] += values[..., of]
    return total


def _check(x: Array) -> None:
    if x.ndim != 4:
        raise errors.invalid_argument(
            f"in must be 4-dimensional: the input has shape {text(x.shape)}"
        )


@op("LRN", inputs="input: T", outputs="output: T", attrs=_ATTRS, shape=_shape, traits={NEVER_FAILS})
def lrn_op(
    xp: Any, input: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Any:
    """x / (bias + alpha · the sum of x² over channels at most depth_radius away) ** beta, x [n, h, w, c].

    Raises InvalidArgument for another rank.
    """
    _check(input)
    x = single(input)
    scale = np.float32(bias) + np.float32(alpha) * _over_neighbours(x * x, depth_radius)
    return (x * scale ** np.float32(-beta)).astype(input.dtype, copy=False)


@op(
    "LRNGrad",
    inputs="input_grads: T; input_image: T; output_image: T",
    outputs="output: T",
    attrs=_ATTRS,
    shape=_shape,
    traits={NEVER_FAILS},
)
def lrn_grad_op(
    xp: Any,
    dy: Array,
    x: Array,
    y: Array,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Any:
    """The gradient of LRN with respect to its input.  Raises InvalidArgument unless the three have one shape."""
    _check(x)
    if dy.shape != x.shape or y.shape != x.shape:
        raise errors.invalid_argument(
            f"input, output and gradient must have one shape, not {text(x.shape)}, {text(y.shape)}, {text(dy.shape)}"
        )
    given, made, grad = single(x), single(y), single(dy)
    scale = np.float32(bias) + np.float32(alpha) * _over_neighbours(given * given, depth_radius)
    through = _over_neighbours(grad * made / scale, depth_radius)
    dx = grad * scale ** np.float32(-beta) - np.float32(2 * alpha * beta) * given * through
    return dx.astype(x.dtype, copy=False)


@lrn_op.gradient
def _(op: Operation, dout: Any) -> Any:
    attrs = {name: op[name] for name in ("depth_radius", "bias", "alpha", "beta")}
    return lrn_grad_op(dout, op.inputs[0], op.outputs[0], **attrs)


def lrn(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: str | None = None,
) -> Any:
    """Local response normalization of images [n, h, w, c]; see the op."""
    return lrn_op(input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)


local_response_normalization = lrn
