"""Sessions under supervision, under headrace and under TensorFlow: what is called when, with what, and what is raised.

The cases are the blocks of monitored/*.txt, separated by lines of dashes.  A block begins with a comment that says
what it is about, and goes on with a program that appends to `events`; it has `tf`, `np`, and what
monitored/preamble.source defines.  What it leaves in `events` is compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

FOLDER = Path(__file__).with_name("monitored")
SEPARATOR = "\n---\n"
PREAMBLE = (FOLDER / "preamble.source").read_text()
RUN = """
def run(preamble, source):
    tf.reset_default_graph()
    names = {"tf": tf, "np": np}
    exec(compile(preamble, "<preamble>", "exec"), names)
    try:
        exec(compile(source, "<case>", "exec"), names)
    except Exception as error:
        names["events"].append(("left by", type(error).__name__))
    finally:
        names["tf"].summary.FileWriterCache.clear()
        names["shutil"].rmtree(names["directory"])
    return names["events"]
"""


def cases() -> list[Any]:
    return [
        pytest.param(block, id=f"{file.stem}: {block.partition(chr(10))[0].lstrip('# ')}")
        for file in sorted(FOLDER.glob("*.txt"))
        for block in file.read_text().strip().split(SEPARATOR)
    ]


@pytest.mark.parametrize("source", cases())
def test_the_same_happens_in_the_same_order(source: str, oracle: Any) -> None:
    names: dict[str, Any] = {"tf": hr, "np": np}
    exec(RUN, names)
    ours = names["run"](PREAMBLE, source)
    theirs = oracle.run(RUN + "result = run(preamble, program)", preamble=PREAMBLE, program=source)
    assert ours == theirs


def test_there_are_as_many_cases_as_there_were() -> None:
    assert len(cases()) >= 110
