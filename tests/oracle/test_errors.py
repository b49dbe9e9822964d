"""What goes wrong, under headrace and under TensorFlow: the same class, at the same line, with TensorFlow's phrase.

The cases are the blocks of errors/*.txt, separated by lines of dashes.  A block begins with

    # says: PHRASE     what people match on: it stands in TensorFlow's message and in headrace's, letter by letter
    # at: run          if a session has a part in it; without this line it fails while the graph is built

and goes on with a program that must raise.  It has `tf`, `np`, `data_flow` (the
module data_flow_ops) and `P(shape, dtype)` (a placeholder).  Nothing before
the line that raises may raise; a case that fails when it runs opens its own session.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.python.ops import data_flow_ops

FOLDER = Path(__file__).with_name("errors")
SEPARATOR = "\n---\n"
AT_LEAST = 1800  # cases in all

# The same source runs on both sides, so it knows nothing of either.
RUNNER = '''
def text_of(error):
    """The message as it was given: an OpError's str() adds where it happened, a KeyError's adds quotes."""
    if isinstance(error, tf.errors.OpError):
        return error.message
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return str(error)

def line_of(error):
    """The line of the program, outside its functions, at which it was raised."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != "<case>":
        frame = frame.tb_next
    return None if frame is None else frame.tb_lineno

def outcome(source):
    tf.reset_default_graph()
    names = {
        "tf": tf, "np": np, "data_flow": data_flow,
        "P": lambda shape=None, dtype=tf.float32: tf.placeholder(dtype, shape, name="x"),
    }
    try:
        exec(compile(source, "<case>", "exec"), names)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__name__[0] != "_"]
        return {"class": kinds, "line": line_of(error), "message": text_of(error)}
    finally:
        tf.disable_resource_variables()
    return None
'''


@dataclass(frozen=True)
class Case:
    """A block: `lines` of its program as they stand in the file, header included."""

    phrase: str
    moment: str
    source: str

    @property
    def program(self) -> str:
        """The source without comments and empty lines: what makes a case another case."""
        lines = (line.rstrip() for line in self.source.splitlines())
        return "\n".join(line for line in lines if line and not line.startswith("#"))


def parsed(block: str) -> Case:
    header = {}
    for line in block.strip("\n").splitlines():
        if not line.startswith("# ") or ": " not in line:
            break
        key, _, value = line[2:].partition(": ")
        header[key] = value
    assert set(header) <= {"says", "at"}, f"headers are 'says' and 'at', not {sorted(header)}"
    return Case(header["says"], header.get("at", "build"), block.strip("\n"))


@cache
def cases(area: str) -> list[Case]:
    return [parsed(block) for block in (FOLDER / f"{area}.txt").read_text().split(SEPARATOR)]


AREAS = sorted(path.stem for path in FOLDER.glob("*.txt"))
ALL = [
    pytest.param(area, index, id=f"{area}-{index}")
    for area in AREAS
    for index in range(len(cases(area)))
]


@pytest.fixture(scope="module")
def theirs(oracle: Any) -> Any:
    @cache
    def outcomes(area: str) -> list[dict[str, Any] | None]:
        source = (
            "from tensorflow.python.ops import data_flow_ops as data_flow\n"
            f"{RUNNER}\nresult = [outcome(source) for source in sources]"
        )
        found: list[dict[str, Any] | None] = oracle.run(
            source, sources=[case.source for case in cases(area)]
        )
        return found

    return outcomes


def ours(source: str) -> dict[str, Any] | None:
    names: dict[str, Any] = {"tf": hr, "np": np, "data_flow": data_flow_ops}
    exec(RUNNER, names)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in the oracle's process
            found: dict[str, Any] | None = names["outcome"](source)
            return found
    finally:
        hr.reset_default_graph()


@pytest.mark.parametrize(("area", "index"), ALL)
def test_an_error_is_tensorflows(area: str, index: int, theirs: Any) -> None:
    case = cases(area)[index]
    want, got = theirs(area)[index], ours(case.source)
    assert want is not None, f"TensorFlow raises nothing:\n{case.source}"
    assert case.phrase in want["message"], f"TensorFlow says something else:\n{case.source}"
    assert got is not None, f"nothing is raised; TensorFlow: {want}\n{case.source}"
    assert got["class"] == want["class"], (case.source, got["message"], want["message"])
    assert case.phrase in got["message"], (case.source, want["message"])
    assert got["line"] == want["line"], case.source


@pytest.mark.parametrize(("area", "index"), ALL)
def test_a_case_says_truly_when_it_fails(area: str, index: int) -> None:
    case = cases(area)[index]
    assert case.moment in ("build", "run")
    assert (case.moment == "run") == ("Session" in case.program), (
        "a case that opens a session, and no other, says so"
    )


def test_a_phrase_is_long_enough_to_be_searched_for() -> None:
    every = [case.phrase for area in AREAS for case in cases(area)]
    assert not [phrase for phrase in every if len(phrase.split()) < 3 and len(phrase) < 12]


def test_no_two_cases_are_the_same_program() -> None:
    programs: dict[str, str] = {}
    for area in AREAS:
        for index, case in enumerate(cases(area)):
            other = programs.setdefault(case.program, f"{area}-{index}")
            assert other == f"{area}-{index}", f"{area}-{index} is {other} again:\n{case.program}"


def test_there_are_enough_cases() -> None:
    assert sum(len(cases(area)) for area in AREAS) >= AT_LEAST
