"""Programs with flags, and programs that are tests, beside TensorFlow: what they print, and their exit codes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.limits import PROGRAM_WITHIN_S

HERE = Path(__file__).parent
RESULTS = re.compile(r"(FAIL|ERROR|OK\b|FAILED|Ran \d+)")


def cases() -> list[tuple[str, list[str]]]:
    """Programs of command_lines.txt, each with its command lines."""
    found = []
    text = (HERE / "command_lines.txt").read_text().partition("\n=====\n")[2]
    for part in text.split("\n=====\n"):
        source, _, lines = part.partition("\n-----\n")
        found += [(source, shlex.split(line)) for line in lines.rstrip("\n").split("\n")]
    return found


def outcomes(python: str, module: str) -> list[Any]:
    done = subprocess.run(
        [python, str(HERE / "command_lines.py"), module],
        input=json.dumps(cases()),
        capture_output=True,
        text=True,
        timeout=PROGRAM_WITHIN_S,
        check=True,
    )
    return [
        (code, out, sorted(said) if "Ran " in err else [])
        for code, out, err in json.loads(done.stdout)
        for said in [[_of_a_test(line) for line in err.splitlines() if RESULTS.match(line)]]
    ]


def _of_a_test(line: str) -> str:
    """What a line says of a test, without its time, and nothing for a line of a log."""
    return "" if line.startswith("ERROR:tensorflow") else re.sub(r" in [\d.]+s", "", line)


def test_programs_print_and_end_as_theirs(oracle_python: str) -> None:
    theirs = outcomes(oracle_python, "tensorflow.compat.v1")
    ours = outcomes(sys.executable, "headrace")
    for (source, words), expected, found in zip(cases(), theirs, ours, strict=True):
        wanted = [line for line in expected[2] if line]
        assert (*found[:2], [x for x in found[2] if x]) == (*expected[:2], wanted), (source, words)
