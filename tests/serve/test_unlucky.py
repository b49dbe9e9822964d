"""What answers requests that come again, where something goes wrong: nothing is lost, counted twice or left to hang."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.queue import Queue
from headrace.run.queues.spec import QueueSpec
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers
from headrace.serve.lane.answers import AnswersAgain, _Call
from headrace.serve.lane.multiplexer import Multiplexer
from headrace.serve.master import at_once
from headrace.serve.master.at_once import StepReads, StepWaits
from headrace.serve.observe.meter import Meter
from headrace.serve.rpc.again import ReadsAgain, WaitsAgain
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.worker import bound_parts
from headrace.serve.worker.bound_parts import BoundReads
from headrace.serve.worker.bound_waits import BoundWait
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import Background
from tests.serve.raw_lane import shell_of
from tests.serve.test_multiplexer import WITHIN_S, Echo, handed_over
from tests.waiting_steps import WaitingSteps

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def echoes() -> Iterator[list[Echo]]:
    made = [Echo() for _ in range(3)]
    yield made
    for each in made:
        each.close()


@pytest.fixture(params=["its master", "another task"])
def target(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """Of sessions on the task that has everything, or on another one."""
    return cluster.target("ps:0" if request.param == "its master" else "worker:0")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)  # through sockets
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


# -- the thread that reads several ------------------------------------------------------------


@pytest.mark.parametrize("lacks", ["epoll", "eventfd", "register"])
def test_without_descriptors_connections_go_on_by_themselves(
    echoes: list[Echo], monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    together = Multiplexer()

    def none_left(*given: Any) -> Any:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as without:
        if lacks == "register":
            opened = Multiplexer._opened

            class Full:
                def __init__(self, epoll: Any) -> None:
                    self.close = epoll.close

                register = none_left

            without.setattr(Multiplexer, "_opened", lambda self: Full(opened(self)))
        else:
            without.setattr("select.epoll" if lacks == "epoll" else "os.eventfd", none_left)
        for _ in echoes[:2]:
            together.steadies(1)
        before = len(os.listdir("/proc/self/fd"))
        for each in echoes[:2]:
            together.take(each)
            assert each.gone_on.is_set()
        assert len(os.listdir("/proc/self/fd")) <= before
    assert not together.several
    assert not together._members
    for each in echoes:
        each.gone_on.clear()
    reader = handed_over(together, echoes)  # as soon as there are some again
    assert [each.asked(b"a") for each in echoes] == [b"a"] * 3
    for each in echoes:
        each.there.send(b"x")
    reader.join(WITHIN_S)
    assert not reader.is_alive()


def test_a_connection_is_known_before_something_comes_of_it(
    echoes: list[Echo], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Multiplexer()
    known: list[bool] = []
    reader = handed_over(together, echoes[:2])
    epoll = together._epoll

    class Looks:
        def register(self, fd: int, events: int) -> None:
            known.append(fd in together._members)
            assert epoll is not None
            epoll.register(fd, events)

    together.steadies(1)
    with monkeypatch.context() as looked_at:
        looked_at.setattr(together, "_epoll", Looks())
        together.take(echoes[2])
    assert known == [True]
    for each in echoes:
        each.there.send(b"x")
    reader.join(WITHIN_S)


def test_what_nobody_foresaw_leaves_no_connection_without_a_reader(
    echoes: list[Echo], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = handed_over(Multiplexer(), echoes)

    def fails() -> bool:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(echoes[1], "answer_available", fails)
    echoes[1].there.send(b"a")
    reader.join(WITHIN_S)
    assert not reader.is_alive()
    assert all(each.gone_on.is_set() for each in echoes)
    assert "not foreseen" in caplog.text


# -- in a server ------------------------------------------------------------------------------


def on_ps(make: Callable[[], Any]) -> Any:
    with tf.device("/job:ps/task:0"):
        return make()


def a_queue(capacity: int = 10) -> tuple[Any, Any]:
    """What puts a number in, and what takes one out."""
    queue = tf.FIFOQueue(capacity, [tf.int64], shapes=[[]], shared_name="queue")
    return queue.enqueue(tf.constant(7, tf.int64)), queue.dequeue()


def test_a_reply_does_not_suffer_for_what_has_changed_since(
    cluster: Cluster, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, get = on_ps(a_queue)

    def another_thing(*given: Any) -> Any:
        raise errors.invalid_argument("the queue has another type now")

    with tf.Session(target) as session:
        for _ in range(4):
            session.run(put)
        monkeypatch.setattr(bound_parts, "bound_wait", another_thing)
        assert [session.run(get) for _ in range(4)] == [7] * 4


def test_what_nobody_foresaw_ends_the_connection_not_the_client(
    cluster: Cluster,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    variable = on_ps(lambda: tf.Variable(1.0))
    with tf.Session(target) as session:
        session.run(variable.initializer)
        assert [session.run(variable) for _ in range(4)] == [1.0] * 4

        def fails(bound: BoundReads) -> bytes | None:
            raise RuntimeError("not foreseen")

        def asked() -> None:
            """Until the server has bound what it was asked for, which it does when the reply is on its way."""
            for _ in range(1000):
                # What is bound already has the function at hand.
                for connection in list(shell_of(cluster)._connections):
                    known = connection._repeated.at_once
                    known.update(dict.fromkeys(list(known), fails))  # type: ignore[arg-type]
                session.run(variable)

        with monkeypatch.context() as failing:
            failing.setattr(at_once._AtOnce, "contents", fails)
            failing.setattr(BoundReads, "contents", fails)
            with pytest.raises(tf.errors.UnavailableError):
                asked()
    assert "not foreseen" in caplog.text
    with tf.Session(target) as session:
        assert session.run(variable) == 1.0


def test_what_has_waited_leaves_nothing_for_the_garbage_collector(
    cluster: Cluster, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, get = on_ps(lambda: a_queue(capacity=1))
    graph, ended = tf.get_default_graph(), list[bool]()
    original = BoundWait.end

    def end(bound: BoundWait, pending: Pending[Any], scope: Scope) -> bytes | None:
        found = original(bound, pending, scope)
        ended.append(bool(scope._callbacks))
        return found

    monkeypatch.setattr(BoundWait, "end", end)

    def client(step: Any) -> None:
        with tf.Session(target, graph=graph) as session:
            for _ in range(400):
                session.run(step)

    clients = [threading.Thread(target=client, args=(step,)) for step in (put, get, put, get)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert ended
    assert not any(ended)


# -- crowds -----------------------------------------------------------------------------------

CROWD = 40


def test_each_of_a_crowd_that_waits_tells_of_some_and_counts_the_others(
    cluster: Cluster, waiting_steps: WaitingSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.int64], shapes=[[]], shared_name="queue")
        get, batch = queue.dequeue(name="get"), queue.dequeue_many(3, name="batch")
    looked: list[Queue] = []
    describe = Queue.describe

    def looking(queue: Queue) -> dict[str, Any]:
        looked.append(queue)
        return describe(queue)

    with tf.Session(cluster.target("worker:0")) as session:
        crowd = [Background(lambda: session.run(get)) for _ in range(CROWD)]
        waiting_steps.until("get", CROWD)
        last = Background(lambda: session.run(batch))
        waiting_steps.until("batch")
        with monkeypatch.context() as watched:
            watched.setattr(Queue, "describe", looking)
            steps = cluster.servers["ps:0"].blocked_steps()
        assert len(looked) == 1
        assert len(steps) == CROWD + 1
        for step in steps:
            assert len(step.others) < CROWD / 2
            gets = CROWD - (step.node == "get")
            text = f"also waiting: {gets} dequeue ('get')"
            assert text + (", 1 dequeue_many" if step.node == "get" else ". ") in str(step)
        assert [step.wanted for step in steps if step.node == "batch"] == [3]
    for each in (*crowd, last):
        assert isinstance(each.error(), tf.errors.OpError)


# -- counts -----------------------------------------------------------------------------------


class Session:
    """Of a master, as far as its steps at once need one."""

    def __init__(self) -> None:
        self.meter = Meter()

    def book(self, scope: Scope) -> None:
        pass

    def unbook(self, scope: Scope) -> None:
        pass

    @property
    def counted(self) -> int:
        self.meter.want(1000.0)
        return sum(self.meter.state().bucket)


class Step:
    def may_run(self) -> bool:
        return True


class Waits(WaitsAgain):
    """Gives what it is told to: at once, and in the end."""

    def __init__(self, begins: Any, ends: bytes | None) -> None:
        self._begins, self._ends = begins, ends

    values = ()

    def ready(self) -> bool:
        return True

    def holds(self) -> bool:
        return True

    def begin(self, scope: Scope) -> Any:
        return self._begins

    def keeps_place(self, pending: Pending[Any]) -> bool:
        return False

    def end(self, pending: Pending[Any], scope: Scope) -> bytes | None:
        return self._ends


class Reads(ReadsAgain):
    values = ()

    def __init__(self, gives: bytes | None) -> None:
        self._gives = gives

    def contents(self) -> bytes | None:
        return self._gives

    def holds(self) -> bool:
        return True


WAITS = {
    "need not wait": (b"1", None, 1),
    "go another way": (None, None, 0),
    "get what they wait for": (Pending[Any](), b"1", 1),
    "wait for long": (Pending[Any](), None, 0),
}


@pytest.mark.parametrize("case", WAITS)
def test_a_step_that_goes_another_way_is_counted_there_alone(case: str) -> None:
    begins, ends, counted = WAITS[case]
    session: Any = Session()
    step: Any = Step()
    otherwise: Any = None
    waits = StepWaits(step, session, Waits(begins, ends), otherwise)
    assert waits.holds()
    found = waits.begin(Scope())
    if isinstance(found, Pending):
        assert session.counted == 0
        waits.end(found, Scope())
    assert session.counted == counted


@pytest.mark.parametrize("gives", [b"1", None])
def test_a_read_that_is_not_answered_is_not_counted(gives: bytes | None) -> None:
    session: Any = Session()
    step: Any = Step()
    reads = StepReads(step, session, Reads(gives))
    assert reads.holds()
    assert reads.contents() == gives
    assert session.counted == (0 if gives is None else 1)


# -- places in a queue ---------------------------------------------------------------------------


def test_an_enqueue_keeps_its_place_before_a_close() -> None:
    queue = FIFOQueue("queue", QueueSpec((tf.int64,), ((),), capacity=1))
    queue.enqueue([np.int64(1)])
    waiting = queue.enqueue([np.int64(2)])
    bound = BoundWait.__new__(BoundWait)
    bound._queue, bound._takes = queue, 0
    assert not bound.keeps_place(waiting)
    close = queue.close()
    assert bound.keeps_place(waiting)
    assert [queue.dequeue().result(), queue.dequeue().result()] == [(1,), (2,)]
    assert close.done
    assert not bound.keeps_place(waiting)


class Keeps(Waits):
    def keeps_place(self, pending: Pending[Any]) -> bool:
        return True


class Connection(AnswersAgain):
    """One that has a call under way, without a socket.  said: what was to be sent when it went on."""

    def __init__(self, call: _Call) -> None:
        super().__init__()
        self.said: list[bytes] = []
        self.went_on = threading.Event()
        self._call, self._gone = call, False
        self._lane: Any = SimpleNamespace(hold=self.said.append)
        self._pool = GrowingPool("test")
        self._transport: Any = SimpleNamespace(pool=self._pool)

    def _serve(self) -> None:
        self.went_on.set()

    def _end(self) -> None:
        raise AssertionError("it goes on")

    def _look_up(self) -> None:
        pass

    def _send(self, *given: Any) -> bool:
        raise AssertionError("who goes on sends")

    def close(self) -> None:
        self._pool.shutdown()


def test_what_keeps_its_place_is_waited_for_as_it_is() -> None:
    pending: Pending[Any] = Pending(None, lambda _: True)
    call = _Call(Keeps(pending, b"it"), pending, Scope(), b"request", lambda values: values)
    with closing(Connection(call)) as connection:
        connection.go_on()
        assert not connection.went_on.wait(0.01)
        assert not pending.done
        pending.resolve(None)
        assert connection.went_on.wait(WITHIN_S)
    assert connection.said == [b"it"]
