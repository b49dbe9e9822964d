"""Batch normalization as graphs of earlier versions have it: two earlier fused ops, and the one before them.

Called by: imported graphs.  Threads: any; gradients as graph.
Source: TF 1.15 core/ops/nn_ops.cc; attrs as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import NEVER_FAILS
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.narrow import single
from headrace.ops.nn.batch_norm import (
    Array,
    batch_norm,
    batch_norm_grad_shape,
    batch_norm_shape,
    fused_batch_norm_grad_v3_op,
    normalized,
    second_derivative,
)
from headrace.ops.tables import make

__all__: list[str] = []

_COMMON = (
    "epsilon: float = 9.999999747378752e-05; {more}data_format: {{'NHWC', 'NCHW'}} = 'NHWC'; "
    "is_training: bool = true"
)
_FORWARD_ATTRS = _COMMON.format(more="exponential_avg_factor: float = 1.0; ")
_BACKWARD_ATTRS = _COMMON.format(more="")
_TYPES = {"": "T: {float}", "V2": "T: {half, bfloat16, float}; U: {float}"}


def _forward(version: str) -> OpSpec:
    """FusedBatchNorm of a version."""
    u = "U" if version else "T"

    @op(
        f"FusedBatchNorm{version}",
        inputs=f"x: T; scale: {u}; offset: {u}; mean: {u}; variance: {u}",
        outputs=f"y: T; batch_mean: {u}; batch_variance: {u}; reserve_space_1: {u}; reserve_space_2: {u}",
        attrs=f"{_TYPES[version]}; {_FORWARD_ATTRS}",
        shape=lambda c: batch_norm_shape(c)[:5],
        traits={NEVER_FAILS},
    )
    def forward(
        xp: Any,
        x: Array,
        scale: Array,
        offset: Array,
        mean: Array,
        variance: Array,
        *,
        epsilon: float,
        exponential_avg_factor: float,
        data_format: bytes,
        is_training: bool,
    ) -> Any:
        """The first five outputs of FusedBatchNormV3.  Raises InvalidArgument if shapes do not fit."""
        average = exponential_avg_factor
        given = x, scale, offset, mean, variance, epsilon, average, data_format, is_training
        return batch_norm(*given)[:5]

    return forward


def _backward(version: str) -> OpSpec:
    """FusedBatchNormGrad of a version."""
    u = "U" if version else "T"
    slope = "float" if version else "T"

    @op(
        f"FusedBatchNormGrad{version}",
        inputs=f"y_backprop: T; x: T; scale: {slope}; reserve_space_1: {u}; reserve_space_2: {u}",
        outputs=f"x_backprop: T; scale_backprop: {u}; offset_backprop: {u}; reserve_space_3: {u}; "
        f"reserve_space_4: {u}",
        attrs=f"{_TYPES[version]}; {_BACKWARD_ATTRS}",
        shape=batch_norm_grad_shape,
        traits={NEVER_FAILS},
    )
    def backward(
        xp: Any,
        dy: Array,
        x: Array,
        scale: Array,
        mean: Array,
        variance: Array,
        *,
        epsilon: float,
        data_format: bytes,
        is_training: bool,
    ) -> Any:
        """As FusedBatchNormGradV3.  Raises InvalidArgument if dy and x differ in shape."""
        assert fused_batch_norm_grad_v3_op.kernel is not None
        return fused_batch_norm_grad_v3_op.kernel(
            xp,
            dy,
            x,
            scale,
            mean,
            variance,
            np.empty(0, np.float32),
            epsilon=epsilon,
            data_format=data_format,
            is_training=is_training,
        )

    return backward


def _differentiate(forward: OpSpec, backward: OpSpec) -> None:
    @forward.gradient
    def _(op: Operation, *douts: Any) -> Any:
        training = op["is_training"]
        kept = op.outputs[3:5] if training else op.inputs[3:5]
        attrs = {name: op[name] for name in ("epsilon", "data_format", "is_training")}
        made = backward(douts[0], op.inputs[0], op.inputs[1], *kept, **attrs)
        return (*made[:3], None, None)

    backward.gradient(second_derivative)


for _version in _TYPES:
    _differentiate(_forward(_version), _backward(_version))


# -- before there were fused ones -------------------------------------------------------------


def _global_shape(c: ShapeContext) -> Shape:
    return c.with_rank("t", 4)


@op(
    "BatchNormWithGlobalNormalization",
    inputs="t: T; m: T; v: T; beta: T; gamma: T",
    outputs="result: T",
    attrs="T: numbertype; variance_epsilon: float; scale_after_normalization: bool",
    shape=_global_shape,
)
def batch_norm_with_global_normalization_op(
    xp: Any,
    t: Array,
    m: Array,
    v: Array,
    beta: Array,
    gamma: Array,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """(t - m) / sqrt(v + variance_epsilon), times gamma if scale_after_normalization, plus beta.

    t [n, h, w, c]; the others [c].  GraphDefs of versions below 9 have it.  Raises InvalidArgument if shapes do not
    fit.
    """
    if t.ndim != 4:
        raise errors.invalid_argument(f"input must be 4-dimensional{text(t.shape)}")
    for name, each in (("mean", m), ("variance", v), ("beta", beta), ("gamma", gamma)):
        if each.shape != t.shape[-1:]:
            raise errors.invalid_argument(
                f"{name} must have the {t.shape[-1]} channels of the input, not shape {text(each.shape)}"
            )
    values = [single(each) for each in (t, m, v, beta, gamma)]
    scale = values[4] if scale_after_normalization else np.ones_like(values[4])
    made = normalized(values[0], scale, values[3], values[1], values[2], variance_epsilon)
    return made.astype(t.dtype, copy=False)


@batch_norm_with_global_normalization_op.gradient
def _(op: Operation, dout: Any) -> Any:
    t, m, v, _, gamma = op.inputs
    epsilon, scales = op["variance_epsilon"], op["scale_after_normalization"]
    inverse = make.Rsqrt(v + epsilon)
    factor = inverse * gamma if scales else inverse
    rows = [0, 1, 2]
    to_beta = make.Sum(dout, rows)
    centered = make.Sum(dout * (t - m), rows)  # of each channel
    to_gamma = centered * inverse if scales else gamma * 0.0
    to_v = centered * factor * (inverse * inverse) * -0.5
    return dout * factor, -to_beta * factor, to_v, to_beta, to_gamma
