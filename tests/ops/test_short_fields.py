"""Short fields of a text: numbers to the last bit, words that are those of the text."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headrace.ops._kernels.short_fields import Lines, Words, short_numbers
from headrace.ops.io.csv import _Splitter
from tests.ops.test_decimal_text import STRANGE

LINES = 40


def lines_of(rows: list[list[str]]) -> Lines:
    """Rows of fields, as lines of a text; the first row again at the end, so that there are enough."""
    rows = rows + [rows[0]] * (LINES - len(rows))
    splitter = _Splitter(b",", True, [])
    found = splitter.lines([",".join(row).encode() for row in rows], len(rows[0]))
    assert found is not None
    return found


def read(fields: list[str], pointed: bool = True) -> tuple[np.ndarray, np.ndarray | None] | None:
    lines = lines_of([["x", each, "7"] for each in fields])
    found = short_numbers(lines, np.array([1]), pointed)
    if found is None:
        return None
    numbers, points = found
    return numbers[0, : len(fields)], None if points is None else points[0, : len(fields)]


def number(draw: random.Random, most: int) -> str:
    digits = "".join(draw.choice("0123456789") for _ in range(draw.randint(1, most)))
    if len(digits) < 8 and draw.random() < 0.6:
        at = draw.randint(0, len(digits))
        digits = f"{digits[:at]}.{digits[at:]}"
    return digits


@pytest.mark.parametrize("most", [1, 3, 7, 8])
def test_what_python_reads(most: int) -> None:
    draw = random.Random(most)
    for _ in range(200):
        fields = [number(draw, most) for _ in range(draw.randint(1, LINES))]
        found = read(fields)
        assert found is not None, fields
        assert found[0].tobytes() == np.array([float(each) for each in fields]).tobytes(), fields
        assert found[1] is not None
        assert found[1].tolist() == ["." in each for each in fields]


def test_every_number_of_three_digits_and_a_point() -> None:
    for at in range(4):
        fields = [f"{n:03d}"[:at] + "." + f"{n:03d}"[at:] for n in range(1000)]
        for first in range(0, 1000, LINES):
            found = read(fields[first : first + LINES])
            assert found is not None
            assert found[0].tolist() == [float(each) for each in fields[first : first + LINES]]


def test_whole_numbers_have_no_points() -> None:
    found = read(["0", "12345678", "00000001"], False)
    assert found is not None
    assert found[0].tolist() == [0.0, 12345678.0, 1.0]
    assert found[1] is None
    assert read(["1", "2.5"], False) is None


@pytest.mark.parametrize("strange", [*STRANGE, "123456789", "1234567.8", "-1", "é1"])
def test_what_is_left_to_who_looks_closer(strange: str) -> None:
    if "\x00" in strange:
        return  # of which there are no lines
    for others in ([], ["1"], ["12.5", "3"]):
        for at in range(len(others) + 1):
            assert read([*others[:at], strange, *others[at:]]) is None


def test_a_text_with_zeros_in_it_is_no_lines() -> None:
    assert _Splitter(b",", True, []).lines([b"a,1"] * LINES + [b"a\0,1"], 2) is None


# -- words ------------------------------------------------------------------------------------


def words(fields: list[str], known: Words) -> list[bytes] | None:
    found = known.of(lines_of([["1", each] for each in fields]), 1)
    return None if found is None else found[: len(fields)].tolist()


def wanted(fields: list[str]) -> list[bytes]:
    return [each.encode() for each in fields]


def test_words_are_those_of_the_text() -> None:
    known = Words()
    draw = random.Random(1)
    letters = "abcd éZ0"
    for most in (3, 8, 9, 20, 32, 5):
        listed = [
            "".join(draw.choice(letters) for _ in range(draw.randint(1, most))) for _ in range(30)
        ]
        listed = [each.encode()[:32].decode(errors="ignore") or "a" for each in listed]
        for _ in range(4):
            fields = [draw.choice(listed) for _ in range(LINES)]
            assert words(fields, known) == wanted(fields)


def test_a_word_that_comes_again_is_the_same_object() -> None:
    known = Words()
    first, again = words(["oslo", "lima"], known), words(["lima", "oslo"], known)
    assert first is not None
    assert again is not None
    assert first[0] is again[1]


@pytest.mark.parametrize("field", ["", "a" * 33])
def test_words_that_are_made_one_by_one(field: str) -> None:
    assert words(["oslo", field], Words()) is None


def test_words_that_do_not_repeat_are_given_up() -> None:
    known, count = Words(), 0
    while words([f"{count}-{n}" for n in range(LINES)], known) is not None:
        count += 1
        assert count < 200
    assert count > 20


def test_more_words_than_are_remembered() -> None:
    known = Words()
    for first in range(0, 8000, LINES // 2):
        fields = [f"w{first + n}" for n in range(LINES // 2)] * 2
        assert words([*fields[: LINES - 2], "w1", "w2"], known) in (
            wanted([*fields[: LINES - 2], "w1", "w2"]),
            None,
        )
