"""The recipes of CONTRIBUTING.md, done step by step to a copy of the repository, work.

A step is a numbered line that names a file and where in it, and the block of code below it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
COPIED = ("src", "tests", "benchmarks", "scripts", "docs", "pyproject.toml")
WITHIN_S = 100
_STEP = re.compile(
    r"^(\d+)\. In `([^`]+)`(?:, as a new file `([^`]+)`|[^`\n]*?, (after|before) `([^`]+)`)[^`\n]*:\n\n"
    r"```(?:python|text)\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Step(NamedTuple):
    """What is done to one file."""

    path: str
    is_new: bool
    where: str
    line: str
    code: str


def recipe(title: str) -> list[Step]:
    """The steps of a section."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    found = _STEP.findall(section[1])
    assert [int(number) for number, *_ in found] == [*range(1, len(found) + 1)]
    assert len(found) == len(re.findall(r"^\d+\. ", section[1], re.MULTILINE))
    return [
        Step(path + new, bool(new), where, line, code) for _, path, new, where, line, code in found
    ]


def do(step: Step, root: Path) -> None:
    """As a person would who takes the step by its word."""
    path = root / step.path
    if step.is_new:
        assert not path.exists()
        path.write_text(step.code)
        return
    lines = path.read_text().splitlines(keepends=True)
    (at,) = [n for n, line in enumerate(lines) if line.strip() == step.line.strip()]
    lines.insert(at + (step.where == "after"), step.code)
    path.write_text("".join(lines))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository, to be changed."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)  # with what has been compiled
        else:
            shutil.copy2(ROOT / name, tmp_path)
    return tmp_path


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python there; what it says.

    What is compiled is not kept: a file that changes within a second, and not in size, would be taken for the old one.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(root / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


def outcomes(root: Path, files: Sequence[str], which: str) -> dict[str, list[str]]:
    """Run tests there; the names of those that passed, and of those that failed."""
    plain = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA"]
    done = run(root, *plain, *files, "-k", which)
    found = {
        outcome: re.findall(rf"^{outcome} \S+::(\S+)", done.stdout, re.MULTILINE)
        for outcome in ("PASSED", "FAILED")
    }
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert any(found.values()), done.stdout
    return found


# -- an op ----------------------------------------------------------------------------------------

OP_TESTS = (
    "tests/ops/test_math_kernels.py",
    "tests/ops/test_gradients_numeric.py",
    "tests/ops/test_operands.py",
)
OP_SEEN = """
import headrace as tf
x = tf.placeholder(tf.float64, [None])
y = tf.math.smooth_step(x, name="y")
with tf.Session() as session:
    print(y.shape, y.op.name, *session.run([y, tf.gradients(y, x)[0]], {x: [-1.0, 0.5, 2.0]}))
"""


def test_an_op_is_made_by_its_recipe(copy: Path) -> None:
    for step in recipe("An op"):
        do(step, copy)
    seen = run(copy, "-c", OP_SEEN)
    assert seen.stdout == "(?,) y [0.  0.5 1. ] [0.  1.5 0. ]\n", seen.stderr
    assert run(copy, "scripts/api.py").returncode == 0
    assert "`smooth_step`" in (copy / "docs/api.md").read_text()
    found = outcomes(
        copy, [*OP_TESTS, "tests/test_public_api.py"], "SmoothStep or every or public or complete"
    )
    assert found["FAILED"] == []
    assert "test_a_gradient_is_the_slope[SmoothStep-static]" in found["PASSED"]
    assert "test_an_op_gives_a_value_or_a_typed_error[SmoothStep]" in found["PASSED"]
    assert "test_every_gradient_has_a_case" in found["PASSED"]


def test_cases_that_are_left_out_are_demanded(copy: Path) -> None:
    for step in recipe("An op"):
        if not (step.path.startswith("tests/") and "SmoothStep" in step.code):
            do(step, copy)
    found = outcomes(copy, OP_TESTS[:2], "every_op or every_gradient")
    assert {*found["FAILED"]} == {
        "test_every_op_of_these_families_has_a_case",
        "test_every_gradient_has_a_case",
    }


# -- a rule ---------------------------------------------------------------------------------------


def test_a_rule_is_made_by_its_recipe(copy: Path) -> None:
    steps = recipe("A rule")
    for step in steps:
        do(step, copy)
    files = ["tests/plan/test_multiply_add.py", "tests/plan/test_explain.py"]
    found = outcomes(copy, files, "")
    assert found["FAILED"] == []
    assert len([name for name in found["PASSED"] if "sum_is_made" in name]) == 3
    (copy / steps[0].path).write_text(steps[0].code.replace("found += added", "found -= added"))
    assert len(outcomes(copy, files[:1], "")["FAILED"]) == 3


# -- a transport ----------------------------------------------------------------------------------

TRANSPORT_SEEN = """
import headrace as tf
from headrace.serve.connect.transports import using
from headrace.serve.tally import TRANSPORT, TRANSPORTS
with using(TRANSPORTS), tf.Graph().as_default():
    with tf.train.Server.create_local_server() as server, tf.Session(server.target) as session:
        print(session.run(tf.constant(1) + 1), TRANSPORT.calls["CreateSession"])
"""


def test_a_transport_is_made_by_its_recipe(copy: Path) -> None:
    for step in recipe("A transport"):
        do(step, copy)
    seen = run(copy, "-c", TRANSPORT_SEEN)
    assert seen.stdout == "2 1\n", seen.stderr
    contract = ["pipelines", "sessions", "errors"]
    found = outcomes(copy, [f"tests/serve/contract/test_{name}.py" for name in contract], "tally")
    assert found["FAILED"] == []
    assert len(found["PASSED"]) > 10
