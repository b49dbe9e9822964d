"""Whatever happens during a save, the last checkpoint that was whole can be found and restored."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace as tf

PROGRAM = Path(__file__).with_name("crashing_saves.py")
EVERY = 8


@pytest.mark.parametrize(
    ("end", "way"),
    [
        ("KILL", "over"),
        ("KILL", "steps"),
        ("KILL", "shards"),
        ("KILL", "V1"),
        ("ENOSPC", "shards"),
        ("EROFS", "over"),
    ],
)
def test_a_save_that_ends_anywhere_leaves_a_whole_checkpoint(
    tmp_path: Path, end: str, way: str
) -> None:
    """Killed, or failed by the disk, at every so many of its steps; "over" and "shards" write over the last one."""
    seed = random.randrange(EVERY)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), end, str(EVERY), str(seed), way],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines
    for line in lines:
        assert "./m" in line, f"seed {seed}: {line} {done.stderr}"
        assert line.count("[1.0]") + line.count("[2.0]") == 1, f"seed {seed}: {line} {done.stderr}"
        assert "InternalError" not in line
        assert "UnknownError" not in line
        if end != "KILL":
            assert "and 0 left over" in line, f"seed {seed}: {line}"


def test_a_disk_without_room_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.zeros(1 << 16), name="x")
        saver = tf.train.Saver()
        session.run(x.initializer)
        saver.save(session, "./m", global_step=1)
        files = sorted(os.listdir("."))
        session.run(x.assign_add(np.ones(1 << 16)))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, limits[1]))
        try:
            with pytest.raises(
                tf.errors.ResourceExhaustedError, match=r"m-2.data-00000-of-00001; File too large"
            ):
                saver.save(session, "./m", global_step=2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert sorted(os.listdir(".")) == files
        path = tf.train.latest_checkpoint(".")
        assert path == "./m-1"
        saver.restore(session, path)
        assert not session.run(x).any()
        saver.save(session, "./m", global_step=2)
