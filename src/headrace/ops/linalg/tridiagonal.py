"""Tridiagonal systems and products, and cross products of vectors.

Called by: programs, library.matrices.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/linalg_ops.cc, math_ops.cc; nodes of gradients as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import matrices
from headrace.ops.array.constants import constant, zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import pad
from headrace.ops.array.shapes import expand_dims, matrix_transpose, rank
from headrace.ops.math.casting import conj
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__ = ["cross"]

Array = np.ndarray[Any, Any]
_TYPES = "T: {double, float, complex64, complex128}"


def _solved_shape(c: ShapeContext) -> Shape:
    diagonals, rhs = c.with_rank_at_least("diagonals", 2), c.with_rank_at_least("rhs", 2)
    if diagonals is None or rhs is None:
        return rhs
    batch = shape_rules.merge(diagonals[:-2], rhs[:-2])
    shape_rules.merge_sizes(
        diagonals[-2], 3, f"diagonals {text(diagonals)} have three rows: above, main, below"
    )
    rows = shape_rules.merge_sizes(
        diagonals[-1], rhs[-2], f"sizes of diagonals {text(diagonals)} and of rhs {text(rhs)}"
    )
    return None if batch is None else (*batch, rows, rhs[-1])


@op(
    "TridiagonalSolve",
    inputs="diagonals: T; rhs: T",
    outputs="output: T",
    attrs=f"partial_pivoting: bool = true; perturb_singular: bool = false; {_TYPES}",
    shape=_solved_shape,
)
def tridiagonal_solve_op(
    xp: Any, diagonals: Array, rhs: Array, *, partial_pivoting: bool, perturb_singular: bool
) -> Array:
    """x of tridiagonal systems.

    diagonals [..., 3, n]: above (its last element is not read), main, below (its first is not); rhs [..., n, k].
    A pivot of 0 gives infinities and NaN.
    Raises InvalidArgument if shapes do not fit, Unimplemented for perturb_singular.
    """
    if perturb_singular:
        if not partial_pivoting:
            raise errors.invalid_argument(
                "Setting perturb_singular requires also setting partial_pivoting"
            )
        raise errors.UnimplementedError(
            None,
            None,
            "perturb_singular is not offered: add a multiple of 1 to the main diagonal",
        )
    if diagonals.ndim < 2:
        raise errors.invalid_argument(f"Input tensor 0 must have rank >= 2, got {diagonals.ndim}")
    sizes = f"diagonals have shape {text(diagonals.shape)}, rhs {text(rhs.shape)}"
    if diagonals.ndim != rhs.ndim:
        raise errors.invalid_argument(f"All input tensors must have the same rank.  The {sizes}")
    if diagonals.shape[:-2] != rhs.shape[:-2]:
        raise errors.invalid_argument(
            f"All input tensors must have the same outer dimensions.  The {sizes}"
        )
    if diagonals.shape[-2] != 3:
        raise errors.invalid_argument(
            f"Expected diagonals to be provided as a matrix with 3 rows, got {diagonals.shape[-2]} rows: {sizes}"
        )
    if diagonals.shape[-1] != rhs.shape[-2]:
        raise errors.invalid_argument(
            f"Expected the same number of left-hand sides and right-hand sides, got {diagonals.shape[-1]} and "
            f"{rhs.shape[-2]}: {sizes}"
        )
    if not rhs.size:
        return rhs.copy()
    return matrices.solved_tridiagonal(diagonals, rhs, partial_pivoting)


@tridiagonal_solve_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    diagonals, x = op.inputs[0], op.outputs[0]
    transposed = _transposed(diagonals)
    drhs = tridiagonal_solve_op(
        transposed,
        dout,
        partial_pivoting=op["partial_pivoting"],
        perturb_singular=op["perturb_singular"],
    )
    return -_outer(drhs, x), drhs


def _transposed(diagonals: Tensor) -> Tensor:
    main = diagonals[..., 1, :]
    if diagonals.shape.is_fully_defined():
        nothing = zeros([*diagonals.shape[:-2].as_list(), 1], dtype=diagonals.dtype.base_dtype)
        above = concat((diagonals[..., 2, 1:], nothing), axis=-1)
        below = concat((nothing, diagonals[..., 0, :-1]), axis=-1)
    else:
        above = pad(diagonals[..., 2, 1:], _last_padding(diagonals, 0, 1, 2))
        below = pad(diagonals[..., 0, :-1], _last_padding(diagonals, 1, 0, 2))
    return stack([above, main, below], axis=-2)


def _last_padding(diagonals: Tensor, before: int, after: int, drop: int) -> Tensor:
    outer = zeros((rank(diagonals) - drop, 2), dtype="int32")
    return concat((outer, constant([[before, after]])), axis=0)


def _outer(x: Tensor, y: Tensor) -> Tensor:
    """Sums over columns of x times y, and y one row on, and one back: the diagonals' gradients but for the sign."""
    along = reduce_sum(x * y, axis=-1)
    if y.shape.is_fully_defined():
        row = zeros([*y.shape[:-2].as_list(), 1, y.shape[-1]], dtype=y.dtype.base_dtype)
        above = reduce_sum(x * concat((y[..., 1:, :], row), axis=-2), axis=-1)
        below = reduce_sum(x * concat((row, y[..., :-1, :]), axis=-2), axis=-1)
    else:
        above = reduce_sum(x * pad(y[..., 1:, :], _row_padding(y, 0, 1)), axis=-1)
        below = reduce_sum(x * pad(y[..., :-1, :], _row_padding(y, 1, 0)), axis=-1)
    return stack([above, along, below], axis=-2)


