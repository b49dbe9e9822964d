"""Step statistics of one program, here and in TensorFlow: the same nodes, labels and outputs.

TensorFlow's optimizers are off, because they rename and replace nodes.  What differs all the same is named here.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.ports import own_ports
from tests.serve.clusters import in_process

TRACE = """
def traced(session, fetches, feeds=None):
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    return metadata.step_stats

def summary(stats):
    found = {}
    for device in stats.dev_stats:
        nodes = found.setdefault(device.device, [])
        for node in device.node_stats:
            outputs = []
            for output in node.output:
                told = output.tensor_description
                shape = tuple(dim.size for dim in told.shape.dim)
                size = told.allocation_description.requested_bytes
                outputs.append((output.slot, told.dtype, shape, size))
            memory = [used.total_bytes for used in node.memory]
            kept = node.memory_stats.persistent_memory_size
            ordered = node.scheduled_micros <= node.all_start_micros
            nodes.append((node.node_name, node.timeline_label, outputs, memory, kept, ordered))
    return found

def unoptimized(**more):
    config = tf.ConfigProto(**more)
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
"""

LOCAL = {
    "sums": """
x = tf.placeholder(tf.float32, [None, 4], name="x")
v = tf.Variable(tf.ones([4, 3]), name="v")
y = tf.matmul(x, v, name="y")
fetches = [tf.reduce_sum(y, name="s"), v.assign_add(tf.ones([4, 3]) * 2.0, name="up"), tf.identity(x, name="x2")]
feeds = {x: np.ones([2, 4], np.float32)}
""",
    "queues": """
q = tf.FIFOQueue(10, [tf.float32, tf.int32], [[2], []], name="q")
with tf.control_dependencies([q.enqueue([[3.0, 4.0], 5], name="put")]):
    a, b = q.dequeue(name="get")
fetches = [a + 1.0, tf.identity(b, name="b"), tf.no_op(name="end")]
feeds = {}
""",
    "several outputs": """
x = tf.placeholder(tf.float32, [2, 4], name="x")
parts = tf.split(x, 2, axis=1, name="parts")
values, where = tf.nn.top_k(parts[1], 1, name="best")
fetches = [tf.add(parts[0], parts[1], name="both"), where]
feeds = {x: np.arange(8, dtype=np.float32).reshape(2, 4)}
""",
    "a fed result": """
x = tf.constant([1.0, 2.0], name="x")
y = tf.add(x, 1.0, name="y")
fetches = [tf.multiply(y, y, name="z"), y]
feeds = {y: [5.0, 6.0]}
""",
    "two CPUs": """
with tf.device("/cpu:1"):
    a = tf.placeholder(tf.float32, [2], name="a")
    b = tf.add(a, 1.0, name="b")
with tf.device("/cpu:0"):
    c = tf.add(b, 2.0, name="c")
fetches = [c, b]
feeds = {a: [1.0, 2.0]}
""",
    "resource variables": """
x = tf.placeholder(tf.float32, [None, 4], name="x")
w = tf.Variable(tf.ones([4, 3]), name="w", use_resource=True)
y = tf.matmul(x, w, name="y")
with tf.control_dependencies([w.assign_add(tf.ones([4, 3]) * 2.0)]):
    fetches = [tf.reduce_sum(w.read_value(), name="s"), y]
feeds = {x: np.ones([2, 4], np.float32)}
""",
    "a training step": """
x = tf.placeholder(tf.float32, [None, 4], name="x")
w, b = tf.Variable(tf.ones([4, 3]), name="w"), tf.Variable(tf.zeros([3]), name="b")
loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b))), name="loss")
fetches = [loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)]
feeds = {x: np.ones([2, 4], np.float32)}
""",
    "a queue of batches": """
q = tf.RandomShuffleQueue(10, 0, [tf.int32], [[2]], name="q")
with tf.control_dependencies([q.enqueue_many([[[1, 2], [3, 4], [5, 6]]], name="put")]):
    batch = q.dequeue_many(2, name="batch")
fetches = [tf.reduce_sum(tf.cast(batch, tf.float32), name="s"), q.size(name="n")]
feeds = {}
""",
    "strings": """
words = tf.constant(["a", "bc"], name="words")
fetches = [tf.identity(words, name="same"), tf.string_join([words, words], name="twice")]
feeds = {}
""",
}
RUN_LOCAL = """
with tf.Session(config=unoptimized(device_count={"CPU": 2})) as session:
    session.run(tf.global_variables_initializer())
    result = summary(traced(session, fetches, feeds))
