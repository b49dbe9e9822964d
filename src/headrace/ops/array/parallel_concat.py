"""ParallelConcat: rows that are written into one array, each as soon as it is there.

A TensorFlow master sends it as its parts: one op that makes the array, one for each row that writes into it, and an
Identity that waits for all of them.
Source: TF 1.15 core/kernels/inplace_ops.cc; the partitions of TF 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.traits import ALIASES, NEVER_FOLDED, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged

__all__: list[str] = []

Array = np.ndarray[Any, Any]


def _declared(c: ShapeContext) -> Any:
    return shape_rules.as_raw(c.attr("shape"))


@op(
    "ParallelConcat",
    inputs="values: N * T",
    outputs="output: T",
    attrs="N: int >= 1; T: type; shape: shape",
    shape=_declared,
)
def parallel_concat_op(xp: Any, *values: Array) -> Any:
    """values: N of [1, d1..dn] -> [N, d1..dn].  Raises InvalidArgument if their shapes differ."""
    first = values[0].shape
    for value in values:
        if value.shape != first or first[:1] != (1,):
            raise errors.invalid_argument(
                f"ParallelConcat takes values of one shape that begins with 1, not {first} and {value.shape}"
            )
    return np.concatenate(values)


@op(
    "_ParallelConcatStart",
    outputs="output: dtype",
    attrs="shape: shape; dtype: type",
    shape=_declared,
    traits={STATEFUL},
)
def parallel_concat_start_op(xp: Any, *, shape: Any, dtype: dtypes.DType) -> Any:
    """An array of that shape whose rows are still to be written."""
    empty = b"" if dtype == dtypes.string else 0
    return np.full(shape_rules.as_raw(shape) or (), empty, dtype.np)


@op(
    "_ParallelConcatUpdate",
    inputs="value: T; update: T",
    outputs="output: T",
    attrs="T: type; loc: int",
    shape=unchanged,
    traits={NEVER_FOLDED, ALIASES},
)
def parallel_concat_update_op(xp: Any, value: Array, update: Array, *, loc: int) -> Any:
    """`value`, whose row `loc` becomes `update` [1, d1..dn]; a loc below 0 counts from the end.

    Raises InvalidArgument if the row does not fit or is not there.
    """
    if value.shape[1:] != update.shape[1:] or not value.ndim or update.shape[:1] != (1,):
        raise errors.invalid_argument(
            f"a row of shape {update.shape} does not fit into an array of shape {value.shape}"
        )
    if not -len(value) <= loc < len(value):
        raise errors.invalid_argument(f"an array of {len(value)} rows has no row {loc}")
    value[loc] = update[0]
    return value
