"""`headrace serve` as a process: it says when it listens, serves, and stops in each of its ways."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headrace as tf
from headrace.run.thread_group import ThreadGroup
from headrace.tools.lifeline import Lifeline
from headrace.tools.serve import allow_many_connections
from tests.ports import own_ports
from tests.serve.clusters import processes
from tests.serve.http.asking import ask

WITHIN_S = 100.0


def served(address: str, *more: str, fd: int | None = None) -> Any:
    """A server process for task 0 of job `local`; killed if it is still there at the end."""
    return running("--cluster", f"local={address}", "--job", "local", *more, fd=fd)


@contextmanager
def running(*options: str, fd: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """`headrace serve` with these options; killed if it is still there at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.tools.main", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[] if fd is None else [fd],
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{own_ports(1)[0]}"


def ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def refused(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as s:
        return s.connect_ex((host, int(port))) != 0


def test_it_may_open_as_many_files_as_the_system_allows() -> None:
    """A client's connections take two, and a shell gives its programs few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
        allow_many_connections()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_serves_from_its_line_on(address: str) -> None:
    with served(address) as process:
        assert ready(process) == f"serving /job:local/task:0 at grpc://{address}\n"
        with tf.Graph().as_default():
            total = tf.constant(2.0) + tf.constant(3.0)
            with tf.Session(f"grpc://{address}") as session:
                assert session.run(total) == 5.0


def test_without_options_it_serves_the_task_of_tf_config(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"cluster": {"ps": {"3": address}}, "task": {"type": "ps", "index": 3}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with running() as process:
        assert ready(process) == f"serving /job:ps/task:3 at grpc://{address}\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_it_and_frees_the_port(
    address: str, number: signal.Signals, code: int
) -> None:
    with served(address) as process:
        ready(process)
        process.send_signal(number)
        _, err = process.communicate(timeout=WITHIN_S)
        assert (process.returncode, err) == (code, "")
        assert refused(address)


def test_a_signal_stops_it_while_a_step_is_blocked(address: str) -> None:
    failures: list[tf.errors.OpError] = []

    def blocked(session: tf.Session, step: tf.Tensor) -> None:
        try:
            session.run(step)
        except tf.errors.OpError as error:
            failures.append(error)

    with served(address, "--grace", "0.2") as process:
        ready(process)
        with tf.Graph().as_default():
            begun = tf.FIFOQueue(1, [tf.int32], shapes=[[]])
            never = tf.FIFOQueue(1, [tf.int32], shapes=[[]])
            with tf.control_dependencies([begun.enqueue(1)]):
                step = never.dequeue()
            has_begun = begun.dequeue()
            session = tf.Session(f"grpc://{address}")
            with ThreadGroup("test") as group:
                group.start(blocked, session, step)
                assert session.run(has_begun) == 1
                process.terminate()
                process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0
    assert len(failures) == 1


def test_a_stop_beside_a_task_that_says_nothing_is_a_good_end() -> None:
    """The task cannot be told to forget the session, which takes some time to find out."""
    with (
        processes({"ps": 1, "worker": 1}) as cluster,
        tf.Graph().as_default(),
        tf.device("/job:ps/task:0"),
        tf.Session(cluster.target("worker:0")) as session,
    ):
        session.run(tf.Variable(1.0).initializer)
        cluster.freeze("ps:0")
        worker = cluster.processes["worker:0"]
        worker.terminate()
        assert worker.wait(WITHIN_S) == 0


def test_a_cut_lifeline_stops_it(address: str) -> None:
    with Lifeline() as lifeline:
        fd = lifeline.read_fd
        with served(address, "--watch-fd", str(fd), "--grace", "0.2", fd=fd) as process:
            ready(process)
            lifeline.close()
            process.communicate(timeout=WITHIN_S)
            assert process.returncode == 0
            assert refused(address)


def test_a_port_that_is_taken_has_an_exit_code_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with served(address) as process:
            out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, out) == (75, "")
    assert f"headrace serve: cannot serve at {address}: " in err


def test_it_serves_metrics_and_the_page_until_a_signal(address: str) -> None:
    with served(address, "--metrics", "0", "--dashboard", "0", "--grace", "0") as process:
        assert ready(process).startswith("serving ")
        metrics, page = (ready(process).split()[-1] for _ in range(2))
        assert "headrace_task_info" in ask(metrics).text
        (task,) = json.loads(ask(f"{page}state.json").text)["tasks"]
        assert (task["name"], task["state"]) == ("local:0", "up")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN_S) == 0


def test_a_page_that_cannot_be_served_ends_it(address: str) -> None:
    with served(address, "--dashboard", "0.0.0.0:0") as process:
        _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert "the page does not listen on 0.0.0.0" in err
