"""Systems of linear equations, and Cholesky's decomposition by which many are solved.

Half precision is computed in single and rounded once.  A matrix that is not positive definite, or has no inverse, is
an error, as in 1.15; TensorFlow 2.21 gives NaN in some places.
Called by: programs, library.matrices.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/ops/linalg_ops.cc; gradients from Murray, "Differentiation of the Cholesky decomposition", 2016,
and Giles, "Collected matrix derivative results", 2008; nodes as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import matrices
from headrace.ops.array.shapes import adjoint, matrix_transpose, shape
from headrace.ops.flow.control_flow import cond
from headrace.ops.linalg.bands import matrix_band_part
from headrace.ops.linalg.diagonals import eye, matrix_diag_part, matrix_set_diag
from headrace.ops.linalg.products import matmul
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make
from headrace.run.exec.worker_pool import hold_blas

__all__ = [
    "cholesky",
    "cholesky_solve",
    "matrix_solve",
    "matrix_solve_ls",
    "matrix_triangular_solve",
]

Array = np.ndarray[Any, Any]
MATRICES = "{double, float, half, complex64, complex128}"
_LARGE = 64  # rows from which BLAS would use threads of its own


def wide(x: Array) -> Array:
    """x in a precision that LAPACK has."""
    if x.shape[-1:] and x.shape[-1] >= _LARGE:
        hold_blas()
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def check_matrices(input: Array, square: bool = True) -> None:
    """Raises InvalidArgument unless the input holds matrices, square ones if asked for."""
    if input.ndim < 2:
        raise errors.invalid_argument(
            f"Input tensor 0 must have rank >= 2, got {input.ndim}: its last two dimensions are matrices"
        )
    if square and input.shape[-1] != input.shape[-2]:
        raise errors.invalid_argument(
            f"Input matrix must be square.  The input has shape {text(input.shape)}"
        )


def square_shape(c: ShapeContext) -> Shape:
    """The shape of the first input, which holds square matrices."""
    found = c.with_rank_at_least(0, 2)
    if found is None:
        return None
    side = _same(found[-2], found[-1], f"matrices of {text(found)} are not square")
    return (*found[:-2], side, side)


def _same(one: int | None, other: int | None, why: str) -> int | None:
    if one is not None and other is not None and one != other:
        raise ValueError(f"Dimensions must be equal, but are {one} and {other}: {why}")
    return other if one is None else one


# -- Cholesky ---------------------------------------------------------------------------------


@op("Cholesky", inputs="input: T", outputs="output: T", attrs=f"T: {MATRICES}", shape=square_shape)
def cholesky(xp: Any, input: Array) -> Array:
    """Lower triangles L with L Lᴴ = input; only the input's lower triangles are read.

    input [..., n, n].  Raises InvalidArgument unless every matrix is square and positive definite.
    """
    check_matrices(input)
    if not input.size:
        return input.copy()
    try:
        found = np.linalg.cholesky(wide(input))
    except np.linalg.LinAlgError:
        found = None
    if found is None or not np.isfinite(found).all():
        raise errors.invalid_argument(
            "Cholesky decomposition was not successful. The input might not be valid: a matrix is not positive definite"
        )
    return found.astype(input.dtype, copy=False)


@cholesky.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    lower = op.outputs[0]
    rows = shape(lower)[-1]
    identity = eye(rows, batch_shape=shape(lower)[:-2], dtype=lower.dtype)
    inverse = matrix_triangular_solve(lower, identity)
    inner = matmul(lower, dout, adjoint_a=True)
    inner = matrix_set_diag(inner, 0.5 * matrix_diag_part(inner))
    inner = matrix_band_part(inner, -1, 0)
    outer = matmul(matmul(inverse, inner, adjoint_a=True), inverse)
    outer = outer + adjoint(outer)
    made: Tensor = outer * 0.5
    return made


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """x of ``A x = rhs``, where chol [..., n, n] is A's Cholesky decomposition; rhs [..., n, k]."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        y = make.MatrixTriangularSolve(chol, rhs, adjoint=False, lower=True)
        made: Tensor = make.MatrixTriangularSolve(chol, y, adjoint=True, lower=True)
        return made


