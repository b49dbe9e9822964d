"""Scatters into resource variables: rows at indices, slices at coordinates.

The updates are those of the ops on reference variables (ops.state.references), each done under the variable's lock.
Called by: library.variables.resource_variables, optimizers.  Threads: kernels run in any step's thread.
Source: TF 1.15 core/kernels/resource_variable_ops.cc and scatter_nd_op.cc; checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import shapes
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.base.traits import STATEFUL, UPDATES
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, check_scattered
from headrace.ops._kernels.row_changes import divide_at, in_place, put_at
from headrace.ops.state.references import scatter, scatter_nd
from headrace.ops.state.resources import existing, held

__all__: list[str] = []

_NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "qint16, quint16, uint16, complex128, half, uint32, uint64}"
)
Apply = Callable[..., None]


def _rows_fit(c: ShapeContext) -> list[Shape]:
    whole, indices, updates = held(c), c.shape("indices"), c.shape("updates")
    if whole is not None and not whole:
        raise ValueError("a scalar variable has no rows to scatter into")
    if updates != () and whole is not None and indices is not None:
        shapes.merge(updates, indices + whole[1:])
    return []


def _rows(name: str, apply: Apply, says: str, types: str = _NUMBERS) -> OpSpec:
    def kernel(xp: Any, resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
        scatter(existing(resource, dtype), indices, updates, apply)

    kernel.__doc__ = (
        f"{says}; updates: indices.shape + variable.shape[1:] or a scalar; duplicates all count.\n\n"
        "    Raises InvalidArgument on a bad index or shape, NotFound before the first assignment."
    )
    return op(
        name,
        inputs="resource: resource; indices: Tindices; updates: dtype",
        attrs=f"dtype: {types}; Tindices: {{int32, int64}}",
        shape=_rows_fit,
        traits={UPDATES, STATEFUL},
        differentiable=False,
    )(kernel)


resource_scatter_update_op = _rows(
    "ResourceScatterUpdate",
    put_at,
    "variable[indices] = updates, the last duplicate wins",
    "type",
)
resource_scatter_add_op = _rows(
    "ResourceScatterAdd", in_place(np.add), "variable[indices] += updates"
)
resource_scatter_sub_op = _rows(
    "ResourceScatterSub", in_place(np.subtract), "variable[indices] -= updates"
)
resource_scatter_mul_op = _rows(
    "ResourceScatterMul", in_place(np.multiply), "variable[indices] *= updates"
)
resource_scatter_div_op = _rows("ResourceScatterDiv", divide_at, "variable[indices] /= updates")
resource_scatter_min_op = _rows(
    "ResourceScatterMin",
    in_place(np.minimum),
    "variable[indices] = min(variable[indices], updates)",
)
resource_scatter_max_op = _rows(
    "ResourceScatterMax",
    in_place(np.maximum),
    "variable[indices] = max(variable[indices], updates)",
)


def _slices_fit(c: ShapeContext) -> list[Shape]:
    whole, updates = held(c, "ref", "T"), c.shape("updates")
    indices = c.with_rank_at_least("indices", 1)
    check_scattered(whole, indices, updates)
    return []


def _slices(name: str, apply: Apply, says: str) -> OpSpec:
    def kernel(xp: Any, ref: Any, indices: Any, updates: Any, *, T: DType) -> None:
        scatter_nd(existing(ref, T), indices, updates, apply)

    kernel.__doc__ = (
        f"{says} at coordinates indices[..., :]; updates: indices.shape[:-1] + the rest.\n\n"
        "    Raises InvalidArgument on a bad coordinate or shape, NotFound before the first assignment."
    )
    return op(
        name,
        inputs="ref: resource; indices: Tindices; updates: T",
        attrs="T: type; Tindices: {int32, int64}; use_locking: bool = true; bad_indices_policy: string = ''",
        shape=_slices_fit,
        traits={STATEFUL},
        differentiable=False,
    )(kernel)


resource_scatter_nd_update_op = _slices("ResourceScatterNdUpdate", put_at, "Assign updates")
resource_scatter_nd_add_op = _slices("ResourceScatterNdAdd", in_place(np.add), "Add updates")
resource_scatter_nd_sub_op = _slices(
    "ResourceScatterNdSub", in_place(np.subtract), "Subtract updates"
)
resource_scatter_nd_min_op = _slices(
    "ResourceScatterNdMin", in_place(np.minimum), "Take the minimum with updates"
)
resource_scatter_nd_max_op = _slices(
    "ResourceScatterNdMax", in_place(np.maximum), "Take the maximum with updates"
)
