"""Processes that are stopped (SIGSTOP) under a step, and go on later, or that only take long."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect import liveness
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.rpc.methods import Method
from tests.serve.clusters import ProcessCluster, processes
from tests.serve.conftest import Background
from tests.serve.punctual import ATTEMPTS, CONFIG, OPTIONS, PATIENT, check_ends_in_time, in_the_end
from tests.support.until import until

Start = Callable[[Callable[[], Any]], Background]

LANES = ["off", "unix", "tcp"]


@pytest.fixture(scope="module", params=LANES)
def cluster(request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
    """A process each for a ps and two workers, who find out about each other sooner than usual."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADRACE_LANE", request.param)
        environment.setenv("HEADRACE_FROZEN_AFTER_S", "4")
        with processes({"ps": 1, "worker": 2}) as cluster:
            yield cluster


_numbers = itertools.count()


class Program:
    """A queue and a counter on the ps; a step through worker:1 that blocks in the queue."""

    def __init__(self) -> None:
        with tf.container(f"program{next(_numbers)}"), tf.device("/job:ps"):
            begun = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="begun")
            self.queue = tf.FIFOQueue(9, [tf.float32], [[]], shared_name="queue")
            self.counter = tf.Variable(0.0, name="counter")
            with tf.control_dependencies([begun.enqueue(1)]):
                self.taken = self.queue.dequeue()
            self.has_begun = begun.dequeue()
            with tf.control_dependencies([self.taken]):
                counted = self.counter.assign_add(1.0)
            self.put = self.queue.enqueue(5.0)
            self.size = self.queue.size()
        with tf.device("/job:worker/task:1"):
            self.step = self.taken + 1.0
            self.counting = counted + 0.0
        self.init = tf.global_variables_initializer()


@pytest.mark.parametrize("task", ["ps:0", "worker:0", "worker:1"])
def test_a_task_that_is_stopped_under_a_step_fails_it_by_name(
    cluster: ProcessCluster, background: Start, task: str
) -> None:
    """worker:0 is the master, which only the client can find out about."""
    program = Program()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        step = background(lambda: session.run([program.step, program.counting]))
        session.run(program.has_begun)
        cluster.freeze(task)
        began = time.monotonic()
        try:
            error = step.error()
            took = time.monotonic() - began
        finally:
            cluster.thaw(task)
        assert isinstance(error, tf.errors.UnavailableError)
        assert cluster.address(task) in str(error)
        assert "stopped or frozen" in str(error)
        if task != "worker:0":
            assert cluster.full_name(task) in str(error)
        assert took < 30.0  # of 4 on a machine that has nothing else to do
        # A task that goes on finds out by and by which of its steps were given up.
        until(lambda: not session.blocked_steps())
        session.run(program.put)
        assert session.run(program.size) == 1  # the step that was given up takes nothing
        assert session.run(program.counter) == 0.0


@pytest.mark.parametrize("task", ["ps:0", "worker:0"])
def test_limits_are_kept_while_a_task_is_stopped(cluster: ProcessCluster, task: str) -> None:
    """worker:0 is the master, whom steps on the ps alone need not have."""
    program = Program()
    fed = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"):
        sum_ = program.counter + fed
        new = [tf.identity(program.counter) for _ in range(ATTEMPTS + 1)]
    target = cluster.target("worker:0")
    with tf.Session(target) as session, tf.Session(target, config=CONFIG) as limited:
        session.run(program.init)
        for _ in range(4):
            session.run(program.size)
        session.run(new.pop())
        limited.run(program.size, options=PATIENT)
        fetching = pb.CallableOptions(fetch=[program.counter.name])
        made = in_the_end(lambda: limited._make_callable_from_options(fetching))

        def in_pieces() -> None:
            limited.partial_run(limited.partial_run_setup([sum_], [fed]), sum_, {fed: 1})

        ways: dict[str, Callable[[], Any]] = {
            "a step": lambda: session.run(program.size, options=OPTIONS),
            "through two tasks": lambda: session.run(program.step, options=OPTIONS),
            "a new step": lambda: session.run(new.pop(), options=OPTIONS),
            "a new session": lambda: tf.Session(target, config=CONFIG).run(program.size),
            "the list of devices": limited.list_devices,
            "a callable": made,
            "a partial run": in_pieces,
        }
        cluster.freeze(task)
        try:
            for what, call in ways.items():
                check_ends_in_time(call, what)
        finally:
            cluster.thaw(task)
        session.run(program.size)


