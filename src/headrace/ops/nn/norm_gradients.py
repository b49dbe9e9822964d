"""The second derivative of batch normalization: the first one is built of simple ops, and they are differentiated.

Called by: ops.nn.batch_norm, when a graph asks for it.  Threads: as graph.
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.gradients import gradients
from headrace.graph.graph import Operation
from headrace.ops._kernels.windows import channels_last
from headrace.ops.array.shapes import transpose
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_mean, reduce_sum
from headrace.ops.tables import make

__all__: list[str] = []


def differentiated(op: Operation, *douts: Any) -> tuple[Any, ...]:
    """Of a FusedBatchNormGrad of any version: for dy, x and scale; None for the rest."""
    dy, x, scale, mean, variance = op.inputs[:5]
    wanted = [
        (made, dout)
        for made, dout in zip(_composed(op, dy, x, scale, mean, variance), douts, strict=False)
        if dout is not None
    ]
    ys, grad_ys = [y for y, _ in wanted], [dout for _, dout in wanted]
    inputs = [dy, x, scale]  # of which dy may depend on the others
    made = gradients(ys, inputs, grad_ys, stop_gradients=inputs)
    return (*made, *[None] * (len(op.inputs) - 3))


def _composed(
    op: Operation, dy: Any, x: Any, scale: Any, mean: Any, variance: Any
) -> tuple[Any, Any, Any]:
    """(x_backprop, scale_backprop, offset_backprop) as a function of dy, x and scale."""
    kind, rank = x.dtype.base_dtype, len(op["data_format"])
    last = channels_last(op["data_format"])
    first = [0, *range(2, rank), 1]  # channels go last
    back = [0, rank - 1, *range(1, rank - 1)]
    rows, grads = cast(x, dtypes.float32), cast(dy, dtypes.float32)
    if not last:
        rows, grads = transpose(rows, first), transpose(grads, first)
    axes = list(range(rank - 1))
    if op["is_training"]:
        mean = reduce_mean(rows, axes)
        variance = reduce_mean(make.Square(rows - mean), axes)
    inverse = make.Rsqrt(variance + op["epsilon"])
    standard = (rows - mean) * inverse
    to_scale, to_offset = reduce_sum(grads * standard, axes), reduce_sum(grads, axes)
    if op["is_training"]:
        shared = reduce_mean(grads, axes) + standard * reduce_mean(grads * standard, axes)
        grads = grads - shared
    to_x = grads * (scale * inverse)
    if not last:
        to_x = transpose(to_x, back)
    return cast(to_x, kind), to_scale, to_offset
