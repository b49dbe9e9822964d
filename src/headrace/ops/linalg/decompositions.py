"""Matrix decompositions: Qr.

Called by: initializers, programs.  Threads: any.
Source: TF 1.15 core/ops/linalg_ops.cc
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext

__all__: list[str] = []

Array = np.ndarray[Any, Any]


def _qr_shapes(c: ShapeContext) -> list[Shape]:
    shape = c.with_rank_at_least("input", 2)
    if shape is None:
        return [None, None]
    *batch, rows, columns = shape
    if c.attr("full_matrices"):
        return [(*batch, rows, rows), (*batch, rows, columns)]
    inner = None if rows is None or columns is None else min(rows, columns)
    return [(*batch, rows, inner), (*batch, inner, columns)]


@op(
    "Qr",
    inputs="input: T",
    outputs="q: T; r: T",
    attrs="full_matrices: bool = false; T: {double, float, half, complex64, complex128}",
    shape=_qr_shapes,
)
def qr_op(xp: Any, input: Array, *, full_matrices: bool) -> Any:
    """input [..., m, n] = q r: q with orthonormal columns, r upper triangular.

    q [..., m, k], r [..., k, n], k = min(m, n), or m with full_matrices.  Raises InvalidArgument.
    """
    if input.ndim < 2:
        raise errors.invalid_argument(f"qr needs matrices, not shape {shapes.text(input.shape)}")
    kind = input.dtype
    wide = input.astype(np.float32) if kind == np.float16 else input
    if 0 in input.shape[:-2]:
        rows, columns = input.shape[-2:]
        inner = rows if full_matrices else min(rows, columns)
        batch = input.shape[:-2]
        return np.empty((*batch, rows, inner), kind), np.empty((*batch, inner, columns), kind)
    q, r = np.linalg.qr(wide, mode="complete" if full_matrices else "reduced")
    return q.astype(kind, copy=False), r.astype(kind, copy=False)
