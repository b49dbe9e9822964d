"""A step of a GRU as one op, and the gradients.

Called by: library.contrib, programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/gru_ops.cc, contrib/rnn); values checked against the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base.shapes import Shape
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.array.joining import concat
from headrace.ops.linalg.products import matmul
from headrace.ops.nn.recurrent import check_like, check_states, need, need_rank, need_size, sigmoid
from headrace.ops.tables import make

__all__: list[str] = []

Array = np.ndarray[Any, Any]


def _check_gru(x: Array, h: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array) -> None:
    """Raises InvalidArgument."""
    need_rank(x, "x", 2)
    need_rank(h, "h_prev", 2)
    depth, units = x.shape[1], h.shape[1]
    check_states(len(x), units, h_prev=h)
    for name, kernel, bias, gates in (("ru", w_ru, b_ru, 2), ("c", w_c, b_c, 1)):
        size = "cell_size * 2" if gates == 2 else "cell_size"
        need(kernel.ndim == 2, f"Rank of w_{name} must be 2, got {kernel.ndim}")
        need_size(kernel, f"w_{name}", 0, depth + units, "input_size + cell_size")
        need_size(kernel, f"w_{name}", 1, gates * units, size)
        need(bias.ndim == 1, f"Rank of b_{name} must be 1, got {bias.ndim}")
        need_size(bias, f"b_{name}", 0, gates * units, size)


def _gru_shapes(c: ShapeContext) -> list[Shape]:
    x, h = c.with_rank("x", 2), c.with_rank("h_prev", 2)
    assert x is not None
    assert h is not None
    return [(x[0], h[1])] * 4


_GRU_INPUTS = "x: T; h_prev: T; w_ru: T; w_c: T; b_ru: T; b_c: T"


@op(
    "GRUBlockCell",
    inputs=_GRU_INPUTS,
    outputs="r: T; u: T; c: T; h: T",
    attrs="T: {float}",
    shape=_gru_shapes,
)
def gru_block_cell_op(
    xp: Any, x: Array, h_prev: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array
) -> Any:
    """A step of a GRU: gates of resetting and updating, the candidate and the outputs, [batch, units] each.

    x [batch, depth]; h_prev [batch, units]; w_ru [depth + units, 2 units]; w_c [depth + units, units]; b_ru [2 units];
    b_c [units].  Raises InvalidArgument.
    """
    _check_gru(x, h_prev, w_ru, w_c, b_ru, b_c)
    gates = sigmoid(np.concatenate([x, h_prev], 1) @ w_ru + b_ru)
    r, u = np.split(gates, 2, axis=1)
    c = np.tanh(np.concatenate([x, h_prev * r], 1) @ w_c + b_c)
    return np.ascontiguousarray(r), np.ascontiguousarray(u), c, (1 - u) * c + u * h_prev


def _gru_grad_shapes(c: ShapeContext) -> list[Shape]:
    x, h = c.with_rank("x", 2), c.with_rank("h_prev", 2)
    kernel = c.with_rank("w_ru", 2)
    assert x is not None
    assert h is not None
    assert kernel is not None
    state = (x[0], h[1])
    return [x, state, state, (x[0], kernel[1])]


@op(
    "GRUBlockCellGrad",
    inputs=f"{_GRU_INPUTS}; r: T; u: T; c: T; d_h: T",
    outputs="d_x: T; d_h_prev: T; d_c_bar: T; d_r_bar_u_bar: T",
    attrs="T: {float}",
    shape=_gru_grad_shapes,
)
def gru_block_cell_grad(
    xp: Any,
    x: Array,
    h_prev: Array,
    w_ru: Array,
    w_c: Array,
    b_ru: Array,
    b_c: Array,
    r: Array,
    u: Array,
    c: Array,
    d_h: Array,
) -> Any:
    """Gradients of GRUBlockCell's inputs and state, and of candidate and gates before their activation.

    Raises InvalidArgument.
    """
    _check_gru(x, h_prev, w_ru, w_c, b_ru, b_c)
    check_like(h_prev.shape, r=r, u=u, c=c, d_h=d_h)
    depth = x.shape[1]
    dc = d_h * (1 - u) * (1 - c * c)
    du = d_h * (h_prev - c) * u * (1 - u)
    by_candidate = dc @ w_c.T
    reset = by_candidate[:, depth:]
    dr = reset * h_prev * r * (1 - r)
    gates = np.concatenate([dr, du], 1)
    by_gates = gates @ w_ru.T
    dx = by_gates[:, :depth] + by_candidate[:, :depth]
    return dx, by_gates[:, depth:] + reset * r + d_h * u, dc, gates


@gru_block_cell_op.gradient
def _(op: Operation, *grads: Any) -> Any:
    x, h = op.inputs[0], op.inputs[1]
    dx, dh, candidate, gates = gru_block_cell_grad(*op.inputs, *op.outputs[:3], grads[3])
    of_gates = matmul(concat([x, h], 1), gates, transpose_a=True)
    held = concat([x, h * op.outputs[0]], 1)
    of_candidate = matmul(held, candidate, transpose_a=True)
    return [dx, dh, of_gates, of_candidate, make.BiasAddGrad(gates), make.BiasAddGrad(candidate)]
