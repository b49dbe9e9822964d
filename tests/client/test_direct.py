"""Steps that lie on one task as a whole, which their client asks of that task without the master."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.client import direct
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve import server as server_module
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.connect.transports import direct_steps
from headrace.serve.lane import transport as lane_transport
from headrace.serve.lane.served import ServedConnection
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.step_channel import takes_caller
from headrace.serve.worker.worker import Worker
from tests.serve.authority import Authority
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS, Background, Blocked
from tests.serve.raw_lane import shell_of
from tests.serve.ways import WITHIN_S, Ways
from tests.support.ctrl_c import ctrl_c_when
from tests.support.until import until
from tests.waiting_steps import WaitingSteps

pytestmark = pytest.mark.usefixtures("graph")

Start = Callable[[Callable[[], Any]], Background]
PS = "/job:ps/task:0"
LIMIT_MS = 200


class Server:
    """What the tasks of this process are asked for, as it begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.after: Callable[[], object] = lambda: None  # a direct step has run
        self.ending = threading.Event()
        run, wait = Worker.run_part, Worker._wait_for_steps

        @takes_caller
        def running(worker: Worker, request: m.RunPartRequest, *given: Any) -> m.ValuesReply:
            values = run(worker, request, *given)
            if request.direct:
                self.after()
            return values

        def waiting(worker: Worker, session: Any, scope: Scope) -> None:
            self.ending.set()
            wait(worker, session, scope)

        monkeypatch.setattr(Worker, "run_part", running)
        monkeypatch.setattr(Worker, "_wait_for_steps", waiting)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


