"""Functions of matrices that are made of operations: matvec, pinv, matrix_rank, logdet, expm, tridiagonal systems.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21.  The matrix exponential is Higham's, "The scaling and squaring method for the
matrix exponential revisited", 2005
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.checks.ranks import assert_rank_at_least
from headrace.ops.array.constants import constant, fill
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import pad
from headrace.ops.array.shapes import (
    expand_dims,
    matrix_transpose,
    reshape,
    shape,
    size,
    squeeze,
)
from headrace.ops.flow.control_flow import cond, while_loop
from headrace.ops.linalg.decompositions import svd
from headrace.ops.linalg.diagonals import eye, matrix_diag_part
from headrace.ops.linalg.products import matmul
from headrace.ops.linalg.solving import cholesky
from headrace.ops.linalg.tridiagonal import tridiagonal_matmul_op, tridiagonal_solve_op
from headrace.ops.math.casting import cast, conj
from headrace.ops.math.comparisons import where_v2
from headrace.ops.math.magnitudes import abs as modulus
from headrace.ops.math.reductions import norm as norm_of
from headrace.ops.math.reductions import reduce_max, reduce_sum
from headrace.ops.tables import make

__all__ = [
    "expm",
    "logdet",
    "matrix_rank",
    "matvec",
    "normalize",
    "pinv",
    "tridiagonal_matmul",
    "tridiagonal_solve",
]


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Matrices a [..., m, n] times vectors b [..., n]: [..., m]."""
    with name_scope(name, "MatVec", [a, b]):
        product = matmul(
            a,
            expand_dims(b, axis=-1),
            transpose_a=transpose_a,
            adjoint_a=adjoint_a,
            a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse,
        )
        return squeeze(product, axis=-1)


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(tensor / norm, norm), norms of kind `ord` along `axis`; see tf.norm."""
    with name_scope(name, "normalize", [tensor]):
        tensor = convert(tensor)
        length = norm_of(tensor, ord, axis, keepdims=True)
        return tensor / cast(length, tensor.dtype.base_dtype), length


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """Logarithms of the determinants of self-adjoint positive definite matrices [..., n, n]."""
    with name_scope(name, "logdet", [matrix]):
        chol = cholesky(matrix)
        parts = matrix_diag_part(chol)
        if chol.dtype.is_complex:
            parts = make.Real(parts, Tout=_real(chol))
        made: Tensor = 2.0 * reduce_sum(make.Log(parts), axis=[-1])
        return made


def _real(x: Tensor) -> dtypes.DType:
    return dtypes.float64 if x.dtype.base_dtype == dtypes.complex128 else dtypes.float32


def matrix_rank(
    a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """How many singular values of matrices [..., m, n] are larger than tol (largest · max(m, n) · precision)."""
    with name_scope(name, "matrix_rank"):
        a = convert(a, dtypes.float32 if not isinstance(a, Tensor) and _is_whole(a) else None, "a")
        checks = _checks_of_matrix(a, validate_args)
        with control_dependencies(checks):
            s = svd(a, compute_uv=False)
            if tol is None:
                sizes = a.raw_shape
                if sizes is not None and None not in sizes[-2:]:
                    largest: Any = np.max(sizes[-2:])
                else:
                    largest = reduce_max(shape(a)[-2:])
                precision = np.finfo(a.dtype.np).eps
                scale = precision * cast(largest, s.dtype.base_dtype)
                tol = scale * reduce_max(s, axis=-1, keepdims=True)
            made: Tensor = reduce_sum(cast(make.Greater(s, tol), dtypes.int32), axis=-1)
            return made


def _is_whole(a: Any) -> bool:
    return np.asarray(a).dtype.kind in "iub" if not isinstance(a, Tensor) else False


def _checks_of_matrix(a: Tensor, validate: bool) -> list[Any]:
    """Raises TypeError, ValueError."""
    if not a.dtype.is_floating:
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {a.dtype.name}).")
    known = a.shape.ndims
    if known is not None:
        if known < 2:
            raise ValueError(f"Input `a` must have at least 2 dimensions (saw: {known}).")
        return []
    if validate:
        message = "Input `a` must have at least 2 dimensions."
        return [assert_rank_at_least(a, rank=2, message=message)]
    return []


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Moore and Penrose's inverses of matrices [..., m, n]: [..., n, m].

    Singular values up to rcond (10 · max(m, n) · precision) times the largest count as 0.
    """
    with name_scope(name or "pinv"):
        a = convert(a, name="a")
        checks = _checks_of_matrix(a, validate_args)
        kind = a.dtype.np
        with control_dependencies(checks):
            if rcond is None:
                sizes = a.raw_shape
                precision = np.finfo(kind).eps
                if sizes is not None and None not in sizes[-2:]:
                    rcond = 10.0 * float(max(sizes[-2:])) * precision
                else:
                    largest = make.Maximum(shape(a)[-2], shape(a)[-1])
                    rcond = 10.0 * cast(largest, a.dtype.base_dtype) * precision
            rcond = convert(rcond, a.dtype.base_dtype, "rcond")
            s, u, v = svd(a, full_matrices=False, compute_uv=True)
            cutoff = rcond * reduce_max(s, axis=-1)
            s = where_v2(make.Greater(s, expand_dims(cutoff, -1)), s, np.array(np.inf, s.dtype.np))
            scaled = v / expand_dims(s, -2)
            made: Tensor = matmul(scaled, u, adjoint_b=True)
            if a.raw_shape is not None and len(a.raw_shape) >= 2:
                *batch, rows, columns = a.raw_shape
                made.set_shape([*batch, columns, rows])
            return made


