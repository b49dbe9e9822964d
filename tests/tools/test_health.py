"""`headrace health`: what it says, and with which exit status."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator

import pytest

from headrace.serve.connect import local_servers
from headrace.tools.commands import ExitCode
from headrace.tools.main import main
from tests.ports import own_ports
from tests.serve.clusters import Cluster, in_process


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
    assert "has not answered for 0.2 s" in err


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