# -- MatrixSolve ------------------------------------------------------------------------------


def _solved_shape(c: ShapeContext) -> Shape:
    matrix, rhs = c.with_rank_at_least("matrix", 2), c.with_rank_at_least("rhs", 2)
    if matrix is None or rhs is None:
        return rhs
    side = _same(matrix[-2], matrix[-1], f"matrices of {text(matrix)} are not square")
    rows = _same(side, rhs[-2], f"rows of the matrix {text(matrix)} and of rhs {text(rhs)}")
    return (*shape_rules.merge(matrix[:-2], rhs[:-2]), rows, rhs[-1])  # type: ignore[misc]


def _check_system(matrix: Array, rhs: Array, square: bool) -> None:
    check_matrices(matrix, False)
    if matrix.ndim != rhs.ndim:
        raise errors.invalid_argument(
            "All input tensors must have the same rank.  "
            f"The matrix has shape {text(matrix.shape)}, rhs {text(rhs.shape)}"
        )
    if matrix.shape[:-2] != rhs.shape[:-2]:
        raise errors.invalid_argument(
            "All input tensors must have the same outer dimensions.  "
            f"The matrix has shape {text(matrix.shape)}, rhs {text(rhs.shape)}"
        )
    if square and matrix.shape[-1] != matrix.shape[-2]:
        raise errors.invalid_argument(
            f"First input (lhs) must be a square matrix.  Its shape is {text(matrix.shape)}"
        )
    if matrix.shape[-2] != rhs.shape[-2]:
        raise errors.invalid_argument(
            "Input matrix and rhs are incompatible.  "
            f"The matrix has shape {text(matrix.shape)}, rhs {text(rhs.shape)}: their rows have to be as many"
        )


@op(
    "MatrixSolve",
    inputs="matrix: T; rhs: T",
    outputs="output: T",
    attrs=f"adjoint: bool = false; T: {MATRICES}",
    shape=_solved_shape,
)
def matrix_solve_op(xp: Any, matrix: Array, rhs: Array, *, adjoint: bool) -> Array:
    """x of ``matrix x = rhs``, or of ``matrixᴴ x = rhs``.

    matrix [..., n, n], rhs [..., n, k].  Raises InvalidArgument if shapes do not fit, or a matrix has no inverse.
    """
    _check_system(matrix, rhs, square=True)
    if not matrix.size or not rhs.size:
        return np.zeros(rhs.shape, rhs.dtype)
    left = wide(matrix)
    if adjoint:
        left = left.conj().swapaxes(-1, -2)
    try:
        return np.linalg.solve(left, wide(rhs)).astype(rhs.dtype, copy=False)
    except np.linalg.LinAlgError:
        raise errors.invalid_argument(
            "Input matrix is not invertible.  It is singular, exactly"
        ) from None


@matrix_solve_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    turned, x = op["adjoint"], op.outputs[0]
    drhs = matrix_solve_op(op.inputs[0], dout, adjoint=not turned)
    if turned:
        dmatrix = -matmul(x, drhs, adjoint_b=True)
    else:
        dmatrix = -matmul(drhs, x, adjoint_b=True)
    return dmatrix, drhs


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """x of ``matrix x = rhs``, or of ``matrixᴴ x = rhs``; matrix [..., n, n], rhs [..., n, k]."""
    made: Tensor = matrix_solve_op(matrix, rhs, adjoint=adjoint, name=name)
    return made


# -- MatrixTriangularSolve --------------------------------------------------------------------


