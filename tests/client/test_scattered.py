"""Steps with parts on several tasks that exchange nothing, which their client asks of those without the master."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.client.reaching import Search
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.direct import DirectRoute
from headrace.serve.lane.client import LanePeer
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.status import ForgottenStepError
from headrace.serve.rpc.transport import Unreachable
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS, Background, Blocked
from tests.serve.ways import WITHIN_S, Ways

pytestmark = pytest.mark.usefixtures("graph")

TASKS = 3
LIMIT_MS = 200

Start = Callable[[Callable[[], Any]], Background]


@pytest.fixture(params=["unix"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three ps and two workers of this process, each reached through its socket."""
    TRANSPORTS[request.param](monkeypatch)
    with in_process({"ps": TASKS, "worker": 2}) as cluster:
        yield cluster


class Program:
    """A variable and a queue on each ps."""

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self.add: list[Any] = []
        self.take: list[Any] = []
        self.put: list[Any] = []
        self.size: list[Any] = []
        for task in range(TASKS):
            with tf.device(f"/job:ps/task:{task}"):
                variable = tf.Variable(float(task))
                queue = tf.FIFOQueue(9, [tf.float32], [[]], shared_name=f"queue{task}")
                self.variables.append(variable)
                self.add.append(variable.assign_add(1.0))
                self.take.append(queue.dequeue(name=f"take{task}"))
                self.put.append(queue.enqueue(float(task)))
                self.size.append(queue.size())
        self.init = tf.global_variables_initializer()

    def open(self, cluster: Cluster, ways: Ways, *steps: Any, **more: Any) -> tf.Session:
        """A session that has found all ps, and knows these steps, too."""
        session = tf.Session(cluster.target("worker:0"), **more)
        session.run(self.init)
        ways.open(session, self.variables)
        for step in steps:
            session.run(step)
        return session


@pytest.fixture
def program(graph: tf.Graph) -> Program:
    return Program()


