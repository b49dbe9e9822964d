"""Matrix decompositions: QR, singular values, eigenvalues of self-adjoint matrices, LU.

Signs of singular and eigenvectors are LAPACK's, which may differ from TensorFlow's.  Half precision is computed in
single.
Called by: initializers, programs, library.matrices.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/ops/linalg_ops.cc; gradients from Giles, "Collected matrix derivative results", 2008, Walter,
Lehmann and Lamour, "On higher-order derivatives of matrix QR", 2010, Roberts and Roberts, "QR and LQ decomposition
matrix backpropagation", 2020, and Townsend, "Differentiating the singular value decomposition", 2016; nodes as 2.21
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import matrices
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import adjoint, expand_dims, matrix_transpose, shape
from headrace.ops.linalg.bands import matrix_band_part
from headrace.ops.linalg.diagonals import matrix_diag, matrix_diag_part, matrix_set_diag
from headrace.ops.linalg.products import matmul
from headrace.ops.linalg.solving import (
    MATRICES,
    check_matrices,
    matrix_triangular_solve,
    square_shape,
    wide,
)
from headrace.ops.math.casting import cast, real
from headrace.ops.math.magnitudes import square
from headrace.ops.tables import make

__all__ = ["lu", "qr", "self_adjoint_eig", "self_adjoint_eigvals", "svd"]

Array = np.ndarray[Any, Any]


class Qr(NamedTuple):
    """What `qr` gives."""

    q: Tensor
    r: Tensor


class Svd(NamedTuple):
    """What `svd` gives."""

    s: Tensor
    u: Tensor
    v: Tensor


class SelfAdjointEig(NamedTuple):
    """What `self_adjoint_eig` gives."""

    e: Tensor
    v: Tensor


class Lu(NamedTuple):
    """What `lu` gives."""

    lu: Tensor
    p: Tensor


def _inner(rows: int | None, columns: int | None) -> int | None:
    if 0 in (rows, columns):
        return 0
    return None if rows is None or columns is None else min(rows, columns)


# -- QR ---------------------------------------------------------------------------------------


def _qr_shapes(c: ShapeContext) -> list[Shape]:
    found = c.with_rank_at_least("input", 2)
    if found is None:
        return [None, None]
    *batch, rows, columns = found
    if c.attr("full_matrices"):
        return [(*batch, rows, rows), (*batch, rows, columns)]
    inner = _inner(rows, columns)
    return [(*batch, rows, inner), (*batch, inner, columns)]


@op(
    "Qr",
    inputs="input: T",
    outputs="q: T; r: T",
    attrs=f"full_matrices: bool = false; T: {MATRICES}",
    shape=_qr_shapes,
)
def qr_op(xp: Any, input: Array, *, full_matrices: bool) -> Any:
    """input [..., m, n] = q r: q with orthonormal columns, r upper triangular.

    q [..., m, k], r [..., k, n], k = min(m, n), or m with full_matrices.  Raises InvalidArgument.
    """
    check_matrices(input, square=False)
    kind = input.dtype
    if 0 in input.shape:
        rows, columns = input.shape[-2:]
        inner = rows if full_matrices else min(rows, columns)
        batch = input.shape[:-2]
        q = np.zeros((*batch, rows, inner), kind)
        q[...] = np.eye(rows, inner)
        return q, np.zeros((*batch, inner, columns), kind)
    q, r = np.linalg.qr(wide(input), mode="complete" if full_matrices else "reduced")
    return q.astype(kind, copy=False), r.astype(kind, copy=False)


@qr_op.gradient
def _(op: Operation, dq: Tensor, dr: Tensor) -> Tensor:
    q, r = op.outputs
    sizes = r.raw_shape
    if sizes is None or sizes[-2] is None or sizes[-1] is None or q.raw_shape is None:
        raise NotImplementedError(
            f"QrGrad not implemented with dynamic shapes.  Received r.shape={r.shape}: its last two "
            "sizes have to be known"
        )
    rows, columns = sizes[-2], sizes[-1]
    if rows > columns and op["full_matrices"]:
        raise NotImplementedError(
            "QrGrad not implemented when nrows > ncols and full_matrices is true. "
            f"Received r.shape={r.shape} with nrows={rows} and ncols={columns}"
        )
    if rows >= columns:
        return _gradient_of_tall(q, r, dq, dr)
    other, square_r = op.inputs[0][..., :, rows:], r[..., :, :rows]
    dr_other, dr_square = dr[..., :, rows:], dr[..., :, :rows]
    last_part = matmul(q, dr_other)
    dq = dq + matmul(other, dr_other, adjoint_b=True)
    return concat([_gradient_of_tall(q, square_r, dq, dr_square), last_part], axis=-1)


def _by_triangle(x: Tensor, r: Tensor) -> Tensor:
    """x r⁻ᴴ."""
    return adjoint(matrix_triangular_solve(r, adjoint(x), lower=False, adjoint=False))


def _gradient_of_tall(q: Tensor, r: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    qdq = matmul(q, dq, adjoint_a=True)
    skew = qdq - adjoint(qdq)
    rdr = matmul(r, dr, adjoint_b=True)
    skew_r = rdr - adjoint(rdr)
    lower = matrix_band_part(skew + skew_r, -1, 0)
    within = matmul(q, dr + _by_triangle(lower, r))
    outside = _by_triangle(dq - matmul(q, qdq), r)
    made: Tensor = within + outside
    if q.dtype.is_complex:
        middle = rdr - adjoint(qdq)
        diagonal = make.Imag(matrix_diag_part(middle), Tout=_real(q))
        imaginary = matrix_set_diag(
            zeros_like(r), make.Complex(zeros_like(diagonal), diagonal, Tout=q.dtype.base_dtype)
        )
        made = made + matmul(q, _by_triangle(imaginary, r))
    return made


def _real(x: Tensor) -> Any:
    return dtypes.float64 if x.dtype.base_dtype == dtypes.complex128 else dtypes.float32


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Any:
    """(q, r) with input [..., m, n] = q r: q with orthonormal columns, r upper triangular."""
    return Qr(*qr_op(input, full_matrices=full_matrices, name=name))


# -- singular values --------------------------------------------------------------------------


def _svd_shapes(c: ShapeContext) -> list[Shape]:
    found = c.with_rank_at_least("input", 2)
    if found is None:
        return [None, None, None] if c.attr("compute_uv") else [None, (0,), (0,)]
    *batch, rows, columns = found
    inner = _inner(rows, columns)
    values = (*batch, inner)
    if not c.attr("compute_uv"):
        return [values, (0,), (0,)]
    if c.attr("full_matrices"):
        return [values, (*batch, rows, rows), (*batch, columns, columns)]
    return [values, (*batch, rows, inner), (*batch, columns, inner)]


@op(
    "Svd",
    inputs="input: T",
    outputs="s: T; u: T; v: T",
    attrs=f"compute_uv: bool = true; full_matrices: bool = false; T: {MATRICES}",
    shape=_svd_shapes,
)
def svd_op(xp: Any, input: Array, *, compute_uv: bool, full_matrices: bool) -> Any:
    """input [..., m, n] = u diag(s) vᴴ: singular values s, falling, u and v with orthonormal columns.

    s [..., p], u [..., m, p], v [..., n, p], p = min(m, n), or u [..., m, m], v [..., n, n] with full_matrices; without
    compute_uv u and v are empty.  A matrix with infinities or NaN has NaN.  Raises InvalidArgument for what are no
    matrices.
    """
    check_matrices(input, square=False)
    kind, batch = input.dtype, input.shape[:-2]
    rows, columns = input.shape[-2:]
    inner = min(rows, columns)
    nothing = np.zeros((0,), kind)
    if 0 in input.shape:
        s = np.zeros((*batch, inner), kind)
        if not compute_uv:
            return s, nothing, nothing
        u = np.zeros((*batch, rows, rows if full_matrices else inner), kind)
        v = np.zeros((*batch, columns, columns if full_matrices else inner), kind)
        u[...], v[...] = np.eye(rows, u.shape[-1]), np.eye(columns, v.shape[-1])
        return s, u, v
    known: Array = np.asarray(np.isfinite(input).all(axis=(-1, -2), keepdims=True))
    source = wide(np.where(known, input, 0).astype(kind))
    if not compute_uv:
        s = np.linalg.svd(source, compute_uv=False)
        return np.where(known[..., 0], s, np.nan).astype(kind), nothing, nothing
    u, s, vh = np.linalg.svd(source, full_matrices=full_matrices)
    v = vh.conj().swapaxes(-1, -2)
    if not known.all():
        u, v, s = (np.where(known, each, np.nan) for each in (u, v, s[..., None, :]))
        s = s[..., 0, :]
    return tuple(each.astype(kind, copy=False) for each in (s, u, v))


def svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """(s, u, v) with tensor [..., m, n] = u diag(s) vᴴ; s alone without compute_uv.  s is real."""
    s, u, v = svd_op(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    s = real(s)
    return (s, u, v) if compute_uv else s


_TINY = 1e-20
"""Added to squares before they divide: what belongs to equal values stays finite."""


def _safe_reciprocal(x: Tensor) -> Tensor:
    made: Tensor = x * make.Reciprocal(x * x + _TINY)
    return made


@svd_op.gradient
def _(op: Operation, ds: Tensor, du: Tensor, dv: Tensor) -> Tensor:
    a = op.inputs[0]
    if not op["compute_uv"]:
        _, u, v = svd_op(a, compute_uv=True)
        diagonal = matrix_diag(ds)
        found = matmul(u, matmul(diagonal, v, adjoint_b=True))
        found.set_shape(a.shape)
        return found
    full = op["full_matrices"]
    sizes = a.raw_shape
    if sizes is None or sizes[-2] is None or sizes[-1] is None:
        raise NotImplementedError(
            f"SVD gradient has not been implemented for input with unknown inner matrix shape.  It is {a.shape}"
        )
    if a.dtype.is_complex:
        raise NotImplementedError(
            "SVD gradients with respect to the vectors are not defined for complex matrices: "
            "only those of the singular values are (compute_uv=False)"
        )
    s, u, v = op.outputs
    rows, columns = sizes[-2], sizes[-1]
    s = cast(s, a.dtype.base_dtype)
    diagonal = matrix_diag(ds)
    turned = rows > columns
    if turned:
        rows, columns, u, v, du, dv = columns, rows, v, u, dv, du
    with control_dependencies([ds, du, dv]):
        if full and abs(rows - columns) > 1:
            raise NotImplementedError(
                "svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True. "
                f"Received: m={rows} and n={columns} from op input={a} with shape={a.shape}."
            )
        found = _gradient_of_singular(s, u, v, diagonal, du, dv, rows, columns, full)
        if turned:
            found = matrix_transpose(found)
        found.set_shape(a.shape)
        return found


def _gradient_of_singular(
    s: Tensor,
    u: Tensor,
    v: Tensor,
    ds: Tensor,
    du: Tensor,
    dv: Tensor,
    rows: int,
    columns: int,
    full: bool,
) -> Tensor:
    """Of a [..., rows, columns] with rows <= columns."""
    values = matrix_diag(s)
    squares = square(s)
    shape(s)
    gaps = _safe_reciprocal(expand_dims(squares, -2) - expand_dims(squares, -1))
    gaps = matrix_set_diag(gaps, zeros_like(s))
    inverse = matrix_diag(_safe_reciprocal(s))
    v1, dv1 = v[..., :, :rows], dv[..., :, :rows]
    udu = matmul(u, du, adjoint_a=True)
    vdv = matmul(v1, dv1, adjoint_a=True)
    fu, fv = gaps * udu, gaps * vdv
    inner = ds + matmul(fu + adjoint(fu), values) + matmul(values, fv + adjoint(fv))
    if rows == columns:
        return matmul(u, matmul(inner, v1, adjoint_b=True))
    within = matmul(u, matmul(inner, v1, adjoint_b=True))
    turned = matrix_transpose(dv1)
    outside = turned - matmul(matmul(turned, v1), v1, adjoint_b=True)
    if full:
        v2, dv2 = v[..., :, rows:columns], dv[..., :, rows:columns]
        crossed = matmul(v1, dv2, adjoint_a=True)
        outside = outside - matmul(crossed, v2, adjoint_b=True)
    made: Tensor = within + matmul(matmul(u, inverse), outside)
    return made


# -- eigenvalues of self-adjoint matrices -----------------------------------------------------


def _eig_shapes(c: ShapeContext) -> list[Shape]:
    found = square_shape(c)
    if found is None:
        return [None, None] if c.attr("compute_v") else [None, (0,)]
    return [found[:-1], found if c.attr("compute_v") else (0,)]


@op(
    "SelfAdjointEigV2",
    inputs="input: T",
    outputs="e: T; v: T",
    attrs=f"compute_v: bool = true; T: {MATRICES}",
    shape=_eig_shapes,
)
def self_adjoint_eig_op(xp: Any, input: Array, *, compute_v: bool) -> Any:
    """Eigenvalues e, rising, and eigenvectors (columns of v) of self-adjoint matrices, of which lower triangles are
    read.

    input [..., n, n]; e [..., n], v [..., n, n], empty without compute_v.
    Raises InvalidArgument if a matrix is not square, or has infinities or NaN.
    """
    check_matrices(input)
    kind = input.dtype
    nothing = np.zeros((0,), kind)
    if not input.size:
        return np.zeros(input.shape[:-1], kind), input.copy() if compute_v else nothing
    try:
        lower = np.tril(wide(input))
        if not np.isfinite(lower).all():
            raise np.linalg.LinAlgError
        if compute_v:
            values, vectors = np.linalg.eigh(lower, "L")
            return values.astype(kind), vectors.astype(kind, copy=False)
        return np.linalg.eigvalsh(lower, "L").astype(kind), nothing
    except np.linalg.LinAlgError:
        raise errors.invalid_argument(
            "Self-adjoint eigen decomposition was not successful. The input might not be valid: it "
            "has infinities or NaN"
        ) from None


@self_adjoint_eig_op.gradient
def _(op: Operation, de: Tensor, dv: Tensor) -> Tensor:
    e, v = op.outputs[0], op.outputs[1]
    with control_dependencies([de, dv]):
        if op["compute_v"]:
            gaps = _safe_reciprocal(expand_dims(e, -2) - expand_dims(e, -1))
            gaps = matrix_set_diag(gaps, zeros_like(e))
            inner = matrix_diag(de) + gaps * matmul(v, dv, adjoint_a=True)
            found = matmul(v, matmul(inner, v, adjoint_b=True))
        else:
            _, v = self_adjoint_eig_op(op.inputs[0], compute_v=True)
            found = matmul(v, matmul(matrix_diag(de), v, adjoint_b=True))
        # Only the lower triangle is read, so that it has the gradients of both.
        found = matrix_band_part(found + adjoint(found), -1, 0)
        return matrix_set_diag(found, 0.5 * matrix_diag_part(found))


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(e, v): eigenvalues, rising, and eigenvectors (columns of v) of self-adjoint matrices [..., n, n]."""
    e, v = self_adjoint_eig_op(tensor, compute_v=True, name=name)
    return e, v


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues, rising, of self-adjoint matrices [..., n, n]."""
    e: Tensor = self_adjoint_eig_op(tensor, compute_v=False, name=name)[0]
    return e


# -- LU ---------------------------------------------------------------------------------------


def _lu_shapes(c: ShapeContext) -> list[Shape]:
    found = square_shape(c)
    return [None, None] if found is None else [found, found[:-1]]


@op(
    "Lu",
    inputs="input: T",
    outputs="lu: T; p: output_idx_type",
    attrs=f"T: {MATRICES}; output_idx_type: {{int32, int64}} = int32",
    shape=_lu_shapes,
)
def lu_op(xp: Any, input: Array, *, output_idx_type: dtypes.DType) -> Any:
    """Rows p of input are L U: L below the diagonal of lu, with ones on its own, U above.

    input [..., n, n]; lu the same, p [..., n].  Raises InvalidArgument if a matrix is not square, or has no inverse.
    """
    if input.ndim < 2:
        raise errors.invalid_argument(f"Input tensor must have rank >= 2, got {input.ndim}")
    check_matrices(input)
    made, order = matrices.lu(wide(input))
    if not np.diagonal(made, axis1=-2, axis2=-1).all():
        raise errors.invalid_argument("Input is not invertible.  A matrix is singular, exactly")
    return made.astype(input.dtype, copy=False), order.astype(output_idx_type.np)


def lu(input: Any, output_idx_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """(lu, p): rows p of input [..., n, n] are L U, both in lu."""
    return Lu(*lu_op(input, output_idx_type=output_idx_type, name=name))
