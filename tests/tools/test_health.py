"""`headrace health`: what it says, and with which exit status."""

from __future__ import annotations

import io
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import headrace as tf
from headrace.serve.connect import local_servers
from headrace.tools.commands import ExitCode
from headrace.tools.inspection.snapshot import Observer
from headrace.tools.main import main
from tests.ports import own_ports
from tests.serve.clusters import Cluster, ProcessCluster, addresses, in_process


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(["health", *argv], out, err), out.getvalue(), err.getvalue()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    with in_process({"ps": 1, "worker": 2}) as cluster:
        yield cluster


def test_a_server_that_answers_is_healthy(cluster: Cluster) -> None:
    code, out, err = run(cluster.target("worker:1"), "--deadline", "60")
    assert (code, err) == (ExitCode.OK, "")
    address = cluster.address("worker:1")
    assert out == f"serving: /job:worker/replica:0/task:1 at grpc://{address}\n"


def test_where_nothing_listens_it_says_so() -> None:
    (port,) = own_ports(1)
    code, out, err = run(f"127.0.0.1:{port}", "--deadline", "60")
    assert (code, out) == (ExitCode.FAILED, "")
    assert "does not serve: connection refused: nothing listens there" in err


def test_who_says_nothing_is_given_up_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, out, err = run(f"127.0.0.1:{silent.getsockname()[1]}", "--deadline", "0.2")
    assert (code, out) == (ExitCode.FAILED, "")
    # Which of both is found out first depends on how long a connection takes.
    assert "has not answered for 0.2 s" in err or "nothing is answered" in err


def test_a_secret_is_shown_and_a_wrong_one_is_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    monkeypatch.setenv("HEADRACE_SECRET", "0123456789abcdef")
    with in_process({"ps": 1}) as cluster:
        assert run(cluster.target("ps:0"), "--deadline", "60")[0] == ExitCode.OK
        monkeypatch.setenv("HEADRACE_SECRET", "another secret")
        code, _, err = run(cluster.target("ps:0"), "--deadline", "60")
    assert code == ExitCode.FAILED
    assert "it refused our credentials" in err


def test_a_server_that_ends_its_steps_is_not_ready_and_lives(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with ExitStack() as stack:
        cluster = ProcessCluster(stack, addresses({"ps": 1}))
        cluster.begin("ps:0", "--grace", "60")
        assert cluster.wait("ps:0")
        target, process = cluster.target("ps:0"), cluster.processes["ps:0"]
        graph = stack.enter_context(tf.Graph().as_default())
        turns = tf.while_loop(
            lambda n: tf.equal(tf.size(tf.matching_files(str(go))), 0), lambda n: n + 1, [0]
        )
        other = tf.get_variable("other", initializer=1.0).initializer
        pool = stack.enter_context(ThreadPoolExecutor(1))
        session = stack.enter_context(tf.Session(target, graph=graph))
        session.run(other)
        step = pool.submit(session.run, turns)
        with Observer(target) as observer:
            while not observer.look().tasks[0].steps:
                assert not step.done()
        process.send_signal(signal.SIGTERM)
        code, out, err = run(target, "--deadline", "60")
        while code == ExitCode.OK:  # the signal is on its way
            code, out, err = run(target, "--deadline", "60")
        address = cluster.address("ps:0")
        assert (code, err) == (ExitCode.FAILED, "")
        stopping = f"stopping: /job:ps/replica:0/task:0 at grpc://{address}: "
        assert out == f"{stopping}it ends the steps under way and takes no others\n"
        assert run(target, "--deadline", "60", "--live") == (ExitCode.OK, out, "")
        with pytest.raises(tf.errors.UnavailableError, match="was stopped"):
            session.run(other)
        go.touch()
        assert step.result(60) > 0
        assert process.wait(60) == ExitCode.OK
        assert run(target, "--deadline", "60", "--live")[0] == ExitCode.FAILED


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nowhere"], "'nowhere' is not grpc://HOST:PORT"),
        (["127.0.0.1:1", "--deadline", "0"], "--deadline 0 is not above 0"),
    ],
)
def test_arguments_that_make_no_sense(argv: list[str], says: str) -> None:
    code, _, err = run(*argv)
    assert code == ExitCode.USAGE
    assert says in err