def test_a_request_that_a_stopped_task_did_not_read_is_not_run_when_it_goes_on(
    cluster: ProcessCluster, background: Start
) -> None:
    program = Program()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        with tf.device("/job:ps"):
            add = program.counter.assign_add(1.0)
        assert session.run(add) == 1.0
        cluster.freeze("ps:0")
        try:
            with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:0"):
                session.run(add)
            limited = tf.RunOptions(timeout_in_ms=300)
            with pytest.raises(
                tf.errors.DeadlineExceededError
            ):  # sooner than its silence is noticed
                session.run(add, options=limited)
        finally:
            cluster.thaw("ps:0")
        assert session.run(program.counter) == 1.0


def test_a_step_that_only_waits_long_is_left_alone(
    cluster: ProcessCluster, background: Start
) -> None:
    program = Program()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        step = background(lambda: session.run(program.step))
        session.run(program.has_begun)
        with pytest.raises(tf.errors.DeadlineExceededError):  # the time of several questions
            session.run(program.queue.dequeue(), options=tf.RunOptions(timeout_in_ms=5000))
        assert not step.done
        session.run(program.put)
        assert step.value() == 6.0


class Silent:
    """A connection whose other side answers when the test wants it to."""

    name, remote, stale = "it", True, False

    def __init__(self) -> None:
        self.asked: list[Pending[Any]] = []

    def call(
        self, method: Method, request: Any, scope: Scope, wait_for_ready: bool
    ) -> Pending[Any]:
        reply: Pending[Any] = Pending()
        self.asked.append(reply)
        return reply

    def close(self) -> None: ...


def test_only_what_was_owed_before_the_question_is_lost_without_an_answer() -> None:
    peer = Silent()
    rpcs = OutstandingRpcs("it", lambda answer_s: peer)  # type: ignore[arg-type,return-value]
    lost: list[str] = []
    rpcs.observed = True  # looked at by hand
    rpcs.add("old", lambda error: lost.append("old"))
    rpcs.add("settled", lambda error: lost.append("settled"))
    rpcs.calls = {what: (since - 60.0, call) for what, (since, call) in rpcs.calls.items()}
    rpcs.check()
    rpcs.add("new", lambda error: lost.append("new"))
    rpcs.settle("settled")
    peer.asked[0].reject(errors.deadline_exceeded("no answer"))
    assert lost == ["old"]
    rpcs.close()


