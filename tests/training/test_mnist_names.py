"""The tutorials' data under the names that programs import it by."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training import idx

DATASETS = "tensorflow.contrib.learn.python.learn.datasets"
READS = {
    "from the examples": (
        "from tensorflow.examples.tutorials.mnist import input_data", "input_data.read_data_sets",
    ),
    "the module itself": (
        "import tensorflow.examples.tutorials.mnist.input_data as d", "d.read_data_sets",
    ),
    "from contrib": (f"from {DATASETS}.mnist import read_data_sets as read, DataSet", "read"),
    "through contrib": (
        "import tensorflow as tf", "tf.contrib.learn.python.learn.datasets.mnist.read_data_sets",
    ),
    "from the datasets": (
        f"from {DATASETS} import base, mnist\nassert base.Datasets._fields[0] == 'train'", "mnist.read_data_sets",
    ),
    "with its model": (
        "from tensorflow.examples.tutorials.mnist import input_data, mnist\nassert mnist.IMAGE_PIXELS == 784",
        "input_data.read_data_sets",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", READS)
def test_programs_find_it(tmp_path: Path, how: str) -> None:
    imports, read = READS[how]
    idx.write(tmp_path / "data")
    program = tmp_path / "program.py"
    program.write_text(
        f"{imports}\nsets = {read}('data', one_hot=True, validation_size=5)\n"
        "print(sets.train.num_examples, sets.train.next_batch(7)[1].shape)\n"
    )
    command = [sys.executable, "-m", "headrace.tools.main", "run", str(program)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("55 (7, 10)\n", "", 0)
