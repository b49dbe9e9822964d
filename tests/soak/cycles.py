"""Servers that start, serve and stop on one port, over and over: what they leave behind is counted.

Counted are file descriptors, Python threads, threads of all kinds and the memory in use, after some cycles to warm up
and at the end.  What is on its way out at either moment gets time to go; gRPC's own threads come and go a little.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import headrace as tf
from headrace.serve.connect import local_servers
from tests.ports import own_ports

WARM_UP = 5
SETTLED_WITHIN_S = 30.0
KB_PER_CYCLE = 16.0  # that is more than noise
NOISE = 8  # descriptors or threads, however many cycles


@dataclass(frozen=True)
class Kept:
    """What a process has.  threads: Python's, which only this process can count."""

    descriptors: int
    threads: int
    all_threads: int
    memory_kb: int

    @classmethod
    def now(cls) -> Kept:
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> Kept:
        process = Path(f"/proc/{pid}")
        status = (process / "status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return cls(
            len(os.listdir(process / "fd")),
            threading.active_count() if pid == os.getpid() else 0,
            len(os.listdir(process / "task")),
            int(resident.split()[1]),
        )


def settled(most: Kept | None, pid: int | None = None) -> Kept:
    """What this process, or that of `pid`, is left with when no more goes away, or no more than `most`."""
    whose = os.getpid() if pid is None else pid
    pause = threading.Event()
    end = time.monotonic() + SETTLED_WITHIN_S
    gc.collect()
    found = Kept.of(whose)
    while time.monotonic() < end:
        if most is not None and not more(found, most):
            break
        pause.wait(0.2)
        before, found = found, Kept.of(whose)
        if most is None and not more(before, found):
            break
    return found


def more(found: Kept, than: Kept) -> dict[str, int]:
    """By how much `found` has more descriptors and threads, beyond noise."""
    names = ("descriptors", "threads", "all_threads")
    grown = {name: getattr(found, name) - getattr(than, name) for name in names}
    return {name: by for name, by in grown.items() if by > NOISE}


def cycle(port: int) -> None:
    """Start, run a step over sockets, stop."""
    with tf.Graph().as_default(), tf.train.Server({"local": [f"127.0.0.1:{port}"]}) as server:
        queue = tf.FIFOQueue(1, [tf.float32], [[]])
        variable = tf.Variable(2.0)
        with tf.Session(server.target) as session:
            session.run(variable.initializer)
            session.run(queue.enqueue(variable * 2.0))
            assert session.run(queue.dequeue()) == 4.0


def run(cycles: int, progress: Callable[[int, Kept], None] = lambda done, kept: None) -> None:
    """So many cycles.  Raises AssertionError if something is left behind."""
    (port,) = own_ports(1)
    with mock.patch.object(local_servers, "find", return_value=None):  # as if in other processes
        for _ in range(WARM_UP):
            cycle(port)
        at_first = settled(None)
        for done in range(cycles):
            cycle(port)
            if (done + 1) % 100 == 0:
                progress(done + 1, Kept.now())
        left = settled(at_first)
    assert not more(left, at_first), f"{cycles} cycles left behind {more(left, at_first)}"
    grown = (left.memory_kb - at_first.memory_kb) / cycles
    assert grown < KB_PER_CYCLE or cycles < 500, f"each cycle left {grown:.1f} kB behind"
