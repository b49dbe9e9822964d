"""Small helpers of layers that programs use too: `tf.contrib.layers.utils`, `slim.utils`.

Called by: library.contrib, programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from headrace.base.shapes import Dimension, TensorShape
from headrace.graph.const_value import constant_value as value_of
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.variables.variables import Variable
from headrace.ops.flow.control_flow import cond

__all__ = [
    "NamedOutputs",
    "append_tensor_alias",
    "channel_dimension",
    "collect_named_outputs",
    "constant_value",
    "convert_collection_to_dict",
    "gather_tensors_aliases",
    "get_tensor_aliases",
    "get_variable_collections",
    "last_dimension",
    "n_positive_integers",
    "smart_cond",
    "static_cond",
    "two_element_tuple",
]


class NamedOutputs(NamedTuple):
    """A name and what it stands for."""

    name: str
    outputs: Any


def collect_named_outputs(
    collections: str | Iterable[str] | None, alias: str | None, outputs: Any
) -> Any:
    """Put `outputs` into the collections, with `alias` as a name for it.  Gives `outputs`."""
    if collections:
        append_tensor_alias(outputs, alias)
        keys = [collections] if isinstance(collections, str) else list(collections)
        for key in dict.fromkeys(keys):
            get_default_graph().add_to_collection(key, outputs)
    return outputs


def append_tensor_alias(tensor: Any, alias: str | None) -> Any:
    """Give a tensor one more name.  Gives the tensor."""
    if alias is not None:
        name = alias[:-1] if alias.endswith("/") else alias
        tensor.aliases = [*getattr(tensor, "aliases", ()), name]
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The names that were given to a tensor; its own if there are none."""
    found = getattr(tensor, "aliases", None)
    if found:
        return list(found)
    name = str(tensor.name)
    if name.endswith(":0"):
        name = name[:-2]
    return [name]


def gather_tensors_aliases(tensors: Iterable[Any]) -> list[str]:
    """The names of all of them."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def convert_collection_to_dict(
    collection: str, clear_collection: bool = False
) -> OrderedDict[str, Any]:
    """What a collection has, by names.  clear_collection: which is empty then."""
    graph = get_default_graph()
    found = OrderedDict(
        (alias, tensor)
        for tensor in graph.get_collection(collection)
        for alias in get_tensor_aliases(tensor)
    )
    if clear_collection:
        graph.clear_collection(collection)
    return found


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """The collections of a variable: by its name, if they are a dict."""
    if isinstance(variables_collections, Mapping):
        return variables_collections.get(name)
    return variables_collections


def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """The value, if it is known while the graph is built, otherwise None.  Raises ValueError: of another type."""
    if value_or_tensor_or_var is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    value = value_or_tensor_or_var
    if isinstance(value, (Tensor, Variable)):
        if dtype and value.dtype.base_dtype != dtype:
            raise ValueError(f"It has the wrong type {value.dtype} instead of {dtype}")
        return None if isinstance(value, Variable) else value_of(value)
    if dtype and not isinstance(value, type(dtype.as_numpy_dtype(value))):
        value = dtype.as_numpy_dtype(value)
    return value


def static_cond(pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any]) -> Any:
    """fn1() or fn2(), by a bool.  Raises TypeError: no functions."""
    _check_functions(fn1, fn2)
    return fn1() if pred else fn2()


def smart_cond(
    pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any], name: str | None = None
) -> Any:
    """fn1() or fn2(): now if the predicate is known, otherwise in the step.  Raises TypeError: no functions."""
    known = constant_value(pred)
    if known is None:
        return cond(pred, fn1, fn2, name=name)
    return static_cond(known, fn1, fn2)


def _check_functions(fn1: Any, fn2: Any) -> None:
    for name, given in (("fn1", fn1), ("fn2", fn2)):
        if not callable(given):
            raise TypeError(f"{name} must be callable, and is {given!r}")


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """The size of the last one.  Raises ValueError: it is not known, or there are less than min_rank."""
    return _dimension(shape, -1, min_rank)


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """The number of channels, which come last, or second if data_format begins with NC.  Raises ValueError."""
    return _dimension(shape, 1 if data_format.startswith("NC") else -1, min_rank)


def _dimension(shape: Any, axis: int, min_rank: int) -> int:
    shape = TensorShape(shape)
    if shape.ndims is None:
        raise ValueError("dims of shape must be known but is None")
    if shape.ndims < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {shape.ndims}")
    size = shape.as_list()[axis]
    if size is None:
        raise ValueError(f"dimension {axis} of shape must be known but is None: {shape}")
    return int(size)


def two_element_tuple(int_or_tuple: Any) -> tuple[Any, Any]:
    """A pair from one number or two.  Raises ValueError: neither."""
    given = int_or_tuple
    if isinstance(given, (list, tuple)):
        if len(given) != 2:
            raise ValueError(f"Must be a list with 2 elements: {given}")
        return int(given[0]), int(given[1])
    if isinstance(given, int):
        return given, given
    if isinstance(given, TensorShape) and len(given) == 2:
        first, second = given.as_list()
        return Dimension(first), Dimension(second)
    raise ValueError(
        "Must be an int, a list with 2 elements or a TensorShape of length 2, and is "
        f"{int_or_tuple!r}"
    )


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """n numbers, from one or from as many.  Raises ValueError: another count, or none above 0."""
    if n < 1:
        raise ValueError("n must be a positive integer")
    several = list(value) if isinstance(value, (list, tuple)) else [value] * n
    if isinstance(value, TensorShape):
        several = value.as_list()
    if len(several) != n:
        raise ValueError(f"Expected {n} positive integers, and there are {len(several)}: {value}")
    for each in several:
        if int(each) < 1:
            raise ValueError(f"expected positive integer, but received {each}")
    return tuple(int(each) for each in several)
