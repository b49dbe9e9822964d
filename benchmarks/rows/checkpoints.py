"""Checkpoints of 1 GB in 200 tensors: saved and restored, in this process and by a parameter server that others use.

Files are written where the temporary directory is.  Both libraries write the same bytes; headrace forces them to the
disk.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.row import Bench, Unit, row

CLUSTER = {"ps": 1, "worker": 2}
COUNT = 200
SAVE = "1 GB is read, and written to the disk"


def _model(tf: Any, nbytes: int) -> tuple[list[Any], Any]:
    """Variables, and a saver whose files the task that holds them writes."""
    size = nbytes // COUNT // 4
    variables = [tf.Variable(tf.fill([size], float(at)), name=f"v{at:03d}") for at in range(COUNT)]
    return variables, tf.train.Saver(variables, sharded=True, max_to_keep=1)


@contextmanager
def _trained(tf: Any, target: str, nbytes: int) -> Iterator[tuple[Any, Any, str, list[Any]]]:
    """(session, saver, a path for checkpoints, variables)."""
    variables, saver = _model(tf, nbytes)
    with tempfile.TemporaryDirectory() as folder, tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        yield session, saver, f"{folder}/model", variables


def _time_saves(tf: Any, bench: Bench, target: str, nbytes: int) -> None:
    with _trained(tf, target, nbytes) as (session, saver, path, _):
        steps = iter(range(1_000_000))

        def save() -> str:
            saved: str = saver.save(session, path, next(steps), write_meta_graph=False)
            return saved

        value = tf.train.load_variable(save(), "v007")
        bench.expect((value.min(), value.max(), len(value)), (7, 7, nbytes // COUNT // 4))
        bench.time(save)


def _time_restores(tf: Any, bench: Bench, target: str, nbytes: int) -> None:
    with _trained(tf, target, nbytes) as (session, saver, path, variables):
        path = saver.save(session, path, write_meta_graph=False)
        session.run([each.assign(each * 0.0).op for each in variables])
        saver.restore(session, path)
        bench.expect(session.run(tf.reduce_sum(variables[7])), 7.0 * (nbytes // COUNT // 4), 1e-6)
        bench.time(lambda: saver.restore(session, path))


@row("save 1 GB", faster=1, moves=SAVE)
def save_1gb(tf: Any, bench: Bench, nbytes: int = 1 << 30) -> None:
    """A checkpoint of 1 GB in 200 variables, of this process."""
    _time_saves(tf, bench, "", nbytes)


@row("restore 1 GB", faster=1, moves="1 GB is read, checked and copied")
def restore_1gb(tf: Any, bench: Bench, nbytes: int = 1 << 30) -> None:
    """A checkpoint of 1 GB in 200 variables, into this process."""
    _time_restores(tf, bench, "", nbytes)


@row("save 1 GB of a ps", cluster=CLUSTER, faster=1, moves=SAVE)
def save_1gb_of_ps(tf: Any, bench: Bench, nbytes: int = 1 << 30) -> None:
    """A checkpoint of 1 GB in 200 variables of a parameter server, which writes it."""
    with tf.device("/job:ps/task:0"):
        _time_saves(tf, bench, bench.target("worker"), nbytes)


@row("restore 1 GB into a ps", cluster=CLUSTER, faster=1, moves="1 GB is read, checked and copied")
def restore_1gb_into_ps(tf: Any, bench: Bench, nbytes: int = 1 << 30) -> None:
    """A checkpoint of 1 GB in 200 variables into a parameter server, which reads it."""
    with tf.device("/job:ps/task:0"):
        _time_restores(tf, bench, bench.target("worker"), nbytes)


class _Other:
    """Another worker, whose steps each change 1/200 of the variables, and how long they take."""

    def __init__(self, tf: Any, session: Any, variables: list[Any]) -> None:
        ones = tf.ones_like(variables[0])
        self._steps = [session.make_callable(each.assign_add(ones).op) for each in variables]
        self._ending = threading.Event()
        self.longest_s = 0.0
        self.count = 0
        for step in self._steps[:8]:
            step()

    def run(self) -> None:
        while not self._ending.is_set():
            began = time.perf_counter()
            self._steps[self.count % len(self._steps)]()
            self.longest_s = max(self.longest_s, time.perf_counter() - began)
            self.count += 1

    @contextmanager
    def working(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()


@row("longest step of another worker while 1 GB is saved", cluster=CLUSTER)
def step_during_save(tf: Any, bench: Bench, nbytes: int = 1 << 30) -> None:
    """Of the steps of another worker, each of which updates one of the 200 variables, while the ps saves them all."""
    with (
        tf.device("/job:ps/task:0"),
        _trained(tf, bench.target("worker"), nbytes) as (session, saver, path, variables),
        tf.Session(bench.target("worker", 1)) as second,
    ):
        saver.save(session, path, 0, write_meta_graph=False)
        other = _Other(tf, second, variables)
        with other.working():
            saved = saver.save(session, path, 1, write_meta_graph=False)
        for at in (0, COUNT - 1):
            value = tf.train.load_variable(saved, f"v{at:03d}")
            bench.expect(np.isfinite(value).all(), True)
        bench.record(other.longest_s)


@row("memory of a ps that saves 1 GB in use", unit=Unit.BYTES, cluster=CLUSTER)
def memory_during_save(tf: Any, bench: Bench, nbytes: int = 1 << 30) -> None:
    """What the ps needs beside the variables, at most, while it saves them and another worker changes them."""
    with (
        tf.device("/job:ps/task:0"),
        _trained(tf, bench.target("worker"), nbytes) as (session, saver, path, variables),
        tf.Session(bench.target("worker", 1)) as second,
    ):
        other = _Other(tf, second, variables)
        before, ending, seen = bench.memory("ps"), threading.Event(), [0]

        def watch() -> None:
            while not ending.wait(0.01):
                seen.append(bench.memory("ps"))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with other.working():
                saver.save(session, path, 0, write_meta_graph=False)
        finally:
            ending.set()
            watcher.join()
        bench.expect(np.isfinite(session.run(variables[7])).all(), True)
        bench.record(float(max(1, max(seen) - before)))
