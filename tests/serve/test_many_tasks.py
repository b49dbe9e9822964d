"""A cluster of many tasks over the transport of memory: who has to do with a task, and who has not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run import long_waits
from headrace.run.scope import Scope
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.rpc import methods
from tests.serve.ways import Ways
from tests.support.memory_transport import Network

TASKS = 48
FEW = 3
SPEC = {
    "ps": [f"127.0.0.1:{30_000 + task}" for task in range(TASKS)],
    "worker": ["127.0.0.1:29000", "127.0.0.1:29001"],
}
SOON_S = 60.0


@pytest.fixture(autouse=True)
def no_wait_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all tasks are asked what a step waits for that takes seconds on a busy machine."""
    monkeypatch.setattr(long_waits, "threshold_s", None)
    monkeypatch.setattr(long_waits, "first_poll_s", 10 * SOON_S)


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(0.0002)
    with network.used():
        servers = [
            tf.train.Server(SPEC, job_name=job, task_index=index)
            for job, addresses in SPEC.items()
            for index in range(len(addresses))
        ]
        try:
            with tf.Graph().as_default():
                yield network
        finally:
            for server in servers:
                server.stop()


def session_of(worker: int) -> tf.Session:
    return tf.Session(f"grpc://{SPEC['worker'][worker]}")


def variables(tasks: range) -> list[Any]:
    found = []
    for task in tasks:
        with tf.device(f"/job:ps/task:{task}"):
            found.append(tf.Variable(float(task)))
    return found


def queue_of(task: int) -> tf.FIFOQueue:
    with tf.device(f"/job:ps/task:{task}"):
        return tf.FIFOQueue(1, tf.int32, [], shared_name=f"queue of {task}")


def test_there_are_connections_to_those_only_whom_steps_need(network: Network) -> None:
    few, many = variables(range(FEW)), variables(range(TASKS))
    with session_of(0) as session:
        session.run([each.initializer for each in few])
        assert session.run(few) == [*range(FEW)]
        assert network.connected == {SPEC["worker"][0], *SPEC["ps"][:FEW]}
        session.run([each.initializer for each in many])
        assert session.run(many) == [*range(TASKS)]
        assert network.connected == {SPEC["worker"][0], *SPEC["ps"]}


def test_nothing_is_sent_while_nothing_is_asked(network: Network, ways: Ways) -> None:
    found = variables(range(TASKS))
    with session_of(0) as session:
        session.run(tf.global_variables_initializer())
        ways.open(session, found)
        session.run(found)
        network.reset_counts()
        assert not threading.Event().wait(0.3)
        assert not network.messages


def test_the_death_of_a_task_is_noticed_by_those_who_use_it_and_by_no_others(
    network: Network,
) -> None:
    doomed, spared = queue_of(TASKS - 1), queue_of(0)
    kept, put, size = spared.dequeue(), spared.enqueue(7), doomed.size()
    found: list[Any] = []
    with session_of(0) as one, session_of(1) as two:
        assert one.run(size) == 0
        two.run(put)
        assert two.run(kept) == 7
        step = threading.Thread(target=lambda: found.append(two.run(kept)))
        step.start()
        network.kill(SPEC["ps"][TASKS - 1])
        with pytest.raises((errors.UnavailableError, errors.AbortedError)):
            one.run(size)
        two.run(put)
        step.join(SOON_S)
        assert found == [7]


def test_whoever_waits_for_a_task_that_dies_is_told(network: Network) -> None:
    with tf.device("/job:ps/task:0"):
        begun = queue_of(0)
        with tf.control_dependencies([begun.enqueue(1)]):
            told = tf.constant(1)
    with tf.device(f"/job:ps/task:{TASKS - 1}"), tf.control_dependencies([told.op]):
        waits = queue_of(TASKS - 1).dequeue()
    failed: list[errors.OpError] = []

    def wait(session: tf.Session) -> None:
        try:
            session.run([waits, told])
        except errors.OpError as error:
            failed.append(error)

    with session_of(0) as one, session_of(1) as two:
        step = threading.Thread(target=wait, args=(one,))
        step.start()
        assert two.run(begun.dequeue()) == 1  # the step is under way
        network.kill(SPEC["ps"][TASKS - 1])
        step.join(SOON_S)
        assert isinstance(failed[0], (errors.UnavailableError, errors.AbortedError))


def test_what_is_on_its_way_to_a_task_that_dies_fails_too(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = SPEC["ps"][0]
    on_their_way: list[Callable[[], object]] = []
    with closing(RoutedPeer(address, "ps:0")) as peer:
        with monkeypatch.context() as patch:
            patch.setattr(network, "soon", on_their_way.append)
            asked = peer.call(methods.GET_STATUS, pb.GetStatusRequest(), Scope(SOON_S))
        network.kill(address)
        for arrive in on_their_way:
            arrive()
        assert isinstance(asked.error, errors.UnavailableError)