"""

# What is fetched is on the session's own task: TensorFlow moves other fetches there first, headrace does not.
CLUSTER = """
with tf.device("/job:ps/task:0"):
    v = tf.Variable(tf.ones([4, 3]), name="v")
    q = tf.FIFOQueue(10, [tf.float32], [[]], shared_name="q", name="q")
    put = q.enqueue(3.0, name="put")
    got = q.dequeue(name="get")
with tf.device("/job:worker/task:0"):
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.matmul(x, v, name="y")
    s = tf.add(tf.reduce_sum(y, name="s"), got, name="t")
    u = tf.ones([4, 3], name="u") * s
with tf.device("/job:ps/task:0"):
    up = v.assign_add(u, name="up")
with tf.Session(target, config=unoptimized()) as session:
    session.run(tf.global_variables_initializer())
    result = summary(traced(session, [s, up.op, put], {x: [[1.0, 2.0, 3.0, 4.0]] * 2}))
"""
ORACLE_CLUSTER = """
address = iter(["127.0.0.1:%d" % port for port in ports]).__next__

cluster = tf.train.ClusterSpec({"ps": [address()], "worker": [address()]})
ps = tf.train.Server(cluster, "ps", 0)
worker = tf.train.Server(cluster, "worker", 0)
target = worker.target
"""

# The graph is TensorFlow's, so that both run the same Switches and Merges.
CONTROL_FLOW = """
tf.disable_control_flow_v2()
x = tf.placeholder(tf.float32, [], name="x")
branch = tf.cond(x > 0.0, lambda: x * 2.0, lambda: x - 1.0, name="branch")
count, total = tf.while_loop(
    lambda i, t: i < 3, lambda i, t: [i + 1, t + tf.ones([2])], [tf.constant(0), tf.zeros([2])], name="loop"
)
tf.identity(branch, name="taken")
tf.identity(total, name="total")
definition = tf.get_default_graph().as_graph_def().SerializeToString()
"""
IMPORTED = """
graph = tf.GraphDef()
graph.ParseFromString(definition)
tf.import_graph_def(graph, name="")
with tf.Session(config=unoptimized()) as session:
    stats = summary(traced(session, ["taken:0", "total:0"], {"x:0": 1.5}))