def _row_padding(x: Tensor, before: int, after: int) -> Tensor:
    outer = zeros((rank(x) - 2, 2), dtype="int32")
    return concat((outer, constant([[before, after], [0, 0]])), axis=0)


def _product_shape(c: ShapeContext) -> Shape:
    for name in ("superdiag", "maindiag", "subdiag"):
        found = c.with_rank_at_least(name, 2)
        first = c.shape("superdiag")
        if found is not None and first is not None:
            shape_rules.merge(found, first)
            shape_rules.merge_sizes(
                found[-2], 1, f"{name} has shape {text(found)}: a matrix of one row"
            )
    rhs = c.with_rank_at_least("rhs", 2)
    diagonal = c.shape("superdiag")
    if rhs is not None and diagonal is not None:
        shape_rules.merge_sizes(
            diagonal[-1], rhs[-2], f"sizes of diagonals {text(diagonal)} and of rhs {text(rhs)}"
        )
        shape_rules.merge(diagonal[:-2], rhs[:-2])
    return rhs


@op(
    "TridiagonalMatMul",
    inputs="superdiag: T; maindiag: T; subdiag: T; rhs: T",
    outputs="output: T",
    attrs=_TYPES,
    shape=_product_shape,
)
def tridiagonal_matmul_op(
    xp: Any, superdiag: Array, maindiag: Array, subdiag: Array, rhs: Array
) -> Array:
    """Products of tridiagonal matrices and rhs [..., n, k].

    diagonals [..., 1, n]; of the upper one the last element is not read, of the lower one the first.
    Raises InvalidArgument if shapes do not fit.
    """
    for each in (superdiag, maindiag, subdiag):
        if (
            rhs.ndim < 2
            or each.ndim != rhs.ndim
            or each.shape != (*rhs.shape[:-2], 1, rhs.shape[-2])
        ):
            raise errors.invalid_argument(
                f"Superdiag, maindiag and subdiag must be of shape [..., 1, n] for rhs [..., n, k], not "
                f"{text(superdiag.shape)}, {text(maindiag.shape)} and {text(subdiag.shape)} for {text(rhs.shape)}"
            )
    above, main, below = (x.swapaxes(-1, -2) for x in (superdiag, maindiag, subdiag))
    out = main * rhs
    out[..., :-1, :] += above[..., :-1, :] * rhs[..., 1:, :]
    out[..., 1:, :] += below[..., 1:, :] * rhs[..., :-1, :]
    return out


@tridiagonal_matmul_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, ...]:
    above, main, below = (matrix_transpose(conj(each)) for each in op.inputs[:3])
    rhs = conj(op.inputs[3])
    dabove = reduce_sum(_left(rhs) * dout, axis=-1)
    dmain = reduce_sum(rhs * dout, axis=-1)
    dbelow = reduce_sum(_right(rhs) * dout, axis=-1)
    drhs = _right(above * dout) + main * dout + _left(below * dout)
    return expand_dims(dabove, -2), expand_dims(dmain, -2), expand_dims(dbelow, -2), drhs


def _left(x: Tensor) -> Tensor:
    """Each row is the next one, the last 0."""
    padding = _row_padding(x, 0, 1)
    return pad(x[..., 1:, :], padding)


def _right(x: Tensor) -> Tensor:
    """Each row is the one before, the first 0."""
    padding = _row_padding(x, 1, 0)
    return pad(x[..., :-1, :], padding)


# -- cross products ---------------------------------------------------------------------------


def _cross_shape(c: ShapeContext) -> Shape:
    a, b = c.with_rank_at_least("a", 1), c.with_rank_at_least("b", 1)
    for each in (a, b):
        if each is not None and each[-1] not in (3, None):
            raise ValueError(
                f"Dimension must be 3 but is {each[-1]}: cross products are of vectors of three, not {text(each)}"
            )
    return shape_rules.merge(a, b)


@op(
    "Cross",
    inputs="a: T; b: T",
    outputs="product: T",
    attrs=(
        "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
        "uint64}"
    ),
    shape=_cross_shape,
)
def cross(xp: Any, a: Array, b: Array) -> Array:
    """Cross products of vectors [..., 3].

    Raises InvalidArgument if shapes differ, FailedPrecondition if they are not of vectors of three.
    """
    if a.shape != b.shape:
        raise errors.invalid_argument(
            f"Both inputs must be of same shape: {text(a.shape)} vs. {text(b.shape)}"
        )
    if a.ndim < 1:
        raise errors.invalid_argument(f"Input must be at least 1D{text(a.shape)}")
    if a.shape[-1] != 3:
        raise errors.FailedPreconditionError(
            None,
            None,
            "Cross-products are only defined for 3-element vectors.  "
            f"The inputs have shape {text(a.shape)}",
        )
    x, y, z = (a[..., at] for at in range(3))
    u, v, w = (b[..., at] for at in range(3))
    return np.stack((y * w - z * v, z * u - x * w, x * v - y * u), axis=-1).astype(
        a.dtype, copy=False
    )


@cross.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    a, b = op.inputs
    return make.Cross(b, dout), make.Cross(dout, a)
