"""Nested structures: lists, tuples, namedtuples and mappings, down to leaves.  `tf.nest`.

Strings, arrays, tensors and None are leaves.  A mapping's values come in the order of its sorted
keys, whatever order they were put in.
Called by: programs, library.data.nest.  Threads: any.
Source: TF 1.15 behaviour of tf.nest
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence
from typing import Any

Nested = Callable[[Any], bool]
"""Whether something is a structure rather than a leaf."""


def is_nested(seq: Any) -> bool:
    """Whether `seq` is a structure rather than a leaf."""
    if isinstance(seq, (str, bytes)):
        return False
    return isinstance(seq, (Sequence, Mapping, MappingView)) or hasattr(
        type(seq), "__attrs_attrs__"
    )


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves from left to right; a leaf alone gives a list of one.

    Raises TypeError for a mapping whose keys cannot be sorted.
    """
    return list(leaves_of(structure))


def leaves_of(structure: Any, nested: Nested = is_nested) -> Iterator[Any]:
    """The leaves; `nested` says what is none."""
    if not nested(structure):
        yield structure
        return
    for _, part in parts_of(structure):
        yield from leaves_of(part, nested)


def parts_of(structure: Any) -> list[tuple[Any, Any]]:
    """(key, part) of one level, in flattening order."""
    if isinstance(structure, Mapping):
        try:
            return [(key, structure[key]) for key in sorted(structure)]
        except TypeError as error:
            raise TypeError(
                f"the keys {list(structure)!r:.100} of a nested dict must be sortable: {error}"
            ) from None
    if hasattr(type(structure), "__attrs_attrs__"):
        names = [field.name for field in type(structure).__attrs_attrs__]
        return [(name, getattr(structure, name)) for name in names]
    return list(enumerate(structure))


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """The structure with its leaves replaced, in flattening order.

    Raises TypeError (flat_sequence is no sequence), ValueError (the counts differ).
    """
    if not is_nested(flat_sequence):
        raise TypeError(
            f"Attempted to pack value:\n  {flat_sequence!r:.100}\ninto a structure, but found incompatible type "
            f"`{type(flat_sequence)}` instead: flat_sequence is a sequence of leaves"
        )
    given = list(flat_sequence)
    wanted = len(flatten(structure))
    if not is_nested(structure) and wanted != len(given):
        raise ValueError(
            f"The target structure is of type `{type(structure)}`, one leaf, {structure!r:.100}, "
            f"and flat_sequence has {len(given)}"
        )
    if wanted != len(given):
        raise ValueError(
            f"Could not pack sequence. Structure had {wanted} atoms, but flat_sequence had {len(given)} items: "
            f"{structure!r:.100}"
        )
    return packed(structure, iter(given))


def packed(structure: Any, leaves: Iterator[Any], nested: Nested = is_nested) -> Any:
    """The structure with other leaves; `nested` says what is none."""
    if not nested(structure):
        return next(leaves)
    made = {key: packed(part, leaves, nested) for key, part in parts_of(structure)}
    kind = type(structure)
    if isinstance(structure, Mapping):
        pairs = [(key, made[key]) for key in structure]
        if hasattr(structure, "default_factory"):
            return kind(structure.default_factory, pairs)
        return kind(pairs)
    if hasattr(kind, "__attrs_attrs__"):
        return kind(**made)
    if isinstance(structure, MappingView):
        return list(made.values())
    return kind(*made.values()) if hasattr(structure, "_fields") else kind(made.values())


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """A structure like the first, of func(leaf of each structure).

    check_types=False lets lists and tuples stand for each other.
    Raises TypeError and ValueError where the structures differ.
    """
    check_types = kwargs.pop("check_types", True)
    kwargs.pop("expand_composites", None)
    if kwargs:
        raise ValueError(
            f"Only valid keyword arguments are `check_types` and `expand_composites`, not {', '.join(kwargs)}"
        )
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func!r:.100}")
    if not structure:
        raise ValueError("Must provide at least one structure, whose leaves func is to get")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types=check_types)
    flat = zip(*map(flatten, structure), strict=True)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in flat])


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raises ValueError where the nesting or the keys differ, TypeError where the containers' types do."""
    try:
        _compare(nest1, nest2, check_types, "")
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"The two structures don't have the same nested structure: {error}; "
            f"they are {nest1!r:.200} and {nest2!r:.200}"
        ) from None


def _compare(first: Any, second: Any, check_types: bool, path: str) -> None:
    where = f"at {path or 'the top'}: "
    if is_nested(first) != is_nested(second):
        raise ValueError(f"{where}{first!r:.100} and {second!r:.100} are not nested alike")
    if not is_nested(first):
        return
    if check_types:
        _compare_types(first, second, where)
    mine, theirs = parts_of(first), parts_of(second)
    if len(mine) != len(theirs):
        raise ValueError(f"{where}{len(mine)} parts against {len(theirs)}")
    mappings = isinstance(first, Mapping) and isinstance(second, Mapping)
    if mappings and [key for key, _ in mine] != [key for key, _ in theirs]:
        raise ValueError(f"{where}the keys {sorted(first)} and {sorted(second)} differ")
    for (key, part), (_, other) in zip(mine, theirs, strict=True):
        _compare(part, other, check_types, f"{path}[{key!r}]")


def _compare_types(first: Any, second: Any, where: str) -> None:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return
    named = hasattr(first, "_fields") and hasattr(second, "_fields")
    if named and type(first).__name__ == type(second).__name__ and first._fields == second._fields:
        return
    if type(first) is not type(second):
        raise TypeError(f"{where}{type(first).__name__} against {type(second).__name__}")
