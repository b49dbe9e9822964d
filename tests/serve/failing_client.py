"""A client whose steps all fail, in one way: `python -m tests.serve.failing_client TARGET KIND ELEMENTS STEPS`.

After each tenth of its steps it says a line, and goes on when it reads one.  Every step is fed ELEMENTS floats, which
the ps doubles for the worker.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import headrace as tf
from headrace.codec import protos as pb

Step = Callable[[], object]

LIMIT_MS = 20
TENTHS = 10
AT_ONCE = 6


class Program:
    """What the kinds of failures have in common; a graph, a session, and another one that sees steps begin."""

    def __init__(self, target: str, elements: int) -> None:
        self.target = target
        self.value = np.ones(elements, np.float32)
        self.x = tf.placeholder(tf.float32, [None])
        with tf.device("/job:ps"):
            self.doubled = self.x * 2.0
            self.began = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="began")
            self.empty = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="empty")
        with tf.device("/job:worker"):
            self.tripled = self.doubled * 1.5
        with tf.device("/job:ps"), tf.control_dependencies([self.began.enqueue(1), self.tripled]):
            self.waits = self.empty.dequeue()
        self.has_begun = self.began.dequeue()
        with tf.device("/job:worker"):
            self.blocked = tf.reduce_sum(self.tripled) + self.waits
        self.session = tf.Session(target)
        self.watching = tf.Session(target)

    def run(self, fetch: Any, **how: Any) -> None:
        """A step of this session, fed."""
        self.session.run(fetch, {self.x: self.value}, **how)

    def close(self) -> None:
        """Both sessions."""
        self.session.close()
        self.watching.close()


def fails_on_the_ps(program: Program) -> Step:
    """A gather out of range, whose worker waits for it."""
    with tf.device("/job:ps"):
        wrong = tf.gather(program.doubled, [1 << 30])
    with tf.device("/job:worker"):
        waits = tf.reduce_sum(wrong) + tf.reduce_sum(program.tripled)
    return refused(lambda: program.run(waits), tf.errors.InvalidArgumentError)


def fails_on_the_worker(program: Program) -> Step:
    """check_numerics of what the ps has made; the ps waits for the result."""
    with tf.device("/job:worker"):
        wrong = tf.check_numerics(program.doubled / 0.0, "infinite")
    with tf.device("/job:ps"):
        waits = tf.reduce_sum(wrong)
    return refused(lambda: program.run(waits), tf.errors.InvalidArgumentError)


def deadline(program: Program) -> Step:
    """A dequeue that takes too long, between two tasks."""
    options = tf.RunOptions(timeout_in_ms=LIMIT_MS)
    with tf.device("/job:ps"), tf.control_dependencies([program.tripled]):
        waits = program.empty.dequeue()
    with tf.device("/job:worker"):
        total = tf.reduce_sum(program.tripled) + waits
    return refused(lambda: program.run(total, options=options), tf.errors.DeadlineExceededError)


def ctrl_c(program: Program) -> Step:
    """Ctrl-C under a blocked step."""
    interrupt = acting(
        program, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    )

    def step() -> None:
        with interrupt():
            refused(lambda: program.run(program.blocked), KeyboardInterrupt)()

    return step


def closed(program: Program) -> Step:
    """A session that is closed under a blocked step."""

    def step() -> None:
        with tf.Session(program.target) as program.session:
            end = acting(program, program.session.close)
            with end():
                refused(lambda: program.run(program.blocked), tf.errors.CancelledError)()

    return step


def cancelled(program: Program) -> Step:
    """An enqueue that waits for room, cancelled by a close of its queue."""
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32])
        first = queue.enqueue(0.0)
        close = queue.close(cancel_pending_enqueues=True)
        with tf.control_dependencies([program.began.enqueue(1)]):
            put = queue.enqueue(program.tripled)

    def step() -> None:
        with tf.Session(program.target) as program.session:
            program.session.run(first)
            session = program.session
            with acting(program, lambda: session.run(close))():
                refused(lambda: program.run(put), tf.errors.CancelledError)()

    return step


def wrongly_fed(program: Program) -> Step:
    """A feed that does not fit, beside one that does; on even steps, one that only the task finds wrong."""
    other = tf.placeholder(tf.float32, [2])
    more = tf.placeholder(tf.float32)
    with tf.device("/job:ps"):
        total = program.doubled + tf.reduce_sum(other)
        product = program.doubled * more
    two, many = np.ones(2), np.ones(program.value.size + 1)
    at_home = refused(
        lambda: program.session.run(total, {program.x: program.value, other: many}), ValueError
    )
    on_its_task = refused(
        lambda: program.session.run(product, {program.x: program.value, more: [two, two, two]}),
        tf.errors.InvalidArgumentError,
    )

    def step() -> None:
        at_home()
        on_its_task()

    return step


def not_registered(program: Program) -> Step:
    """A step whose partition the ps cannot compile."""
    shape = pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=1 << 20)])
    short = pb.TensorProto(dtype=1, tensor_shape=shape, tensor_content=b"too short")
    graph_def = tf.GraphDef()
    node = graph_def.node.add(name="short", op="Const", device="/job:ps")
    node.attr["dtype"].type = 1
    node.attr["value"].tensor.CopyFrom(short)
    (wrong,) = tf.import_graph_def(graph_def, return_elements=["short:0"])
    with tf.device("/job:worker"):
        waits = program.tripled + wrong[0]
    return refused(lambda: program.run(waits), tf.errors.InvalidArgumentError)


def blocked(program: Program) -> Step:
    """A step that waits until somebody ends this process."""
    return lambda: program.run(program.blocked)


def peers_gone(program: Program) -> Step:
    """Steps that wait until a task's process is ended, which comes back."""

    gone = (tf.errors.UnavailableError, tf.errors.AbortedError)

    def step() -> None:
        while not attempted(lambda: program.run(program.tripled), gone):
            pass  # it comes back, and is told of its restart once
        refused(lambda: program.run(program.blocked), gone)()

    return step


