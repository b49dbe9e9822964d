"""Step statistics of a cluster: every task that took part, on the master's clock."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.master import clocks
from tests.serve.clusters import Cluster

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:1/device:CPU:0"
HOUR_NS = 3600 * 10**9


def traced(cluster: Cluster, level: Any = tf.RunOptions.FULL_TRACE) -> pb.StepStats:
    """Statistics of a step that reads a variable of the ps on worker 1."""
    with tf.device("/job:ps"):
        weights = tf.Variable(np.ones([100, 10], np.float32), name="weights")
    with tf.device("/job:worker/task:1"):
        total = tf.reduce_sum(weights + 1.0, name="total")
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=level)
        assert session.run(total, options=options, run_metadata=metadata) == 2000.0
    return metadata.step_stats


def nodes(stats: pb.StepStats, device: str) -> dict[str, pb.NodeExecStats]:
    return {
        node.node_name: node
        for found in stats.dev_stats
        if found.device == device
        for node in found.node_stats
    }


@pytest.mark.parametrize("level", ["SOFTWARE_TRACE", "HARDWARE_TRACE", "FULL_TRACE"])
def test_every_level_traces_every_task_that_took_part(cluster: Cluster, level: str) -> None:
    stats = traced(cluster, getattr(tf.RunOptions, level))
    assert {"_SOURCE", "weights", "weights/read"} == set(nodes(stats, PS))
    assert {"_SOURCE", "RecvTensor", "add", "total"} <= set(nodes(stats, WORKER))


def test_what_is_loaded_for_a_node_is_no_output_of_it() -> None:
    variable, metadata = (
        tf.Variable(np.ones([4, 3], np.float32), use_resource=False),
        tf.RunMetadata(),
    )
    product = tf.matmul(np.ones([2, 4], np.float32), variable._ref(), name="product")
    with tf.Session() as session:
        session.run(variable.initializer)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(product, options=options, run_metadata=metadata)
    (device,) = {found.device for found in metadata.step_stats.dev_stats}
    (output,) = nodes(metadata.step_stats, device)["product"].output
    assert [dim.size for dim in output.tensor_description.shape.dim] == [2, 3]


def test_a_transfer_tells_its_bytes_and_both_ends(cluster: Cluster) -> None:
    transfer = nodes(traced(cluster), WORKER)["RecvTensor"]
    amount, rate, edge, *ends = transfer.timeline_label.split(" ")
    assert amount == "[4000B]"
    assert rate.endswith("b/s]")
    assert edge.endswith("_weights/read")
    assert ends == ["from", PS, "to", WORKER]
    (output,) = transfer.output
    assert output.tensor_description.allocation_description.requested_bytes == 4000


def test_tasks_whose_clocks_differ_are_shown_on_the_masters(cluster: Cluster) -> None:
    cluster.servers["ps:0"].worker.clock_ns = lambda: time.time_ns() + HOUR_NS
    cluster.servers["worker:1"].worker.clock_ns = lambda: time.time_ns() - HOUR_NS
    began = time.time_ns()
    stats = traced(cluster)
    ended = time.time_ns()
    slack = HOUR_NS // 10  # half of the quickest round trip, on a busy machine
    for device in (PS, WORKER):
        for node in nodes(stats, device).values():
            assert began - slack < node.scheduled_nanos <= node.all_start_nanos < ended + slack
            assert node.all_start_micros == node.all_start_nanos // 1000


class Clocks:
    """A cluster of tasks that answer GetStatus with their clock, or without one (None)."""

    def __init__(self, ahead_ns: dict[str, int | None]) -> None:
        self.ahead_ns = ahead_ns

    def worker(self, task: str) -> Any:
        ahead = self.ahead_ns[task]

        class Peer:
            def call_now(self, method: Any, request: Any, scope: Any) -> pb.GetStatusResponse:
                clock = 0 if ahead is None else time.time_ns() + ahead
                return pb.GetStatusResponse(headrace_clock_ns=clock)

        return Peer()


@pytest.mark.parametrize(
    ("ahead_ns", "hours"),
    [
        ({"own": 0, "other": HOUR_NS}, 1),
        ({"own": HOUR_NS, "other": 0}, -1),
        ({"own": HOUR_NS, "other": -HOUR_NS}, -2),
        ({"own": 0, "other": None}, 0),
        ({"own": None, "other": HOUR_NS}, 0),
    ],
)
def test_offsets_are_to_the_masters_clock_and_nothing_where_one_is_unknown(
    ahead_ns: dict[str, int | None], hours: int
) -> None:
    view: Any = Clocks(ahead_ns)
    with Scope() as scope:
        found = clocks.offsets(view, ["own", "other"], "own", scope)
    assert found["own"] == 0
    assert found["other"] == pytest.approx(hours * HOUR_NS, abs=HOUR_NS // 10)


def test_times_move_together() -> None:
    stats = pb.StepStats()
    node = stats.dev_stats.add(device=PS).node_stats.add(
        all_start_micros=7, all_start_nanos=7_500, scheduled_micros=6, scheduled_nanos=6_900
    )
    micros_only = stats.dev_stats[0].node_stats.add(all_start_micros=7)
    node.memory.add().allocation_records.add(alloc_micros=8, alloc_bytes=1)
    clocks.shift(stats, 1_000_600)
    assert (node.all_start_nanos, node.all_start_micros) == (1_008_100, 1_008)
    assert (node.scheduled_nanos, node.scheduled_micros) == (1_007_500, 1_007)
    assert node.memory[0].allocation_records[0].alloc_micros == 1_008
    assert (micros_only.all_start_micros, micros_only.scheduled_micros) == (1_007, 0)