def test_what_it_takes_to_connect_is_no_part_of_the_time_to_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As to load grpcio, in a process that has not needed it before."""
    peer, later_s = Silent(), [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later_s[0])
    monkeypatch.setattr(liveness, "time", clock)

    def connect(answer_s: float) -> Silent:
        later_s[0] += 60.0
        return peer

    rpcs = OutstandingRpcs("it", connect)  # type: ignore[arg-type]
    lost: list[str] = []
    rpcs.observed = True
    rpcs.add("old", lambda error: lost.append("old"))
    rpcs.calls = {what: (since - 60.0, call) for what, (since, call) in rpcs.calls.items()}
    rpcs.check()
    peer.asked[0].reject(errors.deadline_exceeded("no answer"))
    assert lost == ["old"]
    rpcs.close()


def test_a_peer_that_answers_loses_nothing_however_long_it_owes() -> None:
    peer = Silent()
    rpcs = OutstandingRpcs("it", lambda answer_s: peer)  # type: ignore[arg-type,return-value]
    lost: list[errors.OpError] = []
    rpcs.observed = True
    rpcs.add("old", lost.append)
    rpcs.calls = {what: (since - 60.0, call) for what, (since, call) in rpcs.calls.items()}
    for count in range(3):
        rpcs.check()
        assert len(peer.asked) == count + 1
        peer.asked[count].resolve(pb.GetStatusResponse())
    assert not lost
    rpcs.close()


def test_a_peer_that_says_nothing_is_looked_for_by_its_name_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_hand = SimpleNamespace(call_at=lambda what, when: None, forget=lambda what: None)
    monkeypatch.setattr(liveness, "_timers", lambda: by_hand)
    peer = Silent()
    rpcs = OutstandingRpcs("it", lambda answer_s: peer)  # type: ignore[arg-type,return-value]
    renewed: list[int] = []
    rpcs.renew = renewed.append
    rpcs.observed = True
    rpcs.add("old", lambda error: None)
    rpcs.calls = {what: (since - 60.0, call) for what, (since, call) in rpcs.calls.items()}
    rpcs.check()
    peer.asked[0].reject(errors.deadline_exceeded("no answer"))
    assert renewed == []  # the thread that says so may be the connection's own
    rpcs.check()
    assert renewed == [0]
    rpcs.close()


@dataclass(frozen=True)
class Asked:
    """A call to that start of a server."""

    start: int


def test_what_another_start_owes_than_the_one_that_answers_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task whose host is frozen has come back elsewhere under its name."""
    by_hand = SimpleNamespace(call_at=lambda what, when: None, forget=lambda what: None)
    monkeypatch.setattr(liveness, "_timers", lambda: by_hand)
    peer = Silent()
    rpcs = OutstandingRpcs("it", lambda answer_s: peer)  # type: ignore[arg-type,return-value]
    lost: list[tuple[str, str]] = []
    renewed: list[int] = []
    rpcs.renew = renewed.append
    rpcs.observed = True
    for name, start in (("earlier", 1), ("later", 2), ("of neither", 0)):
        what = Asked(start) if start else object()
        rpcs.add(what, lambda error, name=name: lost.append((name, error.message)))  # type: ignore[misc]
    rpcs.calls = {what: (since - 60.0, call) for what, (since, call) in rpcs.calls.items()}
    for count in range(2):
        rpcs.check()
        device = pb.DeviceAttributes(incarnation=2)
        peer.asked[count].resolve(pb.GetStatusResponse(device_attributes=[device]))
        rpcs.check()
        ((name, text),) = lost
        assert name == "earlier"
        assert "it is elsewhere now: another start of it answers" in text
        assert renewed == [2]
    rpcs.close()


def test_a_peer_that_owes_nothing_is_not_asked() -> None:
    peer = Silent()
    rpcs = OutstandingRpcs("it", lambda answer_s: peer)  # type: ignore[arg-type,return-value]
    rpcs.add("done", lambda error: None)
    rpcs.settle("done")
    assert rpcs.check() is None
    assert not peer.asked
    rpcs.close()


def test_a_call_that_begins_as_it_is_seen_that_there_is_none_is_looked_after() -> None:
    """By who looks, or by the thread that begins it, which does so only if it finds that nobody looks."""
    nobody_looks: list[bool] = []

    class Calls(dict[object, Any]):
        def __bool__(self) -> bool:
            found = len(self) > 0
            self["new"] = time.monotonic(), lambda error: None  # another thread's
            nobody_looks.append(not rpcs.observed)
            return found

        def copy(self) -> dict[object, Any]:
            return dict(self)

    rpcs = OutstandingRpcs("it", lambda answer_s: Silent())  # type: ignore[arg-type,return-value]
    rpcs.observed = True
    rpcs.calls = Calls()
    with closing(rpcs):
        looks_again = rpcs.check() is not None
        assert looks_again or nobody_looks == [True]


def test_who_is_closed_while_somebody_has_it_checked_is_not_checked_again() -> None:
    """Else a thread would look at it for as long as something is outstanding, which may be for ever."""
    rpcs = OutstandingRpcs("it", lambda answer_s: pytest.fail("it is asked"))
    rpcs.observed = True  # but nobody has been told yet
    rpcs.add("owed", lambda error: None)
    rpcs.calls = {what: (since - 60.0, call) for what, (since, call) in rpcs.calls.items()}
    rpcs.close()
    assert rpcs.check() is None