# -- which steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", ["unix", "tcp"], indirect=True)
def test_a_step_goes_to_all_its_tasks_at_once(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    with program.open(cluster, ways, program.add) as session:
        assert ways.of(session, program.add) == [2.0, 3.0, 4.0]
        zero, one, two = program.variables
        mixed = {"a": [two, zero], "b": (zero, one)}
        session.run(mixed)
        assert ways.of(session, mixed) == {"a": [4.0, 2.0], "b": (2.0, 3.0)}


def test_what_is_fed_goes_to_the_part_that_needs_it(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    feeds, sums = [], []
    for task, variable in enumerate(program.variables):
        with tf.device(f"/job:ps/task:{task}"):
            feeds.append(tf.placeholder(tf.float32, [None]))
            sums.append(variable + feeds[-1])
    fed = {feed: [10.0 * task, 1.0] for task, feed in enumerate(feeds)}
    with program.open(cluster, ways) as session:
        session.run(sums, fed)
        found = ways.of(session, sums, fed)
        assert [list(each) for each in found] == [[0.0, 1.0], [11.0, 2.0], [22.0, 3.0]]
        found[0][0] = -1.0  # the caller's own


def test_values_in_shared_memory_come_from_all_tasks(
    cluster: Cluster, ways: Ways, program: Program
) -> None:
    large = []
    for task in range(TASKS):
        with tf.device(f"/job:ps/task:{task}"):
            large.append(tf.fill([300_000], float(task)) + program.variables[task])
    with program.open(cluster, ways, large) as session:
        for _ in range(3):
            found = ways.of(session, large)
            assert [each.sum() for each in found] == [0.0, 600_000.0, 1_200_000.0]
            found[1][:] = 7.0


def test_what_goes_to_the_master_as_before(cluster: Cluster, ways: Ways, program: Program) -> None:
    with tf.device("/job:worker/task:0"):
        own = tf.constant(2.0) + tf.random_uniform([])
    with tf.device("/job:ps/task:1"):
        passed = program.variables[0] + 1.0
    with program.open(cluster, ways) as session:
        before = ways.direct
        for _ in range(3):
            assert session.run([program.variables[0], own])[0] == 0.0
            assert session.run([passed, program.variables[2]]) == [1.0, 2.0]
            traced, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
            assert session.run(program.variables, options=traced, run_metadata=metadata)[2] == 2.0
            assert len(metadata.step_stats.dev_stats) == TASKS
        assert ways.direct == before


def test_no_more_plans_are_kept_for_a_client_than_the_limit(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "most_scattered", 2)  # the initializer's is one
    with program.open(cluster, ways) as session:
        before = ways.direct
        assert [session.run(program.add) for _ in range(3)][-1] == [3.0, 4.0, 5.0]
        assert ways.direct == before
        assert ways.of(session, program.variables) == [3.0, 4.0, 5.0]


def test_a_plan_that_a_client_uses_is_not_forgotten_for_others(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "most_plans", 2)
    with program.open(cluster, ways, program.add, program.size) as session:
        for number in range(1, 5):
            for step in (*program.variables, *program.size):  # each has a plan of its own
                session.run(step)
            assert ways.of(session, program.add)[0] == number + 1.0


# -- how tasks are reached ----------------------------------------------------------------------------


def test_tasks_of_this_host_are_not_asked_where_they_are(
    cluster: Cluster, ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:

    def asked(route: DirectRoute, scope: Scope) -> pb.LaneAddress:
        raise AssertionError("over the main transport")

    monkeypatch.setattr(LIMITS, "nearby_within_s", WITHIN_S)
    monkeypatch.setattr(DirectRoute, "_asked_for_offer", asked)
    with program.open(cluster, ways) as session:
        assert ways.of(session, program.variables) == [0.0, 1.0, 2.0]


def test_a_few_threads_reach_many_tasks() -> None:
    pool = GrowingPool("test")
    search, going, done = Search(pool), threading.Event(), threading.Semaphore(0)

    def reach() -> None:
        going.wait(WITHIN_S)
        done.release()

    try:
        assert all(search.begin(reach) for _ in range(50))
        assert pool.size == 4
        going.set()
        assert all(done.acquire(timeout=WITHIN_S) for _ in range(50))
    finally:
        pool.shutdown()
    assert not search.begin(reach)


# -- how they end -----------------------------------------------------------------------------------


def test_the_failure_of_one_part_ends_the_others(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked
) -> None:
    with tf.device("/job:ps/task:2"):
        x = tf.placeholder(tf.float32, [])
        checked = tf.check_numerics(x, "no number", name="checked")
    step = [program.take[0], checked]
    with program.open(cluster, ways, program.put, program.put) as session:
        session.run(step, {x: 1.0})
        assert ways.of(session, step, {x: 2.0}) == [0.0, 2.0]
        with pytest.raises(errors.InvalidArgumentError, match="no number") as caught:
            ways.of(session, step, {x: np.nan})
        assert caught.value.node == "checked"
        blocked.wait_until_all_ended()
        session.run(program.put)
        assert session.run(program.size[0]) == 1  # nobody has taken it


def test_time_limits_hold(cluster: Cluster, ways: Ways, program: Program, blocked: Blocked) -> None:
    with program.open(cluster, ways, program.put, program.take) as session:
        session.run(program.put[0])
        session.run(program.put[1])
        late = tf.RunOptions(timeout_in_ms=LIMIT_MS)
        taken = [1, 1, 0]
        while taken != [0, 0, 0]:  # on a busy machine a task may have no time for its part
            with pytest.raises(errors.DeadlineExceededError) as caught:
                session.run(program.take, options=late)
            assert taken != [1, 1, 0] or caught.value.node in ("take2", None)  # nor to say so
            blocked.wait_until_all_ended()
            taken = session.run(program.size)
        session.run(program.put)
        assert ways.of(session, program.take) == [0.0, 1.0, 2.0]


def test_ctrl_c_ends_all_parts_and_the_session_goes_on(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked
) -> None:
    with program.open(cluster, ways, program.put, program.take) as session:

        def interrupt() -> None:
            blocked.wait(TASKS)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            ways.of(session, program.take)
        session.run(program.put)
        assert session.run(program.size) == [1, 1, 1]
        blocked.wait_until_all_ended()
        assert ways.of(session, program.take) == [0.0, 1.0, 2.0]


@pytest.mark.usefixtures("time_to_close")
def test_a_closed_session_ends_its_step(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start
) -> None:
    session = program.open(cluster, ways, program.put, program.take)
    step = background(lambda: ways.of(session, program.take))
    blocked.wait(TASKS)
    session.close()
    assert isinstance(step.error(), errors.CancelledError)
    assert not any(server.worker._running for server in cluster.servers.values())


def test_reset_ends_a_step_and_the_session(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start
) -> None:
    with program.open(cluster, ways, program.put, program.take) as session:
        step = background(lambda: ways.of(session, program.take))
        blocked.wait(TASKS)
        tf.Session.reset(cluster.target("worker:0"))
        assert isinstance(step.error(), errors.AbortedError)
        with pytest.raises(errors.AbortedError, match="session"):
            session.run(program.variables)


def test_a_blocked_step_is_counted_once_and_shown_where_it_waits(
    cluster: Cluster, ways: Ways, program: Program, blocked: Blocked, background: Start
) -> None:
    session = program.open(cluster, ways, program.put, program.take)
    step = background(lambda: ways.of(session, program.take))
    blocked.wait(TASKS)
    everything = cluster.servers["worker:1"].master.inspect(pb.InspectRequest(), Scope(WITHIN_S))
    session.close()
    assert isinstance(step.error(), errors.CancelledError)
    (known,) = [known for task in everything.task for known in task.session]
    assert known.steps == 1
    assert [task.steps for task in everything.task] == [1, 1, 1, 0, 0]


# -- tasks that are gone, or do not know their part ---------------------------------------------------


def test_a_restarted_task_is_told_of_once(cluster: Cluster, ways: Ways, program: Program) -> None:
    with program.open(cluster, ways, program.add) as session:
        cluster.servers["ps:1"].stop()
        cluster.start("ps:1")
        with pytest.raises(errors.AbortedError, match=r"task:1 .*was restarted"):
            session.run(program.add)
        with pytest.raises(errors.FailedPreconditionError, match="uninitialized"):
            session.run(program.variables)
        session.run(program.init)
        ways.open(session, program.variables)
        assert ways.of(session, program.variables) == [0.0, 1.0, 2.0]


def forgets(monkeypatch: pytest.MonkeyPatch, tasks: Sequence[int]) -> None:
    """Have those ps not know any part that a client asks for by itself."""
    run = Worker.run_part

    def running(worker: Worker, request: Any, *given: Any) -> Any:
        if request.direct and any(f"/job:ps/replica:0/task:{n}" == worker.task for n in tasks):
            raise ForgottenStepError.of(f"{worker.task} does not know the partition")
        return run(worker, request, *given)

    running.takes_caller = True  # type: ignore[attr-defined]
    monkeypatch.setattr(Worker, "run_part", running)
    monkeypatch.setattr(Worker, "bind_part", lambda worker, request: None)


@pytest.mark.parametrize("forgetful", [[0, 1, 2], [1], [0, 2]], ids=str)
def test_a_step_that_may_have_begun_somewhere_is_not_run_again(
    forgetful: list[int], ways: Ways, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["unix"](monkeypatch)
    forgets(monkeypatch, forgetful)
    with (
        in_process({"ps": TASKS, "worker": 1}) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
    ):
        session.run(program.init)
        ways.look(session, program.add)
        for _ in range(TASKS - 1):
            ways.wait_until_looked()
        before = ways.direct
        if len(forgetful) == TASKS:
            assert session.run(program.add) == [3.0, 4.0, 5.0]
            others: list[int] = []
        else:
            with pytest.raises(errors.UnavailableError, match="does not know the partition"):
                session.run(program.add)
            others = [task for task in range(TASKS) if task not in forgetful]
        assert ways.direct == before + 1
        monkeypatch.undo()
        values = tf.Session(cluster.target("ps:0")).run(program.variables)
        wanted = [3.0 if len(forgetful) == TASKS or t in others else 2.0 for t in range(TASKS)]
        assert values == [value + task for task, value in enumerate(wanted)]


@pytest.mark.parametrize("unreachable", [0, 2])
def test_a_task_that_cannot_be_reached_any_more(
    unreachable: int,
    cluster: Cluster,
    ways: Ways,
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"task:{unreachable}"
    with program.open(cluster, ways, program.add) as session:
        begin = LanePeer.begin

        def beginning(peer: LanePeer, *given: Any) -> Any:
            if name in peer.name and given[1].__class__.__name__ == "RunPartRequest":
                raise Unreachable("no way")
            return begin(peer, *given)

        with monkeypatch.context() as broken:
            broken.setattr(LanePeer, "begin", beginning)
            before = ways.direct
            if unreachable:  # others have been asked
                with pytest.raises(errors.UnavailableError, match="no way"):
                    session.run(program.add)
            else:
                assert session.run(program.add) == [2.0, 3.0, 4.0]
            assert ways.direct == before + 1
        ways.open(session, program.variables)
        assert session.run(program.variables)[unreachable] == {0: 2.0, 2: 3.0}[unreachable]
