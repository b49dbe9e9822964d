"""Words by number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from headrace.base import dtypes
from headrace.run.state import words
from headrace.run.state.tables import StaticTable
from headrace.run.state.words import ByWord, numbered


@pytest.fixture(autouse=True)
def new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_words", words.Words())


def listed(strings: Sequence[bytes]) -> list[bytes]:
    """What their numbers stand for."""
    found = numbered(strings)
    assert found is not None
    return [found[0].listed[at] for at in found[1].tolist()]


def test_numbers_stand_for_the_words() -> None:
    one, other = [b"a", b"b", b"a", b"a", b"b"], [b"c", b"a", b"c", b"c"]
    for strings in (one, other, one, list(one), other):
        assert listed(strings) == strings


def test_strings_that_were_looked_for_are_not_looked_for_again() -> None:
    first, again = numbered([b"a"] * 4), numbered([b"a"] * 4)
    assert first is not None
    assert again is not None
    assert first[1] is again[1]


def test_what_does_not_repeat_has_no_numbers() -> None:
    assert numbered([b"a", b"b", b"c"]) is None
    assert numbered([]) is None
    assert numbered([b"x" * 65] * 4) is None


def test_more_words_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MOST", 8)
    lengths = ByWord(lambda strings: np.array([len(each) for each in strings], np.int64))
    for first in range(20):
        strings = [b"%d" % (first * 7 + at) for at in range(4)] * 2
        found = numbered(strings)
        if found is not None:
            assert lengths.found(*found).tolist() == [len(each) for each in strings]
    assert len(words._words.listed) <= 8


def test_something_of_each_word_is_computed_once() -> None:
    asked: list[bytes] = []

    def of(strings: Sequence[bytes]) -> np.ndarray:
        asked.extend(strings)
        return np.array([len(each) for each in strings], np.int64)

    lengths = ByWord(of)
    for strings in ([b"a"] * 3, [b"bb", b"a"] * 2, [b"a", b"bb", b"a", b"bb"]):
        found = numbered(strings)
        assert found is not None
        assert lengths.found(*found).tolist() == [len(each) for each in strings]
    assert asked == [b"a", b"bb"]


def test_tables_find_words_by_their_numbers() -> None:
    tables = []
    for offset in (0, 10):
        table = StaticTable("t", dtypes.string, dtypes.int64)
        keys = np.array([b"a", b"b", b"c"], object)
        table.initialize(keys, np.arange(3) + offset)
        tables.append(table)
    default = np.array(-1)
    for _ in range(3):
        for table, offset in zip(tables, (0, 10), strict=True):
            keys = np.array([b"b", b"z", b"b", b"c", b"z", b"a"], object).reshape(3, 2)
            wanted = [[1, -1], [1, 2], [-1, 0]]
            wanted = [[each + offset if each >= 0 else -1 for each in row] for row in wanted]
            assert table.find(keys, default).tolist() == wanted
            assert table.find(keys[:1, :1].repeat(4), default).tolist() == [1 + offset] * 4
