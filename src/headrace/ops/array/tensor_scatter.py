"""tensor_scatter_update, _add, _sub, _min, _max: a copy of a tensor with slices at coordinates changed.

Called by: programs.  Threads: kernels run in any step's thread.
Source: TF 1.15 core/kernels/scatter_nd_op.cc; values, nodes and errors checked against the oracle
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, check_scattered
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.row_changes import in_place, put_at
from headrace.ops._kernels.scattering import rows_at
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.gathering import coordinates, gather_nd
from headrace.ops.flow.identities import identity

__all__ = [
    "tensor_scatter_add",
    "tensor_scatter_nd_add",
    "tensor_scatter_nd_max",
    "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update",
    "tensor_scatter_sub",
    "tensor_scatter_update",
]


def _shape(c: ShapeContext) -> Shape:
    return _into(c, "tensor")


def _into(c: ShapeContext, arg: str) -> Shape:
    whole, indices, updates = c.shape(arg), c.with_rank_at_least("indices", 1), c.shape("updates")
    check_scattered(whole, indices, updates)
    return whole


def _family(
    name: str, apply: Callable[..., None], says: str, indices: str = "int32, int64"
) -> OpSpec:
    def kernel(
        xp: Any, tensor: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes
    ) -> Any:
        whole = np.array(tensor, order="C")
        where, updates = _checked(whole, indices, updates, bad_indices_policy)
        if where == ():
            times = math.prod(updates.shape[: updates.ndim - whole.ndim])
            for update in updates.reshape((times, *whole.shape)):
                apply(whole, (), update)
        elif updates.size:
            apply(*rows_at(whole, where), updates)
        return whole

    kernel.__doc__ = (
        f"A copy of tensor; {says} at coordinates indices[..., :].\n\n"
        "    indices [..., k]; updates: indices.shape[:-1] + tensor.shape[k:].  Raises InvalidArgument on a\n"
        "    coordinate out of range (bad_indices_policy IGNORE: leaves it out)."
    )
    return op(
        name,
        inputs="tensor: T; indices: Tindices; updates: T",
        outputs="output: T",
        attrs=f"T: type; Tindices: {{{indices}}}; bad_indices_policy: string = ''",
        shape=_shape,
    )(kernel)


def _checked(whole: Any, indices: Any, updates: Any, policy: bytes) -> tuple[Any, Any]:
    """Where the updates go, and those that go somewhere."""
    if not whole.ndim:
        raise errors.invalid_argument(
            "slices are scattered into a tensor of rank 1 or more, not into a scalar"
        )
    if np.ndim(indices) < 1 or indices.shape[-1] > whole.ndim:
        raise errors.invalid_argument(
            "Inner dimensions of output shape must match inner dimensions of updates shape. Output: "
            f"{shapes.text(whole.shape)} updates: {shapes.text(np.shape(updates))}; indices of shape "
            f"{shapes.text(np.shape(indices))} do not address a tensor of that shape: their last dimension is the "
            "number of axes"
        )
    wanted = indices.shape[:-1] + whole.shape[indices.shape[-1] :]
    if np.shape(updates) != wanted:
        raise errors.invalid_argument(
            "Inner dimensions of output shape must match inner dimensions of updates shape. Output: "
            f"{text(whole.shape)} updates: {text(np.shape(updates))}; they must have shape {text(wanted)} for indices "
            f"of shape {text(indices.shape)}"
        )
    where, bad = coordinates(indices, whole.shape, policy, "shape")
    if bad is not None:
        where, updates = tuple([part[~bad] for part in where]), updates[~bad]
    return where, updates


tensor_scatter_update = _family(
    "TensorScatterUpdate", put_at, "updates stand", "int16, int32, int64, uint16"
)
tensor_scatter_add = _family("TensorScatterAdd", in_place(np.add), "updates are added")
tensor_scatter_sub = _family("TensorScatterSub", in_place(np.subtract), "updates are subtracted")
tensor_scatter_min = _family(
    "TensorScatterMin", in_place(np.minimum), "the minimum with updates stands"
)
tensor_scatter_max = _family(
    "TensorScatterMax", in_place(np.maximum), "the maximum with updates stands"
)


tensor_scatter_nd_update, tensor_scatter_nd_add = tensor_scatter_update, tensor_scatter_add
tensor_scatter_nd_sub = tensor_scatter_sub
tensor_scatter_nd_min, tensor_scatter_nd_max = tensor_scatter_min, tensor_scatter_max


def _non_aliasing_add(
    xp: Any, input: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes
) -> Any:
    """TensorScatterAdd of older graphs; a vector of indices has a coordinate in each element.

    Raises as TensorScatterAdd.
    """
    if np.ndim(indices) == 1 and np.size(indices):
        indices = indices[:, None]
    add = cast("Callable[..., Any]", tensor_scatter_add.kernel)
    return add(xp, input, indices, updates, bad_indices_policy=bad_indices_policy)


scatter_nd_non_aliasing_add = op(
    "ScatterNdNonAliasingAdd",
    inputs="input: T; indices: Tindices; updates: T",
    outputs="output: T",
    attrs="T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, "
    "quint16, uint16, complex128, half, uint32, uint64, bool}; Tindices: {int32, int64}; "
    "bad_indices_policy: string = ''",
    shape=lambda c: _into(c, "input"),
)(_non_aliasing_add)


@tensor_scatter_update.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, Tensor]:
    _, indices, updates = op.inputs
    dout, of_updates = identity(dout), gather_nd(dout, indices)
    return tensor_scatter_update(dout, indices, zeros_like(updates)), None, of_updates


@tensor_scatter_add.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, Tensor]:
    return identity(dout), None, gather_nd(dout, op.inputs[1])


@scatter_nd_non_aliasing_add.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, Tensor]:
    return dout, None, gather_nd(dout, op.inputs[1])


@tensor_scatter_sub.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, Tensor]:
    return identity(dout), None, -gather_nd(dout, op.inputs[1])
