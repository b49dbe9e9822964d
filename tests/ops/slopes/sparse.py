"""Sparse tensors cut, reduced and combined with dense ones."""

from __future__ import annotations

import numpy as np

from headrace.graph.registry import get
from tests.ops.slopes import Cases

_V3 = np.array([0.7, -1.9, 2.3])
_M34 = np.arange(12).reshape(3, 4) / 7 - 0.8
_AT = np.array([[0, 0], [0, 2], [2, 1]])
_SHAPE = np.array([3, 4])

CASES: Cases = {
    "SparseSlice": (
        lambda v: get("SparseSlice")(_AT, v, _SHAPE, np.array([0, 0]), np.array([2, 4]))[1], [_V3],
    ),
    "SparseFillEmptyRows": (
        lambda v, d: get("SparseFillEmptyRows")(_AT, v, np.array([4, 4]), d)[1], [_V3, np.array(0.4)],
    ),
    "SparseReduceSum": (lambda v: get("SparseReduceSum")(_AT, v, _SHAPE, np.array([1], np.int32)), [_V3]),
    "SparseReduceSum kept": (
        lambda v: get("SparseReduceSum")(_AT, v, _SHAPE, np.array(0, np.int32), keep_dims=True), [_V3],
    ),
    "SparseSoftmax": (lambda v: get("SparseSoftmax")(_AT, v, _SHAPE), [_V3]),
    **{
        f"SparseDenseCwise{name}{' ' if what else ''}{what}": (
            lambda v, d, name=name: get(f"SparseDenseCwise{name}")(_AT, v, _SHAPE, d), [_V3, dense],
        )
        for name in ("Add", "Mul", "Div")
        for what, dense in (("", _M34), ("row", _M34[0]), ("column", _M34[:, :1]))
    },
}  # fmt: skip

ELSEWHERE: set[str] = set()
