"""Checkpoints of 1 GB in 200 tensors: saved and restored, in this process and by a parameter server that others use.

Files are written where the temporary directory is.  Both libraries write the same bytes; headrace forces them to the
disk, which TensorFlow leaves to the system, so two more rows compare like with like: both forced, neither forced.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.row import Bench, Floor, Unit, row

CLUSTER = {"ps": 1, "worker": 2}
COUNT = 200
SAVE = "1 GB is read, and written to the disk"
RESTORE = "1 GB is read twice and checked, nothing is copied"


GB = 1 << 30
PIECE = 1 << 22


def _written(forced: bool) -> Callable[[Bench], None]:
    """1 GB from memory to a new file, a piece at a time."""

    def measure(bench: Bench) -> None:
        count = GB // PIECE if bench.seconds else 4  # where it is only tried whether it works
        pieces = [np.full(PIECE // 8, at, np.float64) for at in range(count)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "by-hand"

            def write() -> None:
                with path.with_suffix(".new").open("wb", 0) as file:
                    for piece in pieces:
                        file.write(piece)
                    if forced:
                        os.fsync(file.fileno())
                path.with_suffix(".new").rename(path)

            write()
            bench.expect(path.stat().st_size, count * PIECE)
            bench.time(write)

    return measure


FORCED = Floor("1 GB written to a file and forced to the disk", _written(True))
WRITTEN = Floor("1 GB written to a file", _written(False))


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


def _nothing(path: str) -> None:
    """With a checkpoint that was saved."""


def _force(path: str) -> None:
    """Have the files of a checkpoint, and their names, on the disk."""
    prefix = Path(path)
    for each in (*prefix.parent.glob(f"{prefix.name}.*"), prefix.parent):
        found = os.open(each, os.O_RDONLY)
        try:
            os.fsync(found)
        finally:
            os.close(found)


def _time_saves(
    tf: Any, bench: Bench, target: str, nbytes: int, then: Callable[[str], None] = _nothing
) -> None:
    with _trained(tf, target, nbytes) as (session, saver, path, _):
        steps = iter(range(1_000_000))

        def save() -> str:
            saved: str = saver.save(session, path, next(steps), write_meta_graph=False)
            then(saved)
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


@row("save 1 GB", faster=1, moves=SAVE, floors=[FORCED])
def save_1gb(tf: Any, bench: Bench, nbytes: int = GB) -> None:
    """A checkpoint of 1 GB in 200 variables, of this process; TensorFlow's may not be on the disk when it returns."""
    _time_saves(tf, bench, "", nbytes)


@row("save 1 GB, on the disk", faster=1, moves=SAVE, floors=[FORCED])
def save_1gb_on_disk(tf: Any, bench: Bench, nbytes: int = GB) -> None:
    """As `save_1gb`, and then the row itself forces the files to the disk: with headrace they are there already."""
    _time_saves(tf, bench, "", nbytes, _force)


@row("save 1 GB, not forced to the disk", faster=1, moves=SAVE, floors=[WRITTEN])
def save_1gb_unforced(tf: Any, bench: Bench, nbytes: int = GB) -> None:
    """As `save_1gb`, and the process is kept from forcing anything to the disk: no library waits for it."""
    with (
        mock.patch.object(os, "fsync", return_value=None),
        mock.patch.object(os, "fdatasync", return_value=None),
    ):
        _time_saves(tf, bench, "", nbytes)


@row("restore 1 GB", faster=1, moves=RESTORE)
def restore_1gb(tf: Any, bench: Bench, nbytes: int = GB) -> None:
    """A checkpoint of 1 GB in 200 variables, into this process."""
    _time_restores(tf, bench, "", nbytes)


@row("save 1 GB of a ps", cluster=CLUSTER, faster=1, moves=SAVE)
def save_1gb_of_ps(tf: Any, bench: Bench, nbytes: int = GB) -> None:
    """A checkpoint of 1 GB in 200 variables of a parameter server, which writes it."""
    with tf.device("/job:ps/task:0"):
        _time_saves(tf, bench, bench.target("worker"), nbytes)


@row("restore 1 GB into a ps", cluster=CLUSTER, faster=1, moves=RESTORE)
def restore_1gb_into_ps(tf: Any, bench: Bench, nbytes: int = GB) -> None:
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
def step_during_save(tf: Any, bench: Bench, nbytes: int = GB) -> None:
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
def memory_during_save(tf: Any, bench: Bench, nbytes: int = GB) -> None:
    """What the ps needs beside the variables, at most, while it saves them and another worker changes them."""
    with (
        tf.device("/job:ps/task:0"),
        _trained(tf, bench.target("worker"), nbytes) as (session, saver, path, variables),
        tf.Session(bench.target("worker", 1)) as second,
    ):
        other = _Other(tf, second, variables)
        with _watched(bench) as most, other.working():
            saver.save(session, path, 0, write_meta_graph=False)
        bench.expect(np.isfinite(session.run(variables[7])).all(), True)
        bench.record(most())


@row("memory of a ps that restores 1 GB", unit=Unit.BYTES, cluster=CLUSTER)
def memory_during_restore(tf: Any, bench: Bench, nbytes: int = GB) -> None:
    """What the ps needs beside variables that have values, at most, while it restores them."""
    with (
        tf.device("/job:ps/task:0"),
        _trained(tf, bench.target("worker"), nbytes) as (session, saver, path, variables),
    ):
        path = saver.save(session, path, write_meta_graph=False)
        session.run([each.assign(each * 0.0).op for each in variables])
        with _watched(bench) as most:
            saver.restore(session, path)
        bench.expect(session.run(tf.reduce_sum(variables[7])), 7.0 * (nbytes // COUNT // 4), 1e-6)
        bench.record(most())


@contextmanager
def _watched(bench: Bench) -> Iterator[Callable[[], float]]:
    """How many bytes more than before the ps had at most, once the block has ended; 1 at least."""
    before, ending, seen = bench.memory("ps"), threading.Event(), [0]

    def watch() -> None:
        while not ending.wait(0.01):
            seen.append(bench.memory("ps"))

    looking = threading.Thread(target=watch)
    looking.start()
    try:
        yield lambda: float(max(1, max(seen) - before))
    finally:
        ending.set()
        looking.join()
