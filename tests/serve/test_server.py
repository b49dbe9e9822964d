"""A server's life: made from all kinds of definitions, started, joined, stopped, and started again on its port."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.serve.master.master_session import MasterSession
from headrace.serve.rpc.pool import GrowingPool
from tests.serve.clusters import addresses, in_process
from tests.serve.conftest import Background, Blocked
from tests.support.ctrl_c import ctrl_c_ends
from tests.support.until import until

Start = Callable[[Callable[[], Any]], Background]
CYCLES = 40  # what one cycle leaves, forty leave forty times

A, B = "127.0.0.1:0", "127.0.0.1:0"


# -- definitions ----------------------------------------------------------------------------------


def server_def(**fields: Any) -> pb.ServerDef:
    return pb.ServerDef(
        cluster=tf.train.ClusterSpec({"ps": [A], "worker": [A, B]}).as_cluster_def(), **fields
    )


GOOD = {
    "a dict": (({"ps": [A], "worker": [A, B]}, "worker", 1), ("worker", 1)),
    "a dict of dicts": (({"worker": {3: A, 5: B}}, "worker", 5), ("worker", 5)),
    "a spec": ((tf.train.ClusterSpec({"ps": [A]}), "ps", 0), ("ps", 0)),
    "a ClusterDef": ((tf.train.ClusterSpec({"ps": [A]}).as_cluster_def(), "ps", 0), ("ps", 0)),
    "a ServerDef": ((server_def(job_name="worker", task_index=1, protocol="grpc"),), ("worker", 1)),
    "a ServerDef and arguments": ((server_def(job_name="ps"), "worker", 1), ("worker", 1)),
    "one job, one task": (({"local": [A]},), ("local", 0)),
    "one task of the job": (({"ps": [A], "worker": [A, B]}, "ps"), ("ps", 0)),
}


@pytest.mark.parametrize("what", GOOD)
def test_a_server_is_made_from(what: str) -> None:
    arguments, (job, index) = GOOD[what]
    with tf.train.Server(*arguments) as server:
        assert (server.server_def.job_name, server.server_def.task_index) == (job, index)
        assert server.server_def.protocol == "grpc"
        assert server.target.startswith("grpc://127.0.0.1:")
        alone = tf.ConfigProto(device_filters=["/job:nobody"])  # the others are not up
        with tf.Session(server.target, config=alone) as session:
            assert session.run(tf.constant(3)) == 3
            assert (
                session.list_devices()[0].name == f"/job:{job}/replica:0/task:{index}/device:CPU:0"
            )


BAD = {
    "a job the cluster does not have": (
        ({"ps": [A]}, "worker", 0), tf.errors.InternalError, 'Job "worker" was not defined in cluster, which has ps',
    ),
    "a task the job does not have": (
        ({"ps": [A]}, "ps", 1), tf.errors.InternalError, "Task 1 was not defined in job .ps., which has .0.",
    ),
    "an empty cluster": (({}, "ps", 0), tf.errors.InternalError, "no jobs"),
    "no job of several": (({"ps": [A], "worker": [A]},), ValueError, "Must specify an explicit `job_name`"),
    "no task of several": (({"ps": [A, B]}, "ps"), ValueError, "Must specify an explicit `task_index`"),
    "another protocol": (
        ({"ps": [A]}, "ps", 0, "grpc+verbs"), tf.errors.NotFoundError, "use 'grpc'",
    ),
    "no cluster at all": ((3,), TypeError, "Could not convert `server_or_cluster_def` .*`cluster` must be a dict"),
    "an address without a port": (({"ps": ["localhost"]},), tf.errors.InvalidArgumentError, "HOST:PORT"),
    "a port that is no number": (
        ({"ps": ["localhost:x"]},), tf.errors.InvalidArgumentError, "HOST:PORT",
    ),
    "a port that is too high": (
        ({"ps": ["localhost:99999"]},), tf.errors.InvalidArgumentError, "65535",
    ),
    "a task that is no number": (({"ps": [A]}, "ps", "0"), TypeError, "task_index"),
    "a job that is no string": (({"ps": [A]}, 3, 0), TypeError, "job_name"),
    "a config of another kind": (({"ps": [A]}, "ps", 0, None, 3), TypeError, "ConfigProto"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_server_is_not_made_from(what: str) -> None:
    arguments, kind, said = BAD[what]
    with pytest.raises(kind, match=said):
        tf.train.Server(*arguments)


@pytest.mark.parametrize(
    "variable",
    ["CONNECT_TIMEOUT_S", "FROZEN_AFTER_S", "VANISHED_AFTER_S", "SESSION_IDLE_S", "LANE", "LANE_PORT",
     "DIRECT", "MAX_MESSAGE_BYTES", "INSECURE", "TLS_CLIENTS", "FILE_ROOTS"],
)  # fmt: skip
def test_a_setting_that_nobody_understands_is_refused_at_the_start(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the first step that needs it."""
    monkeypatch.setenv(f"HEADRACE_{variable}", "-1 or so")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"HEADRACE_{variable}"):
        tf.train.Server({"local": ["127.0.0.1:0"]})


