"""Arithmetic: large arrays and whole training steps in a local session, where kernels are what takes the time."""

from __future__ import annotations

import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cnn, cnn_by_hand
from benchmarks.floors import summed
from benchmarks.row import Bench, Floor, Unit, row

ELEMENTS = 4_000_000
FED = 2_500_000  # floats: 10 MB
BLOCK = 1 << 20


def _session(tf: Any, threads: int) -> Any:
    """One that uses so many threads; 0: as many as it likes."""
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    return tf.Session(config=config)


def _elementwise_by_hand(bench: Bench) -> None:
    values = np.random.default_rng(0).standard_normal(ELEMENTS, np.float32)
    blocks = [values[at : at + AT_A_TIME] for at in range(0, ELEMENTS, AT_A_TIME)]
    rooms: dict[int, list[Any]] = {}

    def one(block: Any) -> Any:
        room = rooms.setdefault(threading.get_ident(), [])
        if not room:
            room += [np.empty(AT_A_TIME, np.float32) for _ in range(2)]
        first, second = (each[: len(block)] for each in room)
        np.multiply(np.tanh(block, out=first), 2, out=first)
        np.exp(np.negative(block, out=second), out=second)
        return np.add(first, second, out=first).sum()

    with ThreadPoolExecutor(THREADS) as pool:
        wanted = (np.tanh(values) * 2 + np.exp(-values)).sum(dtype=np.float64)
        bench.expect(sum(pool.map(one, blocks)), wanted, relative=1e-4)
        bench.time(lambda: sum(pool.map(one, blocks)))


AT_A_TIME = 1 << 18
THREADS = 2
BY_NUMPY = Floor(f"the same calls of NumPy on {THREADS} threads", _elementwise_by_hand)


@row(
    "elementwise, 4 M floats: sum(tanh(x) * 2 + exp(-x))", faster=1, floors=[BY_NUMPY],
    moves="16 MB read once; what is in between stays in the cache",
)  # fmt: skip
def elementwise(tf: Any, bench: Bench, nbytes: int = 4 * ELEMENTS, threads: int = 0) -> None:
    """A chain of elementwise operations over a large variable, and the sum of what it gives."""
    values = np.random.default_rng(0).standard_normal(nbytes // 4, np.float32)
    x = tf.Variable(values)
    total = tf.reduce_sum(tf.tanh(x) * 2 + tf.exp(-x))
    wanted = 0.0
    for start in range(0, len(values), BLOCK):
        wide = values[start : start + BLOCK].astype(np.float64)
        wanted += (np.tanh(wide) * 2 + np.exp(-wide)).sum()
    with _session(tf, threads) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(total), wanted, relative=1e-4)
        bench.time(lambda: session.run(total))


@row("feed 10 MB and reduce", faster=1, floors=[summed(4 * FED)], moves="10 MB read, none copied")
def feed_reduce(tf: Any, bench: Bench, nbytes: int = 4 * FED, threads: int = 0) -> None:
    """Feed 2.5 M floats and fetch their sum."""
    values = np.random.default_rng(0).random(nbytes // 4, np.float32)
    x = tf.placeholder(tf.float32, [None])
    total = tf.reduce_sum(x)
    with _session(tf, threads) as session:
        bench.expect(session.run(total, {x: values}), values.sum(dtype=np.float64), relative=1e-4)
        bench.time(lambda: session.run(total, {x: values}))


def _training(tf: Any, bench: Bench) -> tuple[Any, Any]:
    """A session and a step, whose first losses have been seen to be those of other ways to the same."""
    images = tf.placeholder(tf.float32, [None, cnn.SIDE, cnn.SIDE, 1])
    labels = tf.placeholder(tf.int32, [None])
    loss, train = cnn.build(tf, images, labels)
    feed = dict(zip((images, labels), cnn.batch(), strict=True))
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    losses = [session.run([loss, train], feed)[0] for _ in cnn.LOSSES]
    bench.expect(losses, cnn.LOSSES, relative=cnn.CLOSE)
    return session, lambda: session.run(train, feed)


BY_HAND = Floor(f"the same in NumPy by hand, on {cnn_by_hand.THREADS} threads", cnn.by_hand)


@row("training step, CNN with two 5x5 convolutions, batch 50, Adam", faster=1, floors=[BY_HAND])
def cnn_step(tf: Any, bench: Bench) -> None:
    """Feed a batch of 50 images of 28x28, one step of Adam: convolutions, pooling, 3.3 M parameters."""
    session, step = _training(tf, bench)
    with session:
        bench.time(step)


@row("peak memory of that step", unit=Unit.BYTES)
def cnn_memory(tf: Any, bench: Bench) -> None:
    """How much more memory the process has had at its peak than before the graph was built."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    before = int(line.split()[1]) * 1024
    session, step = _training(tf, bench)
    with session:
        for _ in range(10):
            step()
    bench.record(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
