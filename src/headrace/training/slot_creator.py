"""Slots: variables that an optimizer keeps beside each variable it trains.

A slot of ``w`` for optimizer Adam is named ``w/Adam`` (then ``w/Adam_1``, …) and lies with ``w``.
Called by: training.optimizer and its subclasses.  Threads: as graph.
Source: TF 1.15 python/training/slot_creator.py, for names; checked against the oracle
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.names import colocate_with
from headrace.graph.registry import get
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import (
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.library.variables.variables import Variable
from headrace.ops.array.constants import zeros
from headrace.ops.state.references import is_resource_variable

__all__: list[str] = []


def create_slot(primary: Any, val: Any, name: str, colocate: bool = True) -> Any:
    """A slot of `primary` that starts as the tensor `val`; unless `colocate`, it may lie anywhere."""
    with variable_scope(None, f"{primary.op.name}/{name}"), _placed(primary, colocate):
        return _variable(primary, val, None, None)


def create_slot_with_initializer(
    primary: Any,
    initializer: Any,
    shape: TensorShape,
    dtype: Any,
    name: str,
    colocate: bool = True,
) -> Any:
    """A slot of `primary` that starts as `initializer(shape, dtype)`."""
    with variable_scope(None, f"{primary.op.name}/{name}"), _placed(primary, colocate):
        return _variable(primary, initializer, shape, dtype)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate: bool = True) -> Any:
    """A slot of zeros of the shape of `primary`, known statically or not."""
    kind = primary.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype)
    shape = primary.get_shape()
    if shape.is_fully_defined():
        return create_slot_with_initializer(
            primary, zeros_initializer(), shape, kind, name, colocate
        )
    value = primary.initialized_value() if isinstance(primary, Variable) else primary
    return create_slot(primary, zeros(get("Shape")(value), dtype=kind), name, colocate)


def _placed(primary: Any, colocate: bool) -> AbstractContextManager[None]:
    return colocate_with(primary) if colocate else nullcontext()


def _kind_as(primary: Any) -> bool | None:
    """Whether a slot of `primary` is a resource variable; None: as any new variable."""
    return is_resource_variable(primary) if isinstance(primary, Variable) else None


def _variable(primary: Any, initializer: Any, shape: TensorShape | None, dtype: Any) -> Any:
    get_variable_scope().set_partitioner(
        None
    )  # the scope is the slot's own; a part is not cut again
    slot = get_variable(
        "",
        initializer=initializer,
        trainable=False,
        shape=shape,
        dtype=dtype,
        validate_shape=primary.get_shape().is_fully_defined(),
        partitioner=None,
        use_resource=_kind_as(primary),
    )
    _slice_as(primary, slot)
    return slot


def _slice_as(primary: Any, slot: Any) -> None:
    """A slot of a part of a partitioned variable is the same part of a whole slot."""
    info = primary._get_save_slice_info() if hasattr(primary, "_get_save_slice_info") else None
    rank = slot.get_shape().ndims
    if info is None or rank == 0:
        return
    name = slot.op.name[len(primary.op.name) + 1 :]
    slot._set_save_slice_info(
        type(info)(
            f"{info.full_name}/{name}",
            info.full_shape[:rank],
            info.var_offset[:rank],
            info.var_shape[:rank],
        )
    )
