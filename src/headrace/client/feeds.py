"""Feeds: what the caller gives for tensors, checked and turned into arrays.

Called by: client.session.  Threads: any.
Source of rules and error classes: TF 1.15 behaviour, checked against the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.base import shapes as shape_rules
from headrace.client.fetches import Fetches
from headrace.codec import protos as pb
from headrace.graph.graph import Graph
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.ragged import Ragged, RaggedTensorValue
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor

FeedExpansion = tuple[type, Callable[[Any, Any], list[tuple[Any, Any]]]]
_expansions: list[FeedExpansion] = []


def register_feed_conversion(
    kind: type, expand: Callable[[Any, Any], list[tuple[Any, Any]]]
) -> None:
    """Let objects of `kind` be fed: `expand(key, value)` gives the (tensor, value) pairs."""
    _expansions.insert(0, (kind, expand))


def resolve(graph: Graph, feed_dict: Mapping[Any, Any]) -> dict[Tensor, Any]:
    """Tensors of `graph` and their values as arrays, for `encoded` and `as_fed`.

    Raises TypeError (a key that is no tensor, a value that is one or cannot be converted),
    ValueError (a shape or value that cannot be the tensor's).
    """
    if feed_dict.__class__ is not dict and not isinstance(feed_dict, Mapping):
        raise TypeError(not_a_dict(feed_dict))
    found: dict[Tensor, Any] = {}
    for key, value in feed_dict.items():
        if key.__class__ is Tensor and key.op.graph is graph and key not in graph._unfeedable:
            found[key] = to_array(key, value)
        else:
            _resolve_into(found, graph, key, value)
    return found


def _resolve_into(found: dict[Tensor, Any], graph: Graph, key: Any, value: Any) -> None:
    for part, its_value in _expand(key, value):
        tensor = _tensor(graph, part)
        if not graph.is_feedable(tensor):
            raise ValueError(
                f"Tensor {tensor.name} may not be fed: the graph was built relying on its value"
            )
        found[tensor] = to_array(tensor, its_value)


def tensors(graph: Graph, feeds: Any) -> list[Tensor]:
    """The tensors that a list of things to feed stands for.  Raises TypeError."""
    found: list[Tensor] = []
    for feed in feeds if isinstance(feeds, (list, tuple)) else [feeds]:
        if isinstance(feed, (SparseTensor, IndexedSlices, Ragged)):
            found.extend(Fetches(graph, feed).tensors)
        elif isinstance(feed, (list, tuple)):
            found.extend(tensors(graph, feed))
        else:
            found.append(_tensor(graph, feed))
    return found


def as_given(value: Any) -> Any:
    """`value` as an array of the type that NumPy sees in it; strings as bytes."""
    array = np.asarray(value)
    return strings(value) if array.dtype.kind in "OSU" else array


def _expand(key: Any, value: Any) -> list[tuple[Any, Any]]:
    if isinstance(key, (Tensor, str)):
        return [(key, value)]
    for kind, expand in _expansions:
        if isinstance(key, kind):
            return [pair for part in expand(key, value) for pair in _expand(*part)]
    if isinstance(key, SparseTensor):
        return _parts(key, [key.indices, key.values, key.dense_shape], value)
    if isinstance(key, Ragged):
        return _ragged_parts(key, value)
    if isinstance(key, IndexedSlices):
        shape = [] if key.dense_shape is None else [key.dense_shape]
        return _parts(key, [key.values, key.indices, *shape], value)  # a pair leaves the shape open
    if isinstance(key, tuple):
        if not isinstance(value, (list, tuple)) or len(value) != len(key):
            count = (
                f" but value had {len(value)} elements" if isinstance(value, (list, tuple)) else ""
            )
            raise ValueError(
                f"Could not flatten dictionary. Key had {len(key)} elements,{count}: a tuple of tensors is fed a "
                f"tuple of as many values, not {value!r:.60}"
            )
        return [pair for part in zip(key, value, strict=True) for pair in _expand(*part)]
    return [(key, value)]


def _ragged_parts(key: Ragged, value: Any) -> list[tuple[Any, Any]]:
    """The innermost values and the row_splits, each with its own.  Raises TypeError."""
    if not isinstance(value, RaggedTensorValue) or value.ragged_rank != key.ragged_rank:
        raise TypeError(
            f"a ragged tensor of ragged rank {key.ragged_rank} is fed a RaggedTensorValue of that rank, and not "
            f"{value!r:.60}; tf.ragged.constant_value makes one of lists"
        )
    own = [key.flat_values, *key.nested_row_splits]
    return list(zip(own, [value.flat_values, *value.nested_row_splits], strict=True))


def _parts(key: Any, tensors: list[Tensor], value: Any) -> list[tuple[Any, Any]]:
    """Each tensor of a bundle with its value, as far as there are any.  Raises TypeError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        kind = type(key).__name__
        names = ", ".join(tensor.name for tensor in tensors)
        raise TypeError(
            f"a {kind} is fed a {kind}Value, or a tuple of values for {names}, and not {value!r:.60}"
        )
    return list(zip(tensors, value, strict=False))


def _tensor(graph: Graph, key: Any) -> Tensor:
    try:
        element = graph.as_graph_element(key, allow_operation=False)
    except (TypeError, ValueError, KeyError) as error:
        raise TypeError(
            f"Cannot interpret feed_dict key as Tensor: {error.args[0]} (the key is {key!r:.100})"
        ) from None
    assert isinstance(element, Tensor)
    return element


_EXACT: Final = frozenset("biu")


def to_array(tensor: Tensor, value: Any) -> Any:
    """`value` as an array of the tensor's dtype, of a shape that fits; strings as bytes, or `Strings`.

    An array of the right dtype is used as it is, not copied.
    """
    kind = tensor._dtype
    if value.__class__ is np.ndarray and value.dtype is kind.np and kind.np.kind != "O":
        if value.shape != tensor._raw and not shape_rules.compatible(tensor._raw, value.shape):
            raise _misshapen(tensor, value)
        return value
    if isinstance(value, Tensor):
        raise TypeError(
            f"The value of a feed cannot be a tf.Tensor object, as {value.name} is, given for {tensor.name}; "
            "feed arrays, numbers, strings or "
            "lists, and session.run the tensor first if you need its value"
        )
    if kind.base_dtype is dtypes.resource:
        return _handle(tensor, value)
    if kind.base_dtype is dtypes.variant:
        raise TypeError(f"{tensor.name} is a {kind.base_dtype.name}, which cannot be fed")
    try:
        array = np.asarray(value, dtype=kind.np)
        if kind.base_dtype is dtypes.string:
            array = _checked(array)
    except (TypeError, ValueError, OverflowError) as error:
        kind_of_error = TypeError if isinstance(error, OverflowError) else type(error)
        what = _incompatible(value, kind) if isinstance(error, OverflowError) else error
        raise kind_of_error(
            f"{what} (cannot feed {value!r:.60} ({_describe(value)}) for tensor {tensor.name}, which is "
            f"{kind.base_dtype.name}{shape_rules.text(tensor._raw)})"
        ) from None
    if type(value) is int and kind.np.kind in _EXACT and array.item() != value:
        raise TypeError(
            f"{_incompatible(value, kind)}, that of {tensor.name}; it does not fit there"
        )
    if array.shape != tensor._raw and not shape_rules.compatible(tensor._raw, array.shape):
        raise _misshapen(tensor, array)
    return array


def _misshapen(tensor: Tensor, array: Any) -> ValueError:
    return ValueError(
        f"Cannot feed value of shape {array.shape} for Tensor {tensor.name}, which has shape {tensor.shape}"
    )


def _incompatible(value: Any, kind: dtypes.DType) -> str:
    return f"Type of feed value {value!r:.60} with type {type(value)} is not compatible with Tensor type {kind.np.type}"


def not_a_dict(feeds: Any) -> str:
    """The text of the error for a feed_dict that is none."""
    return (
        f"'dict' must be a dictionary or collection.Mapping type object, instead of {type(feeds).__name__!r}: "
        "a feed_dict maps tensors to values"
    )


def _handle(tensor: Tensor, value: Any) -> Any:
    """What a session gave for a handle, as a scalar array."""
    array = np.empty((), object)
    array[()] = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    if not isinstance(array[()], pb.ResourceHandleProto):
        raise TypeError(
            f"{tensor.name} is a resource: feed the handle that session.run gives for it, not {value!r:.60}"
        )
    return array


def _describe(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}{list(value.shape)}"
    return type(value).__name__


_STRINGS: Final = (str, bytes, bytearray)


class Strings(np.ndarray[Any, Any]):
    """Strings that are not all bytes, as bytes.  given: as they were."""

    given: np.ndarray[Any, Any]


def _checked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, if its elements are bytes, or Strings.  Raises TypeError if an element is no string."""
    kinds = {*map(type, array.reshape(-1).tolist())}
    if kinds <= {bytes}:
        return array
    flat = array.reshape(-1)
    if not all(issubclass(kind, _STRINGS) for kind in kinds):
        item = next(item for item in flat if not isinstance(item, _STRINGS))
        raise TypeError(f"element {item!r:.40} is not a string")
    encoded = np.empty(flat.shape, object)
    for index, item in enumerate(flat):
        encoded[index] = item.encode() if isinstance(item, str) else bytes(item)
    made = encoded.reshape(array.shape).view(Strings)
    made.given = array
    return made


def strings(value: Any) -> np.ndarray[Any, Any]:
    """An object array of bytes; str is encoded as UTF-8.  Raises TypeError on other elements."""
    array: np.ndarray[Any, Any] = _plain(_checked(np.asarray(value, dtype=object)))
    return array


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if array.__class__ is Strings else array


def as_fed(value: Any) -> Any:
    """What `to_array` has made an array of: strings as they were given."""
    return value.given if value.__class__ is Strings else value


def string_positions(feeds: Sequence[Tensor]) -> tuple[int, ...]:
    """Which of `feeds` are strings."""
    return tuple(at for at, t in enumerate(feeds) if t._dtype._base is dtypes.string)


def encoded(values: Sequence[Any], positions: Iterable[int]) -> list[Any]:
    """`values` with those at `positions` as arrays of bytes, which is what steps want."""
    found = list(values)
    for at in positions:
        found[at] = _plain(found[at])
    return found