def _triangular_shape(c: ShapeContext) -> Shape:
    matrix, rhs = c.with_rank_at_least("matrix", 2), c.with_rank_at_least("rhs", 2)
    if matrix is None or rhs is None:
        return rhs
    side = _same(matrix[-2], matrix[-1], f"matrices of {text(matrix)} are not square")
    rows = _same(side, rhs[-2], f"rows of the matrix {text(matrix)} and of rhs {text(rhs)}")
    batch = shape_rules.broadcast(matrix[:-2], rhs[:-2])
    return None if batch is None else (*batch, rows, rhs[-1])


@op(
    "MatrixTriangularSolve",
    inputs="matrix: T; rhs: T",
    outputs="output: T",
    attrs=(
        "lower: bool = true; adjoint: bool = false; "
        "T: {bfloat16, double, float, half, complex64, complex128}"
    ),
    shape=_triangular_shape,
)
def matrix_triangular_solve_op(
    xp: Any, matrix: Array, rhs: Array, *, lower: bool, adjoint: bool
) -> Array:
    """x of ``matrix x = rhs``, or of ``matrixᴴ x = rhs``; one triangle of the matrix is read.

    matrix [..., n, n], rhs [..., n, k]; leading dimensions broadcast.
    Raises InvalidArgument if shapes do not fit, or a diagonal element is 0.
    """
    for at, each in enumerate((matrix, rhs)):
        if each.ndim < 2:
            raise errors.invalid_argument(
                f"In[{at}] ndims must be >= 2: {each.ndim}.  The last two are matrices"
            )
    sizes = f"the matrix has shape {text(matrix.shape)}, rhs {text(rhs.shape)}"
    if matrix.shape[-1] != matrix.shape[-2]:
        raise errors.invalid_argument(
            f"In[0] matrices in the last dimensions must be square: {sizes}"
        )
    if matrix.shape[-1] != rhs.shape[-2]:
        raise errors.invalid_argument(
            f"In[0] mismatch In[1] shape: {matrix.shape[-1]} vs. {rhs.shape[-2]}: {sizes}"
        )
    try:
        batch = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    except ValueError:
        raise errors.invalid_argument(
            f"In[0] and In[1] must have compatible batch dimensions: {sizes}"
        ) from None
    if not matrix.size or not rhs.size:
        return np.zeros((*batch, *rhs.shape[-2:]), rhs.dtype)
    left = wide(matrix)
    if not np.diagonal(left, axis1=-2, axis2=-1).all():
        raise errors.invalid_argument(
            "Input matrix is not invertible.  An element of its diagonal is 0"
        )
    if adjoint:
        left, lower = left.conj().swapaxes(-1, -2), not lower
    with np.errstate(over="ignore", invalid="ignore"):
        found = matrices.solved_triangular(left, wide(rhs), lower)
    return found.astype(rhs.dtype, copy=False)


@matrix_triangular_solve_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    matrix, rhs = op.inputs
    x, turned, lower = op.outputs[0], op["adjoint"], op["lower"]
    drhs = matrix_triangular_solve(matrix, dout, lower=lower, adjoint=not turned)
    if turned:
        dmatrix = -matmul(x, drhs, adjoint_b=True)
    else:
        dmatrix = -matmul(drhs, x, adjoint_b=True)
    dmatrix = matrix_band_part(dmatrix, -1, 0) if lower else matrix_band_part(dmatrix, 0, -1)
    known = matrix.raw_shape, rhs.raw_shape
    if (
        all(each is not None and shape_rules.is_fully_defined(each[:-2]) for each in known)
        and known[0][:-2] == known[1][:-2]  # type: ignore[index]
    ):
        return dmatrix, drhs
    shape_matrix, shape_rhs = shape(matrix), shape(rhs)
    axes = broadcast_gradient_args(shape_matrix[:-2], shape_rhs[:-2])
    return (
        make.Reshape(reduce_sum(dmatrix, axis=axes[0]), shape_matrix),
        make.Reshape(reduce_sum(drhs, axis=axes[1]), shape_rhs),
    )


