"""Hosts that vanish without closing their connections, as by power off or a cable: whoever is left notices."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headrace.base import errors
from headrace.codec.frames import Kind
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.wire import UNTRUSTED_BYTES
from headrace.serve.rpc.vanished import server_options, vanished_after_s
from tests.hosts import NAMESPACES, Host, kind, two_hosts

WITHIN_S = 60.0
CLIENTS = 2
KINDS = [NAMESPACES] if kind() == NAMESPACES else []  # the loopback has no cable

SERVER = """
import sys, threading
import headrace as tf
from headrace.serve.master.master import Master
from headrace.serve.rpc.limits import LIMITS
LIMITS.client_gone_after_s = 8.0  # the machine may be busy before the cable is pulled
closed, close = threading.Semaphore(0), Master._close_unused
Master._close_unused = lambda *args: (close(*args), closed.release())
queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
put, size = queue.enqueue(1), queue.size()
with tf.train.Server({"ps": [sys.argv[1]]}, security=tf.train.Security(insecure=True)) as server:
    print("serving", flush=True)
    for _ in range(int(sys.argv[2])):
        closed.acquire()
    with tf.Session(server.target) as session:
        session.run(put)
        print("closed, and the queue has", session.run(size), flush=True)
"""

CLIENT = """
import sys
import headrace as tf
queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
take, size = queue.dequeue(), queue.size()
session = tf.Session(sys.argv[1])
session.run(size)
print("begins", flush=True)
try:
    session.run(take)
except tf.errors.OpError as error:
    print(type(error).__name__, error.message, flush=True)
"""

Start = Callable[..., Callable[[], str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """start(host, program, argument, ...) runs it there; a function that gives its next line."""
    with ExitStack() as stack:

        def started(host: Host, program: str, *arguments: str) -> Callable[[], str]:
            process = subprocess.Popen(
                [*host.within, sys.executable, "-c", program, *arguments],
                stdout=subprocess.PIPE, text=True, env=os.environ.copy(),
            )  # fmt: skip
            stack.callback(process.communicate)
            stack.callback(process.kill)
            assert process.stdout is not None
            return process.stdout.readline

        yield started


def pull_the_cable(host: Host) -> None:
    down = [*host.within, "ip", "link", "set", "eth0", "down"]
    subprocess.run(down, check=True, timeout=WITHIN_S)


@pytest.mark.parametrize("hosts", KINDS)
def test_each_side_notices_that_the_other_has_vanished(
    hosts: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients, over gRPC and the lane, fail by name, though they would wait for ever; the server frees their
    sessions, whose dequeues take nothing any more.
    """
    monkeypatch.setenv("HEADRACE_LANE", "tcp")
    monkeypatch.setenv("HEADRACE_VANISHED_AFTER_S", "8")
    monkeypatch.setenv("HEADRACE_FROZEN_AFTER_S", "8")
    with two_hosts(hosts) as (one, other):
        server = start(one, SERVER, one.address, str(CLIENTS))
        assert server() == "serving\n"
        clients = [start(other, CLIENT, f"grpc://{one.address}")]
        monkeypatch.setenv("HEADRACE_LANE", "off")
        clients.append(start(other, CLIENT, f"grpc://{one.address}"))
        assert [said() for said in clients] == ["begins\n"] * CLIENTS
        pull_the_cable(other)
        for said in clients:
            failed = said()
            assert failed.startswith("UnavailableError ")
            assert one.address in failed
        assert server() == "closed, and the queue has 1\n"


@pytest.mark.parametrize(("text", "seconds"), [("", 20.0), ("0", None), ("1.5", 1.5)])
def test_after_how_long(text: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_VANISHED_AFTER_S", text)
    assert vanished_after_s() == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_time_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_VANISHED_AFTER_S", text)
    with pytest.raises(errors.InvalidArgumentError, match="HEADRACE_VANISHED_AFTER_S"):
        vanished_after_s()


def test_grpc_servers_ask_within_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_VANISHED_AFTER_S", "30")
    options = dict(server_options())
    assert options["grpc.keepalive_time_ms"] + options["grpc.keepalive_timeout_ms"] == 30_000
    monkeypatch.setenv("HEADRACE_VANISHED_AFTER_S", "0")
    assert server_options() == []


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as one,
        listener.accept()[0] as other,
    ):
        yield one, other


@pytest.mark.parametrize(("text", "on"), [("8", 1), ("0", 0)])
def test_sockets_of_the_lane_are_kept_alive(
    text: str, on: int, connection: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HEADRACE_VANISHED_AFTER_S", text)
    sock, _ = connection
    LaneSocket(sock, UNTRUSTED_BYTES).send_frame(Kind.ONE_WAY, 0, b"")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == on
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 8000 * on
    if on:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 2
