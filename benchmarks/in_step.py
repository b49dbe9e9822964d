"""The floor of synchronous training: the same barrier by hand, with a ps and workers that are a process each.

    python -m benchmarks.in_step ps FILE SOCKET WORKERS
    python -m benchmarks.in_step worker FILE SOCKET TASK

What is necessary and nothing else.  A client has each worker make a step (a round trip), which asks the ps for the
parameters (a round trip), computes on one thread, and hands over its gradients and waits for its token (a round trip).
The ps applies the mean of all when all are there.  Parameters and gradients lie in one file that all map, so that they
are copied nowhere; messages are of 64 bytes, between unix sockets.  The batch is with the workers already.
Threads: one a process, and the lifeline's.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import socket
import sys
import tempfile
from contextlib import ExitStack
from functools import partial

import numpy as np

from benchmarks import mlp
from benchmarks.lifeline import end_with_stdin
from benchmarks.processes import START_WITHIN_S, Process, ProcessFailed, process
from benchmarks.row import Bench

READ = bytes(64)
HANDED_OVER = b"\1" * 64
_MODULE = ["env", "OPENBLAS_NUM_THREADS=1", sys.executable, "-m", "benchmarks.in_step"]
_IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def measure(bench: Bench, count: int) -> None:
    """Steps a second of so many workers together."""
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as folder, ExitStack() as stack:
        path, address = f"{folder}/values", f"{folder}/ps"
        size = sum(n * m + m for n, m in itertools.pairwise(mlp.SIZES))
        np.zeros((1 + count, size), np.float32).tofile(path)
        ps = stack.enter_context(process([*_MODULE, "ps", path, address, str(count)]))
        ps.first_line(START_WITHIN_S)
        workers = [
            stack.enter_context(process([*_MODULE, "worker", path, address, str(task)]))
            for task in range(count)
        ]
        for worker in workers:
            worker.first_line(START_WITHIN_S)
        bench.rate([partial(_step, worker) for worker in _checked(bench, workers)])


def _checked(bench: Bench, workers: list[Process]) -> list[Process]:
    """After some steps, whose losses are those of one worker: all have the same batch."""
    for _ in range(mlp.CHECKED_STEPS):
        for worker in workers:
            _ask(worker, b"!")
        for worker in workers:
            loss = json.loads(worker.first_line(START_WITHIN_S))
    bench.expect(loss, mlp.losses(mlp.CHECKED_STEPS)[-1], relative=1e-4)
    return workers


def _ask(worker: Process, how: bytes) -> None:
    assert worker.popen.stdin is not None
    os.write(worker.popen.stdin.fileno(), how)


def _step(worker: Process) -> None:
    """Raises ProcessFailed."""
    _ask(worker, b".")
    assert worker.popen.stdout is not None
    if not os.read(worker.popen.stdout.fileno(), 1):
        raise ProcessFailed("a worker in step by hand has ended")


def _layers(values: mlp.Array) -> mlp.Layers:
    """Of one row of the file."""
    found, at = [], 0
    for n, m in itertools.pairwise(mlp.SIZES):
        weights, bias = values[at : at + n * m].reshape(n, m), values[at + n * m : at + n * m + m]
        found.append((weights, bias))
        at += n * m + m
    return found


def _mapped(path: str, rows: int) -> mlp.Array:
    return np.memmap(path, np.float32, "r+").reshape(rows, -1).view(np.ndarray)


def serve(path: str, address: str, count: str) -> None:
    """The ps."""
    workers = int(count)
    values = _mapped(path, 1 + workers)
    for variables, initial in zip(_layers(values[0]), mlp.initial_layers(), strict=True):
        for variable, value in zip(variables, initial, strict=True):
            variable[:] = value
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        listener.bind(address)
        listener.listen(workers)
        print(flush=True)
        connections = [listener.accept()[0] for _ in range(workers)]
        for connection in connections:
            ready.register(connection, selectors.EVENT_READ)
        handed_over = 0
        while True:
            for key, _ in ready.select():
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                message = connection.recv(64)
                if message == READ:
                    connection.sendall(message)
                    continue
                handed_over += 1
                if handed_over == workers:
                    handed_over = 0
                    _apply(values)
                    for each in connections:
                        each.sendall(HANDED_OVER)


def _apply(values: mlp.Array) -> None:
    """The mean of all gradients, whose memory is used."""
    parameters, total = values[0], values[1]
    for more in values[2:]:
        total += more
    total *= np.float32(mlp.LEARNING_RATE / (len(values) - 1))
    parameters -= total


def work(path: str, address: str, task: str) -> None:
    """A worker: a step for every byte of stdin, and a line with its loss for a "!"."""
    data = mlp.batch()
    with socket.socket(socket.AF_UNIX) as ps:
        ps.connect(address)
        size = os.path.getsize(path) // sum(
            4 * (n + 1) * m for n, m in itertools.pairwise(mlp.SIZES)
        )
        values = _mapped(path, size)
        layers, into = _layers(values[0]), _layers(values[1 + int(task)])
        print(flush=True)
        while how := os.read(sys.stdin.fileno(), 1):
            _round_trip(ps, READ)
            loss = mlp.gradients(layers, *data, into)
            _round_trip(ps, HANDED_OVER)
            os.write(sys.stdout.fileno(), b"." if how == b"." else b"%r\n" % loss)


def _round_trip(ps: socket.socket, message: bytes) -> None:
    ps.sendall(message)
    ps.recv(64)


if __name__ == "__main__":
    if sys.argv[1] == "ps":
        end_with_stdin()
        serve(*sys.argv[2:])
    else:
        work(*sys.argv[2:])
