"""The methods of a session beside run: partial runs, callables, partition graphs, devices, configurations.

They hold for a session of this process as for one on a cluster, over every transport.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.serve.cluster import ClusterSpec
from tests.serve.clusters import Cluster, Jobs, addresses

Start = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def target(transport: str, cluster_of: Callable[[Jobs], Cluster]) -> str:
    """Of a session: '' for this process, or a task of a cluster."""
    return "" if transport == "local" else cluster_of({"ps": 1, "worker": 1}).target("worker:0")


class Sums:
    """r1 = a + b, r2 = r1 * c."""

    def __init__(self) -> None:
        self.a, self.b, self.c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
        self.r1 = tf.add(self.a, self.b, name="r1")
        self.r2 = tf.multiply(self.r1, self.c, name="r2")
        self.feeds = [self.a, self.b, self.c]
        self.fetches = [self.r1, self.r2]


@pytest.fixture
def sums() -> Sums:
    return Sums()


# -- partial runs -------------------------------------------------------------------------------


def test_a_partial_run_goes_on_where_it_was_left(target: str, sums: Sums) -> None:
    with tf.Session(target) as session:
        for _ in range(2):
            handle = session.partial_run_setup(sums.fetches, sums.feeds)
            assert session.partial_run(handle, sums.r1, {sums.a: 1, sums.b: 2}) == 3.0
            assert session.partial_run(handle, {"z": [sums.r2]}, {sums.c: 10}) == {"z": [30.0]}
        assert session.run(sums.r1, {sums.a: 1, sums.b: 1}) == 2.0


def test_partial_runs_of_one_signature_keep_apart(target: str, sums: Sums) -> None:
    with tf.Session(target) as session:
        handles = [session.partial_run_setup(sums.fetches, sums.feeds) for _ in range(3)]
        for number, handle in enumerate(handles):
            assert session.partial_run(handle, sums.r1, {sums.a: number, sums.b: 0}) == number
        for number, handle in reversed(list(enumerate(handles))):
            assert session.partial_run(handle, sums.r2, {sums.c: 10}) == number * 10


def test_each_node_of_a_partial_run_runs_once(target: str) -> None:
    count = tf.Variable(0.0)
    x, y = (tf.placeholder(tf.float32, []) for _ in range(2))
    counted = count.assign_add(x)
    with tf.control_dependencies([counted]):
        twice = tf.identity(counted) * y
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        handle = session.partial_run_setup([counted, twice, count.assign_add(100.0).op], [x, y])
        assert session.partial_run(handle, counted, {x: 1.0}) in (1.0, 101.0)
        session.partial_run(handle, twice, {y: 2.0})
        assert session.run(count) == 101.0


def test_what_a_partial_run_gives_is_the_callers_own(target: str) -> None:
    x, y = (tf.placeholder(tf.float32, [2]) for _ in range(2))
    total = x + y
    more = total + 1.0
    with tf.Session(target) as session:
        handle = session.partial_run_setup([total, more], [x, y])
        first = session.partial_run(handle, total, {x: [1, 2], y: [3, 4]})
        first += 100.0
        assert session.partial_run(handle, more).tolist() == [5.0, 7.0]


MISUSE: list[tuple[str, Callable[[Sums], tuple[Any, dict[Any, Any]]], str]] = [
    ("fetched before", lambda s: (s.r1, {}), "r1:0 has already been fetched"),
    ("fed before", lambda s: (s.r2, {s.a: 1, s.c: 1}), "a:0 has already been fed"),
    ("not a fetch", lambda s: (s.c, {}), "fetch c:0 was not specified in partial_run_setup"),
    ("not a feed", lambda s: (s.r2, {s.r1: 1}), "feed r1:0 was not specified in partial_run_setup"),
    ("feed missing", lambda s: (s.r2, {}), "feed c:0 too"),
]


@pytest.mark.parametrize(("what", "call", "said"), MISUSE, ids=[what for what, _, _ in MISUSE])
def test_a_piece_that_does_not_fit_changes_nothing(
    target: str, sums: Sums, what: str, call: Any, said: str
) -> None:
    with tf.Session(target) as session:
        handle = session.partial_run_setup(sums.fetches, sums.feeds)
        session.partial_run(handle, sums.r1, {sums.a: 1, sums.b: 2})
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            session.partial_run(handle, *call(sums))
        assert session.partial_run(handle, sums.r2, {sums.c: 2}) == 6.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="partial_run_setup"):
            session.partial_run(handle, sums.r2, {sums.c: 2})


def test_an_error_ends_a_partial_run_and_no_other_step(target: str) -> None:
    x, y = (tf.placeholder(tf.int32, []) for _ in range(2))
    bad = tf.floordiv(1, x, name="bad")
    good = bad + y
    with tf.Session(target) as session:
        handle = session.partial_run_setup([bad, good], [x, y])
        with pytest.raises(tf.errors.InvalidArgumentError, match="zero") as caught:
            session.partial_run(handle, bad, {x: 0})
        assert caught.value.op is bad.op
        with pytest.raises(tf.errors.InvalidArgumentError, match="partial_run_setup"):
            session.partial_run(handle, good, {y: 1})
        assert session.run(good, {x: 1, y: 1}) == 2


def test_a_partial_run_may_span_tasks(cluster: Cluster) -> None:
    x, y = (tf.placeholder(tf.float32, [], name=name) for name in "xy")
    with tf.device("/job:ps"):
        first = x * 2.0
    with tf.device("/job:worker/task:1"):
        second = first + y
    with tf.Session(cluster.target("worker:0")) as session:
        handle = session.partial_run_setup([first, second], [x, y])
        assert session.partial_run(handle, first, {x: 1.0}) == 2.0
        assert session.partial_run(handle, second, {y: 1.0}) == 3.0
    for server in cluster.servers.values():
        assert not server.worker._running


def test_closing_ends_a_partial_run_that_waits(
    target: str, background: Start, blocked: Any
) -> None:
    queue = tf.FIFOQueue(1, [tf.float32], [[]])
    x = tf.placeholder(tf.float32, [])
    taken = queue.dequeue() + x
    session = tf.Session(target)
    handle = session.partial_run_setup([taken], [x])
    waiting = background(lambda: session.partial_run(handle, taken, {x: 1.0}))
    blocked.wait()
    session.close()
    assert isinstance(waiting.error(), tf.errors.CancelledError)


def test_a_session_may_be_closed_with_a_partial_run_half_done(target: str, sums: Sums) -> None:
    with tf.Session(target) as session:
        handle = session.partial_run_setup(sums.fetches, sums.feeds)
        session.partial_run(handle, sums.r1, {sums.a: 1, sums.b: 2})
    with tf.Session(target) as another:
        assert another.run(sums.r1, {sums.a: 1, sums.b: 2}) == 3.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            another.partial_run(handle, sums.r2, {sums.c: 4})


# -- callables ----------------------------------------------------------------------------------


def options(**given: Any) -> pb.CallableOptions:
    return pb.CallableOptions(**given)


def connect(found: pb.CallableOptions, source: str, place: str) -> pb.CallableOptions:
    found.tensor_connection.add(from_tensor=source, to_tensor=place)
    return found


def test_callable_options_make_a_function_of_the_feeds_in_order(target: str, sums: Sums) -> None:
    with tf.Session(target) as session:
        call = session._make_callable_from_options(
            options(feed=["c", "a:0", "b"], fetch=["r2:0", "r1", "r2"])
        )
        for _ in range(2):
            assert call(*np.array([10, 1, 2], np.float32)) == [30.0, 3.0, 30.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="takes 3 feeds"):
            call(np.float32(1))
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="c:0 is int32, the tensor float32"
        ):
            call(*np.array([10, 1, 2], np.int32))


def test_a_callable_runs_targets(target: str) -> None:
    variable = tf.Variable(1.0)
    add = variable.assign_add(1.0)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        call = session._make_callable_from_options(options(target=[add.op.name]))
        assert call() == call() == []
        assert session.run(variable) == 3.0


def test_a_tensor_connection_puts_one_tensor_in_the_place_of_another(
    target: str, sums: Sums
) -> None:
    tf.constant(5.0, name="five")
    with tf.Session(target) as session:
        wired = connect(options(feed=["b", "c"], fetch=["r1", "r2"]), "five:0", "a:0")
        call = session._make_callable_from_options(wired)
        assert call(np.float32(1), np.float32(2)) == [6.0, 12.0]
        assert session.run(sums.r1, {sums.a: 1, sums.b: 1}) == 2.0


BAD_CALLABLES = [
    ("nothing", options(), tf.errors.InvalidArgumentError),
    ("unknown fetch", options(fetch=["zz:0"]), tf.errors.InvalidArgumentError),
    ("unknown feed", options(feed=["zz:0"], fetch=["five"]), tf.errors.InvalidArgumentError),
    ("unknown target", options(target=["zz"]), tf.errors.NotFoundError),
    ("output", options(fetch=["five:4"]), tf.errors.OutOfRangeError),
    ("fed and fetched", options(feed=["a"], fetch=["a:0"]), tf.errors.InvalidArgumentError),
    ("fed twice", options(feed=["a", "a:0"], fetch=["r1"]), tf.errors.InvalidArgumentError),
    (
        "connected and fed",
        connect(options(feed=["a", "b"], fetch=["r1"]), "five:0", "a:0"),
        tf.errors.InvalidArgumentError,
    ),
    (
        "connected and fetched",
        connect(options(fetch=["a"]), "five:0", "a:0"),
        tf.errors.InvalidArgumentError,
    ),
    (
        "cycle",
        connect(options(feed=["b", "c"], fetch=["r2"]), "r2:0", "a:0"),
        tf.errors.InvalidArgumentError,
    ),
    (
        "unknown source",
        connect(options(feed=["b"], fetch=["r1"]), "zz:0", "a:0"),
        tf.errors.InvalidArgumentError,
    ),
    ("unknown place", connect(options(fetch=["five"]), "five:0", "zz:0"), tf.errors.NotFoundError),
    (
        "device",
        options(feed=["a", "b"], fetch=["r1"], feed_devices={"a:0": "/device:GPU:0"}),
        tf.errors.UnimplementedError,
    ),
]


@pytest.mark.parametrize(
    ("what", "given", "error"), BAD_CALLABLES, ids=[what for what, _, _ in BAD_CALLABLES]
)
def test_callables_that_cannot_be_made(
    target: str, sums: Sums, what: str, given: Any, error: Any
) -> None:
    tf.constant(5.0, name="five")
    with tf.Session(target) as session, pytest.raises(error):
        session._make_callable_from_options(given)


def test_a_callable_that_is_dropped_is_released(
    cluster: Cluster, sums: Sums, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.Session(cluster.target("worker:0")) as session:
        call = session._make_callable_from_options(options(feed=["a", "b"], fetch=["r1"]))
        call(np.float32(1), np.float32(1))
        ((_, on_master),) = cluster.servers["worker:0"].master._sessions.items()
        assert on_master._callables._prepared
        released = threading.Event()
        release = on_master.release_callable

        def noted(number: int) -> None:
            release(number)
            released.set()

        monkeypatch.setattr(on_master, "release_callable", noted)
        del call
        gc.collect()
        assert released.wait(60)
        assert not on_master._callables._prepared


# -- what a session tells ------------------------------------------------------------------------


def test_partition_graphs_are_given_if_asked_for(target: str, sums: Sums) -> None:
    metadata = tf.RunMetadata()
    feed = {sums.a: 1, sums.b: 2}
    with tf.Session(target) as session:
        wanted = tf.RunOptions(output_partition_graphs=True)
        assert session.run(sums.r1, feed, wanted, metadata) == 3.0
        (graph_def,) = metadata.partition_graphs
        (node,) = [node for node in graph_def.node if node.name == "r1"]
        assert node.device.endswith("/device:CPU:0")
        session.run(sums.r1, feed, tf.RunOptions(), metadata)
        assert not metadata.partition_graphs
    assert not wanted.timeout_in_ms


def test_the_placement_is_logged_once_a_node(
    target: str, sums: Sums, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="headrace")
    feed = {sums.a: 1, sums.b: 2, sums.c: 3}
    with tf.Session(target, config=tf.ConfigProto(log_device_placement=True)) as session:
        session.run(sums.r1, feed)
        session.run(sums.r2, feed)
        (device,) = {d.name for d in session.list_devices() if d.name.split("/")[1] != "job:worker"}
    lines = [(record.name, record.getMessage()) for record in caplog.records]
    by_master = [line for log, line in lines if log == "headrace.master"]
    by_client = [line for log, line in lines if log == "headrace"]
    op = sums.r1.op.type
    # A client whose master is in its own process leaves it to that.
    for log in [log for log in (by_master, by_client) if log]:
        assert [line for line in log if line.startswith("r1:")] == [f"r1: ({op}): {device}"]
        assert [line for line in log if line.startswith("r2:")] == [f"r2: (Mul): {device}"]
    assert bool(by_master) == bool(target)
    assert by_master or by_client


def test_devices_look_as_tensorflows(target: str) -> None:
    with tf.Session(target) as session:
        for device in session.list_devices():
            assert (device.device_type, device.memory_limit_bytes) == ("CPU", 256 << 20)
            assert -(2**63) <= device.incarnation < 2**63
            assert repr(device) == (
                f"_DeviceAttributes({device.name}, CPU, 268435456, {device.incarnation})"
            )


def test_threads_share_a_session(target: str, sums: Sums, background: Start) -> None:
    with tf.Session(target) as session:
        feed = {sums.a: 1, sums.b: 2, sums.c: 3}
        steps = [
            background(lambda: [session.run(sums.fetches, feed) for _ in range(20)])
            for _ in range(4)
        ]
        for step in steps:
            assert step.value() == [[3.0, 9.0]] * 20


# -- configurations ------------------------------------------------------------------------------


def test_a_task_may_have_several_cpus(transport: str) -> None:
    spec = addresses({"ps": 1, "worker": 1})
    config = tf.ConfigProto(device_count={"CPU": 3})
    with (
        tf.train.Server(spec, job_name="ps", task_index=0, config=config),
        tf.train.Server(spec, job_name="worker", task_index=0),
        tf.Session(f"grpc://{spec['worker'][0]}") as session,
    ):
        names = [device.name for device in session.list_devices()]
        tasks = ["/job:worker/replica:0/task:0"] + ["/job:ps/replica:0/task:0"] * 3
        assert names == [
            f"{task}/device:CPU:{index}" for task, index in zip(tasks, [0, 0, 1, 2], strict=True)
        ]
        with tf.device("/job:ps/cpu:2"):
            x = tf.Variable(2.0)
        with tf.device("/job:worker"):
            y = tf.multiply(x, 3.0)
        metadata = tf.RunMetadata()
        session.run(x.initializer)
        traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run(y, options=traced, run_metadata=metadata) == 6.0
        assert names[-1] in {stats.device for stats in metadata.step_stats.dev_stats}
        with tf.device("/job:worker/cpu:1"):
            nowhere = tf.constant(1.0) + 1.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"):
            session.run(nowhere)


def test_isolated_sessions_share_no_state(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        variable = tf.Variable(1.0, name="v")
    isolated = tf.ConfigProto(isolate_session_state=True)
    one, two = (tf.Session(cluster.target("worker:0"), config=isolated) for _ in range(2))
    with tf.Session(cluster.target("worker:0")) as shared:
        shared.run(variable.initializer)
        one.run(variable.assign(10.0))
        with pytest.raises(tf.errors.FailedPreconditionError):
            two.run(variable)
        assert (one.run(variable), shared.run(variable)) == (10.0, 1.0)
        one.close()
        two.close()
        assert shared.run(variable) == 1.0
    assert not cluster.servers["ps:0"].worker._sessions


def test_a_session_may_bring_a_cluster_in_which_tasks_have_other_names(cluster: Cluster) -> None:
    other = ClusterSpec(
        {"a": [cluster.address("worker:1")], "b": {3: cluster.address("ps:0")}}
    ).as_cluster_def()
    with tf.device("/job:a"):
        variable = tf.Variable(2.0, name="v")
    with tf.device("/job:b/task:3"):
        tripled = tf.multiply(variable, 3.0)
    with tf.device("/job:a"):
        more = tripled + 1.0
    config = tf.ConfigProto(cluster_def=other)
    with tf.Session(cluster.target("worker:1"), config=config) as session:
        assert [device.name for device in session.list_devices()] == [
            "/job:a/replica:0/task:0/device:CPU:0",
            "/job:b/replica:0/task:3/device:CPU:0",
        ]
        session.run(variable.initializer)
        assert session.run([more, tripled]) == [7.0, 6.0]
    with tf.Session(cluster.target("ps:0"), config=config) as session:
        assert session.run(tripled, {variable: 3.0}) == 9.0
    with (
        tf.Session(cluster.target("worker:0"), config=config) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="cluster_def"),
    ):
        session.run(more)
    for server in cluster.servers.values():
        assert not server.worker._sessions


def test_a_session_with_a_cluster_of_its_own_has_state_of_its_own(cluster: Cluster) -> None:
    spec = {"mine": [cluster.address("worker:1")], "other": [cluster.address("ps:0")]}
    config = tf.ConfigProto(cluster_def=ClusterSpec(spec).as_cluster_def())
    variable = tf.Variable(2.0, name="v")
    queue = tf.FIFOQueue(9, tf.float32, [[]], shared_name="q")
    target = cluster.target("worker:1")
    with (
        tf.Session(target) as shared,
        tf.Session(target, config=config) as one,
        tf.Session(target, config=config) as two,
    ):
        for count, session in enumerate([shared, one, two]):
            with pytest.raises(tf.errors.FailedPreconditionError):
                session.run(variable)
            session.run([variable.initializer, queue.enqueue_many([[1.0] * count])])
            session.run(variable.assign_add(float(count)))
        sessions = (shared, one, two)
        assert [session.run(variable) for session in sessions] == [2.0, 3.0, 4.0]
        assert [session.run(queue.size()) for session in sessions] == [0, 1, 2]
    with (
        tf.Session(target, config=config) as again,
        pytest.raises(tf.errors.FailedPreconditionError),
    ):
        again.run(variable)
    for server in cluster.servers.values():
        assert not server.worker._sessions


def test_a_task_has_another_name_in_the_cluster_that_a_session_brings(cluster: Cluster) -> None:
    spec = {"worker": {1: cluster.address("worker:1")}, "ps": [cluster.address("ps:0")]}
    config = tf.ConfigProto(cluster_def=ClusterSpec(spec).as_cluster_def())
    with (
        tf.Session(cluster.target("worker:1"), config=config) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="another job name"),
    ):
        session.run(tf.constant(1) + 1)


def test_thread_counts_are_accepted(target: str, sums: Sums) -> None:
    config = tf.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=3, use_per_session_threads=True
    )
    with tf.Session(target, config=config) as session:
        assert session.run(sums.r1, {sums.a: 1, sums.b: 2}) == 3.0
