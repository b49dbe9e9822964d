"""What goes wrong on clusters of real processes: class, line and phrase are TensorFlow's.

The cases are the blocks of errors_on_clusters.txt, written like those of errors/*.txt (test_errors.py says how).  They
have `target`, a worker's in a cluster of one ps and one worker: of TensorFlow's servers for TensorFlow, of headrace's
for headrace.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.clusters import HEADRACE, TENSORFLOW, Cluster
from tests.oracle.test_errors import RUNNER, SEPARATOR, ours, parsed

CASES = [
    parsed(block)
    for block in Path(__file__).with_name("errors_on_clusters.txt").read_text().split(SEPARATOR)
]
TASKS = ("ps:0", "worker:0")


@pytest.fixture(scope="module")
def targets(oracle_python: str) -> Iterator[tuple[str, str]]:
    """A worker's target: theirs, ours."""
    theirs = Cluster(dict.fromkeys(TASKS, TENSORFLOW), oracle_python)
    try:
        mine = Cluster(dict.fromkeys(TASKS, HEADRACE), oracle_python)
        try:
            yield theirs.target("worker:0"), mine.target("worker:0")
        finally:
            mine.close()
    finally:
        theirs.close()


@pytest.mark.parametrize("index", range(len(CASES)))
def test_an_error_on_a_cluster_is_tensorflows(
    index: int, oracle: Any, targets: tuple[str, str]
) -> None:
    case = CASES[index]
    programs = [f"target = {target!r}\n{case.source}" for target in targets]
    want = oracle.run(
        "from tensorflow.python.ops import data_flow_ops as data_flow\n"
        f"{RUNNER}\nresult = outcome(program)",
        program=programs[0],
    )
    got = ours(programs[1])
    assert want is not None, f"TensorFlow raises nothing:\n{case.source}"
    assert case.phrase in want["message"], f"TensorFlow says something else:\n{case.source}"
    assert got is not None, f"nothing is raised; TensorFlow: {want}\n{case.source}"
    assert got["class"] == want["class"], (case.source, got["message"], want["message"])
    assert case.phrase in got["message"], (case.source, got["message"], want["message"])
    assert got["line"] == want["line"], case.source
