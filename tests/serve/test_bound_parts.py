"""Reads of variables that come again and again: answered without entering a step, and never with what is not so any
more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, in_process

OFTEN = 20

Steps = Callable[[], int]


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """How many partitions have been run by way of the worker."""
    original, count = Worker.run_part, 0

    @functools.wraps(original)
    def counting(*given: Any) -> Any:
        nonlocal count
        count += 1
        return original(*given)

    monkeypatch.setattr(Worker, "run_part", counting)
    return lambda: count


@pytest.fixture(params=["reference", "resource"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, entered: Steps
) -> Iterator[Cluster]:
    """Its programs' variables are of that kind, if they say nothing."""
    monkeypatch.setattr(local_servers, "find", lambda address: None)  # through sockets
    with in_process({"ps": 2, "worker": 1}) as cluster, tf.Graph().as_default():
        tf.get_variable_scope().set_use_resource(request.param == "resource")
        yield cluster


def on_both(make: Callable[[], Any]) -> list[Any]:
    found = []
    for task in range(2):
        with tf.device(f"/job:ps/task:{task}"):
            found.append(make())
    return found


def again(session: tf.Session, fetches: Any) -> Any:
    """Run until it is bound wherever it can be."""
    for _ in range(4):
        found = session.run(fetches)
    return found


def test_a_read_that_comes_again_enters_no_step(cluster: Cluster, entered: Steps) -> None:
    variables = on_both(lambda: tf.Variable(1.0))
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        again(session, variables)
        before = entered()
        for _ in range(OFTEN):
            assert session.run(variables) == [1.0, 1.0]
        assert entered() - before < OFTEN  # a pause of the machine may let some go the other way


KINDS = {
    "a scalar": lambda: tf.Variable(2.5),
    "a vector": lambda: tf.Variable([1.0, 2.0, 3.0]),
    "nothing": lambda: tf.Variable(np.zeros((0, 3), np.int64)),
    "an integer": lambda: tf.Variable(np.int64(-7)),
    "a half": lambda: tf.Variable(np.float16(0.5)),
    "complex": lambda: tf.Variable(np.complex64(1 + 2j)),
    "a bfloat16": lambda: tf.Variable(tf.constant(1.5, tf.bfloat16)),
    "a bool": lambda: tf.Variable(True),
    "text": lambda: tf.Variable("text"),
    "more than is bound": lambda: tf.Variable(np.arange(5_000.0)),
    "a resource": lambda: tf.Variable(2.5, use_resource=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_again_is_what_was_read_first(cluster: Cluster, kind: str) -> None:
    variables = on_both(KINDS[kind])
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        first = session.run(variables)
        for _ in range(4):
            for one, other in zip(first, session.run(variables), strict=True):
                np.testing.assert_array_equal(one, other)
                assert np.asarray(one).dtype == np.asarray(other).dtype
                assert type(one) is type(other)


def test_several_variables_of_a_task_are_read_together(cluster: Cluster, entered: Steps) -> None:
    values = [1.0, [2, 3], [[4.0], [5.0]]]
    several = on_both(lambda: [tf.Variable(value) for value in values])
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        again(session, several)
        before = entered()
        for _ in range(OFTEN):
            for found in session.run(several):
                for value, wanted in zip(found, values, strict=True):
                    np.testing.assert_array_equal(value, wanted)
        assert entered() - before < OFTEN


def test_every_update_is_seen_by_the_next_read(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable([0.0, 0.0]))
    more = [variable.assign_add([1.0, 2.0]) for variable in variables]
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for count in range(OFTEN):
            for found in session.run(variables):
                np.testing.assert_array_equal(found, [count, 2 * count])
            session.run(more)


def test_what_was_fetched_is_the_callers_own(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable([1.0, 2.0]))
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        earlier = again(session, variables)
        earlier[0][:] = 9.0
        np.testing.assert_array_equal(session.run(variables), [[1.0, 2.0]] * 2)
        np.testing.assert_array_equal(earlier[0], [9.0, 9.0])


def test_a_variable_may_get_another_shape(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(1.0, validate_shape=False, use_resource=False))
    other = [tf.assign(variable, [1.0, 2.0], validate_shape=False) for variable in variables]
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        again(session, variables)
        session.run(other)
        np.testing.assert_array_equal(again(session, variables), [[1.0, 2.0]] * 2)


def test_a_variable_that_is_gone_is_said_to_be_uninitialized(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(1.0))
    begin = tf.global_variables_initializer()
    target = cluster.target("worker:0")
    with tf.Session(target) as session:
        session.run(begin)
        again(session, variables)
        for server in cluster.servers.values():
            server.worker.runtime.resources.cleanup()
        for _ in range(3):
            with pytest.raises(
                errors.FailedPreconditionError, match="uninitialized value Variable"
            ):
                session.run(variables)
        session.run(begin)
        assert again(session, variables) == [1.0, 1.0]


def test_a_session_that_is_closed_takes_nothing_from_others(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(1.0))
    target = cluster.target("worker:0")
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        again(session, variables)
        with tf.Session(target) as other:
            again(other, variables)
        assert again(session, variables) == [1.0, 1.0]


def test_reads_are_logged_while_that_is_asked_for(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(1.0))
    log = cluster.servers["ps:0"].worker.log
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        again(session, variables)
        log.enable()
        session.run(variables)
        log.disable()
        assert len(log.take([])) == 1
        again(session, variables)
        assert not log.take([])


def test_a_task_that_takes_no_more_steps_answers_no_reads(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(1.0))
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        again(session, variables)
        cluster.servers["ps:1"].worker.drain(errors.unavailable("enough for today"), Scope(60.0))
        for _ in range(2):
            with pytest.raises(errors.UnavailableError, match="enough for today"):
                session.run(variables)
