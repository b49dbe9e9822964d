"""What a session says of a queue's QueueRunners when a step waits for the queue."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.serve.observe.blocked import BlockedStep
from tests.waiting_steps import WaitingSteps, waiting_steps  # noqa: F401  (a fixture)


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


class Run:
    """`session.run(fetch)` in a thread of its own, until the session is closed."""

    def __init__(self, session: tf.Session, fetch: Any) -> None:
        self._session, self._fetch = session, fetch
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        with pytest.raises(tf.errors.OpError):
            self._session.run(self._fetch)


def step_in(session: tf.Session, node: str) -> BlockedStep:
    return next(step for step in session.blocked_steps() if step.node == node)


def test_producers_that_wait_themselves_are_followed(
    tmp_path: Path,
    waiting_steps: WaitingSteps,  # noqa: F811
) -> None:
    path = tmp_path / "lines"
    path.write_text("one\n")
    names = tf.FIFOQueue(3, tf.string, shapes=[[]], name="names")
    _, line = tf.TextLineReader(name="reader").read(names, name="read")
    examples = tf.FIFOQueue(5, tf.string, shapes=[[]], name="examples")
    tf.train.add_queue_runner(tf.train.QueueRunner(examples, [examples.enqueue(line)]))
    batch = examples.dequeue_many(4, name="batch")
    with tf.Session() as session:
        session.run(names.enqueue(str(path)))
        threads = tf.train.start_queue_runners(session, tf.train.Coordinator())
        run = Run(session, batch)
        waiting_steps.until("batch")
        waiting_steps.until("read")
        waits, reads = step_in(session, "batch"), step_in(session, "read")
    for thread in [*threads[:-1], run.thread]:
        thread.join(60)
    assert reads.kind == "read"
    assert reads.cause.startswith("the file-name queue 'names' is empty and nobody enqueues")
    assert waits.cause == f"its producers wait themselves, in ReaderReadV2 'read': {reads.cause}"
    assert (waits.so_far, waits.wanted) == (1, 4)


def test_producers_that_failed_are_named_with_their_error(
    monkeypatch: pytest.MonkeyPatch,
    waiting_steps: WaitingSteps,  # noqa: F811
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    queue = tf.FIFOQueue(5, tf.string)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.read_file("/nowhere", name="open"))])
    element = queue.dequeue(name="take")
    with tf.Session() as session:
        for thread in runner.create_threads(session, start=True):  # in no collection
            thread.join(60)
        run = Run(session, element)
        waiting_steps.until("take")
        step = step_in(session, "take")
    run.thread.join(60)
    assert step.cause.startswith("every producer of this queue has ended, with NotFoundError: ")
    assert "(node 'open', built at " in step.cause


def test_a_runner_of_another_session_does_not_count(
    waiting_steps: WaitingSteps,  # noqa: F811
) -> None:
    queue = tf.FIFOQueue(5, tf.int32)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)]))
    element = queue.dequeue(name="take")
    with tf.Session() as one, tf.Session() as other:
        threads = tf.train.start_queue_runners(other, tf.train.Coordinator())
        run = Run(one, element)
        waiting_steps.until("take")
        step = step_in(one, "take")
    for thread in [*threads[:-1], run.thread]:
        thread.join(60)
    assert step.cause.startswith(
        "no QueueRunner was started for this queue in this session, though "
    )


def test_a_local_variable_is_initialized_by_the_local_initializer() -> None:
    counter = tf.Variable(0, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="epochs")
    usual = tf.Variable(0, name="steps")
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"tf\.local_variables_initial"):
            session.run(counter.count_up_to(3))
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"tf\.global_variables_init"):
            session.run(usual.count_up_to(3))
