"""Blocked steps with TensorFlow on the other side: its servers cannot say, for its clients our servers do."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.run import long_waits
from headrace.tools.commands import ExitCode
from headrace.tools.main import main


class Lines(logging.Handler):
    """What headrace logs of steps that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if " has waited " in record.getMessage():
            self.texts.append(record.getMessage())
            self.came.set()


@pytest.fixture
def lines() -> Iterator[Lines]:
    before, lines, log = long_waits.threshold_s, Lines(), logging.getLogger("headrace")
    long_waits.report_after(0.2)
    log.addHandler(lines)
    yield lines
    log.removeHandler(lines)
    long_waits.report_after(before)


@pytest.fixture
def their_server(oracle: Any) -> str:
    """The target of a server in the oracle's process."""
    made = "import builtins; builtins.kept = tf.train.Server.create_local_server(); result = kept.target"
    target = oracle.run(made)
    return target.decode() if isinstance(target, bytes) else str(target)


@pytest.mark.parametrize("command", ["inspect", "top"])
def test_their_servers_cannot_say_what_they_have(their_server: str, command: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main([command, their_server], out, err) == ExitCode.FAILED
    assert f"{their_server} is not a headrace server" in err.getvalue()


def test_a_step_that_is_blocked_on_their_server_is_reported_as_far_as_that_goes(
    their_server: str, lines: Lines
) -> None:
    with tf.Graph().as_default():
        element = tf.FIFOQueue(3, tf.int32).dequeue()
        with tf.Session(their_server) as session:
            ended: list[BaseException] = []

            def run() -> None:
                try:
                    session.run(element)
                except tf.errors.OpError as error:
                    ended.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            assert lines.came.wait(60)
            with pytest.raises(tf.errors.UnimplementedError):
                session.blocked_steps()
        thread.join(60)
    assert ended
    assert lines.texts[0].endswith(
        "has waited 0.2 s and more for a step, and cannot learn what that waits for: it is not a headrace server"
    )


def test_our_server_reports_the_blocked_steps_of_their_clients(oracle: Any, lines: Lines) -> None:
    with tf.train.Server.create_local_server() as server, tf.Graph().as_default():
        enqueue = tf.FIFOQueue(3, tf.int32, shared_name="numbers").enqueue(7)
        with tf.Session(server.target) as session:
            release = threading.Thread(target=lambda: lines.came.wait(60) and session.run(enqueue))
            release.start()
            theirs = """
with tf.Session(target) as session:
    element = tf.FIFOQueue(3, tf.int32, shared_name="numbers").dequeue(name="take")
    result = int(session.run(element))
"""
            assert oracle.run(theirs, target=server.target) == 7
            release.join(60)
    assert "in QueueDequeueV2 'take': dequeue on FIFOQueue 'numbers' in container" in lines.texts[0]
    assert lines.texts[0].startswith("a step of session ")
