"""Steps of queues that come again and again: answered by the thread that reads several connections, when what they wait
for is there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.run.queues.queue import Queue
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers
from headrace.serve.lane.multiplexer import STEADY, Member, Multiplexer
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import Cluster, in_process
from tests.serve.raw_lane import shell_of

OFTEN = 40 * STEADY
WITHIN_S = 100.0

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[Member]:
    """The connections of which a call has waited without a thread."""
    found: list[Member] = []
    original = Multiplexer.wait_for

    def wait_for(self: Multiplexer, member: Member, pending: Any) -> None:
        found.append(member)
        original(self, member, pending)

    monkeypatch.setattr(Multiplexer, "wait_for", wait_for)
    return found


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[Member]:
    """The connections that one thread reads."""
    found: set[Member] = set()
    take, forget = Multiplexer.take, Multiplexer._forget

    def taking(self: Multiplexer, member: Member) -> None:
        found.add(member)
        take(self, member)

    def forgetting(self: Multiplexer, fd: int) -> None:
        found.discard(self._members[fd])
        forget(self, fd)

    monkeypatch.setattr(Multiplexer, "take", taking)
    monkeypatch.setattr(Multiplexer, "_forget", forgetting)
    return found


@pytest.fixture(params=["its master", "another task"])
def cluster(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    waited: list[Member],
    taken: set[Member],
) -> Iterator[Cluster]:
    """Whose `target` has the queue: sessions are on its task, or on another one."""
    monkeypatch.setattr(local_servers, "find", lambda address: None)  # through sockets
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        on = "ps:0" if request.param == "its master" else "worker:0"
        monkeypatch.setattr(cluster, "target", lambda name, to=cluster.target: to(on))
        yield cluster


class Threads:
    """Clients in threads of their own, each with a session; what they raise is raised in the end."""

    def __init__(self, target: str) -> None:
        self._target, self._graph = target, tf.get_default_graph()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def start(self, client: Callable[[tf.Session], object]) -> None:
        def run() -> None:
            try:
                with tf.Session(self._target, graph=self._graph) as session:
                    client(session)
            except BaseException as failure:
                self._failures.append(failure)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WITHIN_S)
            assert not thread.is_alive()
        if self._failures:
            raise self._failures[0]


def a_queue(capacity: int = 10) -> tuple[tf.FIFOQueue, Any]:
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(capacity, [tf.int64], shapes=[[]], shared_name="queue")
        return queue, queue.dequeue()


def put(queue: tf.FIFOQueue, value: int) -> Any:
    with tf.device("/job:ps/task:0"):
        return queue.enqueue(tf.constant(value, tf.int64))


def kept(cluster: Cluster) -> Queue:
    (found,) = [
        each
        for each in cluster.servers["ps:0"].worker.runtime.resources.all()
        if isinstance(each, Queue)
    ]
    return found


def until(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Wait for it, and leave the processor to the servers meanwhile; fails if it does not come."""
    deadline_s, pause = time.monotonic() + within_s, threading.Event()
    while not condition():
        assert time.monotonic() < deadline_s
        pause.wait(0.001)


def waits_without_thread(condition: Callable[[], object], session: tf.Session, one: Any) -> None:
    """A dequeue waits without a thread unless the busy one happened to pause: then it gets an element, to try again."""
    for _ in range(int(WITHIN_S)):
        with contextlib.suppress(AssertionError):
            return until(condition, within_s=1.0)
        session.run(one)
    raise AssertionError("it never waited without a thread")


def keeps_busy(session: tf.Session, step: Any, enough: threading.Event) -> None:
    """Ask for a step again and again."""
    while not enough.is_set():
        session.run(step)


def test_every_element_arrives_once(cluster: Cluster, waited: list[Member]) -> None:
    queue, get = a_queue(capacity=1)
    puts = [put(queue, value) for value in (1, 1000)]
    target, sums = cluster.target("ps:0"), []
    clients = Threads(target)
    for each in puts:
        clients.start(lambda session, each=each: [session.run(each) for _ in range(OFTEN)])
        clients.start(lambda session: sums.append(sum(session.run(get) for _ in range(OFTEN))))
    clients.join()
    assert sum(sums) == OFTEN * 1001
    assert waited
    with tf.Session(target) as session:
        assert session.run(queue.size()) == 0


