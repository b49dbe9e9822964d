"""What was given up has ended before anything that the same session asks for later is served.

Also by a server that does not notice that a caller has gone until much later: because it was stopped, or is busy.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.grpc import server as grpc_server
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.rpc import cancelled_calls
from headrace.serve.rpc.cancelled_calls import Calls, CancelledCalls, CancelledSteps
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import ProcessCluster, in_process, processes
from tests.serve.conftest import JOBS, TRANSPORTS, Background, Blocked
from tests.serve.waiting_kinds import KINDS, Kind
from tests.serve.ways import Ways
from tests.support.ctrl_c import ctrl_c_when

Start = Callable[[Callable[[], Any]], Background]

PS, MASTER, THIRD = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
ROUTES = ("direct", "by its master", "on its master", "over tasks")


class Program:
    """Operations of every kind, on the task of a route."""

    def __init__(self, route: str) -> None:
        self.route = route
        device = MASTER if route == "on its master" else PS
        with tf.device(device), tf.container(uuid.uuid4().hex):
            self.variable = tf.Variable(1.0)
            self.kinds = [make() for make in KINDS]
        if route == "over tasks":
            with tf.device(THIRD):
                other = tf.Variable(2.0)
                self.kinds = [kind._replace(wait=beside(kind.wait, other)) for kind in self.kinds]
        self.init = tf.global_variables_initializer()

    def open(self, target: str, ways: Ways) -> tf.Session:
        """A session in which every operation waits that may, and goes its way."""
        session = tf.Session(target)
        session.run(self.init)
        if self.route == "direct":
            ways.open(session, self.variable)
        for kind in self.kinds:
            session.run(kind.first)
            for _ in range(3):
                session.run(kind.release)
                before = ways.direct
                session.run(kind.wait)
            assert (ways.direct > before) == (self.route == "direct")
        return session


def beside(wait: Any, other: Any) -> Any:
    """A step on another task that waits for `wait`."""
    with tf.control_dependencies([wait]):
        return tf.identity(other)


def check_that_it_has_left_no_trace(kind: Kind, session: tf.Session) -> None:
    """And that it waits again."""
    session.run(kind.release)
    for fetch, value in kind.after:
        np.testing.assert_array_equal(session.run(fetch), value)
    session.run(kind.first)


def unaware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of this process do not notice that callers have gone."""
    monkeypatch.setattr(LaneSocket, "hung_up", lambda socket: False)
    monkeypatch.setattr(grpc_server, "when_gone", lambda context, then: None)


