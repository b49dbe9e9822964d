"""Containers on the ps, and reset of one, of several, of the default one."""

from __future__ import annotations

from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def contained(tf: Any, container: str, value: float) -> Any:
    with tf.container(container), tf.device(PS):
        return tf.Variable(value, name="v")


def initialized(tf: Any, here: Here, *containers: str) -> None:
    """A variable ``v`` in each container; its value is its place in the list, from 1."""
    for place, container in enumerate(containers, start=1):
        with tf.Graph().as_default(), tf.Session(here.worker) as session:
            session.run(contained(tf, container, float(place)).initializer)


def values(tf: Any, here: Here, *containers: str) -> list[Any]:
    """The value of ``v`` in each container, None where there is none."""
    found = []
    for container in containers:
        with tf.Graph().as_default(), tf.Session(here.worker) as session:
            v = contained(tf, container, 0.0)
            found.append(session.run(v) if session.run(tf.is_variable_initialized(v)) else None)
    return found


@TABLE.gives([1.0, 2.0, 3.0])
def each_container_has_its_own(tf: Any, here: Here) -> Any:
    initialized(tf, here, "first", "second", "")
    return values(tf, here, "first", "second", "")


@TABLE.gives([None, 2.0, 3.0])
def a_reset_empties_the_container_it_names(tf: Any, here: Here) -> Any:
    initialized(tf, here, "first", "second", "")
    tf.Session.reset(here.worker, ["first"])
    return values(tf, here, "first", "second", "")


@TABLE.gives([None, None, 3.0])
def a_reset_empties_all_containers_it_names(tf: Any, here: Here) -> Any:
    initialized(tf, here, "first", "second", "")
    tf.Session.reset(here.worker, ["first", "second"])
    return values(tf, here, "first", "second", "")


@TABLE.gives([1.0, None])
def a_reset_that_names_none_empties_the_default_one(tf: Any, here: Here) -> Any:
    initialized(tf, here, "first", "")
    tf.Session.reset(here.worker)
    found = values(tf, here, "first", "")
    tf.Session.reset(here.worker, ["first"])
    return found


@TABLE.gives([1, 0, 0])
def queues_are_in_containers_too(tf: Any, here: Here) -> Any:
    def queue(container: str) -> Any:
        with tf.container(container), tf.device(PS):
            return tf.FIFOQueue(5, tf.float32, shapes=[[]], shared_name="queue")

    def sizes(*containers: str) -> list[Any]:
        found = []
        for container in containers:
            with tf.Graph().as_default(), tf.Session(here.worker) as session:
                found.append(session.run(queue(container).size()))
        return found

    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        session.run(queue("third").enqueue(1.0))
    before = sizes("third", "fourth")
    tf.Session.reset(here.worker, ["third"])
    return [*before, *sizes("third")]


@TABLE.raises("AbortedError")
def a_reset_closes_the_sessions_of_its_master(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        one = tf.constant(1.0) + 1.0
    session = tf.Session(here.worker)
    session.run(one)
    tf.Session.reset(here.worker)
    session.run(one)


@TABLE.gives(5.0)
def sessions_of_other_masters_go_on(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable(4.0, name="v")
    with tf.Session(here.ps) as session:
        session.run(v.initializer)
        tf.Session.reset(here.worker, ["elsewhere"])
        return session.run(v.assign_add(1.0))


@TABLE.raises("FailedPreconditionError")
def a_reset_takes_variables_from_sessions_of_other_masters(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable(4.0, name="v")
    with tf.Session(here.ps) as session:
        session.run(v.initializer)
        tf.Session.reset(here.worker)
        session.run(v)