def test_a_local_server_is_a_cluster_of_one() -> None:
    with tf.train.Server.create_local_server() as server, tf.Session(server.target) as session:
        (device,) = session.list_devices()
        assert device.name == "/job:localhost/replica:0/task:0/device:CPU:0"


def test_the_servers_config_is_what_sessions_start_from() -> None:
    config = tf.ConfigProto(device_filters=["/job:ps"])
    with in_process({"ps": 1}) as cluster:
        spec = {"ps": cluster.spec["ps"], "worker": [A, B]}
        with (
            tf.train.Server(spec, "worker", 0, config=config) as server,
            tf.Session(server.target) as session,
        ):
            tf.no_op()
            assert len(session.list_devices()) == 2


# -- start, stop, join ----------------------------------------------------------------------------


def test_a_server_can_be_started_later() -> None:
    server = tf.train.Server({"local": [A]}, start=False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="not been started"):
        server.target  # noqa: B018
    server.start()
    server.start()  # once is enough
    with tf.Session(server.target) as session:
        assert session.run(tf.constant(1)) == 1
    server.stop()


def test_a_server_that_was_never_started_can_be_stopped() -> None:
    server = tf.train.Server({"local": [A]}, start=False)
    server.stop()
    server.join()
    with pytest.raises(tf.errors.FailedPreconditionError, match="make a new"):
        server.start()


def test_a_stopped_server_stays_stopped() -> None:
    server = tf.train.Server({"local": [A]})
    server.stop()
    server.stop()
    with pytest.raises(tf.errors.FailedPreconditionError, match="make a new"):
        server.start()


def test_join_returns_when_the_server_is_stopped(background: Start) -> None:
    server = tf.train.Server({"local": [A]})
    joined = [background(server.join) for _ in range(2)]
    server.stop()
    for each in joined:
        each.value()


def test_several_threads_may_stop_a_server(background: Start) -> None:
    server = tf.train.Server({"local": [A]})
    for stopped in [background(server.stop) for _ in range(4)]:
        stopped.value()


def test_ctrl_c_ends_join() -> None:
    source = """
import headrace as tf
server = tf.train.Server.create_local_server()
try:
    print("joining", flush=True)
    server.join()
except KeyboardInterrupt:
    server.stop()
    print("stopped")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "joining\n"
        assert ctrl_c_ends(process, 60.0) == ("stopped\n", "")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("transport", ["direct", "grpc", "unix"], indirect=True)
def test_a_server_can_be_stopped_and_started_on_its_port_again_and_again(transport: str) -> None:
    spec = addresses({"local": 1})
    variable = tf.Variable(5)
    init = tf.global_variables_initializer()
    descriptors, objects = [], []
    for cycle in range(CYCLES):
        with tf.train.Server(spec) as server, tf.Session(server.target) as session:
            with pytest.raises(tf.errors.FailedPreconditionError):
                session.run(variable)  # state ends with the server
            session.run(init)
            assert session.run(variable) == 5
        descriptors.append(len(os.listdir("/proc/self/fd")))
        if cycle % 10 == 9:
            gc.collect()
            objects.append(len(gc.get_objects()))
    assert [t.name for t in lingering()] == []
    assert min(descriptors[-10:]) <= max(descriptors[:10])  # grpcio closes a little later
    grown = [later - earlier for earlier, later in itertools.pairwise(objects)]
    assert min(grown) < 5, grown  # not one a cycle; a module may be imported once


def lingering() -> list[threading.Thread]:
    """Threads of servers that do not end by themselves soon."""
    found = [t for t in threading.enumerate() if t.name.startswith("headrace")]
    for thread in found:
        thread.join(60)
    return [t for t in found if t.is_alive()]


def test_sessions_over_grpc_leave_no_descriptors(transport: str) -> None:
    value = tf.constant(1)
    counts = []
    with in_process({"local": 1}) as cluster:
        for _ in range(40):
            with tf.Session(cluster.target("local:0")) as session:
                assert session.run(value) == 1
            counts.append(open_sockets())
    assert min(counts[-10:]) <= max(counts[:10])  # grpcio closes connections a little later


def open_sockets() -> int:
    found = 0
    for fd in Path("/proc/self/fd").iterdir():
        try:
            found += os.readlink(fd).startswith("socket:")
        except FileNotFoundError:
            continue
    return found


# -- stopping under a step ------------------------------------------------------------------------


@pytest.fixture
def draining(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a server has stopped taking steps and waits for those under way."""
    event = threading.Event()
    wait = MasterSession.wait_until_idle

    def waiting(self: MasterSession, scope: Any) -> None:
        event.set()
        wait(self, scope)

    monkeypatch.setattr(MasterSession, "wait_until_idle", waiting)
    return event