def test_batches_and_several_components_arrive_as_they_are(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(
            100, [tf.int32, tf.float64], shapes=[[], [2]], shared_name="of several"
        )
        more = queue.enqueue([tf.constant(7), tf.constant([0.5, 0.25], tf.float64)])
        batch = queue.dequeue_many(4)
    clients = Threads(cluster.target("ps:0"))
    for _ in range(2):
        clients.start(lambda session: [session.run(more) for _ in range(4 * OFTEN)])

    def takes(session: tf.Session) -> None:
        for _ in range(OFTEN):
            numbers, pairs = session.run(batch)
            assert numbers.dtype == "int32"
            assert numbers.tolist() == [7] * 4
            assert pairs.tolist() == [[0.5, 0.25]] * 4

    for _ in range(2):
        clients.start(takes)
    clients.join()


def test_who_waits_for_long_gets_what_somebody_else_brings(
    cluster: Cluster,
    waited: list[Member],
    taken: set[Member],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LIMITS, "multiplexed_wait_s", 0.01)
    queue, get = a_queue()
    with tf.device("/job:ps/task:0"):
        variable = tf.Variable(0)
        fed = tf.placeholder(tf.int64, [])
        bring = queue.enqueue(fed)
    target, one, got = cluster.target("ps:0"), put(queue, 1), []
    enough = threading.Event()
    with tf.Session(target) as session:
        session.run(variable.initializer)
        clients = Threads(target)
        clients.start(lambda own: keeps_busy(own, variable, enough))

        def takes(own: tf.Session) -> None:
            while len(taken) < 2:
                own.run(one)
                assert own.run(get) == 1
            while 42 not in got:
                got.append(own.run(get))

        clients.start(takes)
        waits_without_thread(lambda: waited, session, one)
        multiplexer = shell_of(cluster).multiplexer
        until(lambda: not multiplexer._waiting)  # it has a thread again
        session.run(bring, {fed: 42})
        until(lambda: 42 in got)
        enough.set()
        clients.join()
    assert set(got) <= {1, 42}
    assert got[-1] == 42


class Waits:
    """A client whose dequeue waits without a thread, while another one keeps the server busy.  error: what it got."""

    def __init__(self, cluster: Cluster, waited: list[Member], taken: set[Member]) -> None:
        self._taken = taken
        queue, get = a_queue()
        with tf.device("/job:ps/task:0"):
            self.variable = tf.Variable(0)
        self.queue, self.get, self.one = queue, get, put(queue, 1)
        self.close_queue = queue.close()
        self.target = cluster.target("ps:0")
        self.session = tf.Session(self.target)
        self.session.run(self.variable.initializer)
        self.error: BaseException | None = None
        self._enough, self._settled = threading.Event(), threading.Event()
        self._clients = Threads(self.target)
        self._clients.start(lambda own: self._keep_busy(own))
        self._clients.start(self._take)
        self.own: tf.Session | None = None
        self._waits_without_thread(cluster)

    def _waits_without_thread(self, cluster: Cluster) -> None:
        multiplexer = shell_of(cluster).multiplexer
        waits_without_thread(
            lambda: multiplexer._waiting and kept(cluster)._dequeues, self.session, self.one
        )
        self._settled.set()

    def _keep_busy(self, own: tf.Session) -> None:
        with contextlib.suppress(tf.errors.OpError):
            keeps_busy(own, self.variable, self._enough)

    def _take(self, own: tf.Session) -> None:
        while len(self._taken) < 2:
            own.run(self.one)
            assert own.run(self.get) == 1
        self.own = own
        try:
            own.run(self.get)
            while not self._settled.is_set():
                own.run(self.get)
        except tf.errors.OpError as error:
            self.error = error

    def end(self) -> None:
        self._enough.set()
        self._clients.join()
        with contextlib.suppress(tf.errors.OpError):
            self.session.close()


@pytest.fixture
def waits(
    cluster: Cluster,
    waited: list[Member],
    taken: set[Member],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Waits]:
    monkeypatch.setattr(LIMITS, "multiplexed_wait_s", WITHIN_S)
    found = Waits(cluster, waited, taken)
    yield found
    found.end()


@pytest.mark.usefixtures("time_to_close")
def test_who_leaves_while_it_waits_takes_nothing(cluster: Cluster, waits: Waits) -> None:
    assert waits.own is not None
    waits.own.close()
    until(lambda: waits.error)
    assert isinstance(waits.error, tf.errors.CancelledError)
    assert not kept(cluster)._dequeues
    waits.session.run(waits.one)
    assert waits.session.run(waits.queue.size()) == 1
    assert waits.session.run(waits.get) == 1


def test_a_queue_that_is_closed_says_so_to_who_waits(cluster: Cluster, waits: Waits) -> None:
    waits.session.run(waits.close_queue)
    until(lambda: waits.error)
    assert isinstance(waits.error, tf.errors.OutOfRangeError)
    assert waits.get.op.name in str(waits.error)


def test_a_reset_ends_what_waits(cluster: Cluster, waits: Waits) -> None:
    tf.Session.reset(waits.target)
    until(lambda: waits.error)
    assert isinstance(waits.error, tf.errors.AbortedError | tf.errors.CancelledError)


def test_a_server_that_stops_ends_what_waits(cluster: Cluster, waits: Waits) -> None:
    multiplexer = shell_of(cluster).multiplexer
    cluster.servers["ps:0"].stop()
    until(lambda: waits.error)
    until(lambda: not multiplexer.several)


def test_a_server_that_drains_lets_no_more_wait(cluster: Cluster, waits: Waits) -> None:
    worker = cluster.servers["ps:0"].worker
    waits.session.run(waits.one)  # what waited has its element
    until(lambda: not worker._running)
    worker.drain(tf.errors.UnavailableError(None, None, "enough for today"), Scope(WITHIN_S))
    with pytest.raises(tf.errors.UnavailableError, match="enough for today"):
        waits.session.run(waits.get)
