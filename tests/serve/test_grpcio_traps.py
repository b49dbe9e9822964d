"""What grpcio does by itself and headrace undoes: each trap has a test that falls into it without the remedy."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.grpc.grpcio import grpc
from headrace.serve.rpc import methods
from tests.serve.clusters import ProcessCluster, addresses, in_process, processes
from tests.serve.conftest import TRANSPORTS, Background, Blocked
from tests.serve.punctual import complaints

WAITING = 300
EXIT_WITHIN_S = 60.0  # an interpreter with grpcio takes 0.1 s, on a machine that has time for it
INTERRUPTED_WITHIN_S = 0.1
ATTEMPTS = 50  # a busy machine may be late, again and again

Start = Callable[[Callable[[], Any]], Background]


@contextmanager
def program(source: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A Python program and its stdout; killed if it is still there at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.communicate()


def test_300_blocked_dequeues_are_released_by_one_enqueue_many(
    monkeypatch: pytest.MonkeyPatch, blocked: Blocked, background: Start
) -> None:
    """A fixed pool of threads would let nobody in once all of them wait."""
    TRANSPORTS["grpc"](monkeypatch)
    with in_process({"local": 1}) as cluster:
        queue = tf.FIFOQueue(WAITING, [tf.int32], [[]])
        take, put = queue.dequeue(), queue.enqueue_many([np.arange(WAITING)])
        with tf.Session(cluster.target("local:0")) as session:
            session.run(queue.size())
            steps = [background(lambda: session.run(take)) for _ in range(WAITING)]
            blocked.wait(WAITING)
            session.run(put)
            assert sorted(step.value() for step in steps) == list(range(WAITING))


def test_as_many_receives_may_wait_for_other_tasks(
    monkeypatch: pytest.MonkeyPatch, blocked: Blocked, background: Start
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        with tf.device("/job:ps"):
            queue = tf.FIFOQueue(100, [tf.int32], [[]])
            taken, put = queue.dequeue(), queue.enqueue_many([np.arange(50)])
        with tf.device("/job:worker"):
            here = taken + 0
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(queue.size())
            steps = [background(lambda: session.run(here)) for _ in range(50)]
            blocked.wait(50)
            session.run(put)
            assert sorted(step.value() for step in steps) == list(range(50))


# -- exit -----------------------------------------------------------------------------------------

START = """
import contextlib, sys, threading
import headrace as tf

def run(session, step):
    with contextlib.suppress(tf.errors.CancelledError):  # by the end of the program
        session.run(step)

def blocked_step(session):
    begun, never = tf.FIFOQueue(1, [tf.int32], [[]]), tf.FIFOQueue(1, [tf.int32], [[]])
    with tf.control_dependencies([begun.enqueue(1)]):
        step = never.dequeue()
    has_begun = begun.dequeue()
    threading.Thread(target=run, args=(session, step), daemon=True).start()
    session.run(has_begun)
"""

FINISHED = {
    "a server": "server = tf.train.Server.create_local_server()",
    "a server that served": """
server = tf.train.Server.create_local_server()
print(tf.Session(server.target).run(tf.constant(1)))
""",
    "a blocked step in a server of its own": """
server = tf.train.Server.create_local_server()
blocked_step(tf.Session(server.target))
""",
    "a blocked step over gRPC in a server of its own": """
