"""The n-th smallest element, and which of some intervals numbers are in.

Called by: programs (as raw ops), gradients as graph.  Threads: kernels any.
Source: TF 1.15 core/kernels/nth_element_op.cc, bucketize_op.cc
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.ops.array.shapes import expand_dims
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__: list[str] = []

Array = np.ndarray[Any, Any]


def _nth_shape(c: ShapeContext) -> Shape:
    x, n = c.with_rank_at_least("input", 1), c.value("n")
    c.with_rank("n", 0)
    if n is not None and n < 0:
        raise ValueError(f"Input must have last dimension > n >= 0, and n is {int(n)}")
    if x is None:
        return None
    if n is not None and x[-1] is not None and n >= x[-1]:
        raise ValueError(f"Input must have last dimension > n = {int(n)} but is {x[-1]}")
    return x[:-1]


@op(
    "NthElement",
    inputs="input: T; n: int32",
    outputs="values: T",
    attrs="reverse: bool = false; T: realnumbertype",
    shape=_nth_shape,
)
def nth_element_op(xp: Any, input: Array, n: Array, *, reverse: bool) -> Any:
    """The element of the last dimension that n [] others are below (reverse: above).

    input [..., m]; values [...].  Raises InvalidArgument.
    """
    if n.ndim:
        raise errors.invalid_argument(f"N must be scalar but has rank {n.ndim}")
    if n < 0:
        raise errors.invalid_argument(f"n must be non-negative but is {int(n)}")
    if not input.ndim:
        raise errors.invalid_argument(f"Input must be at least rank 1 but is rank {input.ndim}")
    size = input.shape[-1]
    if n >= size:
        raise errors.invalid_argument(
            f"Input must have at least n+1={int(n) + 1} columns, not {size}"
        )
    place = size - 1 - int(n) if reverse else int(n)
    return np.partition(input, place, axis=-1)[..., place]


@nth_element_op.gradient
def _(op: Operation, dout: Any) -> Any:
    x, value = op.inputs[0], expand_dims(op.outputs[0], -1)
    slope = expand_dims(dout, -1)
    same = cast(make.Equal(value, x), slope.dtype)  # the gradient is shared by equal ones
    return same / expand_dims(reduce_sum(same, -1), -1) * slope, None


@op(
    "Bucketize",
    inputs="input: T",
    outputs="output: int32",
    attrs="T: {int32, int64, float, double}; boundaries: list(float)",
    shape=unchanged,
    differentiable=False,
)
def bucketize_op(xp: Any, input: Array, *, boundaries: list[float]) -> Any:
    """How many of the boundaries, which rise, are at most each number of input.

    Raises InvalidArgument if they do not rise.
    """
    kind = input.dtype if input.dtype.kind == "f" else np.dtype(dtypes.float32.np)
    limits = _limits(tuple(boundaries), kind)
    if limits is None:
        raise errors.invalid_argument(f"Expected sorted boundaries, not {boundaries!r:.200}")
    return limits.searchsorted(input.astype(kind, copy=False), side="right").astype(np.int32)


@lru_cache(maxsize=256)
def _limits(boundaries: tuple[float, ...], kind: np.dtype[Any]) -> Array | None:
    """Boundaries, which an attr holds as float32, as an array; None unless they rise."""
    limits = np.array(boundaries, np.float32)
    return None if np.any(limits[1:] < limits[:-1]) else limits.astype(kind)
