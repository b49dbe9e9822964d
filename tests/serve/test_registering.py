"""What tasks are told when the parts of a plan are registered: what all have in common is encoded once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.master import planner
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, in_process

TASKS = 4
WITHIN_S = 60.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with in_process({"ps": TASKS, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[pb.RegisterGraphRequest]:
    """The requests that came, in any order."""
    came: list[pb.RegisterGraphRequest] = []
    register = Worker.register_graph

    def registering(worker: Worker, request: pb.RegisterGraphRequest, scope: Scope) -> Any:
        came.append(request)
        return register(worker, request, scope)

    monkeypatch.setattr(Worker, "register_graph", registering)
    return came


def sums(cluster: Cluster) -> list[float]:
    """Of a step with a part on each task, in a session with options of its own."""
    config = tf.ConfigProto(intra_op_parallelism_threads=3)
    found = []
    for task in range(TASKS):
        with tf.device(f"/job:ps/task:{task}"):
            found.append(tf.constant(1.0) + tf.random_uniform([]) * 0.0 + float(task))
    with tf.Session(cluster.target("worker:0"), config=config) as session:
        return [float(each) for each in session.run(found)]


def test_the_common_part_is_encoded_once(
    cluster: Cluster, registered: list[pb.RegisterGraphRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Any] = []
    encode = planner.serialized

    def encoding(message: Any) -> bytes:
        encoded.append(message)
        return encode(message)

    monkeypatch.setattr(planner, "serialized", encoding)
    assert sums(cluster) == [1.0, 2.0, 3.0, 4.0]
    assert len(registered) == TASKS
    assert len(encoded) == 1
    assert encoded[0].config_proto.intra_op_parallelism_threads == 3
    assert all(request.headrace_common == encode(encoded[0]) for request in registered)
    assert not any(request.HasField("config_proto") for request in registered)


def test_tasks_that_are_not_ours_get_it_in_its_fields(
    cluster: Cluster, registered: list[pb.RegisterGraphRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterView, "pushing", lambda self, tasks: set())
    assert sums(cluster) == [1.0, 2.0, 3.0, 4.0]
    assert all(request.config_proto.intra_op_parallelism_threads == 3 for request in registered)
    assert not any(request.headrace_common for request in registered)


def test_a_common_part_that_is_none_is_refused(cluster: Cluster) -> None:
    worker = cluster.servers["ps:0"].worker
    with pytest.raises(errors.InvalidArgumentError, match="not a RegisterGraphRequest"):
        worker.register_graph(pb.RegisterGraphRequest(headrace_common=b"\xff\xff"), Scope(WITHIN_S))


def test_each_task_is_told_no_more_of_the_cluster_than_it_needs(
    cluster: Cluster, registered: list[pb.RegisterGraphRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[pb.GetStatusResponse] = []
    status = Worker.get_status

    def answering(worker: Worker, request: pb.GetStatusRequest, scope: Scope) -> Any:
        answers.append(status(worker, request, scope))
        return answers[-1]

    monkeypatch.setattr(Worker, "get_status", answering)
    sums(cluster)
    assert len(answers) >= TASKS
    assert not any(answer.headrace_addresses for answer in answers)
    assert all(len(request.headrace_starts) == 1 for request in registered)