from headrace.serve.connect import local_servers
local_servers.find = lambda address: None
server = tf.train.Server.create_local_server()
blocked_step(tf.Session(server.target))
""",
    "a blocked step in another process": "blocked_step(tf.Session(sys.argv[1]))",
    "a blocked step in a local session": "blocked_step(tf.Session())",
    "a session nobody closed": "session = tf.Session(sys.argv[1]); session.run(tf.constant(1))",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ProcessCluster]:
    with processes({"local": 1}) as cluster:
        yield cluster


@pytest.mark.parametrize("what", FINISHED)
def test_a_finished_program_exits_promptly_though_it_has(what: str, server: ProcessCluster) -> None:
    source = f"{START}\n{FINISHED[what]}\nprint('finished', flush=True)"
    with program(source, server.target("local:0")) as (process, out):
        while (line := out.readline()) != "finished\n":
            assert line, process.communicate()
        began = time.monotonic()
        _, err = process.communicate(timeout=EXIT_WITHIN_S)
        assert time.monotonic() - began < EXIT_WITHIN_S
        assert (process.returncode, complaints(err)) == (0, [])


# -- ports ----------------------------------------------------------------------------------------


def test_two_servers_cannot_have_one_port() -> None:
    spec = addresses({"local": 1})
    with (
        tf.train.Server(spec),
        pytest.raises(tf.errors.UnknownError, match="give the task another port"),
    ):
        tf.train.Server(spec)
    with tf.train.Server(spec):  # and it is free again
        pass


def test_nor_can_servers_of_two_processes(server: ProcessCluster) -> None:
    with pytest.raises(tf.errors.UnknownError, match=server.address("local:0")):
        tf.train.Server(server.spec)


def test_nor_can_a_server_have_the_port_of_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(tf.errors.UnknownError, match=address):
            tf.train.Server({"local": [address]})


# -- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
import sys, threading, time
import headrace as tf

if sys.argv[1] == "own":
    server = tf.train.Server.create_local_server()
target = {"local": "", "own": server.target if sys.argv[1] == "own" else ""}.get(sys.argv[1], sys.argv[1])
begun, queue = tf.FIFOQueue(1, [tf.int32], [[]]), tf.FIFOQueue(1, [tf.int32], [[]])
with tf.control_dependencies([begun.enqueue(1)]):
    step = queue.dequeue()
has_begun, put, size = begun.dequeue(), queue.enqueue([7]), queue.size()
session = tf.Session(target)

def say_when_it_has_begun():
    session.run(has_begun)
    print("blocked", flush=True)

while True:
    session.run(size)
    threading.Thread(target=say_when_it_has_begun, daemon=True).start()
    try:
        session.run(step)
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
    session.run(put)
    if session.run(size):
        print(session.run([step, has_begun])[0], flush=True)
    else:
        print("the interrupted step has taken it", flush=True)
    if sys.stdin.readline() != "again\\n":
        break
"""


@pytest.mark.parametrize(
    ("target", "lane"), [("local", "on"), ("own", "on"), ("another process", "on"), ("another process", "off")]
)  # fmt: skip
def test_ctrl_c_in_a_blocked_run_is_heard_at_once_and_the_session_goes_on(
    target: str, lane: str, server: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LANE", lane)
    interrupted(server.target("local:0") if target == "another process" else target)


def interrupted(where: str, may_miss: int = 0) -> None:
    """Run `INTERRUPTED` on that target, interrupt it, and see when it hears that and whether it goes on.

    may_miss: of how many steps that server may miss that they were cancelled.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, where],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    best, missed = float("inf"), 0
    try:
        for _ in range(ATTEMPTS):
            assert process.stdout.readline() == "blocked\n", process.communicate()
            sent = time.monotonic()  # of the system, so of the other process too
            process.send_signal(signal.SIGINT)
            best = min(best, float(process.stdout.readline()) - sent)
            took = process.stdout.readline()
            missed += took != "7\n"
            assert took == "7\n" or missed <= may_miss, (took, process.communicate())
            if best < INTERRUPTED_WITHIN_S and took == "7\n":
                break
            process.stdin.write("again\n")
            process.stdin.flush()
        assert best < INTERRUPTED_WITHIN_S
        assert took == "7\n"
        _, err = process.communicate("\n", timeout=EXIT_WITHIN_S)
        assert (process.returncode, complaints(err)) == (0, [])
    finally:
        process.kill()
        process.communicate()


def test_a_server_that_cuts_a_call_off_without_a_word_is_named() -> None:
    """The status that grpcio makes of it, Cancelled, is that of a caller who gave up by himself."""

    def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
        context.cancel()
        return b""

    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        handlers = {"GetStatus": grpc.unary_unary_rpc_method_handler(answer)}
        server.add_registered_method_handlers("tensorflow.WorkerService", handlers)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        peer = GrpcPeer(address, "/job:ps/task:0")
        with pytest.raises(tf.errors.UnavailableError, match=f"/job:ps/task:0 at {address}"):
            peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(30.0))
        server.stop(None)
        peer.close()


def test_grpcios_asyncio_part_is_loaded_when_somebody_asks_for_it() -> None:
    source = (
        "import sys; from headrace.serve.grpc.grpcio import grpc; "
        "assert not [name for name in sys.modules if name.startswith('grpc.aio.')]; "
        "import grpc.aio; assert grpc.aio.insecure_channel and 'grpc.aio._channel' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=EXIT_WITHIN_S)