@pytest.fixture(params=["unix"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, served: Server
) -> Iterator[Cluster]:
    """A ps and two workers of this process, each reached through its socket."""
    TRANSPORTS[request.param](monkeypatch)
    with in_process({"ps": 1, "worker": 2}) as cluster:
        yield cluster


class Program:
    """A variable and a queue on the ps."""

    def __init__(self) -> None:
        with tf.device(PS):
            self.variable = tf.Variable(1.0, name="variable")
            self.add = self.variable.assign_add(1.0)
            self.queue = tf.FIFOQueue(9, [tf.float32], [[]], shared_name="queue", name="queue")
            self.take = self.queue.dequeue(name="take")
            self.put, self.size = self.queue.enqueue(5.0), self.queue.size()
        self.init = tf.global_variables_initializer()

    def open(self, cluster: Cluster, ways: Ways, **more: Any) -> tf.Session:
        """A session that has found the ps, and knows all of these steps."""
        session = tf.Session(cluster.target("worker:0"), **more)
        session.run(self.init)
        ways.open(session, self.variable)
        for step in (self.add, self.put, self.take, self.size):
            session.run(step)
        session.run(self.variable.initializer)
        return session


@pytest.fixture
def program(graph: tf.Graph) -> Program:
    return Program()


# -- which steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", ["unix", "tcp"], indirect=True)
def test_a_step_on_one_other_task_goes_there_from_the_second_run_on(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    with program.open(cluster, ways) as session:
        assert [ways.of(session, program.add) for _ in range(3)] == [2.0, 3.0, 4.0]
        assert ways.of(session, program.variable) == 4.0
        assert ways.of(session, program.put) is None
        assert ways.of(session, program.take) == 5.0
        both = {"a": program.variable, "b": [program.size]}
        assert session.run(both) == ways.of(session, both) == {"a": 4.0, "b": [0]}


@pytest.mark.parametrize("where", ["/job:worker/task:0", "/job:worker/task:1", PS])
def test_what_is_fed_goes_with_the_step_wherever_it_was_put(
    cluster: Cluster, ways: Ways, program: Program, where: str
) -> None:
    with tf.device(where):
        fed, unused = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with tf.device(PS):
        total = program.variable + fed
    with program.open(cluster, ways) as session:
        session.run(total, {fed: 1.0})
        session.run(total, {fed: 1.0})
        assert ways.of(session, total, {fed: 2.0}) == 3.0
        assert session.run([total, unused], {fed: 3.0, unused: 7.0}) == [4.0, 7.0]


def test_a_callable_of_options_goes_where_a_step_would(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    with tf.device(PS):
        fed = tf.placeholder(tf.float32, [])
        total = program.variable + fed
    with program.open(cluster, ways) as session:
        options = pb.CallableOptions(feed=[fed.name], fetch=[total.name], target=[program.put.name])
        call = session._make_callable_from_options(options)
        call(np.float32(1))
        call(np.float32(1))
        before, metadata = ways.direct, tf.RunMetadata(step_stats=pb.StepStats())
        assert call(np.float32(2), run_metadata=metadata) == [3.0]
        assert ways.direct == before + 1
        assert not metadata.HasField("step_stats")
        assert session.run(program.size) == 3
        for wrong, why in ((np.int32(2), "feed float32"), ((), "takes 1 feeds")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=why):
                call(*([wrong] if isinstance(wrong, np.generic) else []))
        traced = pb.CallableOptions(
            fetch=[program.variable.name],
            run_options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
        )
        before = ways.direct
        call = session._make_callable_from_options(traced)
        assert [call(run_metadata=metadata) for _ in range(3)] == [[1.0]] * 3
        assert metadata.step_stats.dev_stats
        assert ways.direct == before


def test_a_callable_outlives_its_task(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    with program.open(cluster, ways) as session:
        call = session._make_callable_from_options(
            pb.CallableOptions(fetch=[program.variable.name])
        )
        assert [call() for _ in range(3)] == [[1.0]] * 3
        cluster.servers["ps:0"].stop()
        cluster.start("ps:0")
        with pytest.raises(tf.errors.AbortedError, match="was restarted"):
            call()
        session.run(program.init)
        assert [call() for _ in range(3)] == [[1.0]] * 3


def test_what_goes_to_the_master_as_before(cluster: Cluster, ways: Ways, program: Program) -> None:
    with tf.device("/job:worker/task:0"):
        own = tf.constant(2.0) + tf.random_uniform([])
    with tf.device("/job:worker/task:1"):
        two_tasks = program.variable + 1.0
    with tf.device(PS):
        fed = tf.placeholder(tf.float32, [])
        sum_ = program.variable + fed
    with program.open(cluster, ways) as session:
        before = ways.direct
        for _ in range(3):
            assert 2.0 <= session.run(own) < 3.0
            assert session.run(two_tasks) == 2.0
            metadata = tf.RunMetadata()
            traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            assert session.run(program.variable, options=traced, run_metadata=metadata) == 1.0
            assert metadata.step_stats.dev_stats
            graphs = tf.RunOptions(output_partition_graphs=True)
            assert session.run(program.variable, options=graphs, run_metadata=metadata) == 1.0
            assert metadata.partition_graphs
            handle = session.partial_run_setup([sum_], [fed])
            assert session.partial_run(handle, sum_, {fed: 2.0}) == 3.0
            assert tf.Session(cluster.target("ps:0")).run(program.variable) == 1.0
        assert ways.direct == before
        assert ways.of(session, program.variable) == 1.0


def test_a_step_that_was_traced_first_goes_straight_later(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    with program.open(cluster, ways) as session:
        twice = program.variable * 2.0
        traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run(twice, options=traced, run_metadata=tf.RunMetadata()) == 2.0
        assert session.run(twice) == 2.0
        assert ways.of(session, twice) == 2.0


@pytest.mark.parametrize(("name", "value"), [("HEADRACE_DIRECT", "off"), ("HEADRACE_LANE", "off")])
@pytest.mark.parametrize("whose", ["client's", "servers'"])
def test_it_can_be_turned_off(
    name: str, value: str, whose: str, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["unix"](monkeypatch)
    with monkeypatch.context() as environment:
        if whose == "servers'":
            environment.setenv(name, value)
        with in_process({"ps": 1, "worker": 1}) as cluster:
            environment.undo()
            TRANSPORTS["unix"](environment)
            if whose == "client's":
                environment.setenv(name, value)
            with tf.Session(cluster.target("worker:0")) as session:
                session.run(program.init)
                assert [session.run(program.add) for _ in range(3)] == [2.0, 3.0, 4.0]
            assert ways.direct == 0


def test_the_option_has_two_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DIRECT", "sometimes")
    with pytest.raises(errors.InvalidArgumentError, match="say on or off"):
        direct_steps()


def test_tasks_that_are_not_ours_are_left_to_the_master(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterView, "pushing", lambda self, tasks: set())
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        assert [session.run(program.add) for _ in range(4)] == [2.0, 3.0, 4.0, 5.0]
    assert ways.direct == 0


# -- what they give ---------------------------------------------------------------------------------

VALUES = {
    "a scalar": np.float32(1.5),
    "no elements": np.zeros((3, 0), np.int64),
    "strings": np.array([[b"", b"one"], [b"\x00\xff", b"x" * 5000]], object),
    "a string": np.array(b"alone", object),
    "bools": np.array([True, False]),
    "complex": np.array([1 + 2j], np.complex64),
    "halves": np.arange(5, dtype=np.float16),
    "shared memory": np.arange(1_000_000, dtype=np.float64),
}


def test_values_of_every_kind_pass_both_ways_in_their_order(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    with tf.device(PS):
        holders = [tf.placeholder(value.dtype, value.shape) for value in VALUES.values()]
        held = [tf.identity(holder) for holder in holders]
    fetches = [*reversed(held), held[0], program.variable, held[0]]
    feeds = dict(reversed(list(zip(holders, VALUES.values(), strict=True))))
    with program.open(cluster, ways) as session:
        session.run(fetches, feeds)
        for _ in range(3):
            *found, one, variable, same = ways.of(session, fetches, feeds)
            for value, got in zip(reversed(VALUES.values()), found, strict=True):
                np.testing.assert_array_equal(got, value)
                assert isinstance(got, bytes) or got.dtype == value.dtype
            assert (one, variable, same) == (1.5, 1.0, 1.5)
            found[0][0] = -1.0  # the caller's own


def test_errors_are_those_that_the_master_tells(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    with tf.device(PS):
        x = tf.placeholder(tf.float32, [None])
        checked = tf.check_numerics(x, "no number", name="checked")
    with program.open(cluster, ways) as session:
        told = []
        session.run(checked, {x: [1.0]})
        for options in (tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), None):
            before = ways.direct
            with pytest.raises(errors.InvalidArgumentError) as caught:
                session.run(checked, {x: [np.nan]}, options=options)
            error = caught.value
            told.append((error.message, error.node, error.op_type, error.device, error.built_at))
            assert ways.direct - before == (options is None)
        assert told[0] == told[1]
        with pytest.raises(errors.InvalidArgumentError, match="feed float32"):
            session._engine.step([x], [checked], [])([np.zeros(1, np.int32)], None, None)  # type: ignore[attr-defined]
        session.run(checked, {x: [1.0]})


@pytest.mark.parametrize("whose", ["step", "session", "master"])
def test_time_limits_hold(
    whose: str, cluster: Cluster, ways: Ways, program: Program, blocked: Blocked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    made = direct.RouteToOne.__init__

    def limited(route: direct.RouteToOne, offer: pb.DirectStep, parts: Any) -> None:
        if parts[0].makes == ["take:0"]:
            assert offer.timeout_ms == 60_000
            offer.timeout_ms = LIMIT_MS
        made(route, offer, parts)

    if whose == "master":
        cluster.servers["worker:0"].master._config.operation_timeout_in_ms = 60_000
        monkeypatch.setattr(direct.RouteToOne, "__init__", limited)
    with program.open(cluster, ways) as session:
        if whose == "session":
            session._engine._timeout_ms = LIMIT_MS  # type: ignore[attr-defined]
        options = tf.RunOptions(timeout_in_ms=LIMIT_MS) if whose == "step" else None

        def late() -> errors.OpError:
            before = ways.direct
            with pytest.raises(errors.DeadlineExceededError) as caught:
                session.run(program.take, options=options)
            assert ways.direct == before + 1
            return caught.value

        while (error := late()).node is None:  # the ps had no time to say where, on a busy machine
            pass
        assert error.node == "take"
        blocked.wait_until_all_ended()
        with tf.Session(cluster.target("worker:1")) as other:
            other.run(program.put)
            assert other.run(program.size) == 1


def test_threads_share_a_session_that_grows(
    cluster: Cluster, ways: Ways, program: Program, background: Start
) -> None:
    with program.open(cluster, ways) as session:
        adding = [
            background(lambda: [session.run(program.add) for _ in range(50)]) for _ in range(4)
        ]
        with tf.device(PS):
            grown = program.variable * 0.0 + 7.0
        assert session.run(grown) == 7.0
        assert ways.of(session, grown) == 7.0
        seen = [value for each in adding for value in each.value()]
        assert session.run(program.variable) == 201.0
        assert max(seen) == 201.0


@pytest.mark.parametrize("kind", ["isolated", "filtered", "own cluster"])
def test_sessions_with_something_of_their_own(
    kind: str, cluster: Cluster, ways: Ways, program: Program
) -> None:
    config = tf.ConfigProto()
    if kind == "isolated":
        config.isolate_session_state = True
    elif kind == "filtered":
        config.device_filters[:] = ["/job:ps", "/job:worker/task:0"]
    else:
        spec = {"worker": {9: cluster.address("worker:0")}, "ps": [cluster.address("ps:0")]}
        config.cluster_def.CopyFrom(tf.train.ClusterSpec(spec).as_cluster_def())
    with (
        tf.Session(cluster.target("worker:0")) as other,
        program.open(cluster, ways, config=config) as session,
    ):
        other.run(program.init)
        assert ways.of(session, program.add) == 2.0
        assert other.run(program.variable) == (2.0 if kind == "filtered" else 1.0)


@pytest.mark.parametrize("kind", ["secret", "tls"])
def test_the_task_is_shown_what_the_master_is_shown(
    kind: str, ways: Ways, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["unix"](monkeypatch)
    if kind == "secret":
        security = tf.train.Security("correct horse battery staple")
        monkeypatch.setenv("HEADRACE_SECRET", "correct horse battery staple")
    else:
        files = Authority(tmp_path / "ours")
        security = tf.train.Security(
            certificate=files.cert, key=files.key, authorities=files.ca, clients_too=True
        )
        for name, value in {
            "CERT": files.cert,
            "KEY": files.key,
            "CA": files.ca,
            "CLIENTS": "1",
        }.items():
            monkeypatch.setenv(f"HEADRACE_TLS_{name}", value)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        monkeypatch.undo()
        TRANSPORTS["unix"](monkeypatch)
        again = Ways(monkeypatch)
        with program.open(cluster, again, security=security) as session:
            assert again.of(session, program.add) == 2.0


# -- where there is no way ----------------------------------------------------------------------------


def test_a_task_that_cannot_be_reached_costs_one_line_and_nothing_else(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(lane_transport, "has_socket", lambda lane: False)
    caplog.set_level(logging.INFO, "headrace")
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        ways.look(session, program.variable)
        assert [session.run(program.add) for _ in range(4)] == [2.0, 3.0, 4.0, 5.0]
    assert ways.direct == 0
    (line,) = [record for record in caplog.records if "go through" in record.message]
    assert line.levelno == logging.INFO
    assert cluster.address("ps:0") in line.message
    assert "no lane that leads there" in line.message


def test_another_server_at_the_tasks_address_is_left_alone(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = cluster.address("worker:1")  # as a name may lead a client elsewhere than the master
    monkeypatch.setattr(ClusterView, "address", lambda self, task: elsewhere)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        ways.look(session, program.variable)
        assert [session.run(program.add) for _ in range(3)] == [2.0, 3.0, 4.0]
    assert ways.direct == 0


def test_a_step_that_its_task_has_forgotten_is_asked_of_the_master(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "most_plans", 2)
    with program.open(cluster, ways) as session:
        for number in range(1, 6):
            assert session.run(program.add) == number + 1.0
            assert session.run(program.variable) == number + 1.0
            assert session.run(program.size) == 0


def test_a_task_whose_connections_have_ended_is_connected_to_again(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    with program.open(cluster, ways) as session:
        for connection in list(shell_of(cluster)._connections):
            connection.finish()
        assert ways.of(session, program.add) == 2.0


def test_a_step_that_may_have_run_is_not_run_again(
    cluster: Cluster, served: Server, ways: Ways, program: Program
) -> None:

    def cut() -> None:
        for connection in list(shell_of(cluster)._connections):
            connection.cut()

    with program.open(cluster, ways) as session:
        served.after = cut
        with pytest.raises(errors.UnavailableError, match="/job:ps/replica:0/task:0 at"):
            ways.of(session, program.add)
        served.after = lambda: None
        assert session.run(program.variable) == 2.0
        ways.open(session, program.size)
        assert ways.of(session, program.variable) == 2.0


# -- how they end -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("time_to_close")
def test_a_closed_session_ends_its_step(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start
) -> None:
    session = program.open(cluster, ways)
    steps = [background(lambda: ways.of(session, program.take)) for _ in range(1)]
    blocked.wait()
    session.close()
    assert not cluster.servers["ps:0"].worker._running
    assert isinstance(steps[0].error(), errors.CancelledError)
    with tf.Session(cluster.target("worker:1")) as other:
        other.run(program.put)
        assert other.run(program.size) == 1  # nobody has taken it


def test_ctrl_c_ends_a_step_and_the_session_goes_on(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked
) -> None:
    with program.open(cluster, ways) as session:
        with ctrl_c_when(blocked.wait):
            ways.of(session, program.take)
        blocked.wait_until_all_ended()
        session.run(program.put)
        assert ways.of(session, program.size) == 1


def test_reset_ends_a_step_and_the_session(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start
) -> None:
    with program.open(cluster, ways) as session:
        step = background(lambda: ways.of(session, program.take))
        blocked.wait()
        tf.Session.reset(cluster.target("worker:0"))
        assert isinstance(step.error(), errors.AbortedError)
        assert "tf.Session.reset" in str(step.error())
        for _ in range(2):
            with pytest.raises(errors.AbortedError, match="session"):
                session.run(program.variable)


def test_a_master_that_is_stopped_gives_a_step_grace_and_takes_no_more(
    cluster: Cluster, served: Server, ways: Ways, program: Program, blocked: Blocked,
    background: Start,
) -> None:  # fmt: skip
    with program.open(cluster, ways) as session, tf.Session(cluster.target("worker:1")) as other:
        other.run(program.size)
        step = background(lambda: ways.of(session, program.take))
        blocked.wait()
        stopping = background(lambda: cluster.servers["worker:0"].stop(WITHIN_S))
        assert served.ending.wait(WITHIN_S)
        before = ways.direct
        with pytest.raises(errors.UnavailableError, match="was stopped"):
            session.run(program.add)
        assert ways.direct == before + 1
        other.run(program.put)
        assert step.value() == 5.0
        stopping.join()
        with pytest.raises(errors.UnavailableError):
            session.run(program.variable)


def test_a_master_that_is_stopped_ends_a_step(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start
) -> None:
    with program.open(cluster, ways) as session:
        step = background(lambda: ways.of(session, program.take))
        blocked.wait()
        cluster.servers["worker:0"].stop()
        assert isinstance(step.error(), errors.UnavailableError)
        assert "was stopped" in str(step.error())
        blocked.wait_until_all_ended()
        with pytest.raises(errors.UnavailableError):
            session.run(program.variable)


def test_a_task_that_is_stopped_gives_a_step_grace(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with program.open(cluster, ways) as session:
        step = background(lambda: ways.of(session, program.take))
        blocked.wait()
        ps = cluster.servers["ps:0"]
        refusing = threading.Event()
        wait_for = Scope.wait_for

        def waiting(scope: Scope, condition: Any, done: Any, what: str = "changes") -> None:
            if what == "the steps to end":
                refusing.set()
            wait_for(scope, condition, done, what)

        monkeypatch.setattr(Scope, "wait_for", waiting)
        (queue,) = [each for each in ps.worker.runtime.resources.all() if each.name == "queue"]
        stopping = background(lambda: ps.stop(WITHIN_S))
        assert refusing.wait(WITHIN_S)
        queue.enqueue([np.float32(3.0)])  # type: ignore[attr-defined]
        assert step.value() == 3.0
        stopping.join()
        with pytest.raises(errors.UnavailableError):
            session.run(program.variable)


def test_the_reply_of_a_step_that_has_ended_within_the_grace_is_sent(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """However late, as on a busy machine: the connection is not cut before that."""
    monkeypatch.setattr(server_module, "_LAST_WORDS_S", 0.0)
    send, cut = ServedConnection._send, threading.Event()

    def late(connection: ServedConnection, *args: Any) -> bool:
        if late_now:
            until(lambda: connection._finishing)
            cut.wait(0.1)  # in which it would be
        return send(connection, *args)

    late_now: list[bool] = []
    with program.open(cluster, ways) as session:
        step = background(lambda: ways.of(session, program.take))
        blocked.wait()
        ps = cluster.servers["ps:0"]
        (queue,) = [each for each in ps.worker.runtime.resources.all() if each.name == "queue"]
        monkeypatch.setattr(ServedConnection, "_send", late)
        monkeypatch.setattr(ServedConnection, "cut", lambda connection: cut.set())
        late_now.append(True)
        queue.enqueue([np.float32(3.0)])  # type: ignore[attr-defined]
        ps.stop(WITHIN_S)
        assert step.value() == 3.0
        assert not cut.is_set()


CLIENT = """
import sys, threading
import headrace as tf
from headrace.client import direct
from headrace.client.reaching import Task
found = threading.Event()
reach = Task._reach
Task._reach = lambda task: (reach(task), found.set())
with tf.device("/job:ps/task:0"):
    queue = tf.FIFOQueue(9, [tf.float32], [[]], shared_name="queue")
    put, take, size = queue.enqueue(1.0), queue.dequeue(), queue.size()
session = tf.Session(sys.argv[1])
for step in (put, take, size, size):
    session.run(step)
found.wait()
session.run(take)
"""


def test_a_client_that_is_killed_takes_nothing_from_the_queue(
    cluster: Cluster, program: Program, blocked: Blocked, waiting_steps: WaitingSteps
) -> None:
    client = subprocess.Popen([sys.executable, "-c", CLIENT, cluster.target("worker:0")])
    try:
        waiting_steps.until("fifo_queue_Dequeue")
        (state,) = cluster.servers["ps:0"].worker.inspect(pb.InspectRequest(), Scope()).task
        assert not cluster.servers["worker:0"].worker._running
        (master,) = cluster.servers["worker:0"].master._sessions.values()
        assert not master._steps  # which has nothing to do with it
    finally:
        client.kill()
        client.wait()
    blocked.wait_until_all_ended()
    assert [step.op for step in state.blocked] == ["QueueDequeueV2"]
    with tf.Session(cluster.target("worker:1")) as other:
        other.run(program.put)
        assert other.run(program.size) == 1


def test_a_blocked_step_is_shown_with_its_session(
    cluster: Cluster, ways: Ways, program: Program, waiting_steps: WaitingSteps, background: Start
) -> None:
    session = program.open(cluster, ways)
    step = background(lambda: ways.of(session, program.take))
    waiting_steps.until("take")
    (seen,) = session.blocked_steps()
    (same,) = cluster.servers["ps:0"].blocked_steps()
    everything = cluster.servers["worker:1"].master.inspect(pb.InspectRequest(), Scope(WITHIN_S))
    session.close()
    assert isinstance(step.error(), errors.CancelledError)
    assert (seen.node, seen.kind, seen.task) == ("take", "dequeue", "/job:ps/replica:0/task:0")
    assert seen.session == same.session
    assert f"pid {os.getpid()}" in seen.client
    (known,) = [known for task in everything.task for known in task.session]
    assert (known.handle, known.steps) == (seen.session, 1)
    assert [task.steps for task in everything.task] == [1, 0, 0]
