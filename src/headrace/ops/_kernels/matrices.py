"""Batches of matrices: what NumPy's linear algebra has not got.

Arrays are [..., n, n] of floats or complex numbers, of single or double precision; leading dimensions are a batch.
Called by: ops of linear algebra.  Threads: any.
Source: Golub and Van Loan, Matrix Computations, 3.1, 3.4, 4.3 (substitution, LU, tridiagonal systems); Higham,
Functions of Matrices, 5 (Denman and Beavers' iteration, product form), 6, 11 (inverse scaling and squaring)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_FEW = 16  # rows that are substituted one by one; more are two halves, with a product between
_WELL = 1e3  # condition of eigenvectors up to which functions are computed of the eigenvalues
_NEAR = 0.25  # distance from 1 at which the quadrature for logarithms is exact in double precision
_MOST_ROOTS = 60


def solved_triangular(matrix: Array, rhs: Array, lower: bool) -> Array:
    """x of ``matrix x = rhs``, of which one triangle is read; rhs [..., n, k].  No pivot may be 0."""
    n = matrix.shape[-1]
    if n <= _FEW:
        return _substituted(matrix, rhs, lower)
    middle = n // 2
    first, last = slice(0, middle), slice(middle, n)
    if not lower:
        first, last = last, first
    x = solved_triangular(matrix[..., first, first], rhs[..., first, :], lower)
    rest = rhs[..., last, :] - np.matmul(matrix[..., last, first], x)
    y = solved_triangular(matrix[..., last, last], rest, lower)
    return np.concatenate((x, y) if lower else (y, x), axis=-2)


def _substituted(matrix: Array, rhs: Array, lower: bool) -> Array:
    n = matrix.shape[-1]
    batch = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    x = np.empty((*batch, *rhs.shape[-2:]), rhs.dtype)
    for row in range(n) if lower else range(n - 1, -1, -1):
        known = slice(0, row) if lower else slice(row + 1, n)
        left = rhs[..., row, :] - np.einsum(
            "...j,...jk->...k", matrix[..., row, known], x[..., known, :]
        )
        x[..., row, :] = left / matrix[..., row, row, None]
    return x


def lu(matrix: Array) -> tuple[Array, Array]:
    """(LU, p): rows p of the matrix are L U, both in one array; of each column the largest element is the pivot."""
    n = matrix.shape[-1]
    count = math.prod(matrix.shape[:-2])
    made = matrix.copy().reshape(count, n, n)
    order = np.broadcast_to(np.arange(n), (count, n)).copy()
    each = np.arange(count)
    for column in range(n):
        pivot = np.argmax(np.abs(made[:, column:, column]), axis=1) + column
        for array in (made, order):
            held = array[each, pivot]
            array[each, pivot] = array[:, column]
            array[:, column] = held
        below = slice(column + 1, n)
        with np.errstate(divide="ignore", invalid="ignore"):
            made[:, below, column] /= made[:, None, column, column]
        made[:, below, below] -= made[:, below, column, None] * made[:, None, column, below]
    return made.reshape(matrix.shape), order.reshape(matrix.shape[:-1])


def solved_tridiagonal(diagonals: Array, rhs: Array, pivoting: bool) -> Array:
    """x of tridiagonal systems: diagonals [..., 3, n] (above, main, below), rhs [..., n, k].

    A pivot of 0 gives infinities and NaN.  With `pivoting` rows are exchanged with the next where that has the larger
    pivot.
    """
    n = diagonals.shape[-1]
    above, main, below = (diagonals[..., at, :].copy() for at in range(3))
    second = np.zeros_like(above)  # the second diagonal above, which exchanges fill
    x = rhs.copy()
    with np.errstate(all="ignore"):
        for row in range(n - 1):
            after = row + 1
            if pivoting:
                swap = np.abs(below[..., after]) > np.abs(main[..., row])
                here = main[..., row], above[..., row], second[..., row]
                there = below[..., after], main[..., after], above[..., after] * (after < n - 1)
                for kept, one, other in zip((main, above, second), here, there, strict=True):
                    below_one = np.where(swap, one, other)
                    kept[..., row] = np.where(swap, other, one)
                    if kept is main:
                        below[..., after] = below_one
                    elif kept is above:
                        main[..., after] = below_one
                    else:
                        above[..., after] = below_one
                upper, lower_row = x[..., row, :].copy(), x[..., after, :].copy()
                chosen = swap[..., None]
                x[..., row, :] = np.where(chosen, lower_row, upper)
                x[..., after, :] = np.where(chosen, upper, lower_row)
            factor = below[..., after] / main[..., row]
            main[..., after] -= factor * above[..., row]
            if pivoting and after < n - 1:
                above[..., after] -= factor * second[..., row]
            x[..., after, :] -= factor[..., None] * x[..., row, :]
        for row in range(n - 1, -1, -1):
            left = x[..., row, :]
            if row + 1 < n:
                left = left - above[..., row, None] * x[..., row + 1, :]
            if pivoting and row + 2 < n:
                left = left - second[..., row, None] * x[..., row + 2, :]
            x[..., row, :] = left / main[..., row, None]
    return x


# -- functions of matrices --------------------------------------------------------------------


def square_root(matrix: Array) -> Array:
    """The principal square roots, complex128; NaN where there are none."""
    return _of_each(matrix, np.sqrt, _root)


def logarithm(matrix: Array) -> Array:
    """The principal logarithms, complex128; NaN where there are none."""
    return _of_each(matrix, np.log, _scaled_logarithm)


def _of_each(matrix: Array, function: Any, otherwise: Any) -> Array:
    count = math.prod(matrix.shape[:-2])
    wide = matrix.astype(np.complex128).reshape(count, *matrix.shape[-2:])
    made = np.empty_like(wide)
    for at, one in enumerate(wide):
        made[at] = _of_one(one, function, otherwise)
    return made.reshape(matrix.shape)


def _of_one(matrix: Array, function: Any, otherwise: Any) -> Array:
    """By eigenvalues where their vectors are well conditioned."""
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan)
    if not matrix.size:
        return matrix
    with np.errstate(all="ignore"):
        values, vectors = np.linalg.eig(matrix)
        if np.linalg.cond(vectors) < _WELL:
            found = np.linalg.solve(vectors.T, (vectors * function(values)).T).T
            if function is np.log and (values == 0).any():
                return np.full_like(matrix, np.nan)
            return np.asarray(found)
        try:
            return np.asarray(otherwise(matrix))
        except np.linalg.LinAlgError:
            return np.full_like(matrix, np.nan)


def _root(matrix: Array) -> Array:
    """By Denman and Beavers' iteration in product form."""
    one = np.eye(len(matrix))
    product, root = matrix, matrix
    for _ in range(_MOST_ROOTS):
        inverse = np.linalg.inv(product)
        root = root @ (one + inverse) / 2
        product = (one + (product + inverse) / 2) / 2
        if not np.isfinite(root).all():
            break
        if np.abs(product - one).max() < len(matrix) * np.finfo(float).eps:
            return root
    return np.full_like(matrix, np.nan)


def _scaled_logarithm(matrix: Array) -> Array:
    """Of a root near 1, by Gauss and Legendre's quadrature, and multiplied by the root's power."""
    one = np.eye(len(matrix))
    power = 0
    while np.abs(matrix - one).sum(axis=0).max() > _NEAR:
        matrix = _root(matrix)
        power += 1
        if power > _MOST_ROOTS or not np.isfinite(matrix).all():
            return np.full_like(matrix, np.nan)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    off = matrix - one
    found = np.zeros_like(matrix)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        found += weight * np.linalg.solve(one + node * off, off)
    return found * 2.0**power
