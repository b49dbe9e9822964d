"""Updates that come again and again, of a scalar by a constant: each is made, by the rules of all steps; and steps with
a number that a master is asked for again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers
from headrace.serve.master.at_once import _AtOnce
from headrace.serve.worker.bound_parts import BoundChange
from tests.serve.clusters import Cluster, in_process
from tests.support.until import until

OFTEN = 20
CLIENTS = 4
GONE = (errors.FailedPreconditionError, errors.NotFoundError)  # a reference's, a handle's


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many steps have changed something at once."""
    original, changes = BoundChange.contents, []

    def counting(bound: BoundChange) -> bytes | None:
        changed = original(bound)
        if changed is not None:
            changes.append(changed)
        return changed

    monkeypatch.setattr(BoundChange, "contents", counting)
    return lambda: len(changes)


@pytest.fixture(params=["reference", "resource"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, at_once: Callable[[], int]
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


CHANGES = {
    "added": (lambda: tf.Variable(0.0), lambda x: x.assign_add(1.5), 1.5),
    "subtracted": (lambda: tf.Variable(0.0), lambda x: x.assign_sub(2.0), -2.0),
    "an integer": (lambda: tf.Variable(np.int64(0)), lambda x: x.assign_add(np.int64(7)), 7),
    "a half": (lambda: tf.Variable(np.float16(0)), lambda x: x.assign_add(np.float16(0.5)), 0.5),
    "complex": (lambda: tf.Variable(np.complex64(0)), lambda x: x.assign_add(np.complex64(1j)), 1j),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_each_change_is_made_once_and_given(
    cluster: Cluster, at_once: Callable[[], int], kind: str
) -> None:
    make, change, step = CHANGES[kind]
    variables = on_both(make)
    more = [change(variable) for variable in variables]
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for count in range(1, OFTEN + 1):
            for found, variable in zip(session.run(more), variables, strict=True):
                assert found == count * step
                assert type(found) is variable.dtype.base_dtype.as_numpy_dtype
        assert session.run(variables) == [OFTEN * step] * 2
    assert at_once() > 0


def test_what_is_run_for_its_effect_has_it(cluster: Cluster, at_once: Callable[[], int]) -> None:
    variables = on_both(lambda: tf.Variable(0.0))
    more = [variable.assign_add(1.0).op for variable in variables]
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(OFTEN):
            assert session.run(more) == [None, None]
        assert session.run(variables) == [OFTEN, OFTEN]
    assert at_once() > 0


def test_no_change_of_several_clients_is_lost(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(0.0))
    more = [variable.assign_add(1.0) for variable in variables]
    target, graph = cluster.target("worker:0"), tf.get_default_graph()
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())

        def client() -> None:
            with tf.Session(target, graph=graph) as own:
                for _ in range(OFTEN):
                    own.run(more)

        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(variables) == [CLIENTS * OFTEN] * 2


def test_numbers_wrap_and_overflow_without_a_word(cluster: Cluster) -> None:
    whole, real = tf.Variable(np.int8(0)), tf.Variable(np.float32(3e38))
    more = [whole.assign_add(np.int8(100)), real.assign_add(np.float32(3e38))]
    with tf.Session(cluster.target("worker:0")) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.run(tf.global_variables_initializer())
        for each in more:
            for _ in range(6):
                session.run(each)
        assert session.run(whole) == np.int8(600 % 256)
        assert session.run(real) == np.inf


def test_what_somebody_still_reads_stays_as_it_was(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        variable = tf.Variable(0.0)
        more = variable.assign_add(1.0)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(more)
        resources = cluster.servers["ps:0"].worker.runtime.resources
        (kept,) = [each for each in resources.all() if each.name == "Variable"]
        with_lease = kept.lease()
        assert [session.run(more) for _ in range(3)] == [5.0, 6.0, 7.0]
        assert with_lease.array == 4.0
        with_lease.release()
        assert [session.run(more) for _ in range(3)] == [8.0, 9.0, 10.0]


def test_a_variable_that_is_gone_is_said_to_be_uninitialized(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(0.0))
    more = [variable.assign_add(1.0) for variable in variables]
    begin = tf.global_variables_initializer()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(begin)
        for _ in range(4):
            session.run(more)
        for server in cluster.servers.values():
            server.worker.runtime.resources.cleanup()
        for _ in range(3):
            with pytest.raises(GONE, match="uninitialized value Variable"):
                session.run(more)
        session.run(begin)
        assert [session.run(more) for _ in range(4)][-1] == [4.0, 4.0]


def test_changes_are_logged_while_that_is_asked_for(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(0.0))
    more = [variable.assign_add(1.0) for variable in variables]
    log = cluster.servers["ps:0"].worker.log
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(more)
        log.enable()
        session.run(more)
        log.disable()
        assert len(log.take([])) == 1
        assert session.run(more) == [6.0, 6.0]


def test_a_task_that_takes_no_more_steps_changes_nothing(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(0.0))
    more = [variable.assign_add(1.0) for variable in variables]
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(more)
        worker = cluster.servers["ps:1"].worker
        (kept,) = [each for each in worker.runtime.resources.all() if each.name == "Variable_1"]
        worker.drain(errors.unavailable("enough for today"), Scope(60.0))
        for _ in range(2):
            with pytest.raises(errors.UnavailableError, match="enough for today"):
                session.run(more)
        assert kept.array == 4.0


@pytest.mark.parametrize("held", ["of the session", "of the variable"])
def test_a_change_beside_another_waits_for_its_turn(
    cluster: Cluster, at_once: Callable[[], int], held: str
) -> None:
    kind = np.float16 if held == "of the session" else np.float32  # one is left to its kernel
    with tf.device("/job:ps/task:0"):
        variable = tf.Variable(kind(0.0))
        more = variable.assign_add(kind(1.0))
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(more)
        worker = cluster.servers["ps:0"].worker
        (kept,) = worker.runtime.resources.all()
        before = at_once()
        if held == "of the session":
            (own,) = worker._sessions.values()
            with own.change_lock:
                assert session.run(more) == 5.0
            assert at_once() == before
        else:
            found: list[Any] = []
            thread = threading.Thread(target=lambda: found.append(session.run(more)))
            with kept.lock:
                thread.start()
                until(lambda: worker._running)  # until it goes the general way, and waits
            thread.join()
            assert found == [5.0]
        assert [session.run(more) for _ in range(6)] == [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
        assert at_once() > before


def test_changes_are_counted_where_steps_are(cluster: Cluster, at_once: Callable[[], int]) -> None:
    with tf.device("/job:ps/task:0"):
        more = tf.Variable(0.0).assign_add(1.0)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(more)
        worker = cluster.servers["ps:0"].worker
        worker.count_steps(1000.0)
        before = at_once()
        for _ in range(6):
            session.run(more)
        assert at_once() > before
        assert worker.meter is not None
        assert sum(worker.meter.state().bucket) == 6


def test_what_was_remade_is_changed_at_once_again(
    cluster: Cluster, at_once: Callable[[], int]
) -> None:
    with tf.device("/job:ps/task:0"):
        variable = tf.Variable(0.0)
        more = variable.assign_add(1.0)
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(2):
            cluster.servers["ps:0"].worker.runtime.resources.cleanup()
            session.run(tf.global_variables_initializer())
            before = at_once()
            for _ in range(6):
                session.run(more)
            assert at_once() > before


def test_a_session_of_which_all_steps_have_ended_is_closed_at_once(cluster: Cluster) -> None:
    variables = on_both(lambda: tf.Variable(0.0))
    more = [variable.assign_add(1.0) for variable in variables]
    target = cluster.target("worker:0")
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        with tf.Session(target) as other:
            for _ in range(4):
                other.run(more)
        assert session.run(variables) == [4.0, 4.0]
    assert not any(server.worker._running for server in cluster.servers.values())


# -- steps with a number, on their master -----------------------------------------------------------


def test_steps_with_numbers_take_turns(cluster: Cluster) -> None:
    with tf.device("/job:worker/task:0"):
        steps = [tf.constant(float(value)) for value in range(3)]
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(OFTEN):
            assert [session.run(each) for each in steps] == [0.0, 1.0, 2.0]


def test_a_master_that_takes_no_more_steps_says_so(cluster: Cluster) -> None:
    with tf.device("/job:worker/task:0"):
        answer = tf.constant(42.0)
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(4):
            assert session.run(answer) == 42.0
        cluster.servers["worker:0"].worker.drain(errors.unavailable("enough"), Scope(60.0))
        for _ in range(2):
            with pytest.raises(errors.UnavailableError, match="enough"):
                session.run(answer)


def test_a_session_that_was_closed_behind_its_clients_back_runs_no_steps(cluster: Cluster) -> None:
    with tf.device("/job:worker/task:0"):
        answer = tf.constant(42.0)
    target = cluster.target("worker:0")
    with tf.Session(target) as session:
        for _ in range(4):
            assert session.run(answer) == 42.0
        tf.Session.reset(target)
        for _ in range(2):
            with pytest.raises(errors.AbortedError):
                session.run(answer)


@pytest.fixture
def by_master(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many steps a master has answered at once."""
    original, steps = _AtOnce.contents, []

    def counting(step: _AtOnce) -> bytes | None:
        found = original(step)
        if found is not None:
            steps.append(found)
        return found

    monkeypatch.setattr(_AtOnce, "contents", counting)
    return lambda: len(steps)


def of_the_master() -> tuple[tf.Variable, Any, Any]:
    with tf.device("/job:worker/task:0"):
        variable = tf.Variable(0.0)
        return variable, variable.assign_add(1.0), tf.constant([42, 43])


def test_a_master_answers_its_own_short_steps_at_once(
    by_master: Callable[[], int], cluster: Cluster
) -> None:
    variable, more, answer = of_the_master()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for count in range(1, OFTEN + 1):
            assert session.run(more) == count
            assert session.run(variable) == count
            assert session.run(answer).tolist() == [42, 43]
        assert by_master() > OFTEN
        before = by_master()
        session.run(variable.assign(7.0))
        assert [session.run(variable) for _ in range(4)] == [7.0] * 4
        assert [session.run(more) for _ in range(4)] == [8.0, 9.0, 10.0, 11.0]
        assert by_master() > before


def test_a_masters_steps_are_counted_where_that_is_asked_for(
    by_master: Callable[[], int], cluster: Cluster
) -> None:
    _, more, answer = of_the_master()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run([more])
            session.run(answer)
        worker = cluster.servers["worker:0"].worker
        worker.mastered(1000.0)
        before = by_master()
        for _ in range(6):
            session.run([more])
            session.run(answer)
        assert by_master() > before  # a pause of the machine may let some go the other way
        counts = worker.mastered(1000.0)
        assert counts is not None
        assert sum(counts.bucket) == 12


def test_a_session_with_a_time_limit_keeps_it(cluster: Cluster) -> None:
    with tf.device("/job:worker/task:0"):
        queue = tf.FIFOQueue(4, [tf.int32], shapes=[[]])
        put, get = queue.enqueue(1), queue.dequeue()
    config = tf.ConfigProto(
        operation_timeout_in_ms=1000
    )  # of the steps that wait; the machine may be busy
    with tf.Session(cluster.target("worker:0"), config=config) as session:
        for _ in range(OFTEN):
            session.run(put)
            assert session.run(get) == 1
        for _ in range(2):
            with pytest.raises(errors.DeadlineExceededError):
                session.run(get)


def test_a_variable_that_a_master_has_no_more_is_said_to_be_uninitialized(
    by_master: Callable[[], int], cluster: Cluster
) -> None:
    variable, more, _ = of_the_master()
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(2):
            session.run(variable.initializer)
            before = by_master()
            assert [session.run(more) for _ in range(5)][-1] == 5.0
            assert by_master() > before
            cluster.servers["worker:0"].worker.runtime.resources.cleanup()
            for _ in range(2):
                with pytest.raises(GONE):
                    session.run(more)
