"""Large tensors between a client, a master on `/job:worker/task:0` and a variable's home on `/job:ps/task:0`.

Whoever gets a tensor reads all of it, as programs do: a page that is mapped and not read is no transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.floors import added, bulk, memcpy, summed
from benchmarks.row import Bench, row

CLUSTER = {"ps": 1, "worker": 1}
MB = 1_000_000
VALUE = 1.5
CLOSE = 1e-4  # relative: sums, added up in orders of their own


class _OnPs:
    """A variable of ones on the parameter server, what adds ones to it there, and what sums it on the worker."""

    def __init__(self, tf: Any, bench: Bench, nbytes: int) -> None:
        self.count = nbytes // 4
        with tf.device("/job:ps/task:0"):
            self.x, ones = (tf.Variable(tf.ones([self.count])) for _ in range(2))
            self.update = tf.assign_add(self.x, ones).op
            self.least, self.most = tf.reduce_min(self.x), tf.reduce_max(self.x)
        with tf.device("/job:worker/task:0"):
            self.total = tf.reduce_sum(self.x)
        self.session = tf.Session(bench.target("worker"))
        self.session.run(tf.global_variables_initializer())

    def measure(self, bench: Bench, step: Callable[[], object], updates: bool) -> None:
        """Time the step, before which the variable is seen to be summed, and after which no update to be lost."""
        run = self.session.run
        for updated in range(3 * updates + 1):  # moved to where it stays, and back
            bench.expect(run(self.total), (1 + updated) * self.count, relative=CLOSE)
            if updates:
                run(self.update)
        calls = bench.time(step)
        wanted = 1 + (4 + calls) * updates
        bench.expect(run([self.least, self.most]), [wanted, wanted])


@row(
    "1 MB of the ps, summed on a worker", cluster=CLUSTER, faster=8, floors=[bulk(MB), summed(MB)],
    moves="1 MB read where it is, none copied",
)  # fmt: skip
def ps_to_worker_1mb(tf: Any, bench: Bench, nbytes: int = MB) -> None:
    """A worker adds up a variable of the parameter server, which does not change."""
    on_ps = _OnPs(tf, bench, nbytes)
    with on_ps.session:
        on_ps.measure(bench, lambda: on_ps.session.run(on_ps.total), updates=False)


@row(
    "100 MB of the ps, summed on a worker", cluster=CLUSTER, faster=6, of_floor=3,
    floors=[summed(100 * MB), memcpy(100 * MB), bulk(100 * MB)],
    moves="100 MB read where they are, none copied",
)  # fmt: skip
def ps_to_worker_100mb(tf: Any, bench: Bench, nbytes: int = 100 * MB) -> None:
    """The same with a hundred times as much."""
    on_ps = _OnPs(tf, bench, nbytes)
    with on_ps.session:
        on_ps.measure(bench, lambda: on_ps.session.run(on_ps.total), updates=False)


@row(
    "100 MB of the ps, updated there", cluster=CLUSTER, faster=1, floors=[added(100 * MB)],
    moves="200 MB read, 100 MB written where they are",
)  # fmt: skip
def ps_update_100mb(tf: Any, bench: Bench, nbytes: int = 100 * MB) -> None:
    """Add another variable of the parameter server to one that a worker has read before; no update may be lost."""
    on_ps = _OnPs(tf, bench, nbytes)
    with on_ps.session:
        on_ps.measure(bench, lambda: on_ps.session.run(on_ps.update), updates=True)


@row(
    "100 MB of the ps, updated there and summed on a worker", cluster=CLUSTER, faster=3, of_floor=3,
    floors=[added(100 * MB, then_summed=True)],
    moves="300 MB read, 100 MB written where they are; none copied",
)  # fmt: skip
def ps_update_and_sum_100mb(tf: Any, bench: Bench, nbytes: int = 100 * MB) -> None:
    """Both in turn, as a training program does: the worker always gets a value that it has not seen."""
    on_ps = _OnPs(tf, bench, nbytes)
    with on_ps.session:

        def step() -> object:
            on_ps.session.run(on_ps.update)
            return on_ps.session.run(on_ps.total)

        on_ps.measure(bench, step, updates=True)


@row(
    "100 MB of the ps, scaled there and summed on a worker in one step", cluster=CLUSTER, faster=3,
    floors=[added(100 * MB, then_summed=True)],
    moves="200 MB read, 100 MB written; none copied",
)  # fmt: skip
def ps_scale_and_sum_100mb(tf: Any, bench: Bench, nbytes: int = 100 * MB) -> None:
    """x = x * -1 on the parameter server, and then its sum on the worker, in one step."""
    count = nbytes // 4
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(tf.ones([count]))
        scaled = tf.assign(x, x * -1.0)
    with tf.device("/job:worker/task:0"):
        total = tf.reduce_sum(scaled)
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        for sign in (-1, 1, -1, 1):
            bench.expect(session.run(total), sign * count, relative=CLOSE)
        calls = bench.time(lambda: session.run(total))
        bench.expect(session.run(x[-1]), (-1) ** calls)


@row(
    "fetch 1 MB", cluster=CLUSTER, faster=8, floors=[bulk(MB), memcpy(MB)],
    moves="1 MB copied once, into memory that becomes the client's array",
)  # fmt: skip
def fetch_1mb(tf: Any, bench: Bench, nbytes: int = MB) -> None:
    """Read a variable of the server that the session is with; the client gets an array of its own."""
    with tf.device("/job:worker/task:0"):
        x = tf.Variable(tf.fill([nbytes // 4], VALUE))
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(x), np.full(nbytes // 4, VALUE, np.float32))
        bench.time(lambda: session.run(x))


@row(
    "feed 1 MB, summed on the server", cluster=CLUSTER, faster=8, floors=[bulk(MB), memcpy(MB), summed(MB)],
    moves="1 MB copied into shared memory, and read there",
)  # fmt: skip
def feed_1mb(tf: Any, bench: Bench, nbytes: int = MB) -> None:
    """The server that the session is with adds up what it is fed."""
    with tf.device("/job:worker/task:0"):
        fed = tf.placeholder(tf.float32, [nbytes // 4])
        total = tf.reduce_sum(fed)
    feed = {fed: np.random.default_rng(0).random(nbytes // 4, np.float32)}
    with tf.Session(bench.target("worker")) as session:
        bench.expect(session.run(total, feed), feed[fed].sum(dtype=np.float64), relative=CLOSE)
        bench.time(lambda: session.run(total, feed))
