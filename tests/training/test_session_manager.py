"""Sessions that are prepared, recovered and waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import headrace as tf
from headrace.training import session_layers, session_manager
from headrace.training.initialized import InitializedWait


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def server() -> Iterator[tf.train.Server]:
    with tf.train.Server.create_local_server() as made:
        yield made


def manager(**options: Any) -> tf.train.SessionManager:
    """A manager whose sessions need all global variables."""
    return tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(tf.global_variables()), **options
    )


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_waiting_worker_is_told_when_the_last_variable_is_initialized(
    server: tf.train.Server, use_resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would ask again after an hour."""
    a = tf.get_variable("a", [], use_resource=use_resource)
    b = tf.get_variable("b", [3], use_resource=use_resource)
    workers = manager(recovery_wait_secs=3600)
    waiting = threading.Event()
    found: list[Any] = []

    class Told(InitializedWait):
        def wait(self, timeout_s: float) -> bool:
            waiting.set()
            return super().wait(timeout_s)

    monkeypatch.setattr(session_manager, "InitializedWait", Told)

    def work() -> None:
        with workers.wait_for_session(server.target) as session:
            found.append(session.run(b).shape)

    worker = threading.Thread(target=work)
    with tf.Session(server.target) as chief:
        worker.start()
        assert waiting.wait(60)
        chief.run(a.initializer)
        assert not found
        chief.run(b.initializer)
        worker.join(60)
    assert found == [(3,)]


class Clock:
    """Time that only waits take, for what a session manager reads: a look may take any, and is within the limit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.passes: Callable[[], float] = lambda: 0.0
        monkeypatch.setattr(session_manager, "time", self)
        monkeypatch.setattr(session_manager, "_pause", self.add)

    def monotonic(self) -> float:
        return self.now + self.passes()

    def add(self, seconds: float) -> None:
        self.now += seconds


def test_a_worker_that_waits_too_long_is_told_for_what(
    server: tf.train.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf.Variable(1.0, name="never")
    clock = Clock(monkeypatch)

    class Waiting(InitializedWait):
        def wait(self, timeout_s: float) -> bool:
            clock.add(timeout_s + 1)
            return super().wait(0.01)

    monkeypatch.setattr(session_manager, "InitializedWait", Waiting)
    with pytest.raises(
        tf.errors.DeadlineExceededError, match=r"not ready after waiting 70 secs.*never"
    ):
        manager().wait_for_session(server.target, max_wait_secs=70)
    assert clock.now == 71


def test_a_last_question_that_gets_no_answer_does_not_hide_what_is_missing(
    server: tf.train.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ready op answers once, and then waits until the time is up."""
    answers = tf.FIFOQueue(2, tf.string, [[]], shared_name="answers")
    clock = Clock(monkeypatch)
    clock.passes = time.monotonic  # the last question has what a pause of 60 s leaves
    with tf.Session(server.target) as session:
        session.run(answers.enqueue(b"never"))
    waiting = tf.train.SessionManager(
        ready_op=answers.dequeue_many(1), recovery_wait_secs=60, graph=tf.get_default_graph()
    )
    with pytest.raises(
        tf.errors.DeadlineExceededError, match=r"not ready after waiting 62 secs.*never"
    ):
        waiting.wait_for_session(server.target, max_wait_secs=62)


def test_a_session_of_this_process_is_not_waited_for_by_anybody_but_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tf.Variable(1.0, name="mine")
    clock = Clock(monkeypatch)
    with pytest.raises(tf.errors.DeadlineExceededError, match="mine"):
        manager(recovery_wait_secs=20).wait_for_session("", max_wait_secs=70)
    assert clock.now == 60


def test_what_is_no_variable_is_asked_for_again(server: tf.train.Server) -> None:
    with tf.Session(server.target) as session:
        assert not InitializedWait(session, ["nothing"]).wait(1.0)
        assert not InitializedWait(session, []).wait(1.0)


def test_a_wait_for_a_variable_ends_with_its_time(server: tf.train.Server) -> None:
    v = tf.Variable(1.0, name="v")
    with tf.Session(server.target) as session:
        assert InitializedWait(session, ["v"]).wait(0.05)
        session.run(v.initializer)
        assert InitializedWait(session, ["v"]).wait(float("inf"))


@pytest.mark.parametrize("last", [tf.errors.UnavailableError, tf.errors.DeadlineExceededError])
def test_what_is_raised_in_the_end_is_of_an_attempt_that_had_time(
    monkeypatch: pytest.MonkeyPatch, last: type[tf.errors.OpError]
) -> None:
    """The last one may have had a millisecond, in which nobody answers and every limit passes."""
    lost = tf.errors.UnavailableError
    now, attempts = (
        [0.0],
        [
            (1.0, lost, "refused"),
            (8.5, lost, "/job:ps/task:0 is missing"),
            (0.5, last, "no answer"),
        ],
    )
    monkeypatch.setattr(session_layers, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Creator(tf.train.SessionCreator):
        def create_session(self) -> Any:
            lasts, error, message = attempts.pop(0)
            now[0] += lasts
            raise error(None, None, message)

    with pytest.raises(tf.errors.UnavailableError, match="/job:ps/task:0 is missing"):
        session_layers.RecoverableSession(Creator(), max_recovery_secs=None, max_wait_secs=10)
    assert attempts == []


@pytest.mark.parametrize("is_chief", [True, False])
def test_a_training_recovers_and_waits_at_barriers_as_long_as_it_says(
    server: tf.train.Server, is_chief: bool
) -> None:
    """Later sessions no longer than the first, unless it says more."""
    tf.train.create_global_step()
    with tf.train.MonitoredTrainingSession(server.target) as chief:
        with tf.train.MonitoredTrainingSession(
            server.target, is_chief, max_wait_secs=77, save_summaries_steps=None
        ) as session:
            assert session._sess._max_recovery_secs == 77
            assert session._coordinated_creator._max_recovery_secs == 77
        assert chief._sess._max_recovery_secs == 7200
    with tf.train.MonitoredTrainingSession(
        server.target, max_wait_secs=77, max_recovery_secs=7, save_summaries_steps=None
    ) as session:
        assert session._sess._max_recovery_secs == 7
        assert session._coordinated_creator._max_recovery_secs == 7
