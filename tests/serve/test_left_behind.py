"""What is kept of a session on its tasks, and forgotten there, when a connection breaks on which they are told."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.rpc import methods
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS
from tests.support.until import until


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    TRANSPORTS["grpc"](monkeypatch)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


class Losing:
    """The connection breaks with the first call of `method` to a task.  done: the calls that came after."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, method: methods.Method, arrives: bool, whom: str
    ) -> None:
        """arrives: the request did, and only the reply is lost.  whom: how errors call the task."""
        self.done: list[Pending[Any]] = []
        self._left = 1
        call = GrpcPeer.call

        def losing(peer: GrpcPeer, asked: methods.Method, *args: Any, **how: Any) -> Pending[Any]:
            if asked is not method or whom not in peer.name:
                return call(peer, asked, *args, **how)
            if not self._left:
                self.done.append(call(peer, asked, *args, **how))
                return self.done[-1]
            self._left = 0
            lost = errors.unavailable(f"the connection to {peer.name} broke")
            if not arrives:
                return Pending.failed_with(lost)
            real = call(peer, asked, *args, **how)
            reply: Pending[Any] = Pending(real.wait_info)
            real.on_done(lambda _: reply.reject(lost))
            return reply

        monkeypatch.setattr(GrpcPeer, "call", losing)

    def wait(self) -> None:
        """Block until what was asked again is done."""
        until(lambda: self.done)
        (again,) = self.done
        again.wait(Scope(60.0))


Lose = Callable[..., Losing]


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    return lambda method, arrives=False, whom="/job:ps": Losing(monkeypatch, method, arrives, whom)


def test_a_partial_run_whose_end_a_task_did_not_hear_of_is_forgotten_there(
    cluster: Cluster, lose: Lose
) -> None:
    x, y = (tf.placeholder(tf.float32, []) for _ in range(2))
    with tf.device("/job:ps"):
        first = x * 2.0
    with tf.device("/job:worker"):
        second = first + y
    with tf.Session(cluster.target("worker:0")) as session:
        handle = session.partial_run_setup([first, second], [x, y])
        assert session.partial_run(handle, first, {x: 1.0}) == 2.0
        assert cluster.servers["ps:0"].worker._steps
        losing = lose(methods.CLEANUP_GRAPH)
        assert session.partial_run(handle, second, {y: 1.0}) == 3.0
        losing.wait()
        assert not cluster.servers["ps:0"].worker._steps


def test_a_session_whose_end_a_task_did_not_hear_of_is_forgotten_there(
    cluster: Cluster, lose: Lose
) -> None:
    with tf.device("/job:ps"):
        size = tf.FIFOQueue(1, tf.int32, name="private").size()
    worker = cluster.servers["ps:0"].worker
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(size)
        assert worker._sessions
        assert worker.runtime.resources.all()
        losing = lose(methods.DELETE_WORKER_SESSION)
    losing.wait()
    assert not worker._sessions
    assert not worker._graphs
    assert not worker.runtime.resources.all()


def test_a_partition_that_a_task_registered_without_anybody_knowing_goes_with_its_session(
    cluster: Cluster, lose: Lose
) -> None:
    with tf.device("/job:ps"):
        total = tf.random_uniform([]) + 1.0
    worker = cluster.servers["ps:0"].worker
    with tf.Session(cluster.target("worker:0")) as session:
        lose(methods.REGISTER_GRAPH, arrives=True)
        with pytest.raises(tf.errors.UnavailableError, match="/job:ps"):
            session.run(total)
        assert worker._graphs
    assert not worker._graphs
    assert not worker._sessions


@pytest.mark.parametrize("arrives", [False, True])
def test_a_session_with_state_of_its_own_may_be_made_on_a_task_at_the_second_attempt(
    cluster: Cluster, lose: Lose, arrives: bool
) -> None:
    with tf.device("/job:ps"):
        total = tf.random_uniform([]) * 0.0 + 1.0
    config = tf.ConfigProto(isolate_session_state=True)
    with tf.Session(cluster.target("worker:0"), config=config) as session:
        lose(methods.CREATE_WORKER_SESSION, arrives)
        with pytest.raises(tf.errors.UnavailableError, match="/job:ps"):
            session.run(total)
        assert session.run(total) == 1.0


def test_a_callable_whose_release_the_master_did_not_hear_of_is_forgotten_there(
    cluster: Cluster, lose: Lose
) -> None:
    total = tf.random_uniform([]) + 1.0
    with tf.Session(cluster.target("worker:0")) as session:
        call = session._make_callable_from_options(pb.CallableOptions(fetch=[total.name]))
        call()
        (on_master,) = cluster.servers["worker:0"].master._sessions.values()
        assert on_master._callables._prepared
        losing = lose(methods.RELEASE_CALLABLE, whom="the server")
        del call
        gc.collect()
        losing.wait()
        assert not on_master._callables._prepared
