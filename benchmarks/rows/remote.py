"""Steps of a client on a cluster: client, master `/job:worker/task:0` and `/job:ps/task:0` are three processes.

Every message goes over the loopback; nothing is shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.floors import round_trips
from benchmarks.row import Bench, row

CLUSTER = {"ps": 1, "worker": 1}


@row("run(const) on the master", cluster=CLUSTER, faster=10, floors=round_trips(1))
def remote_run_const(tf: Any, bench: Bench) -> None:
    """A step that computes nothing, on the server that the session is with: client → worker."""
    with tf.device("/job:worker/task:0"):
        answer = tf.constant(42.0)
    with tf.Session(bench.target("worker")) as session:
        bench.expect(session.run(answer), 42.0)
        bench.time(lambda: session.run(answer))


@row("run(var) on another task", cluster=CLUSTER, faster=10, floors=round_trips(1))
def remote_run_var(tf: Any, bench: Bench) -> None:
    """Read a variable of the parameter server: client → ps, or client → worker → ps, and back."""
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(42.0)
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(x), 42.0)
        bench.time(lambda: session.run(x))


@row("run(assign_add) on another task", cluster=CLUSTER, faster=10, floors=round_trips(1))
def remote_run_assign_add(tf: Any, bench: Bench) -> None:
    """Update a variable of the parameter server and fetch its new value; no update may be lost."""
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(0.0)
        count = x.assign_add(1.0)
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(count), 1.0)
        calls = bench.time(lambda: session.run(count))
        bench.expect(session.run(x), 1.0 + calls)


@row("while_loop, 100 iterations over two tasks", cluster=CLUSTER, floors=round_trips(100))
def remote_while_loop(tf: Any, bench: Bench) -> None:
    """A loop of the worker whose body is on the parameter server: there and back in every iteration."""
    with tf.device("/job:worker/task:0"):

        def body(i: Any) -> Any:
            with tf.device("/job:ps/task:0"):
                return i + 1

        limit = tf.placeholder(tf.int32, [])
        count = tf.while_loop(lambda i: i < limit, body, [tf.constant(0)])
    with tf.Session(bench.target("worker")) as session:
        bench.expect(session.run(count, {limit: 3}), 3)
        bench.expect(session.run(count, {limit: 100}), 100)
        bench.time(lambda: session.run(count, {limit: 100}))


@row("scalar from ps to worker", cluster=CLUSTER, faster=10, floors=round_trips(2))
def remote_scalar(tf: Any, bench: Bench) -> None:
    """A worker computes with a variable of the parameter server: client → worker, ps → worker."""
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(41.0)
    with tf.device("/job:worker/task:0"):
        y = x + 1.0
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(y), 42.0)
        bench.time(lambda: session.run(y))


@row("enqueue + dequeue on another task", cluster=CLUSTER, faster=10, floors=round_trips(2))
def remote_enqueue_dequeue(tf: Any, bench: Bench) -> None:
    """One element into a queue of the parameter server and out again, in two steps."""
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name="queue")
        put, get, size = queue.enqueue(42.0), queue.dequeue(), queue.size()

    with tf.Session(bench.target("worker")) as session:

        def step() -> Any:
            session.run(put)
            return session.run(get)

        bench.expect(step(), 42.0)
        bench.time(step)
        bench.expect(session.run(size), 0)


@row(
    "enqueue_many + dequeue_many, 100 at a time", cluster=CLUSTER, faster=12, floors=round_trips(2)
)
def remote_enqueue_dequeue_many(tf: Any, bench: Bench) -> None:
    """100 elements of two floats, fed, into a queue of the parameter server and out again, in two steps."""
    elements = np.arange(200, dtype=np.float32).reshape(100, 2)
    fed = tf.placeholder(tf.float32, [100, 2])
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1000, [tf.float32], shapes=[[2]], shared_name="queue")
        put, get, size = queue.enqueue_many([fed]), queue.dequeue_many(100), queue.size()

    with tf.Session(bench.target("worker")) as session:

        def step() -> Any:
            session.run(put, {fed: elements})
            return session.run(get)

        bench.expect(step(), elements)
        bench.time(step)
        bench.expect(session.run(size), 0)
