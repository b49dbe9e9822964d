"""The committed digits are what examples/data/README.md says they are."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "examples/data"


def rows(pattern: str) -> list[list[str]]:
    """Rows of the matching files; their header lines agree and are left out."""
    tables = [
        list(csv.reader(path.read_text().splitlines())) for path in sorted(DATA.glob(pattern))
    ]
    assert len({tuple(table[0]) for table in tables}) == 1
    assert tables[0][0][-1] == "label"
    return [row for table in tables for row in table[1:]]


def test_every_row_is_64_pixels_and_a_digit() -> None:
    everything = rows("digits-*.csv")
    assert len(everything) == 1797
    assert {len(row) for row in everything} == {65}
    assert {int(cell or 0) for row in everything for cell in row[:-1]} == set(range(17))
    assert {row[-1] for row in everything} == set("0123456789")


def test_gaps_are_in_the_training_files_only_and_never_in_the_label() -> None:
    train, test = rows("digits-train-*.csv"), rows("digits-test-*.csv")
    assert (len(train), len(test)) == (1437, 360)
    assert sum(cell == "" for row in train for cell in row) == 447
    assert all(row[-1] for row in train)
    assert not any(cell == "" for row in test for cell in row)


def test_every_digit_is_in_both_parts_and_no_row_in_both() -> None:
    train, test = rows("digits-train-*.csv"), rows("digits-test-*.csv")
    for part, least in ((train, 120), (test, 25)):
        assert min(Counter(row[-1] for row in part).values()) >= least
    filled = {tuple(cell or "0" for cell in row) for row in train}
    assert not filled & {tuple(row) for row in test}