@pytest.fixture(params=[transport for transport in TRANSPORTS if transport != "direct"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    TRANSPORTS[name](monkeypatch)
    return name


@pytest.mark.parametrize("route", ROUTES)
def test_who_does_not_notice_is_told_with_the_next_request(
    transport: str, route: str, monkeypatch: pytest.MonkeyPatch, ways: Ways, blocked: Blocked
) -> None:
    if transport == "grpc" and route == "direct":
        route = "by its master"
    monkeypatch.setenv("HEADRACE_DIRECT", "on" if route == "direct" else "off")
    with in_process(JOBS) as cluster:
        program = Program(route)
        with program.open(cluster.target("worker:0"), ways) as session:
            unaware(monkeypatch)
            for kind in program.kinds:
                with ctrl_c_when(blocked.wait):
                    session.run(kind.wait)
                check_that_it_has_left_no_trace(kind, session)


FROZEN = {
    "direct": "ps:0", "by its master": "ps:0", "on its master": "worker:0", "over tasks": "ps:0",
}  # fmt: skip


@pytest.fixture(scope="module", params=["on", "off"], ids=["lane", "grpc"])
def lane(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether processes have one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_LANE", request.param)
        yield request.param


@pytest.fixture(scope="module")
def tasks(lane: str) -> Iterator[ProcessCluster]:
    """A process each."""
    with processes(JOBS) as cluster:
        yield cluster


@pytest.mark.parametrize("route", ROUTES)
def test_who_was_stopped_ends_what_was_given_up_meanwhile_first(
    tasks: ProcessCluster, lane: str, route: str, monkeypatch: pytest.MonkeyPatch, ways: Ways,
    background: Start,
) -> None:  # fmt: skip
    """Steps that waited there before, and steps that were asked for while it was stopped."""
    if lane == "off" and route == "direct":
        route = "by its master"
    monkeypatch.setenv("HEADRACE_DIRECT", "on" if route == "direct" else "off")
    program = Program(route)
    late = tf.RunOptions(timeout_in_ms=400)
    frozen = FROZEN[route]
    with program.open(tasks.target("worker:0"), ways) as session:
        for begun in (True, False):
            if not begun:
                tasks.freeze(frozen)
            steps = [
                background(lambda kind=kind: session.run(kind.wait, options=late))  # type: ignore[misc]
                for kind in program.kinds
            ]
            if begun:
                tasks.freeze(frozen)
            try:
                for step in steps:
                    assert isinstance(step.error(), tf.errors.DeadlineExceededError)
            finally:
                tasks.thaw(frozen)
            for kind in program.kinds:
                check_that_it_has_left_no_trace(kind, session)


@pytest.mark.parametrize("route", ["direct", "by its master"])
def test_a_session_that_was_closed_meanwhile_leaves_nothing_to_the_next_one(
    tasks: ProcessCluster, lane: str, route: str, monkeypatch: pytest.MonkeyPatch, ways: Ways,
    background: Start,
) -> None:  # fmt: skip
    if lane == "off":
        route = "by its master"
    monkeypatch.setenv("HEADRACE_DIRECT", "on" if route == "direct" else "off")
    with tf.device(PS):
        queue = tf.FIFOQueue(9, [tf.float32], [[]], shared_name=f"left by {route}")
        begun = tf.FIFOQueue(9, [tf.float32], [[]], shared_name=f"begun by {route}")
        put, size, has_begun = queue.enqueue(5.0), queue.size(), begun.dequeue()
        with tf.control_dependencies([begun.enqueue(1.0)]):
            take = queue.dequeue()
    session = tf.Session(tasks.target("worker:0"))
    if route == "direct":
        ways.open(session, size)
    for _ in range(3):
        session.run(put)
        session.run(take)
        session.run(has_begun)
    step = background(lambda: session.run(take))
    session.run(has_begun)
    tasks.freeze("ps:0")
    try:
        closing = background(session.close)
        assert isinstance(step.error(), tf.errors.CancelledError)
    finally:
        tasks.thaw("ps:0")
    with tf.Session(tasks.target("worker:0")) as another:
        another.run(put)
        assert another.run(size) == 1
        assert another.run(take) == 5.0
    closing.join()


# -- what it is made of -----------------------------------------------------------------------------


def test_what_was_given_up_is_told_until_it_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "most_cancelled", 5)
    ours = CancelledCalls()
    assert not ours.any
    ours.add(calls=[1, 2])
    told = ours.request()
    ours.add(calls=[3], steps=[4], sessions=["s"])
    ours.heard(told)
    assert ours.any
    assert list(ours.request().call) == [3]
    ours.add(calls=range(5, 12))
    assert list(ours.request(most=4).call) == [8, 9, 10, 11]
    assert len(ours.request().call) == 5
    ours.heard(ours.request())
    assert not ours.any
    assert ours.times == 3


def test_what_is_given_up_as_the_last_is_heard_is_told() -> None:
    """By another thread, which comes in the way of the one that finds nothing left."""
    ours = CancelledCalls()

    class Meanwhile(dict[str, None]):
        def __bool__(self) -> bool:
            found = len(self) > 0
            ours.add(calls=[7])
            return found

    ours._sessions = Meanwhile()
    ours.heard(pb.GiveUpRequest())
    assert ours.any
    assert list(ours.request().call) == [7]


def test_sessions_share_a_list_of_what_was_given_up_of_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LIMITS, "most_servers", 3)
    known = cancelled_calls.ByServer()
    for number in range(5):  # with something to tell, all of them
        known.of(f"there:{number}").add(calls=[1])
    assert len(known) == 3
    assert known.of("here:1") is known.of("here:1")
    assert known.of("here:1") is not known.of("here:2")


def test_a_call_that_comes_after_it_was_given_up_is_refused_once() -> None:
    calls, ended = Calls(), []

    def end() -> bool:
        ended.append(1)
        return True

    assert calls.add(1, end)
    calls.cancel([1, 2])
    assert ended == [1]
    assert not calls.add(2, end)
    calls.forget(1)
    calls.wait([1, 2])
    calls.cancel([1])  # it is not there any more
    assert ended == [1]


def test_a_step_waits_for_those_that_leave_and_no_longer_than_its_own_limit(
    background: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = CancelledSteps()
    leaving.go_first(Scope())
    leaving.add("one")
    with pytest.raises(tf.errors.DeadlineExceededError):
        leaving.go_first(Scope(0.01))
    follower = background(lambda: leaving.go_first(Scope(60.0)))
    leaving.left("one")
    follower.join()
    leaving.add("another")
    monkeypatch.setattr(LIMITS, "leaves_within_s", 0.01)
    leaving.go_first(Scope())  # it computes for very long
    stopped = Scope()
    stopped.cancel(tf.errors.CancelledError(None, None, "given up itself"))
    with pytest.raises(tf.errors.CancelledError, match="given up itself"):
        leaving.go_first(stopped)
