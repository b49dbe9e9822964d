"""What the wide-and-deep example exports, TensorFlow serves with the same program, and says the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.limits import PROGRAM_WITHIN_S

PYTHON = os.environ.get("HEADRACE_ORACLE_PYTHON")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "wide_and_deep"
THEIRS = "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"


def said(*command: str) -> list[str]:
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=quiet, timeout=PROGRAM_WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_tensorflow_serves_the_export_of_the_wide_and_deep_model(tmp_path: Path) -> None:
    if not PYTHON:
        pytest.skip("HEADRACE_ORACLE_PYTHON names no Python with TensorFlow; `make oracle` sets it")
    train, serve = EXAMPLE / "train.py", EXAMPLE / "serve.py"
    *_, exported = said(sys.executable, str(train), str(tmp_path / "model"), "--steps", "60")
    path = exported.removeprefix("exported to ")
    program = tmp_path / "serve.py"
    program.write_text(serve.read_text().replace("import headrace as tf", THEIRS))
    ours = said(sys.executable, str(serve), path)
    assert len(ours) == 3
    assert said(PYTHON, str(program), path) == ours