def test_a_grace_lets_steps_under_way_finish_and_no_others_begin(
    transport: str, blocked: Blocked, background: Start, draining: threading.Event
) -> None:
    with in_process({"local": 1}) as cluster:
        server = cluster.servers["local:0"]
        queue = tf.FIFOQueue(3, [tf.int32], [[]])
        take = queue.dequeue()
        session = tf.Session(server.target)
        step = background(lambda: session.run(take))
        blocked.wait()
        stopped = background(lambda: server.stop(grace=60.0))
        assert draining.wait(60)
        with pytest.raises(tf.errors.UnavailableError, match="was stopped"):
            session.run(queue.size())
        (resource,) = server.worker.runtime.resources.all()
        resource.enqueue([np.int32(4)])  # type: ignore[attr-defined]
        assert step.value() == 4
        stopped.value()
        session.close()


def test_a_grace_that_passes_ends_the_step(
    transport: str, blocked: Blocked, background: Start
) -> None:
    with in_process({"local": 1}) as cluster:
        server = cluster.servers["local:0"]
        take = tf.FIFOQueue(3, [tf.int32], [[]]).dequeue()
        session = tf.Session(server.target)
        step = background(lambda: session.run(take))
        blocked.wait()
        server.stop(grace=0.05)
        assert isinstance(step.error(), tf.errors.UnavailableError)
        assert server.target.removeprefix("grpc://") in str(step.error())
        session.close()


def test_an_idle_server_needs_no_grace() -> None:
    server = tf.train.Server({"local": [A]})
    server.stop(grace=3600.0)
    server.join()


def test_a_session_outlives_its_server_with_an_error(transport: str) -> None:
    server = tf.train.Server({"local": [A]})
    session = tf.Session(server.target)
    value = tf.constant(1)
    assert session.run(value) == 1
    server.stop()
    with pytest.raises(tf.errors.UnavailableError):
        session.run(value)
    session.close()


# -- the pool -------------------------------------------------------------------------------------


def test_the_pool_grows_with_what_blocks_and_reuses_what_is_idle() -> None:
    pool = GrowingPool("test")
    release, all_in = threading.Event(), threading.Barrier(51)

    def block() -> int:
        all_in.wait(60)
        release.wait(60)
        return threading.get_ident()

    blocked_calls = [pool.submit(block) for _ in range(50)]
    all_in.wait(60)  # 50 run at once
    assert pool.size == 50
    release.set()
    assert len({call.result(60) for call in blocked_calls}) == 50
    until(lambda: len(pool._idle) == 50)
    for _ in range(100):
        pool.submit(int).result(60)
    assert pool.size <= 51
    pool.shutdown()
    assert pool.size == 0


def test_idle_threads_of_the_pool_end() -> None:
    pool = GrowingPool("test", idle_s=0.01)
    threads = {pool.submit(threading.current_thread).result(60) for _ in range(3)}
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert pool.submit(int).result(60) == 0  # it goes on
    pool.shutdown()


def test_the_pool_hands_on_failures_and_refuses_after_shutdown() -> None:
    pool = GrowingPool("test")

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        pool.submit(fail).result(60)
    assert pool.submit(int).result(60) == 0
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(int)


def test_threads_of_the_pool_keep_no_program_alive() -> None:
    pool = GrowingPool("test")
    assert pool.submit(threading.current_thread).result(60).daemon
    pool.shutdown()


def test_a_shutdown_waits_for_what_runs() -> None:
    pool = GrowingPool("test")
    release, ended = threading.Event(), []
    started = threading.Event()

    def work() -> None:
        started.set()
        release.wait(60)
        ended.append(1)

    pool.submit(work)
    assert started.wait(60)
    shutting = threading.Thread(target=pool.shutdown)
    shutting.start()
    release.set()
    shutting.join(60)
    assert ended == [1]
    assert pool.size == 0
