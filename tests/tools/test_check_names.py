"""Which names of TensorFlow a piece of source uses: every way to import, to rename, to hide, and to look first."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from headrace.tools.check.names import Reader

THERE = {"tensorflow", "tensorflow.here", "tensorflow.space", "tensorflow.space.inside", "tensorflow.compat",
         "tensorflow.compat.v1", "tensorflow.compat.v1.here", "tensorflow.__version__"}  # fmt: skip
"""What exists in these tests."""


def public(module: str) -> list[str]:
    return ["here", "gone", "space", "abs"] if module == "tensorflow" else []


def used(source: str) -> list[str]:
    """``line path``, with a ? behind what is guarded."""
    uses = Reader(THERE.__contains__, public).read(ast.parse(source))
    return [
        f"{use.line} {use.path.removeprefix('tensorflow') or '.'}{'?' * use.guarded}"
        for use in uses
    ]


PROGRAMS = {
    block.partition("\n")[0].removeprefix("# "): block
    for block in Path(__file__).with_name("check_names.txt").read_text().split("---\n")
}
"""By what they show.  Behind ``#:`` stand the uses of a line: "." is TensorFlow itself."""


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_names_that_a_program_uses_are(what: str) -> None:
    block = PROGRAMS[what]
    expected = [
        f"{number} {word}"
        for number, line in enumerate(block.split("\n"), 1)
        for word in line.partition("#: ")[2].split()
    ]
    assert sorted(used(block)) == sorted(expected)
