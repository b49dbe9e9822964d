"""Names that only a name server of the cluster's own knows, and what comes of those that it does not."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.base import errors
from headrace.serve.name_server import NameServer, answered
from headrace.serve.rpc import names
from tests.ports import own_ports

WITHIN_S = 60.0


def test_a_task_is_found_by_such_a_name(lane_kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_LANE", lane_kind)
    monkeypatch.setenv("HEADRACE_BIND", "127.0.0.1")
    cluster = {"ps": [f"ps-0.demo.headrace:{own_ports(1)[0]}"]}
    known = {"ps-0.demo.headrace": "127.0.0.1"}
    monkeypatch.setattr(names, "_ANSWER_WITHIN_S", WITHIN_S)  # however busy the machine is
    with NameServer(known.get) as server:
        monkeypatch.setenv(names.VARIABLE, "{}:{}".format(*server.address))
        with tf.train.Server(cluster) as ps, tf.Graph().as_default():
            from headrace.serve.connect import local_servers

            local_servers.remove(cluster["ps"][0], ps)  # as if it were another process's
            with tf.Session(f"grpc://{cluster['ps'][0]}") as session:
                assert session.run(tf.constant(7)) == 7


@pytest.fixture(params=["off", "tcp"])
def lane_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def test_a_name_that_nobody_knows_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_ANSWER_WITHIN_S", WITHIN_S)
    with NameServer({"a.headrace": "192.0.2.1", "b.headrace": "2001:db8::1"}.get) as server:
        monkeypatch.setenv(names.VARIABLE, "{}:{}".format(*server.address))
        assert names.resolved("a.headrace", 1) == [(socket.AF_INET, ("192.0.2.1", 1))]
        with pytest.raises(OSError, match="does not know"):
            names.resolved("c.headrace", 1)
        assert names.resolved("127.0.0.1", 1) == [(socket.AF_INET, ("127.0.0.1", 1))]


def test_an_answer_counts_that_comes_when_the_question_was_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a server that takes its time: it answers the first question when the second one has come."""
    sent: list[bytes] = []

    class Slow:
        """A socket on the way to it."""

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Slow:
            return self

        def __exit__(self, *_: object) -> None: ...

        def settimeout(self, limit_s: float) -> None: ...

        def connect(self, server: tuple[str, int]) -> None: ...

        def send(self, question: bytes) -> None:
            sent.append(question)

        def recv(self, most: int) -> bytes:
            if len(sent) < 2:
                raise TimeoutError("timed out")
            return answered(sent[-2], {"a.headrace": "192.0.2.1"}.get)

    monkeypatch.setattr(names, "socket", SimpleNamespace(**{**vars(socket), "socket": Slow}))
    found = names._asked("a.headrace", ("192.0.2.53", 53))
    assert found == [(socket.AF_INET, "192.0.2.1")]
    assert len(sent) == 2


def test_a_name_server_that_is_silent_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setattr(names, "_ANSWER_WITHIN_S", 0.01)
        monkeypatch.setenv(names.VARIABLE, "{}:{}".format(*silent.getsockname()))
        with pytest.raises(OSError, match="is silent"):
            names.resolved("a.headrace", 1)


@pytest.mark.parametrize("text", ["name:53", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x"])
def test_what_is_no_name_server_is_said(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.VARIABLE, text)
    with pytest.raises(errors.InvalidArgumentError, match="HEADRACE_NAME_SERVER"):
        names.grpc_target("a.headrace:1")
    assert names.grpc_target("a.example:1") == "a.example:1"


@given(st.binary(max_size=60))
def test_any_bytes_are_addresses_or_none(answer: bytes) -> None:
    names._addresses(answer)
