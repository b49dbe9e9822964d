"""Array kernels of products of matrices.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.ops._portable.table import arrays, check


@arrays("MatMul", reals=True)
def _matmul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    check(a.ndim == b.ndim == 2)
    return xp.matmul(a.T if transpose_a else a, b.T if transpose_b else b)


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


def _adjoint(xp: Any, x: Any) -> Any:
    turned = xp.matrix_transpose(x)
    return xp.conj(turned) if xp.isdtype(x.dtype, "complex floating") else turned
