"""Large tensors between a client, a master on `/job:worker/task:0` and a variable's home on `/job:ps/task:0`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.floors import bulk, memcpy
from benchmarks.row import Bench, row

CLUSTER = {"ps": 1, "worker": 1}
MB = 1_000_000
VALUE = 1.5


def _ps_to_worker(tf: Any, bench: Bench, nbytes: int) -> None:
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(tf.fill([nbytes // 4], VALUE))
    with tf.device("/job:worker/task:0"):
        last = x[-1]  # all of it must come, and the answer is small
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(last), VALUE)
        bench.time(lambda: session.run(last))


@row("1 MB from ps to worker", cluster=CLUSTER, faster=8, floors=[bulk(MB), memcpy(MB)])
def ps_to_worker_1mb(tf: Any, bench: Bench, nbytes: int = MB) -> None:
    """A worker takes the last element of a variable of the parameter server, which sends it all."""
    _ps_to_worker(tf, bench, nbytes)


@row(
    "100 MB from ps to worker",
    cluster=CLUSTER,
    faster=6,
    of_floor=3,
    floors=[memcpy(100 * MB), bulk(100 * MB)],
)
def ps_to_worker_100mb(tf: Any, bench: Bench) -> None:
    """The same with a hundred times as much."""
    _ps_to_worker(tf, bench, 100 * MB)


@row("fetch 1 MB", cluster=CLUSTER, faster=8, floors=[bulk(MB), memcpy(MB)])
def fetch_1mb(tf: Any, bench: Bench, nbytes: int = MB) -> None:
    """Read a variable of the server that the session is with; the client gets an array of its own."""
    with tf.device("/job:worker/task:0"):
        x = tf.Variable(tf.fill([nbytes // 4], VALUE))
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(x), np.full(nbytes // 4, VALUE, np.float32))
        bench.time(lambda: session.run(x))


@row("feed 1 MB", cluster=CLUSTER, faster=8, floors=[bulk(MB), memcpy(MB)])
def feed_1mb(tf: Any, bench: Bench, nbytes: int = MB) -> None:
    """The server that the session is with takes the last element of what it is fed."""
    with tf.device("/job:worker/task:0"):
        fed = tf.placeholder(tf.float32, [nbytes // 4])
        last = fed[-1]
    feed = {fed: np.arange(nbytes // 4, dtype=np.float32)}
    with tf.Session(bench.target("worker")) as session:
        bench.expect(session.run(last, feed), np.float32(nbytes // 4 - 1))
        bench.time(lambda: session.run(last, feed))
