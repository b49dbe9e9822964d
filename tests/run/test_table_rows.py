"""Many keys at a time are found where a dict finds one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.run.state import table_rows
from headrace.run.state.table_rows import Finder, index_of

KINDS = [np.int8, np.int32, np.int64, np.uint16, np.uint64]
MANY = 5000


@st.composite
def numbers(draw: st.DrawFn) -> tuple[Any, Any]:
    """Different numbers of a type, and what is asked for: some of them, neighbours, 0 and others."""
    kind = draw(st.sampled_from(KINDS))
    info = np.iinfo(kind)
    any_number = st.integers(int(info.min), int(info.max))
    near = st.integers(0, min(200, int(info.max)))
    keys = draw(st.lists(st.one_of(any_number, near), min_size=1, max_size=60, unique=True))
    others = st.one_of(st.sampled_from(keys), any_number, st.just(0))
    asked = draw(st.lists(others, max_size=120))
    return np.array(keys, kind), np.array(asked, kind)


@pytest.mark.parametrize("factor", [0x9E3779B97F4A7C15, 1, 1 << 63], ids=hex)
@given(numbers())
def test_numbers_are_found_as_by_a_dict(factor: int, given: tuple[Any, Any]) -> None:
    """Factors that are none give most numbers the same slot."""
    keys, asked = given
    rows = dict(zip(keys.tolist(), range(len(keys)), strict=True))
    wanted = [rows.get(each, -1) for each in asked.tolist()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_rows, "_FACTOR", np.uint64(factor))
        patch.setattr(table_rows, "_FEW", 2)
        for spread, many in ((8, 1), (0, 1), (0, 1000)):
            patch.setattr(table_rows, "_SPREAD", spread)
            patch.setattr(table_rows, "_MANY", many)
            find = index_of(keys, rows)
            assert (find is None) == (spread == 0 and many > len(keys))
            if find is not None:
                assert find(asked).tolist() == wanted


def test_of_many_numbers_hardly_any_are_left_to_the_dict() -> None:
    rng = np.random.default_rng(3)
    keys = np.unique(rng.integers(-(1 << 62), 1 << 62, MANY))
    rows = dict(zip(keys.tolist(), range(len(keys)), strict=True))
    find = index_of(keys, rows)
    assert find is not None
    asked: list[int] = []

    class Counted(dict[int, int]):
        def get(self, key: int, default: Any = None) -> Any:
            asked.append(key)
            return super().get(key, default)

        def __getitem__(self, key: int) -> int:
            asked.append(key)
            return super().__getitem__(key)

    find.__self__._all = Counted(rows)  # type: ignore[attr-defined]
    assert find(keys).tolist() == list(range(len(keys)))
    assert 0 < len(asked) < len(keys) / 5


def test_no_numbers_and_other_keys_have_no_index() -> None:
    assert index_of(np.empty(0, np.int64), {}) is None
    assert index_of(np.array([0.5]), {0.5: 0}) is None
    assert index_of(np.array([b"a"], object), {b"a": 0}) is None


def test_a_dict_finds_keys_whether_some_are_missing_or_not() -> None:
    finder, rows = Finder(), {b"a": 0, b"b": 1}
    for _ in range(3):
        for keys in ([], [b"a"], [b"x"], [b"a", b"b"], [b"b", b"x", b"a"], [b"b", b"a"] * 9):
            found = finder.of(rows, keys)
            assert found.dtype == np.intp
            assert found.tolist() == [rows.get(key, -1) for key in keys]
