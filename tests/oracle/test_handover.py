"""A training that TensorFlow begins and headrace finishes, and the reverse, ends where TensorFlow alone would have."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "handover" / "train.py"


def train(python: str, library: str, directory: Path, steps: int) -> tuple[int, int, float]:
    """Where it began and ended, and with which loss."""
    command = [python, str(PROGRAM), library, str(directory), str(steps)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"begins at step (\d+)\n.* step (\d+) with a cross entropy of (.*)\n", out)
    assert found
    return int(found[1]), int(found[2]), float(found[3])


@pytest.mark.parametrize("first", ["tensorflow", "headrace"])
def test_either_finishes_what_the_other_began(
    tmp_path: Path, oracle_python: str, first: str
) -> None:
    pythons = {"tensorflow": oracle_python, "headrace": sys.executable}
    (second,) = pythons.keys() - {first}
    assert train(pythons[first], first, tmp_path / "both", 60)[:2] == (0, 60)
    begun, ended, loss = train(pythons[second], second, tmp_path / "both", 60)
    assert (begun, ended) == (60, 120)
    alone = train(oracle_python, "tensorflow", tmp_path / "alone", 120)
    assert loss == pytest.approx(alone[2], rel=1e-4)
