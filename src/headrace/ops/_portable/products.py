"""Array kernels of products of matrices.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

import math
from typing import Any

from headrace.ops._portable.table import arrays, check
from headrace.ops.linalg.einsum import numbered, output_shape, split_equation


@arrays("MatMul", reals=True)
def _matmul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    check(a.ndim == b.ndim == 2)
    return xp.matmul(a.T if transpose_a else a, b.T if transpose_b else b)


@arrays("SparseMatMul")
def _single_matmul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    wide = (xp.astype(each, xp.float32) for each in (a, b))
    return _matmul(xp, *wide, transpose_a=transpose_a, transpose_b=transpose_b)


@arrays("BatchMatMul", reals=True)
def _batch_matmul_alike(xp: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    check(x.shape[:-2] == y.shape[:-2])
    return _batch_matmul(xp, x, y, adj_x=adj_x, adj_y=adj_y)


@arrays("BatchMatMulV2", reals=True)
def _batch_matmul(xp: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    check(x.ndim >= 2 and y.ndim >= 2)
    return xp.matmul(_adjoint(xp, x) if adj_x else x, _adjoint(xp, y) if adj_y else y)


@arrays("BatchMatMulV3", reals=True)
def _batch_matmul_to(xp: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool, Tout: Any) -> Any:
    check(x.dtype == y.dtype == getattr(xp, Tout.name))
    return _batch_matmul(xp, x, y, adj_x=adj_x, adj_y=adj_y)


@arrays("TridiagonalMatMul", reals=True)
def _tridiagonal(xp: Any, superdiag: Any, maindiag: Any, subdiag: Any, rhs: Any) -> Any:
    check(rhs.ndim >= 2 and rhs.shape[-2] > 0)
    check(superdiag.shape == maindiag.shape == subdiag.shape)
    check(maindiag.shape == (*rhs.shape[:-2], 1, rhs.shape[-2]))
    above, main, below = (xp.matrix_transpose(each) for each in (superdiag, maindiag, subdiag))
    edge = xp.zeros_like(rhs[..., :1, :])
    later = xp.concat([above[..., :-1, :] * rhs[..., 1:, :], edge], axis=-2)
    earlier = xp.concat([edge, below[..., 1:, :] * rhs[..., :-1, :]], axis=-2)
    return main * rhs + later + earlier


@arrays("Einsum", reals=True)
def _einsum(xp: Any, *inputs: Any, equation: bytes) -> Any:
    text = equation.decode()
    size = output_shape(text, [each.shape for each in inputs])
    assert size is not None
    check(all(math.prod(each.shape) > 0 for each in inputs))
    terms, output = split_equation(text)
    wanted = numbered(output, len(size))
    axes = [numbered(term, each.ndim) for term, each in zip(terms, inputs, strict=True)]
    check(all(len(set(each)) == len(each) for each in (wanted, *axes)))  # no diagonals
    kept = set(wanted)
    if len(inputs) == 1:
        value, found = _summed(xp, inputs[0], axes[0], kept)
    else:
        x, ax = _summed(xp, inputs[0], axes[0], kept | set(axes[1]))
        y, ay = _summed(xp, inputs[1], axes[1], kept | set(ax))
        value, found = _contracted(xp, x, ax, y, ay, kept)
    check(len(found) == len(wanted))
    return xp.asarray(xp.permute_dims(value, tuple(map(found.index, wanted))), copy=True)


def _summed(xp: Any, x: Any, axes: list[int], kept: set[int]) -> tuple[Any, list[int]]:
    """x summed along the axes that are not in `kept`."""
    gone = tuple([at for at, axis in enumerate(axes) if axis not in kept])
    if not gone:
        return x, axes
    return xp.sum(x, axis=gone, dtype=x.dtype), [axis for axis in axes if axis in kept]


def _contracted(
    xp: Any, x: Any, ax: list[int], y: Any, ay: list[int], out: set[int]
) -> tuple[Any, list[int]]:
    """The sum of products along what only x and y have."""
    batch = [axis for axis in ax if axis in ay and axis in out]
    summed = [axis for axis in ax if axis in ay and axis not in out]
    rows = [axis for axis in ax if axis not in ay]
    columns = [axis for axis in ay if axis not in ax]
    x = xp.permute_dims(x, tuple([ax.index(axis) for axis in (*batch, *rows, *summed)]))
    y = xp.permute_dims(y, tuple([ay.index(axis) for axis in (*batch, *summed, *columns)]))
    n, r, s = len(batch), len(rows), len(summed)
    inner = math.prod(x.shape[n + r :])
    check(inner == math.prod(y.shape[n : n + s]))
    left = xp.reshape(x, (*x.shape[:n], math.prod(x.shape[n : n + r]), inner))
    right = xp.reshape(y, (*y.shape[:n], inner, math.prod(y.shape[n + s :])))
    product = xp.matmul(left, right)
    shape = (*product.shape[:n], *x.shape[n : n + r], *y.shape[n + s :])
    return xp.reshape(product, shape), batch + rows + columns


def _adjoint(xp: Any, x: Any) -> Any:
    turned = xp.matrix_transpose(x)
    return xp.conj(turned) if xp.isdtype(x.dtype, "complex floating") else turned
