"""Sums of many tensors: AddN and AccumulateNV2.

Called by: gradients, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/aggregate_ops.cc, python/ops/math_ops.py; GraphDefs as 2.21
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import text
from headrace.base.traits import (
    AGGREGATE,
    ALIASES,
    COMMUTATIVE,
    NEVER_FAILS,
    PASSES_LIST,
    PER_RECORD,
)
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.ragged import of_ragged_list
from headrace.graph.registry import op
from headrace.graph.shape_fns import from_attr, merged
from headrace.graph.tensor import Tensor
from headrace.ops.flow.identities import identity
from headrace.ops.tables import ALL_NUMBERS
from headrace.run.state import variants

__all__ = ["accumulate_n", "add_n"]


def _same_shapes(inputs: tuple[Any, ...]) -> None:
    for number, other in enumerate(inputs):
        if other.shape != inputs[0].shape:
            raise errors.invalid_argument(
                f"Inputs to a sum must have the same size and shape. Input 0: {text(inputs[0].shape)} != input "
                f"{number}: {text(other.shape)}"
            )


def _sum_of_many(xp: Any, *inputs: Any) -> Any:
    """The sum of tensors of one shape.

    Raises InvalidArgument if shapes differ; Internal for variants of different kinds, or of one that cannot be added.
    Source: TF 1.15 core/kernels/aggregate_ops.cc
    """
    if len(inputs) == 2 and inputs[0].__class__ is inputs[1].__class__ is np.ndarray:
        first, second = inputs
        if first.shape == second.shape and first.dtype != object:
            return np.add(first, second)
    _same_shapes(inputs)
    if len(inputs) == 1:
        return inputs[0]
    if inputs[0].dtype == object:
        return variants.total(inputs)
    total = xp.add(inputs[0], inputs[1])
    in_place = total.__class__ is np.ndarray
    for other in inputs[2:]:
        total = np.add(total, other, total) if in_place else xp.add(total, other)
    return total


_SUM: dict[str, Any] = {
    "inputs": "inputs: N * T",
    "outputs": "sum: T",
    "traits": {ALIASES, COMMUTATIVE, AGGREGATE, NEVER_FAILS, PER_RECORD, PASSES_LIST},
}
add_n_op = op("AddN", attrs=f"N: int >= 1; T: {{{ALL_NUMBERS}, variant}}", shape=merged, **_SUM)(
    _sum_of_many
)
accumulate_n_v2 = op(
    "AccumulateNV2",
    attrs=f"N: int >= 1; T: {{{ALL_NUMBERS}}}; shape: shape",
    shape=from_attr("shape"),
    **_SUM,
)(_sum_of_many)


def _to_each(op: Operation, dout: Any) -> list[Any]:
    return [dout] * len(op.inputs)


add_n_op.gradient(_to_each)
accumulate_n_v2.gradient(_to_each)


@of_ragged_list
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of tensors of one shape and type; IndexedSlices count as the tensors they stand for.

    Raises ValueError if there is nothing to add, or shapes or types differ.
    """
    tensors = _summands(inputs, "Inputs must be an iterable of at least one Tensor/IndexedSlices")
    kinds = [tensor.dtype.base_dtype for tensor in tensors]
    if len(set(kinds)) > 1:
        names = ", ".join(kind.name for kind in kinds)
        raise TypeError(
            f"Tensors in list passed to 'inputs' of 'AddN' Op have types [{names}] "
            "that don't all match; tf.cast converts"
        )
    if len(tensors) == 1:
        only = tensors[0] if isinstance(tensors[0], Tensor) else convert(tensors[0])
        return identity(only, name=name) if name else only
    total: Tensor = add_n_op(tensors, name=name)
    return total


def _summands(inputs: Any, refusal: str) -> list[Any]:
    if isinstance(inputs, Tensor) or not isinstance(inputs, Iterable):
        raise ValueError(f"{refusal} with the same dtype and shape, not {inputs!r:.80}")
    tensors = [item if isinstance(item, IndexedSlices) else convert(item) for item in inputs]
    if not tensors:
        raise ValueError(f"{refusal} with the same dtype and shape, and there is none")
    return tensors


def accumulate_n(
    inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Tensor:
    """`add_n` for tensors that all have `shape` and `tensor_dtype`, where these are given.

    Raises ValueError (nothing to add, shapes that cannot fit), TypeError (another type).
    """
    refusal = "inputs must be a list of at least one Tensor"
    tensors = [convert(item) for item in _summands(inputs, refusal)]
    kinds = sorted({tensor.dtype.base_dtype.name for tensor in tensors})
    if len(kinds) > 1:
        raise ValueError(f"{refusal} with the same dtype and shape: these are {', '.join(kinds)}")
    known = shape_rules.TensorShape(shape)
    for tensor in tensors:
        known = known.merge_with(tensor.shape)
    found = known._raw
    if (
        tensor_dtype is not None
        and dtypes.as_dtype(tensor_dtype) is not tensors[0].dtype.base_dtype
    ):
        raise TypeError(
            f"tensor_dtype is {dtypes.as_dtype(tensor_dtype).name}, but the tensors are {tensors[0].dtype.name}"
        )
    total = add_n(tensors, name)
    if total.raw_shape != found:
        total.set_shape(found)
    return total