def attempted(run: Step, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether `run` did not fail in one of these ways."""
    with contextlib.suppress(*kinds):
        run()
        return True
    return False


KINDS: dict[str, Callable[[Program], Step]] = {
    kind.__name__: kind
    for kind in (
        fails_on_the_ps, fails_on_the_worker, deadline, ctrl_c, closed, cancelled, wrongly_fed, not_registered,
        blocked, peers_gone,
    )
}  # fmt: skip


def refused(run: Step, kind: type[BaseException] | tuple[type[BaseException], ...]) -> Step:
    """`run`, which must fail in that way."""

    def step() -> None:
        try:
            run()
        except kind:
            return
        raise AssertionError("the step did not fail")

    return step


class acting:
    """While the block runs: in a thread, wait until a blocked step has begun, then act."""

    def __init__(self, program: Program, act: Callable[[], object]) -> None:
        self._program = program
        self._act = act

    def __call__(self) -> acting:
        return self

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        self._program.watching.run(self._program.has_begun)
        self._act()


def main(target: str, kind: str, elements: str, steps: str) -> None:
    """See the module."""
    # 14 MB, which it may otherwise come to need for a peer that is slow to answer.
    importlib.import_module("headrace.serve.grpc.client")
    with tf.Graph().as_default():
        program = Program(target, int(elements))
        program.run(program.tripled)  # tasks meet, which may take longer than a limit
        in_parallel(lambda: program.run(program.tripled))
        step = KINDS[kind](program)
        count = int(steps)
        for number in range(count):
            step()
            if (number + 1) % tenth_of(count) == 0:
                say(number + 1)
    os._exit(0)


def in_parallel(run: Step) -> None:
    """Have as many connections and threads made as will be wanted at the same time at worst."""
    together = threading.Barrier(AT_ONCE)

    def several() -> None:
        for _ in range(5):
            together.wait()
            run()

    threads = [threading.Thread(target=several) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def tenth_of(steps: int) -> int:
    """After so many it says a line: one at least."""
    return max(steps // TENTHS, 1)


def say(steps: int) -> None:
    """And go on when that was heard."""
    print(steps, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
