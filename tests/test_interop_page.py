"""docs/interop.md says what the interop tests ask, no more and no less."""

from __future__ import annotations

from pathlib import Path

from tests.interop import document
from tests.interop.matrix import CASES, TOPOLOGIES
from tests.interop.scripts.table import AREAS


def test_the_page_is_that_of_the_tables() -> None:
    assert document.PAGE.read_text() == document.page(), "run `python -m tests.interop.document`"


def test_every_script_with_cases_is_an_area() -> None:
    scripts = Path(document.__file__).parent.joinpath("scripts").glob("*.py")
    with_cases = {path.stem for path in scripts if "@TABLE." in path.read_text()}
    assert with_cases == set(AREAS) == set(CASES)


def test_every_combination_of_two_kinds_is_in_the_matrix() -> None:
    combinations = {tuple(roles.values()) for roles in TOPOLOGIES.values()}
    assert len(combinations) == len(TOPOLOGIES) == 2**3 - 1  # headrace alone needs no TensorFlow
    assert ("headrace",) * 3 not in combinations
