"""Functions of matrices: determinants, square roots, logarithms.

Half precision is computed in single, roots and logarithms in double.
Called by: programs, library.matrices.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/linalg_ops.cc; gradients from Giles, "Collected matrix derivative results", 2008, and Higham,
Functions of Matrices, 6.1 (Sylvester's equation for the root's); nodes as 2.21
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.base.shapes import Shape
from headrace.base.traits import ITERATES
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import matrices
from headrace.ops.array.joining import concat
from headrace.ops.array.padding import tile
from headrace.ops.array.shapes import matrix_transpose, reshape, shape, size
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.linalg.diagonals import eye
from headrace.ops.linalg.products import matrix_inverse
from headrace.ops.linalg.solving import MATRICES, check_matrices, matrix_solve, square_shape, wide
from headrace.ops.math.reductions import reduce_prod
from headrace.ops.tables import make

__all__ = ["matrix_determinant", "matrix_logarithm", "matrix_square_root", "slogdet"]

Array = np.ndarray[Any, Any]
_DETERMINED = "{half, float, double, complex64, complex128}"


def _batch(c: ShapeContext) -> Shape:
    found = square_shape(c)
    return None if found is None else found[:-2]


@op(
    "MatrixDeterminant",
    inputs="input: T",
    outputs="output: T",
    attrs=f"T: {_DETERMINED}",
    shape=_batch,
)
def matrix_determinant(xp: Any, input: Array) -> Any:
    """Determinants [...] of matrices [..., n, n], 1 for n = 0.  Raises InvalidArgument if they are not square."""
    check_matrices(input)
    with np.errstate(all="ignore"):
        return np.asarray(np.linalg.det(wide(input))).astype(input.dtype)


@matrix_determinant.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    inverse = matrix_inverse(op.inputs[0], adjoint=True)
    product = dout * op.outputs[0]
    sizes = concat([shape(op.outputs[0]), [1, 1]], 0)
    made: Tensor = reshape(product, sizes) * inverse
    return made


def _twice(c: ShapeContext) -> list[Shape]:
    found = _batch(c)
    return [found, found]


@op(
    "LogMatrixDeterminant",
    inputs="input: T",
    outputs="sign: T; log_abs_determinant: T",
    attrs=f"T: {_DETERMINED}",
    shape=_twice,
)
def log_matrix_determinant_op(xp: Any, input: Array) -> Any:
    """Determinants' signs (of complex ones: of modulus 1) and the logarithms of their moduli; input [..., n, n].

    Raises InvalidArgument if matrices are not square.
    """
    check_matrices(input)
    with np.errstate(all="ignore"):
        sign, log = np.linalg.slogdet(wide(input))
        sign = np.where(np.isnan(log), np.nan, sign)
    return np.asarray(sign).astype(input.dtype), np.asarray(log).astype(input.dtype)


@log_matrix_determinant_op.gradient
def _(op: Operation, _: Tensor, dlog: Tensor) -> Tensor:
    inverse = matrix_inverse(op.inputs[0], adjoint=True)
    sizes = concat([shape(op.outputs[1]), [1, 1]], 0)
    made: Tensor = reshape(dlog, sizes) * inverse
    return made


class LogMatrixDeterminant(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    log_abs_determinant: Tensor


def slogdet(input: Any, name: str | None = None) -> LogMatrixDeterminant:
    """Determinants' signs and the logarithms of their moduli; input [..., n, n]."""
    return LogMatrixDeterminant(*log_matrix_determinant_op(input, name=name))


@op(
    "MatrixSquareRoot",
    inputs="input: T",
    outputs="output: T",
    attrs=f"T: {MATRICES}",
    shape=square_shape,
    traits={ITERATES},
)
def matrix_square_root(xp: Any, input: Array) -> Array:
    """Principal square roots of matrices [..., n, n]; NaN where there is none (of real ones: no real one).

    Raises InvalidArgument if matrices are not square.
    """
    check_matrices(input)
    found = matrices.square_root(wide(input))
    if input.dtype.kind == "c":
        return found.astype(input.dtype)
    with np.errstate(all="ignore"):
        imaginary = np.abs(found.imag).max(axis=(-1, -2), keepdims=True, initial=0)
        largest = np.abs(found).max(axis=(-1, -2), keepdims=True, initial=0)
        return np.where(imaginary > _REAL * largest, np.nan, found.real).astype(input.dtype)


_REAL = 1e-6
"""How large a part of a real matrix's root may be imaginary by rounding."""


@matrix_square_root.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    """x of ``x root + root x = dout``, as one system of n² equations."""
    root = op.outputs[0]
    sizes = shape(root)
    side, batch = sizes[-1], sizes[0:-2]
    count = reduce_prod(batch)
    identity = reshape(eye(side, dtype=root.dtype), [-1])
    identity = reshape(tile(identity, [count]), sizes)
    turned = matrix_transpose(root)
    system = make.AddV2(_kronecker(identity, turned), _kronecker(root, identity), name="Add")
    outer = slice_of(sizes, [0], [make.Sub(size(sizes), 2)])
    flat = concat([outer, [side * side], [1]], 0)
    wanted = reshape(matrix_transpose(dout), flat)
    found = reshape(matrix_solve(system, wanted), sizes)
    return matrix_transpose(found)


def _kronecker(a: Tensor, b: Tensor) -> Tensor:
    """Kronecker's product of square matrices [..., n, n] and [..., m, m]."""
    sizes_a, sizes_b = shape(a), shape(b)
    side_a, side_b = sizes_a[-1], sizes_b[-1]
    batch = slice_of(sizes_a, [0], [make.Sub(size(sizes_a), 2)])
    wide_a = concat([batch, [side_a], [1], [side_a], [1]], 0)
    wide_b = concat([batch, [1], [side_b], [1], [side_b]], 0)
    spread_a, spread_b = reshape(a, wide_a), reshape(b, wide_b)
    whole = side_a * side_b
    return reshape(spread_a * spread_b, concat([batch, [whole], [whole]], 0))


@op(
    "MatrixLogarithm",
    inputs="input: T",
    outputs="output: T",
    attrs="T: {complex64, complex128}",
    shape=square_shape,
    traits={ITERATES},
)
def matrix_logarithm(xp: Any, input: Array) -> Array:
    """Principal logarithms of complex matrices [..., n, n]; NaN of singular ones.

    Raises InvalidArgument if matrices are not square.
    """
    check_matrices(input)
    return matrices.logarithm(input).astype(input.dtype, copy=False)