def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """x of ``matrix x = rhs``, or of ``matrixᴴ x = rhs``; of the matrix one triangle is read.

    matrix [..., n, n], rhs [..., n, k]; leading dimensions broadcast.
    """
    with name_scope(name, "triangular_solve", [matrix, rhs]):
        made: Tensor = matrix_triangular_solve_op(matrix, rhs, lower=lower, adjoint=adjoint)
        return made


# -- least squares ----------------------------------------------------------------------------


def _least_shape(c: ShapeContext) -> Shape:
    matrix, rhs = c.with_rank_at_least("matrix", 2), c.with_rank_at_least("rhs", 2)
    c.with_rank("l2_regularizer", 0)
    if matrix is None or rhs is None:
        return None if rhs is None else (*rhs[:-2], None, rhs[-1])
    _same(matrix[-2], rhs[-2], f"rows of the matrix {text(matrix)} and of rhs {text(rhs)}")
    return (*shape_rules.merge(matrix[:-2], rhs[:-2]), matrix[-1], rhs[-1])  # type: ignore[misc]


@op(
    "MatrixSolveLs",
    inputs="matrix: T; rhs: T; l2_regularizer: double",
    outputs="output: T",
    attrs=f"T: {MATRICES}; fast: bool = true",
    shape=_least_shape,
)
def matrix_solve_ls_op(
    xp: Any, matrix: Array, rhs: Array, l2_regularizer: Any, *, fast: bool
) -> Array:
    """x for which |matrix x - rhs|² + l2_regularizer |x|² is least.

    matrix [..., m, n], rhs [..., m, k].  fast: by the normal equations; else by singular values, without the
    regularizer, and the shortest x of several: 0 for a matrix with infinities or NaN.
    Raises InvalidArgument if shapes do not fit, the regularizer is negative, or (fast) a matrix has no full rank.
    """
    if np.ndim(l2_regularizer):
        raise errors.invalid_argument(
            f"l2_regularizer must be scalar, got shape {text(np.shape(l2_regularizer))}"
        )
    if l2_regularizer < 0:
        raise errors.invalid_argument(f"l2_regularizer must be >= 0, not {float(l2_regularizer)}")
    _check_system(matrix, rhs, square=False)
    rows, columns = matrix.shape[-2:]
    if not matrix.size or not rhs.size:
        return np.zeros((*matrix.shape[:-2], columns, rhs.shape[-1]), rhs.dtype)
    left, right = wide(matrix), wide(rhs)
    if not fast:
        least = float(np.finfo(left.dtype).eps) * min(rows, columns)  # as Eigen's decompositions
        # LAPACK may never end with infinities.
        known = np.isfinite(left).all(axis=(-1, -2), keepdims=True)
        inverse = np.linalg.pinv(np.where(known, left, 0), least)
        shortest: Array = np.where(known, np.matmul(inverse, right), 0)
        return shortest.astype(rhs.dtype, copy=False)
    turned = left.conj().swapaxes(-1, -2)
    tall = rows >= columns
    gram = np.matmul(turned, left) if tall else np.matmul(left, turned)
    gram = gram + np.eye(gram.shape[-1], dtype=gram.dtype) * gram.dtype.type(l2_regularizer)
    try:
        factor = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        raise errors.invalid_argument(
            "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger "
            f"l2_regularizer > 0 than {float(l2_regularizer)}"
        ) from None
    y = matrices.solved_triangular(factor, np.matmul(turned, right) if tall else right, True)
    x = matrices.solved_triangular(factor.conj().swapaxes(-1, -2), y, False)
    return (x if tall else np.matmul(turned, x)).astype(rhs.dtype, copy=False)


