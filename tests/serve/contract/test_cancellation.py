"""Steps that somebody ends, over every transport: closed sessions, clients that go away, stopped servers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.client.remote import RemoteEngine
from headrace.graph import registry
from headrace.run.scope import Scope
from headrace.serve.connect.peers import connect
from headrace.serve.connect.readiness import ServerReadiness
from headrace.serve.lane.call import Call
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer_call import PeerCall
from headrace.serve.rpc.pool import GrowingPool
from tests.serve.clusters import Cluster
from tests.serve.conftest import WITHIN_S, Background, Blocked

Start = Callable[[Callable[[], Any]], Background]

OPERATIONS = {
    "dequeue": lambda q: q.dequeue(),
    "dequeue_many": lambda q: q.dequeue_many(3),
    "dequeue_up_to": lambda q: q.dequeue_up_to(3),
}


@pytest.fixture
def queue() -> Any:
    with tf.device("/job:ps"):
        return tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_closing_a_session_cancels_its_blocked_steps_and_waits_for_them(
    cluster: Cluster, blocked: Blocked, background: Start, queue: Any, operation: str
) -> None:
    take = OPERATIONS[operation](queue)
    other = tf.Session(cluster.target("worker:1"))
    session = tf.Session(cluster.target("worker:0"))
    steps = [background(lambda: session.run(take)) for _ in range(3)]
    blocked.wait(3)
    session.close()
    for server in cluster.servers.values():
        assert not server.worker._running
    for step in steps:
        assert isinstance(step.error(), tf.errors.CancelledError)
        assert "session was closed" in str(step.error())
    other.run(queue.enqueue_many([[1, 2]]))
    assert other.run(queue.size()) == 2  # the dequeues have left no trace
    assert [other.run(queue.dequeue()) for _ in range(2)] == [1, 2]
    other.close()


def test_who_gives_up_a_call_says_why_whatever_the_other_side_says_sooner(
    cluster: Cluster, blocked: Blocked, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it was given up ends it there, and what comes of that may be here at once."""
    ended = threading.Event()
    give_up, failed = PeerCall._withdrawn, PeerCall.failed

    def slowly(call: PeerCall) -> bool:
        withdrawn = give_up(call)
        assert call is not asked or ended.wait(WITHIN_S)
        return withdrawn

    def noted(call: PeerCall, error: errors.OpError) -> bool:
        came = failed(call, error)
        if call is asked:
            ended.set()
        return came

    monkeypatch.setattr(PeerCall, "_withdrawn", slowly)
    monkeypatch.setattr(PeerCall, "failed", noted)
    take = queue.dequeue()
    with tf.Session(cluster.target("worker:0")) as session, GrowingPool("client") as pool:
        session.list_devices()
        remote = _link(session)
        remote.ship(Scope(WITHIN_S))
        with closing(connect(cluster.address("worker:0"), "master", pool)) as peer:
            request = m.RunStepRequest(remote.handle, [], [take.name], [])
            asked = peer.call(methods.RUN_STEP, request, Scope())
            blocked.wait()
            asked.abandon(errors.cancelled("for a reason of its own"))
            with pytest.raises(tf.errors.CancelledError, match="for a reason of its own"):
                asked.wait(Scope(WITHIN_S))


def test_a_blocked_enqueue_that_is_cancelled_puts_nothing(
    cluster: Cluster, blocked: Blocked, background: Start
) -> None:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="full")
    put, put_more = queue.enqueue([1]), queue.enqueue([2])
    session = tf.Session(cluster.target("worker:0"))
    session.run(put)
    step = background(lambda: session.run(put_more))
    blocked.wait()
    session.close()
    assert isinstance(step.error(), tf.errors.CancelledError)
    with tf.Session(cluster.target("worker:1")) as other:
        assert other.run(queue.dequeue()) == 1
        assert other.run(queue.size()) == 0


