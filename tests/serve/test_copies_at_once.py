"""Reads of a larger variable that come again and again: copied straight into memory that the client has, whole, and as
the variable is then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.serve.connect import local_servers
from headrace.serve.lane.multiplexer import STEADY, Member, Multiplexer
from headrace.serve.lane.shared_memory import AVAILABLE, SEGMENTS
from headrace.serve.worker.bound_parts import COPIED_BYTES, BoundCopy
from tests.serve.clusters import Cluster, in_process

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="there are no memory files that are sealed")

SIZE = 20_000  # of float64
OFTEN = 20
CLIENTS = 3
WITHIN_S = 60.0

Copies = Callable[[], int]


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Copies:
    """How many reads were answered by a copy."""
    original, copies = BoundCopy.copy_to, []

    def counting(bound: BoundCopy, target: Any) -> bool:
        done = original(bound, target)
        if done:
            copies.append(target.nbytes)
        return done

    monkeypatch.setattr(BoundCopy, "copy_to", counting)
    return lambda: len(copies)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, copied: Copies) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)  # through sockets
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


def on_the_ps(make: Callable[[], Any]) -> Any:
    with tf.device("/job:ps/task:0"):
        return make()


def numbers(first: float = 0.0) -> np.ndarray[Any, Any]:
    return np.arange(first, first + SIZE)


def test_a_read_that_comes_again_is_one_copy(cluster: Cluster, copied: Copies) -> None:
    variable = on_the_ps(lambda: tf.Variable(numbers()))
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(variable.initializer)
        for count in range(OFTEN):
            found = session.run(variable)
            np.testing.assert_array_equal(found, numbers())
            found += count  # it is the caller's own
        assert copied() > OFTEN // 2


def test_every_update_is_seen_by_the_next_read(cluster: Cluster, copied: Copies) -> None:
    variable = on_the_ps(lambda: tf.Variable(numbers()))
    more = variable.assign_add(np.ones(SIZE)).op
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(variable.initializer)
        for count in range(OFTEN):
            np.testing.assert_array_equal(session.run(variable), numbers(count))
            session.run(more)
        assert copied()


def test_what_is_kept_stays_as_it_was(cluster: Cluster) -> None:
    variable = on_the_ps(lambda: tf.Variable(numbers()))
    more = variable.assign_add(np.ones(SIZE)).op
    kept = []
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(variable.initializer)
        for _ in range(SEGMENTS + OFTEN):  # more than may be lent at once
            kept.append(session.run(variable))
            session.run(more)
    for count, found in enumerate(kept):
        np.testing.assert_array_equal(found, numbers(count))


def test_a_variable_may_get_another_shape_and_lose_its_value(cluster: Cluster) -> None:
    variable = on_the_ps(lambda: tf.Variable(numbers(), validate_shape=False))
    other = tf.assign(variable, np.zeros((2, SIZE)), validate_shape=False)
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(variable.initializer)
        for _ in range(4):
            assert session.run(variable).shape == (SIZE,)
        session.run(other.op)
        for _ in range(4):
            np.testing.assert_array_equal(session.run(variable), np.zeros((2, SIZE)))
        cluster.servers["ps:0"].worker.runtime.resources.cleanup()
        for _ in range(2):
            with pytest.raises(errors.FailedPreconditionError, match="uninitialized value"):
                session.run(variable)


KINDS: dict[str, Any] = {
    "integers": np.arange(SIZE),
    "complex": np.full(SIZE, 1 + 2j),
    "bfloat16": np.full(SIZE * 2, 1.5, tf.bfloat16.as_numpy_dtype),
    "bools": np.arange(SIZE * 4) % 3 == 0,
    "of a resource": np.arange(float(SIZE)),
    "text": np.array([b"text"] * 5_000),
    "more than is copied": np.zeros(COPIED_BYTES.stop, np.uint8),
    "less than is shared": np.zeros(COPIED_BYTES.start - 1, np.uint8),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_again_is_what_was_stored(cluster: Cluster, kind: str) -> None:
    value = KINDS[kind]
    variable = on_the_ps(lambda: tf.Variable(value, use_resource=kind == "of a resource"))
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(variable.initializer)
        for _ in range(5):
            found = session.run(variable)
            assert found.dtype == (object if kind == "text" else value.dtype)
            np.testing.assert_array_equal(found, value)


def test_no_read_of_several_clients_is_torn(
    cluster: Cluster, copied: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Member] = []
    take = Multiplexer.take

    def noting(multiplexer: Multiplexer, member: Member) -> None:
        taken.append(member)
        take(multiplexer, member)

    monkeypatch.setattr(Multiplexer, "take", noting)
    variable = on_the_ps(lambda: tf.Variable(np.zeros(SIZE)))
    more = variable.assign_add(np.ones(SIZE)).op
    graph, target = tf.get_default_graph(), cluster.target("ps:0")
    reading = threading.Barrier(CLIENTS)
    failures: list[BaseException] = []

    def client() -> None:
        try:
            with tf.Session(target, graph=graph) as session:
                for turn in range(4):
                    last = -1.0
                    reading.wait(WITHIN_S)
                    for _ in range(4 * STEADY):
                        found = session.run(variable)
                        assert found.min() == found.max() >= last
                        last = found[0]
                    session.run(more)
                    assert session.run(variable)[0] > turn
        except BaseException as failure:
            failures.append(failure)
            reading.abort()

    with tf.Session(target) as session:
        session.run(variable.initializer)
        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        np.testing.assert_array_equal(session.run(variable), np.full(SIZE, 4.0 * CLIENTS))
    assert len(set(taken)) > 1
    assert copied()
