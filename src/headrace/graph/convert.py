"""convert_to_tensor: what may stand where a tensor is wanted.

Conversions are registered by whoever knows a type (constants, variables, packing of lists), in
priority order; this file knows tensors only.
Called by: graph.build, ops, users.  Threads: as graph.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.tensor import Tensor

Conversion = Callable[..., Any]
_FIXED = (int, float, complex, np.generic, np.ndarray)
_conversions: list[tuple[int, int, Any, Conversion]] = []


def register_tensor_conversion_function(
    base_type: Any, conversion_func: Conversion, priority: int = 100
) -> None:
    """Let `conversion_func(value, dtype, name, as_ref)` convert instances of `base_type`, a class or a tuple of them.

    Lower priorities are asked first; NotImplemented passes on to the next.
    Raises TypeError: no class, one of numbers or arrays (which stay what they are), no function.
    """
    kinds = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(kind, type) for kind in kinds):
        raise TypeError(
            f"Argument `base_type` must be a type or a tuple of types, not {base_type!r:.80}"
        )
    if any(issubclass(kind, _FIXED) for kind in kinds):
        raise TypeError(
            "Cannot register conversions for Python numeric types and NumPy scalars and arrays, such as "
            f"{base_type!r:.80}: make a class of your own"
        )
    if not callable(conversion_func):
        raise TypeError(
            f"Argument `conversion_func` must be callable, and is {conversion_func!r:.80}"
        )
    register(base_type, conversion_func, priority)


def register(base_type: Any, conversion_func: Conversion, priority: int = 100) -> None:
    """As `register_tensor_conversion_function`, of any class."""
    entry = (priority, len(_conversions), base_type, conversion_func)
    bisect.insort(_conversions, entry, key=lambda e: e[:2])
    _by_type.clear()


_by_type: dict[type, list[Conversion]] = {}


def _candidates(kind: type) -> list[Conversion]:
    found = _by_type.get(kind)
    if found is None:
        found = [e[3] for e in _conversions if issubclass(kind, e[2])]
        _by_type[kind] = found
    return found


def convert(
    value: Any,
    dtype: dtypes.DType | None = None,
    name: str | None = None,
    preferred_dtype: dtypes.DType | None = None,
    as_ref: bool = False,
) -> Tensor:
    """`value` as a tensor of the default graph, of `dtype` if one is given.

    Raises ValueError (a tensor of another dtype or graph), TypeError (nothing converts it).
    """
    if isinstance(value, Tensor):
        if dtype is not None and not dtype.is_compatible_with(value._dtype):
            raise ValueError(
                f"{f'{name}: ' if name else ''}Tensor conversion requested dtype {dtype.name} for Tensor "
                f"with dtype {value._dtype.name}: {value.name}; tf.cast converts"
            )
        return value
    for function in _candidates(type(value)):
        result: Any = NotImplemented
        if dtype is None and preferred_dtype is not None:
            try:
                result = function(value, dtype=preferred_dtype, name=name, as_ref=as_ref)
            except (TypeError, ValueError):
                result = NotImplemented
            if (
                result is not NotImplemented
                and result.dtype.base_dtype != preferred_dtype.base_dtype
            ):
                result = NotImplemented
        if result is NotImplemented:
            result = function(value, dtype=dtype, name=name, as_ref=as_ref)
        if result is NotImplemented:
            continue
        assert isinstance(result, Tensor), f"{function} returned {result!r}"
        if dtype is not None and not dtype.is_compatible_with(result._dtype):
            raise RuntimeError(
                f"the conversion of a {type(value).__name__} gave {result._dtype.name} instead of {dtype.name}"
            )
        return result
    raise TypeError(
        f"Cannot convert {value!r:.80} with type {type(value)} to Tensor: no conversion function registered"
        f"{f' that gives {dtype.name}' if dtype is not None else ''}"
    )


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    dtype_hint: Any = None,
) -> Tensor:
    """Public form of `convert`: dtypes in any spelling."""
    hint = preferred_dtype if preferred_dtype is not None else dtype_hint
    return convert(
        value,
        None if dtype is None else dtypes.as_dtype(dtype),
        name,
        None if hint is None else dtypes.as_dtype(hint),
    )


def convert_n_to_tensor(values: Any, dtype: Any = None, name: str | None = None) -> list[Tensor]:
    """Each of `values` converted; names get ``_0``, ``_1``, …"""
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    return [
        convert(value, wanted, None if name is None else f"{name}_{index}")
        for index, value in enumerate(values)
    ]


def _said(value: Any) -> str:
    return str(value if isinstance(value, Tensor) else value._as_graph_element())


def graph_of(values: Any) -> Any:
    """The graph that the tensors and variables among `values` belong to, or the default graph.

    While a function's body is built it is that, which takes what others have.
    Raises ValueError if they belong to several.
    """
    here = scopes.function_being_built()
    if here is not None:
        return here
    found = None
    first: Any = None
    for value in values:
        if isinstance(value, Tensor):
            graph: Any = value.op.graph
        elif hasattr(type(value), "_as_graph_element"):
            graph = value.graph
        else:
            continue
        if found is None:
            found, first = graph, value
        elif found is not graph:
            raise ValueError(
                f"{_said(value)} must be from the same graph as {_said(first)}: one was made in another tf.Graph"
            )
    return found if found is not None else scopes.get_default_graph()
