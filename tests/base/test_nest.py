"""Nested structures."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from operator import add
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import nest

Pair = namedtuple("Pair", "b a")

STRUCTURES = st.recursive(
    st.integers() | st.none() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.tuples(inner, inner).map(lambda both: Pair(*both))
    ),
)


@pytest.mark.parametrize(
    ("structure", "leaves"),
    [
        ({"b": 1, "a": [2, (3, Pair(4, 5))], "c": None}, [2, 3, 4, 5, 1, None]),
        ("abc", ["abc"]),
        (7, [7]),
        ([], []),
        (OrderedDict(b=1, a=2), [2, 1]),
    ],
)
def test_leaves_come_from_left_to_right_and_by_sorted_keys(
    structure: Any, leaves: list[Any]
) -> None:
    assert nest.flatten(structure) == leaves


@given(STRUCTURES)
def test_packing_what_was_flattened_gives_the_structure_back(structure: Any) -> None:
    packed = nest.pack_sequence_as(structure, nest.flatten(structure))
    assert packed == structure
    assert type(packed) is type(structure)


@given(STRUCTURES)
def test_a_structure_is_like_itself(structure: Any) -> None:
    nest.assert_same_structure(structure, nest.map_structure(str, structure))


def test_the_kinds_of_containers_are_kept() -> None:
    lists: defaultdict[str, list[int]] = defaultdict(list, x=[1])
    doubled = nest.map_structure(lambda leaf: 2 * leaf, [lists, OrderedDict(b=1, a=2), Pair(3, 4)])
    assert doubled == [{"x": [2]}, OrderedDict(b=2, a=4), Pair(6, 8)]
    assert [type(part) for part in doubled] == [defaultdict, OrderedDict, Pair]
    assert list(doubled[1]) == ["b", "a"]
    assert doubled[0].default_factory is list


def test_several_structures_are_mapped_together() -> None:
    assert nest.map_structure(add, [1, {"a": 2}], [3, {"a": 4}]) == [4, {"a": 6}]
    assert nest.map_structure(add, [1, 2], (3, 4), check_types=False) == [4, 6]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nest.pack_sequence_as([1, 2], [1, 2, 3]), ValueError, "2 atoms.*had 3"),
        (lambda: nest.pack_sequence_as([1, 2], 4), TypeError, "a sequence of leaves"),
        (lambda: nest.pack_sequence_as(1, [4, 5]), ValueError, "one leaf.*has 2"),
        (lambda: nest.map_structure(add, [1, 2], [3]), ValueError, "2 parts against 1"),
        (lambda: nest.map_structure(add, [1, 2], (3, 4)), TypeError, "list against tuple"),
        (lambda: nest.map_structure(3, [1]), TypeError, "callable"),  # type: ignore[arg-type]
        (lambda: nest.map_structure(add), ValueError, "at least one"),
        (lambda: nest.map_structure(add, [1], depth=2), ValueError, "not depth"),
        (lambda: nest.assert_same_structure([[1]], [1]), ValueError, r"at \[0\].*not nested"),
        (lambda: nest.assert_same_structure({"a": 1}, {"b": 1}), ValueError, "keys"),
        (lambda: nest.assert_same_structure(Pair(1, 2), (1, 2)), TypeError, "Pair against tuple"),
        (lambda: nest.flatten({1: 2, "a": 3}), TypeError, "sortable"),
    ],
)
def test_disagreements_are_named(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize(
    ("value", "nested"),
    [(1, False), ("s", False), (b"s", False), (None, False), ([], True), ({}, True), ((), True),
     ({}.values(), True), (Pair(1, 2), True), ({1, 2}, False)],
)  # fmt: skip
def test_what_is_nested(value: Any, nested: bool) -> None:
    assert nest.is_nested(value) is nested
