"""What is on its way between tasks is bounded: who sends to a process that does not read stops too, in time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import ProcessCluster, processes

VALUES = 150  # of 1 MB each
ELEMENTS = 1 << 18
MOST_MB = 150  # of a value that is on its way there may be several copies
LIMIT_MS = 1000
ENDED_WITHIN_S = 30.0  # the machine may be busy


@pytest.fixture(params=["unix", "tcp", "off"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProcessCluster]:
    """A process each for a ps and a worker, who send each other values over that."""
    monkeypatch.setenv("HEADRACE_LANE", request.param)
    with processes({"ps": 1, "worker": 1}) as cluster:
        yield cluster


class Memory:
    """Of a process."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")
        (self._proc / "clear_refs").write_text("5")  # the peak is that of now
        self._before = self._mb("VmRSS")

    def _mb(self, what: str) -> float:
        found = re.search(rf"^{what}:\s*(\d+) kB$", (self._proc / "status").read_text(), re.M)
        assert found is not None
        return int(found[1]) / 1024

    def grew_mb(self) -> float:
        """By how much, at its peak."""
        return self._mb("VmHWM") - self._before


def test_who_sends_to_a_process_that_is_stopped_stops_too(cluster: ProcessCluster) -> None:
    fed = tf.placeholder(tf.float32, [ELEMENTS])
    with tf.device("/job:ps"):
        values = [fed + float(number) for number in range(VALUES)]
    with tf.device("/job:worker"):
        total = tf.add_n([tf.reduce_max(value) for value in values])
    zeros = {fed: np.zeros(ELEMENTS, np.float32)}
    wanted = sum(range(VALUES))
    with tf.Session(cluster.target("ps:0")) as session:
        assert session.run(total, zeros) == wanted
        memory = Memory(cluster.processes["ps:0"].pid)
        cluster.freeze("worker:0")
        try:
            options: Any = tf.RunOptions(timeout_in_ms=LIMIT_MS)
            began = time.monotonic()
            with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError)):
                session.run(total, zeros, options=options)
            assert time.monotonic() - began < ENDED_WITHIN_S
            grew = memory.grew_mb()
            assert grew < MOST_MB
        finally:
            cluster.thaw("worker:0")
        assert session.run(total, zeros) == wanted