def test_other_sessions_go_on_when_one_is_closed(
    cluster: Cluster, blocked: Blocked, background: Start, queue: Any
) -> None:
    take = queue.dequeue()
    closed, open_ = (tf.Session(cluster.target("worker:0")) for _ in range(2))
    ended = background(lambda: closed.run(take))
    goes_on = background(lambda: open_.run(take))
    blocked.wait(2)
    closed.close()
    assert isinstance(ended.error(), tf.errors.CancelledError)
    open_.run(queue.enqueue([3]))
    assert goes_on.value() == 3
    open_.close()


def test_reset_ends_the_steps_of_the_masters_sessions(
    cluster: Cluster, blocked: Blocked, background: Start, queue: Any
) -> None:
    take = queue.dequeue()
    session = tf.Session(cluster.target("worker:0"))
    step = background(lambda: session.run(take))
    blocked.wait()
    tf.Session.reset(cluster.target("worker:0"))
    assert isinstance(step.error(), tf.errors.AbortedError)
    session.close()


def test_a_caller_that_goes_away_cancels_its_step(
    transport: str, cluster: Cluster, blocked: Blocked, background: Start, queue: Any
) -> None:
    """As a client does that dies: the call ends, and nobody closes the session."""
    take = queue.dequeue()
    session = tf.Session(cluster.target("worker:0"))
    session.list_devices()
    remote = _link(session)
    remote.ship(Scope(30.0))
    pool = GrowingPool("client")
    peer = connect(cluster.address("worker:0"), "master", pool)
    scope = Scope()
    asked = peer.call(methods.RUN_STEP, m.RunStepRequest(remote.handle, [], [take.name], []), scope)
    step = background(lambda: asked.wait(Scope(30.0)))
    seen: type[tf.errors.OpError] = tf.errors.CancelledError
    blocked.wait()
    if transport == "direct":
        scope.cancel(errors.cancelled("the caller is gone"))
    elif isinstance(asked, Call):  # on a lane that was found at once
        asked._connection.socket.shut()
        seen = tf.errors.UnavailableError
    else:
        peer.close()
    for server in cluster.servers.values():
        server.master.drain(errors.unavailable("draining"), Scope(30.0))
        server.worker.drain(errors.unavailable("draining"), Scope(30.0))
    (resource,) = cluster.servers["ps:0"].worker.runtime.resources.all()
    resource.enqueue([_int32(1)])
    assert resource.size() == 1
    assert isinstance(step.error(), seen)
    peer.close()
    session.close()
    pool.shutdown()


def _link(session: tf.Session) -> Any:
    engine = session._engine
    assert isinstance(engine, RemoteEngine)
    assert engine._current is not None
    return engine._current


def _int32(value: int) -> Any:
    return tf.int32.as_numpy_dtype(value)


def test_giving_up_one_call_leaves_the_others_of_its_step_function(
    cluster: Cluster, blocked: Blocked, background: Start, queue: Any
) -> None:
    take = queue.dequeue()
    with tf.Session(cluster.target("worker:0")) as session:
        first = background(lambda: session.run(take))
        blocked.wait()
        second = background(
            lambda: session.run(take, options=tf.RunOptions(timeout_in_ms=30)),
        )
        assert isinstance(second.error(), tf.errors.DeadlineExceededError)
        session.run(queue.enqueue([1]))
        assert first.value() == 1


# -- servers that stop ----------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["ps:0", "worker:0", "worker:1"])
def test_a_stopped_server_under_a_step_is_named(
    cluster: Cluster, blocked: Blocked, background: Start, task: str
) -> None:
    """ps:0 holds the queue, worker:0 is the master, worker:1 waits for the value."""
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(10, [tf.float32], [[]])
        taken = queue.dequeue()
    with tf.device("/job:worker/task:1"):
        there = taken + 1.0
    session = tf.Session(cluster.target("worker:0"))
    step = background(lambda: session.run(there))
    blocked.wait()
    cluster.servers[task].stop()
    error = step.error()
    assert isinstance(error, tf.errors.UnavailableError)
    assert cluster.address(task) in str(error)
    session.close()