"""

Summary = dict[str, list[Any]]


def ours(source: str, **names: Any) -> Any:
    scope: dict[str, Any] = {"tf": tf, "np": np, **names}
    with tf.Graph().as_default():
        exec(source, scope)
    return scope["result"]


def label(text: str) -> str:
    """Without what is named differently: transfers within a task, received values, MKL's kernels, rates.

    Control inputs are in alphabetical order; TensorFlow keeps none.
    """
    text = re.sub(r"= _Mkl", "= ", text)
    text = re.sub(r"\^[^()]+", lambda found: ", ".join(sorted(found[0].split(", "))), text)
    text = re.sub(r"(_S|/_)\d+\b", "", text)
    text = re.sub(r"\[[\d.]+[GM]b/s\]", "", text)
    return re.sub(r"edge_\d+_", "edge_", text)


def nodes(found: Summary) -> dict[str, list[tuple[str, str]]]:
    return {
        device: sorted((name, label(text)) for name, text, *_ in done)
        for device, done in found.items()
    }


def outputs(found: Summary) -> dict[tuple[str, str], Any]:
    """(slot, dtype, shape, bytes) of each output; a handle's bytes are each runtime's own."""
    return {
        (device, f"{name} {label(text)}"): [
            (slot, dtype, shape, 0 if dtype == tf.resource.as_datatype_enum else size)
            for slot, dtype, shape, size in described
        ]
        for device, done in found.items()
        for name, text, described, *_ in done
        if name != "RecvTensor"
    }


def kept(found: Summary) -> dict[str, int]:
    return {
        name: size
        for done in found.values()
        for name, _, described, _, size, _ in done
        if all(dtype != tf.string.as_datatype_enum for _, dtype, *_ in described)
    }


@pytest.fixture(scope="module", params=LOCAL)
def local(request: pytest.FixtureRequest, oracle: Any) -> tuple[Summary, Summary]:
    """The statistics of one program: theirs, ours."""
    source = TRACE + LOCAL[request.param] + RUN_LOCAL
    return oracle.run(source), ours(source)


@pytest.fixture(scope="module")
def distributed(oracle: Any) -> tuple[Summary, Summary]:
    """The statistics of one step on two tasks: theirs, ours."""
    theirs = oracle.run(TRACE + ORACLE_CLUSTER + CLUSTER, ports=own_ports(2))
    with in_process({"ps": 1, "worker": 1}) as cluster:
        return theirs, ours(TRACE + CLUSTER, target=cluster.target("worker:0"))


def test_a_local_step_lists_the_same_nodes(local: tuple[Summary, Summary]) -> None:
    theirs, mine = local
    assert nodes(mine) == nodes(theirs)


def test_a_local_step_describes_the_same_outputs(local: tuple[Summary, Summary]) -> None:
    theirs, mine = local
    assert outputs(mine) == outputs(theirs)


def test_what_outlives_a_step_is_the_same(local: tuple[Summary, Summary]) -> None:
    theirs, mine = local
    assert kept(mine) == kept(theirs)


def test_a_step_on_two_tasks_lists_the_same_nodes(distributed: tuple[Summary, Summary]) -> None:
    theirs, mine = distributed
    assert set(mine) == set(theirs)
    assert "RecvTensor" in [name for done in nodes(mine).values() for name, _ in done]
    # TensorFlow lists what it had to ask for; what came before it was wanted it leaves out.
    assert without_receives(mine) == without_receives(theirs)


def without_receives(found: Summary) -> dict[str, Any]:
    return {
        device: [node for node in done if node[0] != "RecvTensor"]
        for device, done in nodes(found).items()
    }


def test_a_step_on_two_tasks_describes_the_same_outputs(
    distributed: tuple[Summary, Summary],
) -> None:
    theirs, mine = distributed
    assert outputs(mine) == outputs(theirs)


def test_no_node_starts_before_its_inputs_are_there(distributed: tuple[Summary, Summary]) -> None:
    for found in distributed:
        assert all(ordered for done in found.values() for *_, ordered in done)


def test_what_kernels_compute_is_counted_as_allocated(local: tuple[Summary, Summary]) -> None:
    for found in local:
        for done in found.values():
            for name, text, described, memory, size, _ in done:
                # Forwarded buffers are not counted there, nor views and the state here, which updates may copy.
                if memory and not re.search("resource|Queue|VariableOp", text):
                    assert sum(memory) <= sum(output[3] for output in described) + size, name


def test_steps_with_branches_and_loops_list_every_execution(oracle: Any) -> None:
    definition = oracle.run(CONTROL_FLOW + "result = definition")
    source = TRACE + IMPORTED + "result = stats"
    theirs, mine = oracle.run(source, definition=definition), ours(source, definition=definition)
    assert nodes(mine) == nodes(theirs)
    assert outputs_in_order(mine) == outputs_in_order(theirs)


def outputs_in_order(found: Summary) -> dict[str, Any]:
    """(slot, dtype, shape) of the outputs at each execution, by node.

    A Merge's number of the input that came is not wanted here; TensorFlow leaves it out.
    """
    executions: dict[str, Any] = {}
    for done in found.values():
        for name, text, described, *_ in done:
            given = [
                output[:3] for output in described if " = Merge(" not in text or output[0] == 0
            ]
            executions.setdefault(name, []).append(given)
    return executions


LEVELS = """
x = tf.placeholder(tf.float32, [], name="x")
y = tf.add(x, 1.0, name="y")
found = {}
with tf.Session(target, config=unoptimized()) as session:
    for level in ("NO_TRACE", "SOFTWARE_TRACE", "HARDWARE_TRACE", "FULL_TRACE"):
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=getattr(tf.RunOptions, level))
        session.run(y, {x: 1.0}, options, metadata)
        found[level] = sorted({node[0] for nodes in summary(metadata.step_stats).values() for node in nodes})
    metadata = tf.RunMetadata()
    try:
        bad = tf.check_numerics(y, "bad", name="bad")
        session.run(bad, {x: float("nan")}, options, metadata)
    except tf.errors.InvalidArgumentError:
        found["failed"] = sorted({node[0] for nodes in summary(metadata.step_stats).values() for node in nodes})
    session.run(y, {x: 1.0}, None, metadata)
    found["again"] = len(metadata.step_stats.dev_stats)
result = found
"""


def test_levels_trace_as_much_as_tensorflows_local_sessions(oracle: Any) -> None:
    theirs = oracle.run(TRACE + LEVELS, target="")
    assert ours(TRACE + LEVELS, target="") == theirs
    assert theirs["FULL_TRACE"]


def test_a_cluster_traces_at_every_level_what_it_does_at_the_fullest(oracle: Any) -> None:
    """TensorFlow's master traces nothing below FULL_TRACE."""
    theirs = oracle.run(TRACE + ORACLE_CLUSTER + LEVELS, ports=own_ports(2))
    with in_process({"ps": 1, "worker": 1}) as cluster:
        found = ours(TRACE + LEVELS, target=cluster.target("worker:0"))
    assert {key: found[key] for key in ("NO_TRACE", "again")} == {
        key: theirs[key] for key in ("NO_TRACE", "again")
    }
    assert found["SOFTWARE_TRACE"] == found["HARDWARE_TRACE"] == found["FULL_TRACE"]
    assert theirs["SOFTWARE_TRACE"] == theirs["HARDWARE_TRACE"] == []
