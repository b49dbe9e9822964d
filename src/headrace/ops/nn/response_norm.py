"""Local response normalization, and its gradient.

Called by: programs.  Threads: any; gradients as graph.
Source: TF 1.15 core/kernels/lrn_op.cc; Krizhevsky, Sutskever, Hinton, NIPS 2012, section 3.3
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, merge, text
from headrace.base.traits import NEVER_FAILS, SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.blocks import over_rows
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array

__all__ = ["local_response_normalization", "lrn"]

_FLAT, _TOTAL, _SCALE, _SHARE = range(4)  # slots of scratch memory
_ATTRS = (
    "depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; "
    "T: {half, bfloat16, float} = float"
)


def _shape(c: ShapeContext) -> Shape:
    found: Shape = None
    for at in range(len(c.op.inputs)):
        found = merge(found, c.with_rank(at, 4))
    return found


class _Neighbours:
    """For each channel of pixels of that shape, [pixels, channels], the sum over those at most `reach` away.

    Pixels lie one after the other with zeros between, so that each of the sum's terms is one long array.
    """

    def __init__(self, shape: tuple[int, ...], radius: int, dtype: np.dtype[Any]) -> None:
        pixels, channels = shape
        self._reach = reach = min(radius, channels - 1)
        gap = max(reach, 0)
        self._flat = scratch(_FLAT, (gap + pixels * (channels + gap),), dtype)
        self._total = scratch(_TOTAL, (pixels * (channels + gap),), dtype)
        self._flat[:gap] = 0
        lines = self._flat[gap:].reshape(pixels, channels + gap)
        lines[:, channels:] = 0
        self.values = lines[:, :channels]
        self._sums = self._total.reshape(lines.shape)[:, :channels]

    def summed(self) -> Array:
        """[pixels, channels], of what `values` [pixels, channels] has been set to, the first channel first."""
        reach = self._reach
        count = len(self._total) - reach
        if reach < 0:
            self._total[...] = 0
        elif not reach:
            self._total[...] = self._flat
        else:
            total = self._total[:count]
            np.add(self._flat[:count], self._flat[1 : 1 + count], out=total)
            for first in range(2, 2 * reach + 1):
                total += self._flat[first : first + count]
        return self._sums


def _scale(near: _Neighbours, x: Array, bias: float, alpha: float) -> Array:
    """bias + alpha · the sum of squares, [pixels, channels]."""
    np.multiply(x, x, out=near.values)
    scale = scratch(_SCALE, x.shape, x.dtype)
    np.multiply(near.summed(), np.float32(alpha), out=scale)
    scale += np.float32(bias)
    return scale


def _check(x: Array) -> None:
    if x.ndim != 4:
        raise errors.invalid_argument(
            f"in must be 4-dimensional: the input has shape {text(x.shape)}"
        )


@op(
    "LRN",
    inputs="input: T",
    outputs="output: T",
    attrs=_ATTRS,
    shape=_shape,
    traits={NEVER_FAILS, SHARES},
)
def lrn_op(
    xp: Any, input: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Any:
    """x / (bias + alpha · the sum of x² over channels at most depth_radius away) ** beta, x [n, h, w, c].

    Raises InvalidArgument for another rank.
    """
    _check(input)
    out = np.empty(input.shape, input.dtype)
    channels = input.shape[-1]
    if not out.size:
        return out
    rows, into = (each.reshape(-1, channels) for each in (input, out))

    def some(which: slice) -> None:
        x = single(rows[which])
        scale = _scale(_Neighbours(x.shape, depth_radius, x.dtype), x, bias, alpha)
        np.power(scale, np.float32(-beta), out=scale)
        if into.dtype == x.dtype:
            np.multiply(x, scale, out=into[which])
        else:
            into[which] = np.multiply(x, scale, out=scale)

    over_rows(len(rows), channels, some)
    return out


@op(
    "LRNGrad",
    inputs="input_grads: T; input_image: T; output_image: T",
    outputs="output: T",
    attrs=_ATTRS,
    shape=_shape,
    traits={NEVER_FAILS, SHARES},
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
    out = np.empty(x.shape, x.dtype)
    channels = x.shape[-1]
    if not out.size:
        return out
    xs, ys, dys, into = (each.reshape(-1, channels) for each in (x, y, dy, out))

    def some(which: slice) -> None:
        given, made, grad = (single(each[which]) for each in (xs, ys, dys))
        near = _Neighbours(given.shape, depth_radius, given.dtype)
        scale = _scale(near, given, bias, alpha)
        share = np.multiply(grad, made, out=scratch(_SHARE, scale.shape, scale.dtype))
        np.divide(share, scale, out=near.values)
        np.power(scale, np.float32(-beta), out=scale)
        scale *= grad
        np.multiply(given, np.float32(2 * alpha * beta), out=share)
        share *= near.summed()
        if into.dtype == scale.dtype:
            np.subtract(scale, share, out=into[which])
        else:
            into[which] = np.subtract(scale, share, out=scale)

    over_rows(len(xs), channels, some)
    return out


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
