"""Datasets on tasks of other processes: functions that are not there, processes that end, Ctrl-C, checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest

import headrace as tf
from tests.serve.clusters import WITHIN_S, ProcessCluster, addresses, processes
from tests.serve.conftest import Background
from tests.support.ctrl_c import ctrl_c_ends

Dataset = tf.data.Dataset
make_saveable = tf.data.experimental.make_saveable_from_iterator

PS = "/job:ps/task:0"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ProcessCluster]:
    with processes({"ps": 2}) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def program() -> Iterator[Start]:
    """program(source, argument, ...) runs it in a process of its own."""
    with ExitStack() as stack:

        def start(source: str, *arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", source, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "HEADRACE_BLOCKED_AFTER_S": "0.3"},
            )  # fmt: skip
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


def read(stream: IO[str] | None) -> str:
    """The next line."""
    assert stream is not None
    return stream.readline().rstrip("\n")


# -- Python functions -----------------------------------------------------------------------------

OF_PYTHON: dict[str, Callable[[], Any]] = {
    "generator": lambda: Dataset.from_generator(lambda: iter([1, 2]), tf.int64, []),
    "map": lambda: Dataset.range(2).map(lambda x: tf.py_func(lambda a: a, [x], tf.int64)),
    "parallel map behind a buffer": lambda: (
        Dataset.range(2)
        .map(lambda x: tf.py_func(lambda a: a, [x], tf.int64), num_parallel_calls=2)
        .prefetch(2)
    ),
}


@pytest.mark.parametrize("kind", OF_PYTHON)
def test_a_function_of_another_process_is_an_error_at_once(
    cluster: ProcessCluster, kind: str
) -> None:
    with tf.device(PS):
        iterator = tf.data.make_initializable_iterator(OF_PYTHON[kind]())
        element = iterator.get_next()
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="process that made it"):
            session.run(element)


BEGINS = """
import sys
import headrace as tf
with tf.device("/job:ps/task:0"):
    made = tf.data.Dataset.from_generator(lambda: iter([1, 2]), tf.int64, [])
    iterator = tf.data.make_initializable_iterator(made, shared_name="of one that is gone")
    with tf.Session(sys.argv[1]) as session:
        session.run(iterator.initializer)
print("ready", flush=True)
sys.stdin.read()
"""


def test_so_it_is_for_another_client_when_the_process_is_gone(
    cluster: ProcessCluster, program: Start
) -> None:
    target = cluster.target("ps:0")
    process = program(BEGINS, target)
    assert read(process.stdout) == "ready"
    process.kill()
    process.wait(WITHIN_S)
    with tf.device(PS):
        iterator = tf.data.make_initializable_iterator(
            Dataset.range(2), shared_name="of one that is gone"
        )
        element = iterator.get_next()
    with tf.Session(target) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="process that made it"):
            session.run(element)
        session.run(iterator.initializer)
        assert session.run(element) == 0


SERVES = """
import json, sys
import headrace as tf

def numbers():
    yield 1
    print("asked again", flush=True)
    sys.stdin.read()  # for ever

server = tf.train.Server(json.loads(sys.argv[1]), job_name="host", task_index=0)
with tf.device("/job:host"):
    made = tf.data.Dataset.from_generator(numbers, tf.int64, [])
    iterator = tf.data.make_initializable_iterator(made, shared_name="numbers")
    with tf.Session(server.target) as session:
        session.run(iterator.initializer)
        print("ready", flush=True)
        server.join()
"""


def test_who_waits_for_a_generator_is_told_when_its_process_ends(
    program: Start,
    background: Callable[[Callable[[], Any]], Background],
) -> None:
    spec = addresses({"host": 1, "worker": 1})
    host = program(SERVES, json.dumps(spec))
    assert read(host.stdout) == "ready"
    with tf.train.Server(spec, job_name="worker", task_index=0) as server:
        with tf.device("/job:host"):
            iterator = tf.data.make_initializable_iterator(Dataset.range(2), shared_name="numbers")
            element = iterator.get_next()
        with tf.Session(server.target) as session:
            assert session.run(element) == 1
            waits = background(lambda: session.run(element))
            assert read(host.stdout) == "asked again"
            host.kill()
            host.wait(WITHIN_S)
            gone = (tf.errors.AbortedError, tf.errors.UnavailableError)
            assert isinstance(waits.error(), gone)


# -- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
import sys, threading
import headrace as tf

def waits(x):
    if x == 0:
        print("ready", flush=True)
    threading.Event().wait()

where, calls, target = sys.argv[1:]
queue = tf.FIFOQueue(9, tf.int64, [[]])
function = (lambda x: tf.py_func(waits, [x], tf.int64)) if where == "function" else (lambda x: x + queue.dequeue())
made = tf.data.Dataset.range(9).map(function, int(calls) or None)
iterator = tf.data.make_initializable_iterator(made.batch(2).prefetch(1))
element, put = iterator.get_next(), queue.enqueue_many([[1] * 8])
with tf.Session(target) as session:
    session.run(iterator.initializer)
    try:
        session.run(element)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    if where == "consumer":
        session.run(put)
        print(session.run(element).tolist())
"""


@pytest.mark.parametrize(
    ("where", "calls", "place"),
    [("function", "0", "here"), ("function", "2", "here"), ("consumer", "0", "here"), ("consumer", "2", "there")],
)  # fmt: skip
def test_ctrl_c_ends_a_step_that_waits_for_a_dataset(
    cluster: ProcessCluster, program: Start, where: str, calls: str, place: str
) -> None:
    target = cluster.target("ps:0") if place == "there" else ""
    process = program(INTERRUPTED, where, calls, target)
    if where == "function":
        assert read(process.stdout) == "ready"
    else:
        while "has waited" not in (line := read(process.stderr)):  # as the log says
            assert "still waiting" in line  # for the server, on a busy machine
    out, err = ctrl_c_ends(process, WITHIN_S)
    expected = ["interrupted"] if where == "function" else ["interrupted", "[1, 2]"]
    assert (out.splitlines(), process.returncode) == (expected, 0), err


# -- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["ps:0", "ps:1"], ids=["one task", "two tasks"])
def test_an_iterator_is_saved_and_restored_by_a_saver_on_another_task(
    cluster: ProcessCluster, tmp_path: Path, place: str
) -> None:
    with tf.device("/job:ps/task:0"):
        iterator = tf.data.make_initializable_iterator(Dataset.range(50).shuffle(9, seed=1))
        element, saveable = iterator.get_next(), make_saveable(iterator)
    job, _, task = place.partition(":")
    with tf.device(f"/job:{job}/task:{task}"):
        variable = tf.get_variable("v", initializer=3.0)
        saver = tf.train.Saver([saveable, variable])
    prefix = str(tmp_path / "m")
    with tf.Session(cluster.target("ps:1")) as session:
        session.run([iterator.initializer, variable.initializer])
        for _ in range(20):
            session.run(element)
        saver.save(session, prefix)
        expected = [session.run(element) for _ in range(30)]
        session.run([iterator.initializer, variable.assign(0.0)])
        saver.restore(session, prefix)
        assert session.run(variable) == 3.0
        assert [session.run(element) for _ in range(30)] == expected
