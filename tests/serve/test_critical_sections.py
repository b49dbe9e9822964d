"""Critical sections: shared over a cluster, given back by who fails, is cancelled or dies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.run.state.mutexes import Mutex
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS, Background, Blocked
from tests.serve.endings import Endings
from tests.support.limits import deadline_that_says
from tests.support.until import until

Start = Callable[[Callable[[], Any]], Background]
WITHIN_MS = 60_000


@pytest.fixture(params=["grpc", "unix"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, endings: Endings
) -> Iterator[Cluster]:
    TRANSPORTS[request.param](monkeypatch)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


def sections() -> tuple[Any, Any, Any, Any]:
    """What waits for a queue inside the section, what only adds, what fills the queue, and its size."""
    with tf.device("/job:ps"):
        section = tf.CriticalSection(shared_name="s")
        queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
        taking = section.execute(queue.dequeue, name="taking")
        adding = section.execute(lambda: tf.constant(1) + tf.constant(2), name="adding")
        return taking, adding, queue.enqueue(7), queue.size()


def test_one_step_at_a_time_holds_it_and_a_late_one_learns_who_does(
    cluster: Cluster, blocked: Blocked, background: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("call_patience_s", "step_patience_s"):  # a busy task says it late
        monkeypatch.setattr(LIMITS, name, WITHIN_MS / 1000)
    taking, adding, fill, size = sections()
    with tf.Session(cluster.target("worker:0")) as one, tf.Session(cluster.target("ps:0")) as two:
        held = background(lambda: one.run(taking))
        blocked.wait()
        two.run(size)  # the limit is not for making the session
        deadline_that_says(
            lambda limited: two.run(adding, options=limited), "held by 'taking/MutexLock'"
        )
        waits = background(lambda: two.run(adding))
        until(lambda: any(step.node == "adding/MutexLock" for step in two.blocked_steps()))
        two.run(fill)
        assert (held.value(), waits.value()) == (7, 3)


def test_who_is_cancelled_gives_it_back(
    cluster: Cluster, blocked: Blocked, background: Start
) -> None:
    taking, adding, _, _ = sections()
    options = tf.RunOptions(timeout_in_ms=WITHIN_MS)
    with tf.Session(cluster.target("ps:0")) as two:
        one = tf.Session(cluster.target("worker:0"))
        held = background(lambda: one.run(taking))
        blocked.wait()
        one.close()
        assert isinstance(held.error(), tf.errors.CancelledError | tf.errors.AbortedError)
        assert two.run(adding, options=options) == 3


CLIENT = """
import sys
import headrace as tf
with tf.device("/job:ps"):
    section = tf.CriticalSection(shared_name="s")
    queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
    taking = section.execute(queue.dequeue)
tf.Session(sys.argv[1]).run(taking)
"""


def test_a_client_that_is_killed_gives_it_back(
    cluster: Cluster, endings: Endings, blocked: Blocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, adding, _, _ = sections()
    client = subprocess.Popen([sys.executable, "-c", CLIENT, cluster.target("worker:0")])
    try:
        blocked.wait()
        held = cluster.servers["ps:0"].worker.runtime.resources.lookup("", "s", Mutex)
        assert "held by" in held.state()
        monkeypatch.setattr(LIMITS, "client_gone_after_s", 0.05)
    finally:
        client.kill()
        client.communicate()
    assert "its client" in endings.wait()
    monkeypatch.setattr(LIMITS, "client_gone_after_s", WITHIN_MS / 1000)  # the machine may be busy
    with tf.Session(cluster.target("ps:0")) as session:
        assert session.run(adding, options=tf.RunOptions(timeout_in_ms=WITHIN_MS)) == 3


def test_who_fails_gives_it_back_though_the_error_is_kept() -> None:
    section = tf.CriticalSection()
    number = tf.placeholder(tf.float32, [])
    checked = section.execute(lambda: tf.check_numerics(number, "no number"))
    options = tf.RunOptions(timeout_in_ms=WITHIN_MS)
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no number") as kept:
            session.run(checked, {number: float("inf")})
        assert session.run(checked, {number: 1.0}, options=options) == 1
        assert kept.value.__traceback__ is not None


def test_a_lock_that_nobody_consumes_goes_with_its_step() -> None:
    mutex = tf.raw_ops.MutexV2(container="", shared_name="m")
    lock = tf.raw_ops.MutexLock(mutex=mutex)
    with tf.Session() as session:
        for _ in range(2):
            session.run(lock.op, options=tf.RunOptions(timeout_in_ms=WITHIN_MS))
        with pytest.raises(tf.errors.InternalError, match="variant"):
            session.run(lock)


def test_a_container_that_is_reset_ends_the_wait(
    cluster: Cluster, blocked: Blocked, background: Start
) -> None:
    taking, adding, _, _ = sections()
    with tf.Session(cluster.target("worker:0")) as one, tf.Session(cluster.target("ps:0")) as two:
        held = background(lambda: one.run(taking))
        blocked.wait()
        waits = background(lambda: two.run(adding))
        blocked.wait()
        cluster.servers["ps:0"].worker.runtime.resources.cleanup()
        assert isinstance(waits.error(), tf.errors.CancelledError)
        assert isinstance(held.error(), tf.errors.CancelledError)