def test_after_a_task_came_back_a_new_session_works(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        variable = tf.Variable(1.0)
    with tf.device("/job:worker/task:1"):
        total = variable + 1.0
    init = tf.global_variables_initializer()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(init)
        assert session.run(total) == 2.0
        cluster.servers["ps:0"].stop()
        with pytest.raises(tf.errors.UnavailableError, match=cluster.address("ps:0")):
            session.run(total)
        cluster.start("ps:0")
        session.list_devices()  # waits until it can be reached
        with pytest.raises(tf.errors.AbortedError, match="was restarted"):
            session.run(total)
    with tf.Session(cluster.target("worker:0")) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(total)
        session.run(init)
        assert session.run(total) == 2.0


def test_a_session_waits_for_a_task_that_is_not_up_yet(cluster: Cluster, background: Start) -> None:
    cluster.servers["ps:0"].stop()
    with tf.device("/job:ps"):
        value = tf.constant(1.0) + 1.0
    asked = threading.Event()
    view_worker = cluster.servers["worker:0"].worker
    get = view_worker.peers.get

    def getting(task: str) -> Any:
        if "ps" in task:
            asked.set()
        return get(task)

    view_worker.peers.get = getting  # type: ignore[method-assign]
    with tf.Session(cluster.target("worker:0")) as session:

        def run() -> Any:
            try:
                return session.run(value)
            finally:
                asked.set()

        step = background(run)
        assert asked.wait(60)
        cluster.start("ps:0")
        assert step.value() == 2.0


def test_a_task_that_never_comes_up_is_named_when_the_time_is_over(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it was asked; on a busy machine a short time may be over before, and a longer one shows it."""
    monkeypatch.setattr(LIMITS, "call_patience_s", 10.0)  # the master may be busy, too
    asked: list[str] = []
    begin = ServerReadiness.begin

    def beginning(awaited: ServerReadiness[Any], changed: threading.Condition) -> None:
        asked.append(awaited.peer.name)
        begin(awaited, changed)

    monkeypatch.setattr(ServerReadiness, "begin", beginning)
    cluster.servers["ps:0"].stop()
    with tf.device("/job:ps"):
        value = tf.constant(1.0) + 1.0
    with tf.device("/job:worker"):
        here = tf.constant(1.0)
    unreachable = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError)
    name = f"/job:ps/replica:0/task:0 at {cluster.address('ps:0')}"
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(here)  # what making a session takes is not the step's time
        for limit_ms in (200, 1_000, 5_000, 25_000):
            with pytest.raises(unreachable) as caught:
                session.run(value, options=tf.RunOptions(timeout_in_ms=limit_ms))
            if name in asked:
                break
    assert name in asked
    assert name in str(caught.value)


@pytest.mark.parametrize("task", ["ps:0", "worker:0"])
def test_nothing_is_computed_for_a_caller_whose_time_is_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """The kernel that is under way goes on to its end, past the time that its task was given; the next is not begun."""
    limit_s = 0.1
    spec = registry.get("MatMul")
    original: Any = spec.kernel
    caller = threading.current_thread()
    counts, answered = threading.Event(), threading.Event()
    begun: list[bool] = []

    def kernel(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
        if counts.is_set():
            own = threading.current_thread() is caller  # which cannot have its answer before
            begun.append(own or answered.wait(60))
            threading.Event().wait(
                2 * limit_s
            )  # the task's time began when the request came, later than the caller's
        return original(xp, a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    monkeypatch.setattr(spec, "kernel", kernel)
    with tf.device(f"/job:{task.replace(':', '/task:')}"):
        product = matrix = tf.Variable(tf.zeros([256, 256]), name="matrix")
        for _ in range(5):
            product = tf.matmul(product, matrix)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(matrix.initializer)
        session.run(product.op)
        counts.set()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(product.op, options=tf.RunOptions(timeout_in_ms=round(limit_s * 1000)))
        answered.set()
        refusing = tf.errors.UnavailableError(None, None, "drained")
        cluster.servers[task].worker.drain(refusing, Scope(60))
        assert begun in ([], [True])  # a busy machine may not even come to the first
