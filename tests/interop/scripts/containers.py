"""Containers on the ps, and reset of one, of several, of the default one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table, Unless

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


@contextlib.contextmanager
def closed(tf: Any, session: Any) -> Iterator[Any]:
    """Close a session at the end, whatever became of it; of one that was reset TensorFlow says so once more."""
    try:
        yield session
    finally:
        with contextlib.suppress(tf.errors.OpError):
            session.close()


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
    with closed(tf, tf.Session(here.worker)) as session:
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


@TABLE.gives(
    ["AbortedError or CancelledError", 0],
    unless=Unless("master", "tensorflow", "its reset waits until blocked steps end by themselves"),
)
def a_reset_ends_steps_that_wait(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        q = tf.FIFOQueue(5, tf.float32, shapes=[[]], shared_name="queue")
        begun = tf.FIFOQueue(5, tf.float32, shapes=[[]], shared_name="begun")
    with tf.control_dependencies([begun.enqueue(1.0)]):
        take = q.dequeue()
    has_begun, size = begun.dequeue(), q.size()
    ended = []
    session = tf.Session(here.worker)

    def wait() -> None:
        try:
            session.run(take)
        except tf.errors.OpError as error:
            ended.append(type(error).__name__)

    thread = threading.Thread(target=wait)
    with tf.Session(here.ps) as other:
        thread.start()
        other.run(has_begun)
        tf.Session.reset(here.worker)
        thread.join(60)
    with closed(tf, session):
        either = "AbortedError or CancelledError"
    with tf.Session(here.worker) as after:
        return [either if ended[0] in either else ended, after.run(size)]


@TABLE.gives([b"one", b"one", b"two"])
def readers_are_in_containers_too(tf: Any, here: Here) -> Any:
    path = Path(here.directory, "lines")
    path.write_text("one\ntwo\n")
    found = []
    for container in ("fifth", "sixth", "fifth"):
        with tf.Graph().as_default(), tf.container(container), tf.device(PS):
            reader = tf.TextLineReader()
            names = tf.FIFOQueue(5, tf.string, shapes=[[]], shared_name="names")
            put = names.enqueue(str(path))
            # TensorFlow's Python gives readers no shared name; their op has one.
            reader.reader_ref.op._set_attr("shared_name", here.attr_value(s=b"reader"))
            _, line = reader.read(names)
            with tf.Session(here.worker) as session:
                session.run(put)
                found.append(session.run(line))
    tf.Session.reset(here.worker, ["fifth", "sixth"])
    return found


@TABLE.gives(
    [7.0],
    unless=Unless("ps", "tensorflow", "it refuses containers whose name has an underscore"),
)
def a_container_may_have_any_name(tf: Any, here: Here) -> Any:
    v = contained(tf, "my_container of mine", 7.0)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        found = [session.run(v)]
    tf.Session.reset(here.worker, ["my_container of mine"])
    return found


@TABLE.gives(
    [[None, 2.0], [None, None]],
    unless=Unless("client", "tensorflow", "it sends no filters with a reset"),
)
def a_reset_may_be_limited_to_some_tasks(tf: Any, here: Here) -> Any:
    def variable(device: str) -> Any:
        with tf.device(device), tf.container("seventh"):
            return tf.Variable(2.0, name="v")

    def values_there() -> list[Any]:
        found = []
        for device in (WORKER, PS):
            with tf.Graph().as_default(), tf.Session(here.worker) as session:
                v = variable(device)
                is_set = session.run(tf.is_variable_initialized(v))
                found.append(session.run(v) if is_set else None)
        return found

    for device in (WORKER, PS):
        with tf.Graph().as_default(), tf.Session(here.worker) as session:
            session.run(variable(device).initializer)
    config = tf.ConfigProto(device_filters=["/job:worker"])
    tf.Session.reset(here.worker, ["seventh"], config)
    limited = values_there()
    tf.Session.reset(here.worker, ["seventh"])
    return [limited, values_there()]
