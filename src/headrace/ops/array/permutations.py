"""Permutations: their inverses.

Called by: array.shapes, users.  Threads: any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import text
from headrace.graph.registry import op

__all__ = ["invert_permutation"]


@op(
    "InvertPermutation",
    inputs="x: T",
    outputs="y: T",
    attrs="T: {int32, int64} = int32",
    shape=lambda c: c.with_rank("x", 1),
    differentiable=False,
)
def invert_permutation(xp: Any, x: Any) -> Any:
    """y with y[x[i]] = i.

    x [n]: a permutation of 0..n-1.  Raises InvalidArgument if it is none.
    Source: TF 1.15 core/kernels/transpose_op.cc
    """
    if np.ndim(x) != 1:
        raise errors.invalid_argument(
            f"invert_permutation expects a 1D vector, not one of shape {text(np.shape(x))}"
        )
    out = np.full(x.shape, -1, x.dtype)
    for index, target in enumerate(x.tolist()):
        if not 0 <= target < len(x):
            raise errors.invalid_argument(
                f"{target} is not between 0 and {len(x)}: it stands at {index}"
            )
        if out[target] != -1:
            raise errors.invalid_argument(f"{target} is duplicated in the input {x.tolist()}")
        out[target] = index
    return out
