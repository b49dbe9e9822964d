"""The lane under load: a thousand idle clients, large values that cross, connections that end between frames."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import resource
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frames import Kind
from headrace.run.scope import Scope
from headrace.run.state.variable import Variable
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.unix_socket import address_of
from headrace.serve.lane.wire import NUMBERS
from headrace.serve.rpc import methods
from headrace.serve.rpc.security import Security
from tests.serve.clusters import ProcessCluster, in_process, processes
from tests.serve.conftest import TRANSPORTS
from tests.serve.punctual import ATTEMPTS, soon
from tests.support.until import until

WITHIN_S = 60.0
IDLE = 1000
CALLS = 50
STEPS = 20
MB_100 = 25_000_000  # elements


# -- many idle clients ----------------------------------------------------------------------------


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process and its children may have that many files open, if the system lets them at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 500
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Process:
    """What a server process uses."""

    def __init__(self, cluster: ProcessCluster, task: str) -> None:
        self._status = Path(f"/proc/{cluster.processes[task].pid}/status")
        grpc = GrpcPeer(cluster.address(task), task)
        self.lane = grpc.call_now(
            methods.GET_STATUS, pb.GetStatusRequest(), Scope(WITHIN_S)
        ).headrace_lane
        grpc.close()

    def _line(self, name: str) -> int:
        lines = self._status.read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])

    @property
    def memory_mb(self) -> float:
        return self._line("VmRSS") / 1000

    @property
    def threads(self) -> int:
        return self._line("Threads")


def client(lane: pb.LaneAddress) -> LaneSocket:
    """A connection that has asked one thing and has nothing more to say."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(WITHIN_S)
    with address_of(lane.unix_path) as where:
        sock.connect(where)
    connection = LaneSocket(sock, 1 << 20)
    for _ in range(2):  # the handshake, and an answer
        assert connection.read(WITHIN_S) is not None
        connection.send(frames.pack(Kind.REQUEST, NUMBERS[methods.GET_STATUS.path], 0))
    assert connection.read(WITHIN_S) is not None
    return connection


def latency_s(peer: LanePeer) -> float:
    """Median of calls that follow each other."""
    took = []
    for _ in range(CALLS):
        start = time.perf_counter()
        peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(WITHIN_S))
        took.append(time.perf_counter() - start)
    return statistics.median(took)


@pytest.mark.usefixtures("many_files")
def test_a_thousand_idle_clients_cost_little_and_delay_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    TRANSPORTS["unix"](monkeypatch)
    with ExitStack() as stack:
        server = Process(stack.enter_context(processes({"ps": 1})), "ps:0")
        rpcs = stack.enter_context(closing(OutstandingRpcs("ps", pytest.fail)))
        peer = LanePeer(server.lane, "127.0.0.1", "ps", 1 << 20, rpcs, Security())
        stack.enter_context(closing(peer))
        alone_s, memory_mb, threads = latency_s(peer), server.memory_mb, server.threads
        for _ in range(IDLE):
            stack.enter_context(closing(client(server.lane)))
        assert server.threads - threads < 200
        assert server.memory_mb - memory_mb < 30
        soon(lambda: latency_s(peer), 10 * alone_s + 0.001, ATTEMPTS)


# -- large values that cross ----------------------------------------------------------------------


@pytest.mark.parametrize("lane", ["unix", "tcp"])
def test_large_values_that_cross_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch, graph: tf.Graph, lane: str
) -> None:
    """Both tasks send 100 MB before either has read what the other sends."""
    TRANSPORTS[lane](monkeypatch)
    with tf.device("/job:ps"):
        of_ps = tf.fill([MB_100], 1.0)
    with tf.device("/job:worker"):
        of_worker = tf.fill([MB_100], 2.0)
        seen_by_worker = of_ps[-1]
    with tf.device("/job:ps"):
        seen_by_ps = of_worker[-1]
    with (
        in_process({"ps": 1, "worker": 1}) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
    ):
        options = tf.RunOptions(timeout_in_ms=round(WITHIN_S * 1000))
        assert session.run([seen_by_worker, seen_by_ps], options=options) == [1.0, 2.0]


# -- connections that end between frames ----------------------------------------------------------


class Breaking:
    """Has connections end before or after some of the frames that are sent."""

    def __init__(self, seed: int, send: Callable[..., Any]) -> None:
        """send: the method of LaneSocket that sends them."""
        self._random = random.Random(seed)
        self._send = send

    def __call__(self, connection: LaneSocket, *args: Any, **kwargs: Any) -> None:
        fate = self._random.randrange(12)
        if fate == 0:
            connection.shut()
        self._send(connection, *args, **kwargs)
        if fate == 1:
            connection.shut()


def steps_over_breaking_connections(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> tuple[int, list[str]]:
    """(updates of a counter, errors) of steps that update it once each."""
    with tf.device("/job:ps"):
        counter = tf.Variable(0, name="counter")
        large = tf.Variable(tf.ones([500_000]), name="large")
        add = counter.assign_add(1)
    with tf.device("/job:worker"):
        last = large[-1] + tf.to_float(add)
    init = tf.global_variables_initializer()
    failures = []
    with in_process({"ps": 1, "worker": 1}) as cluster:
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(init)
            for name in ("send_frame", "send_whole"):
                breaking = Breaking(seed, getattr(LaneSocket, name))
                monkeypatch.setattr(LaneSocket, name, partialmethod(breaking))
            options = tf.RunOptions(timeout_in_ms=round(WITHIN_S * 1000))
            for number in range(STEPS):
                try:
                    session.run([add, large] if number % 2 else last, options=options)
                except tf.errors.UnavailableError as error:
                    failures.append(str(error))
        resources = cluster.servers["ps:0"].worker.runtime.resources
        return int(resources.lookup("", "counter", Variable).array), failures


@pytest.mark.parametrize("lane", ["unix", "tcp"])
@pytest.mark.parametrize("seed", range(6))
def test_connections_that_end_before_or_after_a_frame_fail_their_steps_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, graph: tf.Graph, lane: str, seed: int
) -> None:
    """Small and large values, in memory that is shared where the lane does that; all of it is given back."""
    TRANSPORTS[lane](monkeypatch)
    before = memory_files()
    updates, failures = steps_over_breaking_connections(monkeypatch, seed)
    assert STEPS - len(failures) <= updates <= STEPS
    assert failures
    assert all("127.0.0.1" in text or "/job:" in text for text in failures)
    gc.collect()
    until(lambda: memory_files() <= before)  # connections may end in threads of their own


def memory_files() -> int:
    """That this process has open."""
    found = 0
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += "memfd" in os.readlink(f"/proc/self/fd/{entry}")
    return found
