"""tensorflow.python.util.nest: what it has beyond tf.nest.

Structures are lists, tuples, named tuples and dicts, as for tf.nest.
Called by: programs.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.base.nest import is_nested, pack_sequence_as


def _parts(structure: Any) -> list[Any]:
    if isinstance(structure, Mapping):
        return [structure[key] for key in sorted(structure)]
    return list(structure)


def assert_shallow_structure(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, **kwargs: Any
) -> None:
    """Raise TypeError or ValueError unless `input_tree` has the structure of `shallow_tree`, and perhaps more below."""
    if not is_nested(shallow_tree):
        return
    if not is_nested(input_tree):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(input_tree)}."
        )
    if check_types and type(input_tree) is not type(shallow_tree):
        both = isinstance(input_tree, Mapping) and isinstance(shallow_tree, Mapping)
        if not both:
            raise TypeError(
                "The two structures don't have the same sequence type. "
                f"Input structure has type {type(input_tree)}, while shallow structure has type {type(shallow_tree)}."
            )
    if len(input_tree) != len(shallow_tree):
        raise ValueError(
            "The two structures don't have the same sequence length. "
            f"Input structure has length {len(input_tree)}, while shallow structure has length {len(shallow_tree)}."
        )
    if isinstance(shallow_tree, Mapping) and set(input_tree) != set(shallow_tree):
        raise ValueError(
            f"The two structures don't have the same keys: {sorted(input_tree)} and {sorted(shallow_tree)}."
        )
    for shallow, deep in zip(_parts(shallow_tree), _parts(input_tree), strict=True):
        assert_shallow_structure(shallow, deep, check_types)


def _up_to(shallow: Any, deep: Any) -> Iterator[Any]:
    if not is_nested(shallow):
        yield deep
        return
    for inner, below in zip(_parts(shallow), _parts(deep), strict=True):
        yield from _up_to(inner, below)


def flatten_up_to(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, **kwargs: Any
) -> list[Any]:
    """What stands in `input_tree` where `shallow_tree` has its leaves."""
    assert_shallow_structure(shallow_tree, input_tree, check_types)
    return list(_up_to(shallow_tree, input_tree))


def map_structure_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any
) -> Any:
    """`func` of what stands in the inputs where `shallow_tree` has its leaves, in a structure like it."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    check_types = kwargs.get("check_types", True)
    columns = [flatten_up_to(shallow_tree, each, check_types) for each in inputs]
    return pack_sequence_as(shallow_tree, [func(*row) for row in zip(*columns, strict=True)])


def flatten_dict_items(dictionary: Mapping[Any, Any]) -> dict[Any, Any]:
    """{"a": 1, ("b", "c"): (2, 3)} is {"a": 1, "b": 2, "c": 3}.  Raises TypeError, ValueError."""
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    found: dict[Any, Any] = {}
    for key, value in dictionary.items():
        keys = list(_leaves(key)) if is_nested(key) else [key]
        values = list(_leaves(value)) if is_nested(key) and is_nested(value) else [value]
        if len(keys) != len(values):
            raise ValueError(
                f"Could not flatten dictionary. Key had {len(keys)} elements, but value had {len(values)} elements. "
                f"Key: {keys}, value: {values}."
            )
        for inner, each in zip(keys, values, strict=True):
            if inner in found:
                raise ValueError(f"Could not flatten dictionary: key {inner} is not unique.")
            found[inner] = each
    return found


def _leaves(structure: Any) -> Iterator[Any]:
    if not is_nested(structure):
        yield structure
        return
    for part in _parts(structure):
        yield from _leaves(part)


def yield_flattened_paths(structure: Any) -> Iterator[tuple[Any, ...]]:
    """The keys and places that lead to each leaf."""
    if not is_nested(structure):
        yield ()
        return
    keys = sorted(structure) if isinstance(structure, Mapping) else range(len(structure))
    for key, part in zip(keys, _parts(structure), strict=True):
        for path in yield_flattened_paths(part):
            yield (key, *path)


def flatten_with_joined_string_paths(structure: Any, separator: str = "/") -> list[tuple[str, Any]]:
    """[("a/0", leaf), …]."""
    return [
        (separator.join(map(str, path)), leaf)
        for path, leaf in zip(yield_flattened_paths(structure), _leaves(structure), strict=True)
    ]
