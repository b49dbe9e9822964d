"""Steps of a local session: client, plan and kernels in one process."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import mlp
from benchmarks.floors import (
    ARRAY_ADD,
    ARRAY_COPY,
    COUNTING,
    LOCKED_DEQUE,
    LOOPS,
    added,
    memcpy,
    summed,
)
from benchmarks.row import Bench, Floor, row


@row("run(const)", faster=15, floors=[ARRAY_COPY])
def run_const(tf: Any, bench: Bench) -> None:
    """A step that computes nothing: what Session.run itself costs."""
    answer = tf.constant(42.0)
    with tf.Session() as session:
        bench.expect(session.run(answer), 42.0)
        bench.time(lambda: session.run(answer))


@row("run(var)", faster=15, floors=[ARRAY_COPY])
def run_var(tf: Any, bench: Bench) -> None:
    """Read a variable."""
    x = tf.Variable(42.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(x), 42.0)
        bench.time(lambda: session.run(x))


@row("run(assign_add)", faster=15, floors=[ARRAY_ADD])
def run_assign_add(tf: Any, bench: Bench) -> None:
    """Update a variable and fetch its new value; no update may be lost."""
    x = tf.Variable(0.0)
    count = x.assign_add(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(count), 1.0)
        calls = bench.time(lambda: session.run(count))
        bench.expect(session.run(x), 1.0 + calls)


@row("enqueue + dequeue", faster=15, floors=[LOCKED_DEQUE])
def enqueue_dequeue(tf: Any, bench: Bench) -> None:
    """One element into a queue and out again, in two steps."""
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    put, get = queue.enqueue(42.0), queue.dequeue()

    with tf.Session() as session:

        def step() -> Any:
            session.run(put)
            return session.run(get)

        bench.expect(step(), 42.0)
        bench.time(step)
        bench.expect(session.run(queue.size()), 0)


def _counting(tf: Any, bench: Bench) -> None:
    limit = tf.placeholder(tf.int32, [])
    count = tf.while_loop(lambda i: i < limit, lambda i: i + 1, [0])
    with tf.Session() as session:
        bench.expect(session.run(count, {limit: 3}), 3)
        bench.expect(session.run(count, {limit: LOOPS}), LOOPS)
        bench.time(lambda: session.run(count, {limit: LOOPS}))


def _choosing(tf: Any, bench: Bench) -> None:
    pred, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])
    chosen = tf.cond(pred, lambda: x + 1.0, lambda: x - 1.0)
    with tf.Session() as session:
        bench.expect(session.run(chosen, {pred: False, x: 3.0}), 2.0)
        bench.expect(session.run(chosen, {pred: True, x: 3.0}), 4.0)
        bench.time(lambda: session.run(chosen, {pred: True, x: 3.0}))


@row("while_loop, 10,000 iterations", floors=[COUNTING])
def while_loop(tf: Any, bench: Bench) -> None:
    """A loop that counts: what an iteration costs beside its kernels."""
    _counting(tf, bench)


@row("while_loop of functions, 10,000 iterations", floors=[COUNTING])
def while_loop_v2(tf: Any, bench: Bench) -> None:
    """The same loop as one node: its condition and body are functions of the graph."""
    tf.enable_control_flow_v2()
    try:
        _counting(tf, bench)
    finally:
        tf.disable_control_flow_v2()


@row("cond", floors=[ARRAY_COPY])
def cond(tf: Any, bench: Bench) -> None:
    """A step that decides by a feed which of two sums to compute."""
    _choosing(tf, bench)


@row("cond of functions", floors=[ARRAY_COPY])
def cond_v2(tf: Any, bench: Bench) -> None:
    """The same decision as one node: its branches are functions of the graph."""
    tf.enable_control_flow_v2()
    try:
        _choosing(tf, bench)
    finally:
        tf.disable_control_flow_v2()


def _many(tf: Any, bench: Bench, width: int, updates: bool) -> None:
    """100 elements of so many floats, of a variable, in and out of a queue; what comes out is summed."""
    elements = np.random.default_rng(0).random((100, width), np.float32)
    kept = tf.Variable(elements)
    update = tf.assign(kept, kept * -1.0).op
    queue = tf.FIFOQueue(1000, [tf.float32], shapes=[[width]])
    put, total = queue.enqueue_many([kept]), tf.reduce_sum(queue.dequeue_many(100))

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def step() -> Any:
            if updates:
                session.run(update)
            session.run(put)
            return session.run(total)

        for sign in (-1, 1):
            wanted = elements.sum(dtype=np.float64) * (sign if updates else 1)
            bench.expect(step(), wanted, relative=1e-4)
        bench.time(step)
        bench.expect(session.run(queue.size()), 0)


@row("enqueue_many + dequeue_many, 100 of 2 floats", faster=15)
def enqueue_dequeue_many(tf: Any, bench: Bench) -> None:
    """100 small elements into a queue and out again, in two steps; they are summed."""
    _many(tf, bench, 2, updates=False)


MANY = 100 * 40_000  # bytes


@row(
    "enqueue_many + dequeue_many, 100 of 40 kB, summed", faster=4, floors=[memcpy(2 * MANY), summed(MANY)],
    moves="4 MB read where they are, none copied",
)  # fmt: skip
def enqueue_dequeue_many_large(tf: Any, bench: Bench) -> None:
    """100 elements of 10,000 floats into a queue and out again, in two steps; all of them are summed."""
    _many(tf, bench, 10_000, updates=False)


@row(
    "the same, of a variable that changes each time", faster=3, floors=[added(MANY, then_summed=True)],
    moves="8 MB read, 4 MB written; none copied",
)  # fmt: skip
def enqueue_dequeue_many_updated(tf: Any, bench: Bench) -> None:
    """The variable is scaled, 100 elements of it go into a queue, come out and are summed, in three steps."""
    _many(tf, bench, 10_000, updates=True)


@row("shuffle queue of 1e6, 100 at a time", faster=10)
def shuffle_queue(tf: Any, bench: Bench) -> None:
    """100 of a million elements out of a shuffle queue, and as many in, in two steps."""
    count = 1_000_000
    fill, refill = tf.range(count, dtype=tf.int64), tf.range(count, count + 100, dtype=tf.int64)
    queue = tf.RandomShuffleQueue(count + 100, 0, [tf.int64], shapes=[[]])
    put_all, put, get = (
        queue.enqueue_many([fill]),
        queue.enqueue_many([refill]),
        queue.dequeue_many(100),
    )

    with tf.Session() as session:
        session.run(put_all)

        def step() -> Any:
            session.run(put)
            return session.run(get)

        taken = step()
        bench.expect(len(np.unique(taken)), 100)
        bench.expect(session.run(queue.size()), count)
        bench.time(step)


@row(
    "training step, MLP 784-300-100-10, batch 50, SGD",
    faster=1.7,
    floors=[Floor("the same in NumPy by hand", mlp.by_hand)],
)
def mlp_step(tf: Any, bench: Bench) -> None:
    """Feed a batch of 50 images, one step of gradient descent; the losses are those of NumPy by hand."""
    images = tf.placeholder(tf.float32, [None, mlp.SIZES[0]])
    labels = tf.placeholder(tf.int32, [None])
    loss, train = mlp.build(tf, images, labels)
    image_batch, label_batch = mlp.batch()
    feed = {images: image_batch, labels: label_batch}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = [session.run([loss, train], feed)[0] for _ in range(mlp.CHECKED_STEPS)]
        bench.expect(got, mlp.losses(mlp.CHECKED_STEPS), relative=1e-4)
        bench.time(lambda: session.run(train, feed))


UNROLLED, UNITS, STATES = 20, 16, 5


@row("an actor's unroll: 20 steps of an environment (py_func) and an LSTM, by scan", faster=1)
def unroll(tf: Any, bench: Bench) -> None:
    """What the policy decides is what the environment is asked next, so that no two steps may be under way at once."""
    moves = np.random.default_rng(1).random((UNROLLED, STATES), np.float32)

    def environment(step: np.int32, decided: np.float32) -> np.ndarray:
        return moves[step] + decided

    cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
    start = (tf.zeros([STATES]), cell.zero_state(1, tf.float32))

    def act(before: Any, step: Any) -> Any:
        seen, state = before
        output, state = cell(tf.expand_dims(seen, 0), state)
        seen = tf.py_func(environment, [step, tf.reduce_sum(output)], tf.float32)
        return tf.reshape(seen, [STATES]), state

    seen, _ = tf.scan(act, tf.range(UNROLLED), initializer=start)
    last = seen[-1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(seen).shape, (UNROLLED, STATES))
        bench.time(lambda: session.run(last))


@row("training step of an MLP, fed by a cond of two queues", faster=1)
def either_queue_step(tf: Any, bench: Bench) -> None:
    """One queue for training and one for validation, as programs have; each step puts back what it takes."""
    random = np.random.default_rng(2)
    queues = [tf.FIFOQueue(4, [tf.float32, tf.int64], [[32, 100], [32]]) for _ in range(2)]
    batch = random.random((32, 100), np.float32), random.integers(0, 10, 32)
    training = tf.placeholder_with_default(True, [])
    x, labels = tf.cond(training, queues[0].dequeue, queues[1].dequeue)
    hidden, inputs = x, 100
    for units in (64, 64, 64, 10):
        weights = tf.Variable(random.standard_normal((inputs, units), np.float32) * 0.1)
        hidden = tf.matmul(tf.nn.relu(hidden), weights) + tf.Variable(tf.zeros([units]))
        inputs = units
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
    )
    train = tf.train.AdamOptimizer(1e-4).minimize(loss)
    with tf.control_dependencies([train]):
        again = queues[0].enqueue([x, labels])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(queues[0].enqueue(batch))
        session.run(again)
        bench.expect(session.run(queues[0].size()), 1)
        bench.time(lambda: session.run(again))
