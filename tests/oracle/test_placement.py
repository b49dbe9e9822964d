"""Placement against TensorFlow's, where 1.15's rules are 2.21's: one graph, the device of every node that ran.

The oracle's session is on ps:0, which is where 1.15 puts what nobody pins; so the defaults agree too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.plan.place import Groups, place
from headrace.plan.prune import needed
from tests.ports import own_ports

DEVICES = [
    f"/job:{task}/device:CPU:0"
    for task in ("ps/replica:0/task:0", "ps/replica:0/task:1", "worker/replica:0/task:0", "worker/replica:0/task:1")
]  # fmt: skip

START = """
spec = {"ps": addresses[:2], "worker": addresses[2:]}
tf.placement_servers = [tf.train.Server(spec, job, task) for job in spec for task in range(2)]
result = tf.placement_servers[0].target
"""

RUN = """
graph_def = tf.GraphDef.FromString(data)
tf.import_graph_def(graph_def, name="")
config = tf.ConfigProto(allow_soft_placement=soft)
config.graph_options.rewrite_options.disable_meta_optimizer = True
config.graph_options.optimizer_options.opt_level = -1
metadata = tf.RunMetadata()
with tf.Session(tf.placement_servers[0].target, config=config) as session:
    options = tf.RunOptions(output_partition_graphs=True, trace_level=tf.RunOptions.FULL_TRACE)
    session.run(names, options=options, run_metadata=metadata)
result = {
    stats.node_name: device.device
    for device in metadata.step_stats.dev_stats
    for stats in device.node_stats
}
"""


@pytest.fixture(scope="module")
def cluster(oracle: Any) -> str:
    """Target of ps:0 of a cluster of TensorFlow servers in the oracle's process."""
    addresses = [f"localhost:{port}" for port in own_ports(4)]
    target: str = oracle.run(START, addresses=addresses)
    return target


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def default() -> Any:
    return tf.constant(1.0, name="c") + tf.placeholder_with_default(2.0, [], name="p")


def jobs_and_tasks() -> Any:
    made = []
    for number, device in enumerate(
        [
            "/job:ps",
            "/job:worker",
            "/job:worker/task:1",
            "/task:1",
            "/cpu:0",
            "/job:ps/task:1/cpu:0",
        ]
    ):
        with tf.device(device):
            made.append(tf.placeholder_with_default(float(number), [], name=f"p{number}"))
    return [tf.add_n(made, name="sum")]


def one_consumer() -> Any:
    c = tf.constant([1.0], name="c")
    with tf.device("/job:worker/task:1"):
        return tf.identity(c, name="user")


def consumers_on_one_device() -> Any:
    c = tf.constant([1.0], name="c")
    with tf.device("/job:worker/task:1"):
        return [tf.identity(c, name="first"), tf.negative(c, name="second")]


def consumers_on_two_devices() -> Any:
    c = tf.constant([1.0], name="c")
    with tf.device("/job:worker/task:1"):
        first = tf.identity(c, name="first")
    with tf.device("/job:worker/task:0"):
        return [first, tf.negative(c, name="second")]


def metadata() -> Any:
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder_with_default([[1.0]], [None, 1], name="x")
    return [
        tf.shape(x, name="shape"),
        tf.size(x, name="size"),
        tf.rank(tf.identity(x), name="rank"),
    ]


def metadata_with_a_device() -> Any:
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder_with_default([[1.0]], [None, 1], name="x")
    with tf.device("/job:worker/task:0"):
        return tf.shape(x, name="shape")


def assignments() -> Any:
    with tf.device("/job:ps/task:1"):
        v = tf.Variable([1.0], name="v", use_resource=False)
    with tf.device("/job:worker/task:0"):
        one = tf.identity([1.0], name="one")
        with tf.control_dependencies([v.initializer]):
            return [tf.assign_add(v, one, name="add"), v.initializer]


def queues() -> Any:
    with tf.device("/job:worker/task:1"):
        q = tf.FIFOQueue(3, [tf.float32], [[]], name="q")
    put = q.enqueue(1.0, name="put")
    with tf.control_dependencies([put]):
        return [q.dequeue(name="get"), q.size(name="size")]


def queue_placed_by_its_user() -> Any:
    q = tf.FIFOQueue(3, [tf.float32], [[]], name="q")
    with tf.device("/job:worker/task:0"):
        q.enqueue(1.0, name="put")
    return q.size(name="size")


def colocated() -> Any:
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder_with_default(1.0, [], name="x")
    with tf.colocate_with(x):
        y = tf.identity(2.0, name="y")
    with tf.colocate_with(y):
        return [tf.negative(x, name="z"), y]


BUILDERS: list[Callable[[], Any]] = [
    default, jobs_and_tasks, one_consumer, consumers_on_one_device, consumers_on_two_devices, metadata,
    metadata_with_a_device, assignments, queues, queue_placed_by_its_user, colocated,
]  # fmt: skip


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_every_node_goes_where_tensorflow_puts_it(
    oracle: Any, cluster: str, graph: tf.Graph, build: Callable[[], Any]
) -> None:
    fetches = build()
    fetches = fetches if isinstance(fetches, list) else [fetches]
    names = [fetch.name for fetch in fetches]
    theirs = oracle.run(RUN, data=graph.as_graph_def().SerializeToString(), names=names, soft=False)
    groups = Groups()
    groups.add(graph.get_operations())
    ops = [fetch if isinstance(fetch, tf.Operation) else fetch.op for fetch in fetches]
    ours = {
        op.name: device
        for op, device in place(needed([], [], ops, exact=True).ops, DEVICES, groups=groups).items()
    }
    compared = {name: device for name, device in ours.items() if name in theirs}
    assert len(compared) >= len(fetches)
    assert compared == {name: theirs[name] for name in compared}


IMPOSSIBLE = {
    "a job that is not there": ("/job:nobody", False),
    "a task that is not there": ("/job:ps/task:7", False),
    "a task that is not there, softly": ("/job:ps/task:7", True),
    "a device that is not there": ("/job:ps/gpu:0", False),
    "a device that is not there, softly": ("/job:ps/gpu:0", True),
    "an index that is not there": ("/job:ps/cpu:3", False),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_what_cannot_be_placed_there_cannot_be_placed_here(
    oracle: Any, cluster: str, graph: tf.Graph, what: str
) -> None:
    device, soft = IMPOSSIBLE[what]
    with tf.device(device):
        value = tf.constant(1.0, name="c")
    theirs = oracle.outcome(
        RUN, data=graph.as_graph_def().SerializeToString(), names=[value.name], soft=soft
    )
    assert placed_or_refused(value.op, soft) == (
        theirs if theirs[0] == "error" else ("value", theirs[1]["c"])
    )


def placed_or_refused(op: tf.Operation, soft: bool) -> tuple[str, str]:
    try:
        return "value", place([op], DEVICES, allow_soft_placement=soft)[op]
    except tf.errors.OpError as error:
        return "error", type(error).__name__