@matrix_solve_ls_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor, None]:
    if not op["fast"]:
        raise ValueError(
            "Gradient not defined for fast=False: use fast=True, with an l2_regularizer if the matrix has no full rank"
        )
    sizes = op.inputs[0].raw_shape
    known = None if sizes is None else sizes[-2:]
    if known is not None and None not in known:
        if known[-2] >= known[-1]:  # type: ignore[operator]
            return _overdetermined(op, dout)
        return _underdetermined(op, dout)
    rows_columns = shape(op.inputs[0])[-2:]
    da, db = cond(
        make.GreaterEqual(rows_columns[-2], rows_columns[-1]),
        lambda: _overdetermined(op, dout)[:2],
        lambda: _underdetermined(op, dout)[:2],
    )
    return da, db, None


def _overdetermined(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor, None]:
    a, b = op.inputs[:2]
    x = op.outputs[0]
    l2 = cast(op.inputs[2], a.dtype.base_dtype)
    chol = _regularized_cholesky(a, l2, first_kind=True)
    z = cholesky_solve(chol, dout)
    xz = matmul(x, z, adjoint_b=True)
    symmetric = xz + (adjoint(xz) if a.dtype.is_complex else matrix_transpose(xz))
    da = -matmul(a, symmetric) + matmul(b, z, adjoint_b=True)
    return da, matmul(a, z), None


def _underdetermined(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor, None]:
    a, b = op.inputs[:2]
    l2 = cast(op.inputs[2], a.dtype.base_dtype)
    chol = _regularized_cholesky(a, l2, first_kind=False)
    db = cholesky_solve(chol, matmul(a, dout))
    z = cholesky_solve(chol, b)
    bz = -matmul(db, matmul(z, a, adjoint_a=True))
    rest = dout - matmul(a, db, adjoint_a=True)
    return bz + matmul(z, rest, adjoint_b=True), db, None


def _regularized_cholesky(matrix: Tensor, l2: Any, first_kind: bool, always: bool = True) -> Tensor:
    """Cholesky's decomposition of matrixᴴ matrix + l2 (of matrix matrixᴴ + l2 if not `first_kind`)."""
    gram = matmul(matrix, matrix, adjoint_a=first_kind, adjoint_b=not first_kind)
    if always or isinstance(l2, Tensor) or l2 != 0:
        sizes = shape(matrix)
        batch = sizes[:-2]
        identity = eye(
            sizes[-1] if first_kind else sizes[-2], batch_shape=batch, dtype=matrix.dtype
        )
        gram = gram + l2 * identity
    made: Tensor = cholesky(gram)
    return made


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """x for which |matrix x - rhs|² + l2_regularizer |x|² is least; matrix [..., m, n], rhs [..., m, k].

    fast: by the normal equations; else by singular values, without the regularizer and without a gradient.
    """
    if not fast:
        made: Tensor = matrix_solve_ls_op(matrix, rhs, l2_regularizer, fast=fast, name=name)
        return made
    with name_scope(name, "matrix_solve_ls", [matrix, rhs, l2_regularizer]):
        matrix = convert(matrix, name="matrix")
        sizes = matrix.raw_shape
        known = None if sizes is None else sizes[-2:]
        if known is not None and None not in known:
            tall = known[-2] >= known[-1]
            way = _least_of_tall if tall else _least_of_wide
            return way(matrix, rhs, l2_regularizer)
        rows_columns = shape(matrix)[-2:]
        found: Tensor = cond(
            make.GreaterEqual(rows_columns[-2], rows_columns[-1]),
            lambda: _least_of_tall(matrix, rhs, l2_regularizer),
            lambda: _least_of_wide(matrix, rhs, l2_regularizer),
        )
        return found


def _least_of_tall(matrix: Tensor, rhs: Any, l2: Any) -> Tensor:
    chol = _regularized_cholesky(matrix, l2, first_kind=True, always=False)
    return cholesky_solve(chol, matmul(matrix, rhs, adjoint_a=True))


def _least_of_wide(matrix: Tensor, rhs: Any, l2: Any) -> Tensor:
    chol = _regularized_cholesky(matrix, l2, first_kind=False, always=False)
    return matmul(matrix, cholesky_solve(chol, rhs), adjoint_a=True)
