"""assert_type, assert_integer, is_numeric_tensor, …: checks of dtypes, all of them while the graph is built.

Called by: rank and shape checks, programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.flow.identities import no_op

__all__ = [
    "assert_integer",
    "assert_proper_iterable",
    "assert_same_float_dtype",
    "assert_type",
    "is_numeric_tensor",
]


def prefixed(message: str | None) -> str:
    """A user's message as it begins an error."""
    return f"{message}.  " if message else ""


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """x is of an integer type.  Raises TypeError if it is not."""
    with name_scope(name, "assert_integer", [x]):
        x = convert(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(
                f'{prefixed(message)}Expected "x" to be integer type.  Found: {x.name} of dtype {x.dtype}'
            )
        known: Operation = no_op("statically_determined_was_integer")
        return known


def assert_type(
    tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None
) -> Operation:
    """`tensor` (sparse ones, too) is of type `tf_type`.  Raises TypeError if it is not."""
    wanted = dtypes.as_dtype(tf_type)
    values = [tensor.values] if isinstance(tensor, SparseTensor) else [tensor]
    with name_scope(name, "assert_type", values):
        if not isinstance(tensor, SparseTensor):
            tensor = convert(tensor, name="tensor")
        if tensor.dtype != wanted:
            shown = getattr(tensor, "name", None) or tensor.values.name
            raise TypeError(
                f"{prefixed(message)}{shown} must be of type {wanted!r}; got {tensor.dtype!r}"
            )
        known: Operation = no_op("statically_determined_correct_type")
        return known


def assert_same_float_dtype(tensors: Iterable[Any] | None = None, dtype: Any = None) -> DType:
    """The floating-point type that all `tensors` have, and which `dtype` says if it is given; float32 of none.

    Raises ValueError if they differ, or it is no floating-point type.
    """
    wanted = None if not dtype else dtypes.as_dtype(dtype)
    first: Any = None
    for tensor in tensors or ():
        if tensor is None or not hasattr(tensor, "dtype"):
            continue
        found = dtypes.as_dtype(tensor.dtype).base_dtype
        if wanted is None:
            first, wanted = tensor, found
        elif found != wanted.base_dtype:
            beside = "" if first is None else f" as {_shown(first)}"
            raise ValueError(
                f"{_shown(tensor)}, type={found}, must be of the same type ({wanted}){beside}."
            )
    if wanted is None:
        return dtypes.float32
    if not wanted.is_floating:
        raise ValueError(f"Expected floating point type, got {wanted}.")
    return wanted


def _shown(value: Any) -> str:
    return str(getattr(value, "name", value))


def assert_proper_iterable(values: Any) -> None:
    """`values` is a list, or another collection, not one tensor, array or string.  Raises TypeError."""
    if isinstance(values, _WHOLE):
        raise TypeError(
            f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}'
        )
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


_ARRAY = type(dtypes.float32.np.type(0).reshape(1))
_WHOLE = (Tensor, SparseTensor, IndexedSlices, _ARRAY, bytes, str)


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and (
        tensor.dtype.is_floating
        or tensor.dtype.is_integer
        or tensor.dtype.is_complex
        or tensor.dtype.is_quantized
    )
