"""Sessions on a cluster, over every transport: results, ownership of arrays, sharing, extending, resetting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.client import remote_session
from headrace.codec import protos as pb
from headrace.graph.graphdef import graph_def
from headrace.serve.cluster import ClusterSpec
from headrace.serve.master.master import Master
from tests.serve.clusters import Cluster, Jobs, in_process
from tests.serve.conftest import Background
from tests.support.toy_device import toy_devices

Start = Callable[[Callable[[], Any]], Background]

VALUES = [
    np.float32(1.5),
    np.array([[1.0, np.inf], [np.nan, -0.0]], np.float64),
    np.array([1, 2], tf.bfloat16.as_numpy_dtype),
    np.array([], np.int32),
    np.arange(24, dtype=np.int64).reshape(2, 3, 4),
    np.array([True, False]),
    np.array([1 + 2j], np.complex64),
    np.array([[b"", b"\x00\xff"], ["ä".encode(), b"x" * 1000]], object),
    np.array(b"scalar", object),
    np.uint8(255),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{value.shape}")
def test_values_of_every_kind_pass_between_client_master_and_tasks(
    cluster: Cluster, value: Any
) -> None:
    fed = tf.placeholder(value.dtype if value.dtype != object else tf.string, value.shape)
    with tf.device("/job:ps"):
        here = tf.identity(fed)
    with tf.device("/job:worker/task:1"):
        there = tf.identity(here)
    with tf.Session(cluster.target("worker:0")) as session:
        for result in session.run([here, there], {fed: value}):
            np.testing.assert_array_equal(result, value)
            if value.dtype != object:
                assert result.dtype == value.dtype
            assert np.shape(result) == value.shape


def test_a_nest_of_fetches_comes_back_as_it_went(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        x = tf.constant(3.0)
    with tf.device("/job:worker/task:1"):
        y = x * 2.0
        nothing = tf.no_op()
    with tf.Session(cluster.target("worker:0")) as session:
        got = session.run({"a": [x, y], "b": (nothing, x), "c": y.name})
    assert got == {"a": [3.0, 6.0], "b": (None, 3.0), "c": 6.0}


def test_a_step_may_have_nothing_to_do(cluster: Cluster) -> None:
    fed = tf.placeholder(tf.int32, [])
    with tf.Session(cluster.target("worker:0")) as session:
        nothing = session.make_callable([])
        for _ in range(3):  # by names, and by number
            assert session.run([]) == []
            assert session.run({"a": (), "b": [[]]}) == {"a": (), "b": [[]]}
            assert session.run(fed, {fed: 7}) == 7
            assert nothing() == []
        traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run([], options=traced, run_metadata=tf.RunMetadata()) == []


def test_a_fetched_array_is_the_callers_own_and_writable(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        constant = tf.constant([1.0, 2.0])
        variable = tf.Variable([1.0, 2.0])
    with tf.device("/job:worker/task:1"):
        computed = constant + 0.0
    fetches = [constant, variable, computed, tf.identity(computed)]
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for array in session.run(fetches):
            array += 100.0
        for array in session.run(fetches):
            assert array.tolist() == [1.0, 2.0]


def test_a_fed_array_that_is_kept_is_copied(cluster: Cluster) -> None:
    fed = tf.placeholder(tf.float32, [2])
    queue = tf.FIFOQueue(10, [tf.float32], [[2]])
    variable = tf.Variable(tf.zeros([2]))
    keep = [queue.enqueue([fed]), variable.assign(fed)]
    array = np.array([1.0, 2.0], np.float32)
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(keep, {fed: array})
        array[:] = 9.0
        assert session.run(queue.dequeue()).tolist() == [1.0, 2.0]
        assert session.run(variable).tolist() == [1.0, 2.0]


def test_messages_of_more_than_4_mb_pass_both_ways(cluster: Cluster) -> None:
    fed = tf.placeholder(tf.float32, [None])
    with tf.device("/job:ps"):
        doubled = fed * 2.0
    with tf.device("/job:worker/task:1"):
        more = doubled + 1.0
    array = np.arange(2_000_000, dtype=np.float32)  # 8 MB
    with tf.Session(cluster.target("worker:0")) as session:
        np.testing.assert_array_equal(session.run(more, {fed: array}), array * 2 + 1)


def test_a_graph_of_more_than_4_mb_is_shipped(cluster: Cluster) -> None:
    big = tf.constant(np.ones(2_000_000, np.float32))
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.run(tf.reduce_sum(big)) == 2e6


def test_sessions_of_all_servers_share_variables_and_queues(cluster: Cluster) -> None:
    variable = tf.Variable(1.0, name="v")
    queue = tf.FIFOQueue(3, [tf.int32], [[]], shared_name="q")
    put, get, add = queue.enqueue([7]), queue.dequeue(), variable.assign_add(1.0)
    with (
        tf.Session(cluster.target("worker:0")) as one,
        tf.Session(cluster.target("worker:1")) as two,
    ):
        one.run(tf.global_variables_initializer())
        one.run([put, add])
        assert two.run(get) == 7
        assert two.run(variable) == 2.0


def test_a_value_goes_to_whichever_task_a_step_wants_it_on(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        fed = tf.placeholder(tf.float32, [])
        value = fed + 1.0
    users = []
    for number in range(2):
        with tf.device(f"/job:worker/task:{number}"):
            users.append(value * (number + 2.0))
    config = tf.ConfigProto(operation_timeout_in_ms=30_000)
    with tf.Session(cluster.target("worker:0"), config=config) as session:
        for _ in range(2):
            assert [session.run(user, {fed: 1.0}) for user in users] == [4.0, 6.0]


def test_a_graph_may_grow_between_steps(cluster: Cluster) -> None:
    with tf.Session(cluster.target("worker:0")) as session:
        for number in range(5):
            with tf.device(f"/job:worker/task:{number % 2}"):
                total = tf.constant(number) + 1
            assert session.run(total) == number + 1


def test_every_node_is_shipped_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped: list[str] = []

    def watched(graph: tf.Graph, ops: Sequence[tf.Operation]) -> pb.GraphDef:
        shipped.extend(op.name for op in ops)
        return graph_def(graph, ops=ops)

    monkeypatch.setattr(remote_session, "graph_def", watched)
    with tf.Session(cluster.target("worker:0")) as session:
        for number in range(3):
            total = tf.constant(number) + 1
            for _ in range(3):
                assert session.run(total) == number + 1
        session.list_devices()
        names = [op.name for op in session.graph.get_operations()]
    assert shipped == names


def test_many_threads_may_run_one_session_and_grow_its_graph(
    cluster: Cluster, graph: tf.Graph, background: Start
) -> None:
    with tf.device("/job:ps"):
        counter = tf.Variable(0)
    add = counter.assign_add(1)
    session = tf.Session(cluster.target("worker:0"))
    session.run(tf.global_variables_initializer())
    growing = threading.Lock()

    def work(thread: int) -> None:
        for step in range(5):
            with growing, graph.as_default():
                value = tf.constant(100 * thread + step)
            assert session.run([value, add])[0] == 100 * thread + step

    for each in [background(partial(work, number)) for number in range(8)]:
        each.value()
    assert session.run(counter) == 40
    session.close()


def test_a_signature_that_many_threads_ask_for_at_once_is_planned_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, background: Start
) -> None:
    worker = cluster.servers["ps:0"].worker
    registered: list[str] = []
    register = type(worker).register_graph

    def counting(self: Any, request: Any, scope: Any) -> Any:
        registered.append(request.session_handle)
        return register(self, request, scope)

    monkeypatch.setattr(type(worker), "register_graph", counting)
    start = threading.Barrier(8)
    with tf.Session(cluster.target("ps:0")) as session:
        fetch = tf.constant(1) + 1

        def work() -> Any:
            start.wait()
            return session.run(fetch)

        results = [each.value() for each in [background(work) for _ in range(8)]]
    assert results == [2] * 8
    # a plan that was under way when the others asked was theirs too
    assert len(registered) == 1


def test_devices_are_those_of_all_tasks_this_one_first(cluster: Cluster) -> None:
    tf.no_op()
    with tf.Session(cluster.target("worker:0")) as session:
        names = [device.name for device in session.list_devices()]
    assert names == [
        f"/job:{task}/device:CPU:0"
        for task in ("worker/replica:0/task:0", "ps/replica:0/task:0", "worker/replica:0/task:1")
    ]


def test_what_a_task_reports_beside_cpus_is_listed_and_placed_on(
    cluster_of: Callable[[Jobs], Cluster],
) -> None:
    with toy_devices(1, "GPU") as (device,):
        _place_on_a_gpu(cluster_of({"ps": 1, "worker": 2}))
    assert device.counts["kernel"] == 1


def _place_on_a_gpu(cluster: Cluster) -> None:
    gpu = "/job:worker/replica:0/task:1/device:GPU:0"
    with tf.device("/job:worker/task:1/gpu:0"):
        there = tf.placeholder_with_default(1.0, []) + 1.0
    with tf.device("/job:worker/task:1/gpu:1"):
        nowhere = tf.placeholder_with_default(1.0, []) + 1.0
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    with tf.Session(cluster.target("worker:0")) as session:
        listed = [(device.name, device.device_type) for device in session.list_devices()]
        assert session.run(there, options=options, run_metadata=metadata) == 2.0
        with pytest.raises(tf.errors.InvalidArgumentError, match=gpu):
            session.run(nowhere)
    assert (gpu, "GPU") in listed
    devices = {node.name: node.device for part in metadata.partition_graphs for node in part.node}
    assert devices[there.op.name] == gpu


def test_device_filters_hide_tasks(cluster: Cluster) -> None:
    config = tf.ConfigProto(device_filters=["/job:ps"])
    with tf.device("/job:worker/task:1"):
        hidden = tf.constant(1)
    with tf.Session(cluster.target("worker:0"), config=config) as session:
        names = [device.name for device in session.list_devices()]
        assert names == [
            "/job:worker/replica:0/task:0/device:CPU:0",
            "/job:ps/replica:0/task:0/device:CPU:0",
        ]
        with pytest.raises(tf.errors.InvalidArgumentError, match="/job:worker/task:1"):
            session.run(hidden)


def test_reset_empties_the_named_container_and_closes_the_sessions_there(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        kept = tf.Variable(1.0)
        with tf.container("mine_1"):
            lost = tf.Variable(2.0)
    init = tf.global_variables_initializer()
    here = tf.Session(cluster.target("worker:0"))
    elsewhere = tf.Session(cluster.target("worker:1"))
    here.run(init)
    assert elsewhere.run([kept, lost]) == [1.0, 2.0]
    tf.Session.reset(cluster.target("worker:0"), ["mine_1"])
    with pytest.raises(tf.errors.AbortedError, match="make a new session"):
        here.run(kept)
    assert elsewhere.run(kept) == 1.0
    with pytest.raises(tf.errors.FailedPreconditionError, match=lost.op.name):
        elsewhere.run(lost)
    here.close()
    elsewhere.close()


def test_reset_without_names_empties_the_default_container(cluster: Cluster) -> None:
    variable = tf.Variable(1.0)
    with tf.container("other"):
        kept = tf.Variable(2.0)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
    tf.Session.reset(cluster.target("worker:1"))
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.run(tf.is_variable_initialized(variable)) == False  # noqa: E712
        assert session.run(kept) == 2.0


def test_a_traced_step_names_the_nodes_of_every_task(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        variable = tf.Variable([1.0, 2.0], name="weights")
    with tf.device("/job:worker/task:1"):
        total = tf.reduce_sum(variable + 1.0, name="total")
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run(total, options=options, run_metadata=metadata) == 5.0
    traced = {
        stats.device: {node.node_name for node in stats.node_stats}
        for stats in metadata.step_stats.dev_stats
    }
    assert "weights" in traced["/job:ps/replica:0/task:0/device:CPU:0"]
    assert "total" in traced["/job:worker/replica:0/task:1/device:CPU:0"]


def test_closing_a_session_leaves_nothing_of_it_on_the_cluster(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        x = tf.constant(1.0)
    with tf.device("/job:worker/task:1"):
        y = x + 1.0
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.run([x, y]) == [1.0, 2.0]
        assert cluster.servers["ps:0"].worker._graphs
    for server in cluster.servers.values():
        assert not server.worker._graphs
        assert not server.worker._sessions
        assert not server.master._sessions


def test_a_session_that_is_garbage_is_closed_on_its_master(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Event()
    close = Master.close_session

    def closing(self: Master, request: Any, scope: Any) -> Any:
        reply = close(self, request, scope)
        closed.set()
        return reply

    monkeypatch.setattr(Master, "close_session", closing)
    with in_process({"local": 1}) as cluster:
        session = tf.Session(cluster.target("local:0"))
        session.run(tf.constant(1))
        del session
        assert closed.wait(60)
        assert not cluster.servers["local:0"].master._sessions


def test_a_cluster_spec_may_be_read_back_from_a_server(cluster: Cluster) -> None:
    server = cluster.servers["worker:1"]
    assert ClusterSpec(server.server_def.cluster).as_dict() == cluster.spec
    assert server.target == cluster.target("worker:1")


def test_partial_runs_that_nobody_ends_are_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_MAX_PARTIAL_RUNS", "3")
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    with tf.Session(cluster.target("worker:0")) as session:
        handles = [session.partial_run_setup([y], [x]) for _ in range(3)]
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"4 partial runs.*MAX_PARTIAL"):
            session.partial_run_setup([y], [x])
        assert session.partial_run(handles[0], y, {x: 1.0}) == 2.0
        assert session.partial_run(session.partial_run_setup([y], [x]), y, {x: 2.0}) == 4.0