# -- the matrix exponential -------------------------------------------------------------------

# Numerators' coefficients of Padé's approximants of exp, of degrees 3, 5, 7, 9, 13, lowest first, the highest 1.
_PADE: Final = {
    degree: [
        float(math.factorial(2 * degree - k) // (math.factorial(k) * math.factorial(degree - k)))
        for k in range(degree)
    ]
    for degree in (3, 5, 7, 9, 13)
}
# Norms up to which each is exact to single, or double, precision: Higham, table 2.3.
_SINGLE: Final = ((3, 4.258730016922831e-1), (5, 1.880152677804762e0), (7, 3.925724783138660e0))
_DOUBLE: Final = (
    (3, 1.495585217958292e-2),
    (5, 2.539398330063230e-1),
    (7, 9.504178996162932e-1),
    (9, 2.097847961257068e0),
    (13, 5.371920351148152e0),
)


def _pade(matrix: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """(u, v), odd and even part of the numerator."""
    b = [constant(each, matrix.dtype.base_dtype) for each in _PADE[degree]]
    identity = eye(shape(matrix)[-2], batch_shape=shape(matrix)[:-2], dtype=matrix.dtype)
    square = matmul(matrix, matrix)
    if degree == 3:
        odd = square + b[1] * identity
        return matmul(matrix, odd), b[2] * square + b[0] * identity
    if degree == 13:
        fourth = matmul(square, square)
        sixth = matmul(fourth, square)
        inner = sixth + b[11] * fourth + b[9] * square
        odd = matmul(sixth, inner) + b[7] * sixth + b[5] * fourth + b[3] * square + b[1] * identity
        u = matmul(matrix, odd)
        inner = b[12] * sixth + b[10] * fourth + b[8] * square
        v = matmul(sixth, inner) + b[6] * sixth + b[4] * fourth + b[2] * square + b[0] * identity
        return u, v
    powers = [square, matmul(square, square)]
    while 2 * len(powers) < degree - 1:
        powers.append(matmul(powers[-1], square))
    top = len(powers)
    odd = powers[-1]
    for at in range(top - 1, 0, -1):
        odd = odd + b[2 * at + 1] * powers[at - 1]
    u = matmul(matrix, odd + b[1] * identity)
    even = b[2 * top] * powers[-1]
    for at in range(top - 1, 0, -1):
        even = even + b[2 * at] * powers[at - 1]
    return u, even + b[0] * identity


def expm(input: Any, name: str | None = None) -> Tensor:
    """The exponentials of matrices [..., n, n]; NaN of all if one has infinities or NaN."""
    with name_scope(name, "matrix_exponential", [input]):
        matrix = convert(input, name="input")
        if matrix.raw_shape is not None and matrix.raw_shape[-2:] == (0, 0):
            return matrix
        matrix.shape.with_rank_at_least(2)
        known = matrix.shape.is_fully_defined()
        static = matrix.shape
        batch = None if known else shape(matrix)[:-2]
        matrix = reshape(matrix, concat(([-1], shape(matrix)[-2:]), axis=0))
        rows = reduce_sum(
            modulus(matrix),
            axis=size(shape(matrix)) - 2,
        )
        lengths = reduce_max(rows, axis=-1)[..., None, None]
        double = matrix.dtype.base_dtype not in (dtypes.float16, dtypes.float32, dtypes.complex64)
        table = _DOUBLE if double else _SINGLE
        real = lengths.dtype.base_dtype
        limit = constant(table[-1][1], real)
        squarings = make.Maximum(
            make.Floor(make.Log(lengths / limit) / make.Log(constant(2.0, real))), 0.0
        )
        pairs = [_pade(matrix, degree) for degree, _ in table[:-1]]
        power = make.Pow(constant(2.0, real), squarings)
        pairs.append(_pade(matrix / cast(power, matrix.dtype.base_dtype), table[-1][0]))
        u, v = (_chosen(lengths, table, [pair[at] for pair in pairs]) for at in (0, 1))
        finite = make.IsFinite(reduce_max(lengths))
        nan = constant(np.nan, matrix.dtype.base_dtype)
        found = cond(
            finite, lambda: make.MatrixSolve(-u + v, u + v), lambda: fill(shape(matrix), nan)
        )
        most = reduce_max(squarings)

        def goes_on(at: Any, _: Any) -> Any:
            return cond(finite, lambda: make.Less(at, most), lambda: constant(False))

        def squared(at: Any, found: Any) -> Any:
            return at + 1, where_v2(make.Less(at, squarings), matmul(found, found), found)

        _, found = while_loop(goes_on, squared, [constant(0.0, real), found])
        if batch is None:
            return reshape(found, static)
        return reshape(found, concat((batch, shape(found)[-2:]), axis=0))


def _chosen(lengths: Tensor, table: Any, parts: list[Tensor]) -> Tensor:
    """Of each matrix the part whose limit its norm is below, the last if it is below none."""
    limits = [
        make.Less(lengths, constant(limit, lengths.dtype.base_dtype)) for _, limit in table[:-1]
    ]
    found = parts[-1]
    for below, part in zip(reversed(limits), reversed(parts[:-1]), strict=True):
        found = where_v2(below, part, found)
    return found


# -- tridiagonal systems ----------------------------------------------------------------------


def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """x of tridiagonal systems with rhs [..., n] or [..., n, k].

    diagonals: [..., 3, n] of those above, main and below ("compact"), the three of them ("sequence") or matrices
    [..., n, n] ("matrix").  Raises ValueError if they are not of that form.
    """
    if perturb_singular and not partial_pivoting:
        raise ValueError("partial_pivoting must be True if perturb_singular is.")
    attrs = {"partial_pivoting": partial_pivoting, "perturb_singular": perturb_singular}
    if diagonals_format == "compact":
        return _solved(diagonals, rhs, transpose_rhs, conjugate_rhs, name, attrs)
    if diagonals_format == "sequence":
        compact = _stacked(diagonals)
        return _solved(compact, rhs, transpose_rhs, conjugate_rhs, name, attrs)
    if diagonals_format == "matrix":
        compact = _of_matrices(diagonals)
        return _solved(compact, rhs, transpose_rhs, conjugate_rhs, name, attrs)
    raise ValueError(
        f'Unrecognized diagonals_format: {diagonals_format}; there are "compact", "sequence" and "matrix"'
    )


def _stacked(diagonals: Any) -> Tensor:
    if not isinstance(diagonals, tuple | list) or len(diagonals) != 3:
        raise ValueError("Expected diagonals to be a sequence of length 3.")
    above, main, below = diagonals
    above, main, below = convert(above), convert(main), convert(below)
    if not below.shape[:-1].is_compatible_with(main.shape[:-1]) or not above.shape[
        :-1
    ].is_compatible_with(main.shape[:-1]):
        raise ValueError(
            "Tensors representing the three diagonals must have the same shape, except for the last dimension, "
            f"got {above.shape}, {main.shape}, {below.shape}"
        )
    size_of = main.shape[-1].value

    def padded(diagonal: Tensor, last: bool, name: str) -> Tensor:
        count = diagonal.shape[-1].value
        if count is None or count == size_of:
            return diagonal
        if size_of is None or count == size_of - 1:
            ranks = diagonal.shape.ndims
            assert ranks is not None
            zeros = [[0, 0]] * (ranks - 1) + [[0, 1] if last else [1, 0]]
            return pad(diagonal, np.array(zeros, np.int32))
        raise ValueError(
            f"Expected {name} to be have length {size_of} or {size_of - 1}, got {count}."
        )

    below = padded(below, False, "subdiagonal")
    above = padded(above, True, "superdiagonal")
    return stack((above, main, below), axis=-2)


def _of_matrices(diagonals: Any) -> Tensor:
    found = convert(diagonals)
    one, other = found.shape[-1].value, found.shape[-2].value
    if one and other and one != other:
        raise ValueError(
            f"Expected last two dimensions of diagonals to be same, got {other} and {one}"
        )
    if found.shape[:-2].is_fully_defined() or found.shape.ndims is not None:
        return matrix_diag_part(found, k=(-1, 1), padding_value=0.0, align="LEFT_RIGHT")
    return matrix_diag_part(found, k=(-1, 1), padding_value=0.0, align="LEFT_RIGHT")


def _solved(
    diagonals: Any,
    rhs: Any,
    transpose_rhs: bool,
    conjugate_rhs: bool,
    name: str | None,
    attrs: dict[str, bool],
) -> Tensor:
    diagonals, rhs = convert(diagonals), convert(rhs)
    ranks, rank_of_rhs = diagonals.shape.ndims, rhs.shape.ndims
    if ranks is None or rank_of_rhs is None:
        raise ValueError("Expected both diagonals and rhs to have known ranks")
    if ranks < 2:
        raise ValueError(f"Expected diagonals to have rank at least 2, got {ranks}")
    if rank_of_rhs not in (ranks, ranks - 1):
        raise ValueError(
            f"Expected the rank of rhs to be {ranks - 1} or {ranks}, got {rank_of_rhs}"
        )
    if (rows := diagonals.shape[-2].value) and rows != 3:
        raise ValueError(f"Expected 3 diagonals got {rows}")
    if not diagonals.shape[:-2].is_compatible_with(rhs.shape[: ranks - 2]):
        raise ValueError(f"Batch shapes {diagonals.shape[:-2]} and {rhs.shape[: ranks - 2]} differ")
    if rank_of_rhs == ranks - 1:
        if conjugate_rhs:
            rhs = conj(rhs)
        column = expand_dims(rhs, -1)
        return squeeze(tridiagonal_solve_op(diagonals, column, name=name, **attrs), -1)
    if transpose_rhs:
        rhs = matrix_transpose(rhs, conjugate=conjugate_rhs)
    elif conjugate_rhs:
        rhs = conj(rhs)
    made: Tensor = tridiagonal_solve_op(diagonals, rhs, name=name, **attrs)
    return made


def tridiagonal_matmul(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """Products of tridiagonal matrices and rhs [..., n, k].  diagonals: as in tridiagonal_solve."""
    if diagonals_format == "compact":
        found = convert(diagonals)
        above, main, below = (found[..., at, :] for at in range(3))
    elif diagonals_format == "sequence":
        above, main, below = diagonals
    elif diagonals_format == "matrix":
        found = _of_matrices(diagonals)
        above, main, below = (found[..., at, :] for at in range(3))
    else:
        raise ValueError(
            f'Unrecognized diagonals_format: {diagonals_format}; there are "compact", "sequence" and "matrix"'
        )
    rows = [expand_dims(each, -2) for each in (above, main, below)]
    made: Tensor = tridiagonal_matmul_op(*rows, rhs, name=name)
    return made
