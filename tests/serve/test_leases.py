"""Reads and updates of large variables by many clients: no value is torn, and nothing stays leased.

Every update writes one number everywhere, so a value that is not uniform was read while it was written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.exec.keys import key
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.variable import Lease, Variable
from headrace.serve.connect.peers import InProcessPeer
from headrace.serve.rpc import encoding, methods
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, ProcessCluster, in_process, processes
from tests.serve.conftest import TRANSPORTS, Background

Start = Callable[[Callable[[], Any]], Background]

CLIENTS = 4
ROUNDS = 6
MB = 1 << 20
ELEMENTS = 5 * MB // 4


@pytest.fixture(scope="module", params=["grpc", "unix", "tcp"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
    """Servers in processes of their own, reached over the transport that the parameter names."""
    with pytest.MonkeyPatch.context() as environment:
        TRANSPORTS[request.param](environment)  # processes that are started inherit it
        with processes({"ps": 1, "worker": 1}) as cluster:
            yield cluster


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_values_read_while_others_update_are_never_torn(
    cluster: ProcessCluster, background: Start, use_resource: bool
) -> None:
    """Clients of both masters assign, add and scatter, and read: from the ps itself, from another master, and what a
    worker received.  Of two variables one is scattered to, the other can be lent where it is.
    """
    number = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"), tf.container("resources" if use_resource else "references"):
        v, w = [
            tf.Variable(tf.zeros([4, ELEMENTS // 4]), name=name, use_resource=use_resource)
            for name in "vw"
        ]
        fill = tf.fill([4, ELEMENTS // 4], number)
        scattered = tf.scatter_add(v, tf.constant([0, 1, 2, 3]), fill).op
        updates = [
            tf.group(v.assign(fill), w.assign_add(fill)),
            tf.group(v.assign_add(fill), w.assign(fill)),
            tf.group(scattered, w.assign_sub(fill)),
        ]
        reads = [tf.identity(x.read_value()) for x in (v, w)]
    with tf.device("/job:worker"):
        edges = [[tf.reduce_min(read), tf.reduce_max(read)] for read in reads]

    def client(index: int) -> list[str]:
        torn = []
        target = cluster.target("ps:0" if index % 2 else "worker:0")
        with tf.Session(target, graph=v.graph) as session:
            for count in range(ROUNDS):
                session.run(updates[(index + count) % 3], {number: 100.0 * index + count})
                for value in session.run(reads):
                    if value.min() != value.max():
                        torn.append(f"fetched {np.unique(value)[:4]}")
                for low, high in session.run(edges):
                    if low != high:
                        torn.append(f"received {low} to {high}")
        return torn

    with tf.Session(cluster.target("ps:0")) as session:
        session.run([v.initializer, w.initializer])
    clients = [background(lambda index=index: client(index)) for index in range(CLIENTS)]
    assert [each.value() for each in clients] == [[]] * CLIENTS


# -- nothing stays leased -------------------------------------------------------------------------


class Leases:
    """All leases are kept, so that those nobody released show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._kept: list[Lease] = []
        self._changed = threading.Condition()
        make, release = Lease.__init__, Lease.release

        def keep(lease: Lease, *args: Any) -> None:
            make(lease, *args)
            self._kept.append(lease)

        def note(lease: Lease) -> None:
            release(lease)
            with self._changed:
                self._changed.notify_all()

        monkeypatch.setattr(Lease, "__init__", keep)
        monkeypatch.setattr(Lease, "release", note)

    def wait_until_released(self) -> None:
        """Block until nobody has a lease."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: all(lease._array is None for lease in self._kept), 30
            ), "a lease was not released within 30 s"


class Ends:
    """A cluster of this process whose servers talk over a transport, with a variable on the ps."""

    def __init__(self, cluster: Cluster, leases: Leases) -> None:
        self.cluster = cluster
        self.leases = leases
        with tf.device("/job:ps"):
            self.variable = tf.Variable(tf.ones([100, 100]), name="v")
            self.unset = tf.Variable(tf.ones([100, 100]), name="unset")
            self.add = self.variable.assign_add(tf.ones([100, 100])).op
        with tf.device("/job:worker"):
            self.received = self.variable + 1.0
            self.queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never")
            self.blocked = tf.reduce_sum(self.variable) + self.queue.dequeue()

    def held(self) -> Any:
        resources = self.cluster.servers["ps:0"].worker.runtime.resources
        return resources.lookup("", "v", Variable)

    def check(self, session: tf.Session) -> None:
        """An update is in place: nobody has a lease, as soon as what a failed step left has ended."""
        self.leases.wait_until_released()
        before = self.held().array
        session.run(self.add)
        assert self.held().array is before


@pytest.fixture
def ends(transport: str, graph: tf.Graph, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    leases = Leases(monkeypatch)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield Ends(cluster, leases)


@pytest.mark.parametrize("task", ["ps:0", "worker:0"])
def test_after_a_step_nothing_stays_leased(ends: Ends, task: str) -> None:
    with tf.Session(ends.cluster.target(task)) as session:
        session.run(ends.variable.initializer)
        value, received, _ = session.run([ends.variable, ends.received, ends.variable._ref()])
        assert np.all(value == 1)
        assert np.all(received == 2)
        assert value.flags.writeable
        ends.check(session)


@pytest.mark.parametrize("task", ["ps:0", "worker:0"])
def test_after_a_step_that_failed_nothing_stays_leased(
    ends: Ends, background: Start, blocked: Any, task: str
) -> None:
    with tf.Session(ends.cluster.target(task)) as session:
        session.run(ends.variable.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run([ends.variable, ends.received, ends.unset])
        ends.check(session)
        waiting = background(lambda: session.run([ends.variable, ends.received, ends.blocked]))
        blocked.wait()
        session.run(ends.queue.close(cancel_pending_enqueues=True))
        assert isinstance(waiting.error(), tf.errors.OutOfRangeError)
        ends.check(session)


@pytest.mark.parametrize("task", ["ps:0", "worker:0"])
def test_after_a_step_that_ran_out_of_time_nothing_stays_leased(ends: Ends, task: str) -> None:
    with tf.Session(ends.cluster.target(task)) as session:
        session.run(ends.variable.initializer)
        session.run(ends.queue.size())  # the limit is not for getting to know each other
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run([ends.variable, ends.blocked], options=tf.RunOptions(timeout_in_ms=100))
        ends.check(session)


def test_callables_and_traced_steps_leave_nothing_leased(ends: Ends) -> None:
    with tf.Session(ends.cluster.target("ps:0")) as session:
        session.run(ends.variable.initializer)
        run = session.make_callable([ends.variable, ends.received])
        assert np.all(run()[0] == 1)
        ends.check(session)
        traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        value = session.run(ends.variable, options=traced, run_metadata=tf.RunMetadata())
        assert np.all(value == 2)
        ends.check(session)


# -- messages -------------------------------------------------------------------------------------


def leased() -> tuple[Variable, Lease]:
    held = Variable("v", tf.float32, (5,))
    held.assign(np.ones(5, np.float32))
    return held, held.lease()


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        (methods.RUN_STEP, lambda lease: m.RunStepReply([("v", lease), ("w", lease)])),
        (methods.RUN_GRAPH, lambda lease: m.RunGraphReply([("v", lease)])),
        (methods.RECV_TENSOR, lambda lease: m.RecvTensorReply(lease)),
        (methods.RUN_CALLABLE, lambda lease: m.RunCallableReply([lease])),
    ],
    ids=["RunStep", "RunGraph", "RecvTensor", "RunCallable"],
)
def test_a_reply_is_encoded_with_what_is_leased_and_gives_it_back(
    method: methods.Method, reply: Callable[[Lease], m.Reply]
) -> None:
    held, lease = leased()
    message = reply(lease)
    decoded = method.decode_reply(method.encode_reply(message, encoding.INLINE), encoding.INLINE)
    assert [value.tolist() for value in decoded.values()] == [[1.0] * 5] * len([*message.values()])
    assert not is_released(held)
    held, lease = leased()
    message = reply(lease)
    m.release(message)
    m.release(message)
    assert is_released(held)


def test_requests_that_come_as_bytes_take_leases_and_others_do_not() -> None:
    requests: list[tuple[methods.Method, Any]] = [
        (methods.RUN_STEP, m.RunStepRequest("s", [], [], [])),
        (methods.RUN_GRAPH, m.RunGraphRequest("g", 1, [], [])),
        (methods.RECV_TENSOR, m.RecvTensorRequest(1, "k")),
        (methods.RUN_CALLABLE, m.RunCallableRequest("s", 1, [])),
    ]
    for method, request in requests:
        assert not request.takes_leases
        assert method.decode_request(
            method.encode_request(request, encoding.INLINE), encoding.INLINE
        ).takes_leases


KEY = key(
    "/job:ps/replica:0/task:0/device:CPU:0", 1, "/job:worker/replica:0/task:0/device:CPU:0", "v"
)


@pytest.fixture
def pool() -> Iterator[GrowingPool]:
    pool = GrowingPool("test")
    yield pool
    pool.shutdown()


@pytest.fixture
def worker(pool: GrowingPool) -> Iterator[Worker]:
    """A task without a server."""
    worker = Worker("/job:ps/replica:0/task:0", {}, pool)
    yield worker
    worker.close(errors.cancelled("the test is over"))


def is_released(held: Variable) -> bool:
    before = held.array
    held.assign(np.zeros(5, np.float32))
    return held.array is before


def test_what_another_task_receives_is_leased_to_those_who_take_leases_only(worker: Worker) -> None:
    for step_id, takes in ((1, True), (2, False)):
        held, lease = leased()
        request = m.RecvTensorRequest(step_id, KEY, takes_leases=takes)
        with Scope() as scope:
            replied = worker.recv_tensor(request, scope)
            worker._rendezvous(step_id).local.send(KEY, lease)
            reply = replied.wait(scope)
        if takes:
            assert reply.value is lease
            assert not is_released(held)
        else:
            assert reply.value.tolist() == [1.0] * 5
            assert reply.value.flags.writeable
            assert is_released(held)


def test_a_value_whose_receiver_gives_up_as_it_comes_is_released(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, lease = leased()
    gave_up = errors.cancelled("gave up")
    announce = Pending.announce
    with Scope() as scope:
        replied = worker.recv_tensor(m.RecvTensorRequest(1, KEY, takes_leases=True), scope)

        def too_late(pending: Pending[Any]) -> None:
            if pending is not replied:
                replied.abandon(gave_up)
            announce(pending)

        monkeypatch.setattr(Pending, "announce", too_late)
        worker._rendezvous(1).local.send(KEY, lease)
    assert replied.error is gave_up
    assert is_released(held)


def test_a_reply_that_comes_after_the_caller_gave_up_is_released(pool: GrowingPool) -> None:
    held, lease = leased()
    gave_up = threading.Event()

    class Service:
        closed = False

        def run_graph(self, request: Any, scope: Scope) -> m.RunGraphReply:
            assert gave_up.wait(60)
            return m.RunGraphReply([("v", lease)])

        def note_cancelled(self) -> None: ...

    with Scope() as scope:
        asked = InProcessPeer(Service(), pool).call(methods.RUN_GRAPH, None, scope)
        assert asked.abandon(errors.cancelled("gave up"))
        gave_up.set()
        pool.shutdown()
    assert is_released(held)
