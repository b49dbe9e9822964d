"""Queues and their relatives on a `headrace serve`: two sessions share them by shared_name.

One session's step waits until the other's releases it; a container separates what bears one name.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.contrib.staging import MapStagingArea, StagingArea
from headrace.python.ops import data_flow_ops
from tests.serve.clusters import ProcessCluster, in_process, processes
from tests.serve.conftest import Blocked

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ProcessCluster]:
    with processes({"local": 1}) as running:
        yield running


def padding() -> tuple[Any, Any, Any]:
    queue = tf.PaddingFIFOQueue(9, [tf.int32], [[None]], shared_name="shared")
    return queue.enqueue([[1, 2]]), queue.dequeue_many(2), [[1, 2], [1, 2]]


def priority() -> tuple[Any, Any, Any]:
    queue = tf.PriorityQueue(9, [tf.string], [[]], shared_name="shared")
    return queue.enqueue([3, "x"]), queue.dequeue_many(2), [[3, 3], [b"x", b"x"]]


def chosen() -> tuple[Any, Any, Any]:
    queues = [tf.FIFOQueue(9, tf.int32, [[]], shared_name=f"shared{n}") for n in range(2)]
    queue = tf.QueueBase.from_list(tf.constant(1), queues)
    return queue.enqueue(5), queues[1].dequeue_many(2), [5, 5]


def staging() -> tuple[Any, Any, Any]:
    area = StagingArea([tf.int32, tf.string], shared_name="area")
    put = area.put([[1, 2], "x"])
    return put, area.peek(1), [[1, 2], b"x"]


def staging_by_key() -> tuple[Any, Any, Any]:
    area = MapStagingArea([tf.int32, tf.string], shared_name="map", ordered=True)
    with tf.control_dependencies([area.put(7, [[1, 2]], [0])]):
        put = area.put(7, ["x"], [1])
    return put, area.get(7)[1], [[1, 2], b"x"]


def barrier() -> tuple[Any, Any, Any]:
    made = data_flow_ops.Barrier((tf.int32, tf.string), ((), ()), shared_name="barrier")
    with tf.control_dependencies([made.insert_many(0, ["a", "b"], [1, 2])]):
        put = made.insert_many(1, ["b", "a"], ["y", "x"])
    return put, made.take_many(4).values, [[2, 1, 2, 1], [b"y", b"x", b"y", b"x"]]


def accumulator() -> tuple[Any, Any, Any]:
    made = tf.ConditionalAccumulator(tf.float32, [2], shared_name="accumulator")
    return made.apply_grad([2.0, 4.0], 1 << 40), made.take_grad(2), [2.0, 4.0]


def sparse_accumulator() -> tuple[Any, Any, Any]:
    made = tf.SparseConditionalAccumulator(tf.float32, shared_name="sparse", reduction_type="SUM")
    put = made.apply_grad(tf.constant([0, 3], tf.int64), [[1.0], [2.0]], local_step=1 << 40)
    return put, list(made.take_grad(2)), [[0, 3], [[2.0], [4.0]], [-1, 1]]


FAMILIES: list[Callable[[], tuple[Any, Any, Any]]] = [
    padding, priority, chosen, staging, staging_by_key, barrier, accumulator, sparse_accumulator,
]  # fmt: skip


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_one_session_waits_for_what_another_puts_in(
    cluster: ProcessCluster, family: Callable[[], tuple[Any, Any, Any]]
) -> None:
    found: list[Any] = []
    with tf.Graph().as_default(), tf.container(family.__name__):
        put, take, expected = family()
        target = cluster.target("local:0")
        with tf.Session(target) as one, tf.Session(target) as two:
            thread = threading.Thread(target=lambda: found.append(one.run(take)))
            thread.start()
            for _ in range(2):
                two.run(put)
            thread.join(60)
    assert plain(found) == [expected]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_a_step_that_runs_out_of_time_has_taken_nothing(
    cluster: ProcessCluster, family: Callable[[], tuple[Any, Any, Any]]
) -> None:
    with tf.Graph().as_default(), tf.container(f"{family.__name__}.late"):
        put, take, expected = family()
        with tf.Session(cluster.target("local:0")) as session:
            session.run(tf.no_op())  # the limit is not for getting to know each other
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(take, options=tf.RunOptions(timeout_in_ms=100))
            for _ in range(2):
                session.run(put)
            assert plain(session.run(take)) == expected


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_a_session_that_closes_while_its_step_waits_has_taken_nothing(
    cluster: ProcessCluster, family: Callable[[], tuple[Any, Any, Any]]
) -> None:
    ended: list[tf.errors.OpError | RuntimeError] = []

    def waits(session: tf.Session, take: Any) -> None:
        try:
            session.run(take)
        except (tf.errors.OpError, RuntimeError) as error:  # before or after it has begun
            ended.append(error)

    with tf.Graph().as_default(), tf.container(f"{family.__name__}.closed"):
        put, take, expected = family()
        target = cluster.target("local:0")
        with tf.Session(target) as other:
            closing = tf.Session(target)
            thread = threading.Thread(target=waits, args=(closing, take))
            thread.start()
            closing.close()
            thread.join(60)
            assert len(ended) == 1
            for _ in range(2):
                other.run(put)
            assert plain(other.run(take)) == expected


CLIENT = """
import sys, threading
import headrace as tf
from tests.serve.test_shared_state import FAMILIES
def wait(family):
    with tf.Graph().as_default(), tf.container(family.__name__):
        tf.Session(sys.argv[1]).run(family()[1])
for family in FAMILIES:
    threading.Thread(target=wait, args=(family,)).start()
"""


def test_a_client_that_is_killed_while_it_waits_has_taken_nothing(blocked: Blocked) -> None:
    """It waits for one of each family."""
    with in_process({"local": 1}) as running:
        target = running.target("local:0")
        client = subprocess.Popen([sys.executable, "-c", CLIENT, target], cwd=ROOT)
        try:
            blocked.wait(len(FAMILIES))
        finally:
            client.kill()
            client.wait()
        blocked.wait_until_all_ended()
        for family in FAMILIES:
            with tf.Graph().as_default(), tf.container(family.__name__):
                put, take, expected = family()
                with tf.Session(target) as session:
                    for _ in range(2):
                        session.run(put)
                    assert plain(session.run(take)) == expected, family.__name__
