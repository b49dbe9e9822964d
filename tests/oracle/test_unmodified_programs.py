"""The programs of tests/unmodified print on TensorFlow what they print on headrace.

Those of them that a late TensorFlow can run: others import what it has moved or dropped.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.limits import PROGRAM_WITHIN_S
from tests.unmodified.test_programs import PRINTED, PROGRAMS

RUNS = (
    "custom_gradient", "linear_regression", "mlp", "pipeline", "py_functions", "sharing", "softmax", "word2vec",
)  # fmt: skip
AS_OF_1 = """
import runpy, sys
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.disable_resource_variables()
sys.modules["tensorflow"] = tf
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("name", RUNS)
def test_the_program_prints_the_same_on_tensorflow(name: str, oracle_python: str) -> None:
    arguments, printed = PRINTED[name]
    program = str(PROGRAMS / f"{name}.py")
    done = subprocess.run(
        [oracle_python, "-c", AS_OF_1, program, *arguments],
        capture_output=True,
        text=True,
        timeout=PROGRAM_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(printed, done.stdout.strip()), done.stdout
