"""Placement against TensorFlow's: device strings of every scope in GraphDefs, and where nodes really run."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.contrib.training import GreedyLoadBalancingStrategy, byte_size_load_fn
from tests.ports import own_ports
from tests.serve.clusters import in_process
from tests.support.limits import PROGRAM_WITHIN_S

SCOPES = {
    "spellings": """
for text in ["/job:ps/task:0/cpu:0", "/device:GPU:1", "/gpu:0", "/replica:0/task:1", "cpu:0", "CPU:1", "/cpu:*",
             "/job:w/replica:2/task:3/device:CPU:0", "/device:cpu:0", "/GPU:*", "/device:TPU:2", "gpu", "/job:a",
             "/task:0/job:a", "//cpu:0", "/cpu:0/", "", "/job:a/job:b", "/device:other:1"]:
    with tf.device(text):
        tf.no_op()
""",
    "nested and overriding": """
with tf.device("/job:ps"):
    tf.no_op()
    with tf.device("/task:1"):
        tf.no_op()
        with tf.device("/cpu:0"):
            tf.no_op()
            with tf.device("/job:worker"):
                tf.no_op()
        with tf.device(None):
            tf.no_op()
            with tf.device("/gpu:1"):
                tf.no_op()
        with tf.device(""):
            tf.no_op()
    with tf.device("/gpu:0"), tf.device("/cpu:1"):
        tf.no_op()
with tf.device("/cpu:0"), tf.device("/device:GPU:*"):
    tf.no_op()
with tf.device("/job:a/replica:1"), tf.device("/replica:2/task:3"):
    tf.no_op()
""",
    "functions": """
def answer(text):
    return lambda op: text

with tf.device(answer("/cpu:0")):
    tf.no_op()
with tf.device(answer("/job:ps/cpu:0")):
    tf.no_op()
    with tf.device("/task:3"):
        tf.no_op()
    with tf.device(answer("/gpu:1")):
        tf.no_op()
        with tf.device(None):
            tf.no_op()
with tf.device("/job:ps/task:1"):
    with tf.device(answer("/gpu:0")):
        tf.no_op()
    with tf.device(lambda op: op.device + "/cpu:0"):
        tf.no_op()
    with tf.device(answer("")):
        tf.no_op()
    with tf.device(lambda op: tf.DeviceSpec(job="x", device_type="GPU")):
        tf.no_op()
with tf.device(lambda op: "/job:worker" if op.type == "Const" else "/job:ps"):
    tf.constant(1.0)
    tf.Variable(2.0, name="v")
with tf.device(lambda op: op.device or "/job:default"):
    tf.no_op()
    with tf.device("/cpu:1"):
        tf.no_op()
with tf.device(""), tf.device(answer("/foo")):
    tf.no_op()
""",
    "colocation": """
with tf.device("/job:ps"):
    a = tf.constant(1.0, name="a")
with tf.device("/cpu:0"):
    with tf.colocate_with(a):
        b = tf.constant(2.0, name="b")
    with tf.colocate_with(a):
        with tf.device("/gpu:0"):
            tf.constant(2.0, name="c")
        with tf.colocate_with(b):
            tf.constant(2.0, name="d")
        with tf.colocate_with(b, ignore_existing=True):
            tf.constant(2.0, name="e")
        with tf.colocate_with(None, ignore_existing=True):
            tf.constant(2.0, name="f")
with tf.device("/job:w"):
    z = tf.Variable(tf.ones([2]), name="z")
    with tf.colocate_with(z):
        tf.constant(3.0, name="y")
with tf.device(lambda op: "/job:fn"), tf.colocate_with(a):
    tf.constant(2.0, name="g")
with tf.device("/job:w2"):
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(z * 2.0))
""",
    "imported": """
inner = tf.GraphDef()
for index, text in enumerate(["/cpu:0", "/job:ps/gpu:1", "/task:3/job:a", ""]):
    inner.node.add(name="n%d" % index, op="NoOp", device=text)
tf.import_graph_def(inner, name="plain")
with tf.device("/job:q/task:9"):
    tf.import_graph_def(inner, name="scoped")
""",
}

SETTERS = {
    "round robin": "tf.train.replica_device_setter(3)",
    "a cluster": "tf.train.replica_device_setter(cluster={'ps': ['a:1', 'b:1'], 'worker': ['c:1', 'd:1']})",
    "a cluster with another job": """tf.train.replica_device_setter(
        cluster=tf.train.ClusterSpec({'store': ['a:1', 'b:1', 'c:1']}), ps_device='/job:store/cpu:0')""",
    "devices": "tf.train.replica_device_setter(2, ps_device='/job:p/cpu:0', worker_device='/job:w/task:3/gpu:1')",
    "no worker device": "tf.train.replica_device_setter(2, worker_device='')",
    "a ps without a job": "tf.train.replica_device_setter(2, ps_device='/cpu:0')",
    "other ops": "tf.train.replica_device_setter(2, ps_ops=['Const', 'VariableV2'])",
    "no merging": "tf.train.replica_device_setter(2, merge_devices=False)",
    "a strategy": "tf.train.replica_device_setter(4, ps_strategy=lambda op: len(op.name) % 4)",
    "no servers": "tf.train.replica_device_setter(0)",
}
MODEL = """
with tf.device({setter}):
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    sizes = [784, 30, 100, 10]
    for layer in range(3):
        w = tf.get_variable("w%d" % layer, [sizes[layer], sizes[layer + 1]])
        b = tf.get_variable("b%d" % layer, [sizes[layer + 1]], initializer=tf.zeros_initializer())
        x = tf.nn.relu(tf.matmul(x, w) + b)
    with tf.device("/task:1/cpu:0"):
        extra = tf.Variable(tf.zeros([5]), name="extra")
    with tf.device("/job:elsewhere"):
        away = tf.Variable(1.0, name="away")
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(x) * away + tf.reduce_sum(extra)
    tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
"""


GRAPH = "\nresult = tf.get_default_graph().as_graph_def().SerializeToString()\n"


def devices(definition: bytes) -> dict[str, Any]:
    """(device, colocation groups) by node."""
    return {
        node.name: (node.device, list(node.attr["_class"].list.s))
        for node in pb.GraphDef.FromString(definition).node
    }


def compared(oracle: Any, source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """`devices` of the graph that the source builds, theirs and ours."""
    whole = source + GRAPH
    with tf.Graph().as_default():
        scope: dict[str, Any] = {"tf": tf, "np": np}
        exec(whole, scope)
    return devices(oracle.run(whole)), devices(scope["result"])


@pytest.mark.parametrize("source", SCOPES.values(), ids=SCOPES)
def test_every_scope_gives_nodes_the_device_that_tensorflow_gives_them(
    oracle: Any, source: str
) -> None:
    theirs, ours = compared(oracle, source)
    assert ours == theirs


@pytest.mark.parametrize("setter", SETTERS.values(), ids=SETTERS)
def test_replica_device_setter_places_a_model_as_tensorflow_does(oracle: Any, setter: str) -> None:
    theirs, ours = compared(oracle, MODEL.format(setter=setter))
    assert ours == theirs


# TensorFlow 1.x has this strategy in tf.contrib.training, which TensorFlow 2 no longer has.
GREEDY = """
class Greedy:
    def __init__(self, num_tasks, load):
        self.loads = np.zeros(num_tasks)
        self.load = load

    def __call__(self, op):
        task = int(np.argmin(self.loads))
        self.loads[task] += self.load(op)
        return task

def size(op):
    shape = op.outputs[0].get_shape()
    return int(np.prod(shape.as_list())) * op.outputs[0].dtype.base_dtype.size

strategy = Greedy({tasks}, size)
"""


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_balancing_by_bytes_places_a_model_as_the_rule_says(oracle: Any, tasks: int) -> None:
    source = MODEL.format(setter=f"tf.train.replica_device_setter({tasks}, ps_strategy=strategy)")
    theirs = oracle.run(GREEDY.format(tasks=tasks) + source + GRAPH)
    scope = {"tf": tf, "strategy": GreedyLoadBalancingStrategy(tasks, byte_size_load_fn)}
    with tf.Graph().as_default():
        exec(source + GRAPH, scope)
    ours = devices(scope["result"])
    assert ours == devices(theirs)
    assert len({device for device, _ in ours.values() if device.startswith("/job:ps")}) >= tasks


ERRORS = {
    "two types": "tf.device('/cpu:0/gpu:0').__enter__()",
    "an index that is no number": "tf.device('/cpu:x').__enter__()",
    "a task that is no number": "tf.device('/task:a').__enter__()",
    "an unknown part": "tf.device('/foo').__enter__()",
    "an unknown part with a number": "tf.device('/foo:1').__enter__()",
    "a function's nonsense": """
with tf.device(lambda op: '/nonsense'): x = tf.constant(1.0)
tf.Session().run(x)""",
    "a function without an answer": """
with tf.device(lambda op: None): tf.no_op()""",
    "no such job": """
with tf.device('/job:nope'): x = tf.constant(1.0)
tf.Session().run(x)""",
    "no such job, softly": """
with tf.device('/job:nope'): x = tf.constant(1.0)
tf.Session(config=tf.ConfigProto(allow_soft_placement=True)).run(x)""",
    "no GPU": """
with tf.device('/gpu:0'): x = tf.constant(1.0)
tf.Session().run(x)""",
    "no such CPU": """
with tf.device('/cpu:3'): x = tf.constant(1.0)
tf.Session().run(x)""",
    "a GPU, softly": """
with tf.device('/gpu:0'): x = tf.constant(1.0)
result = tf.Session(config=tf.ConfigProto(allow_soft_placement=True)).run(x)""",
    "another CPU, softly": """
with tf.device('/cpu:3'): x = tf.constant(1.0)
result = tf.Session(config=tf.ConfigProto(allow_soft_placement=True)).run(x)""",
    "the second of two CPUs": """
with tf.device('/cpu:1'): x = tf.constant(1.0)
result = tf.Session(config=tf.ConfigProto(device_count={'CPU': 2})).run(x)""",
    "a strategy that is no function": "tf.train.replica_device_setter(1, ps_strategy=3)",
    "ops that are no list": "tf.train.replica_device_setter(1, ps_ops='Variable')",
    "a cluster that is no cluster": "tf.train.replica_device_setter(cluster=3)",
}


@pytest.mark.parametrize("source", ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_placed_is_the_same_error(oracle: Any, source: str) -> None:
    try:
        with tf.Graph().as_default():
            scope: dict[str, Any] = {"tf": tf, "result": None}
            exec(source, scope)
        ours = ("value", scope["result"])
    except Exception as error:
        ours = ("error", type(error).__name__)
    assert ours == oracle.outcome("result = None\n" + source)


WHERE = """
with tf.device("/job:ps/task:1"):
    v = tf.Variable(tf.zeros([2]), name="v")
    q = tf.FIFOQueue(4, [tf.float32], [[]], name="q", shared_name="where")
with tf.device("/job:worker"):
    x = tf.placeholder(tf.float32, [None], name="x")
    y = tf.add(x, 1.0, name="y")
    shape = tf.shape(y, name="shape")
    source = tf.random_uniform([], name="source")
with tf.device("/job:worker/task:1"):
    used = tf.add(source, 1.0, name="used")
    up = tf.assign_add(v, [1.0, 1.0], name="up")
put = q.enqueue(1.0, name="put")
free = tf.random_uniform([2], name="free")
with tf.device("/task:1"):
    second = tf.random_uniform([2], name="second")
with tf.device("/job:ps"):
    first = tf.random_uniform([2], name="first")
with tf.colocate_with(used):
    near = tf.random_uniform([2], name="near")
config = tf.ConfigProto(allow_soft_placement=True)
config.graph_options.optimizer_options.opt_level = -1
if hasattr(config.experimental, "headrace_place_on_own_task"):
    config.experimental.headrace_place_on_own_task = own_first
else:
    config.graph_options.rewrite_options.disable_meta_optimizer = True
options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
targets = [y.op, shape.op, used.op, up.op, put, free.op, second.op, first.op, near.op]
with tf.Session(target, config=config) as session:
    session.run(tf.global_variables_initializer())
    session.run(targets, {x: [1.0]}, options=options, run_metadata=metadata)
result = {
    node.node_name: device.device
    for device in metadata.step_stats.dev_stats
    for node in device.node_stats
    if not node.node_name.startswith("_") and node.node_name != "RecvTensor"
}
"""
START = """
address = iter(["127.0.0.1:%d" % port for port in ports]).__next__

cluster = tf.train.ClusterSpec({"ps": [address(), address()], "worker": [address(), address()]})
servers = {
    (job, index): tf.train.Server(cluster, job, index) for job in ("ps", "worker") for index in range(2)
}
target = servers[on].target
own_first = False
"""


@pytest.mark.parametrize(
    ("on", "own_first"), [(("ps", 0), False), (("worker", 1), True), (("worker", 0), True)]
)
def test_nodes_run_where_tensorflow_runs_them(
    oracle: Any, on: tuple[str, int], own_first: bool
) -> None:
    """On the cluster's first task both defaults agree; elsewhere the option makes ours TensorFlow 2's."""
    theirs = oracle.run(START + WHERE, on=on, ports=own_ports(4))
    with in_process({"ps": 2, "worker": 2}) as cluster, tf.Graph().as_default():
        target = cluster.target(f"{on[0]}:{on[1]}")
        scope: dict[str, Any] = {"tf": tf, "target": target, "own_first": own_first}
        exec(WHERE, scope)
    ours = scope["result"]
    common = sorted(set(theirs) & set(ours))
    assert {"up", "put", "near/RandomUniform", "free/RandomUniform", "second/RandomUniform"} <= set(
        common
    )
    assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}


LOGGED = """
with tf.device("/cpu:1"):
    a = tf.placeholder(tf.float32, [2], name="a")
    b = tf.add(a, 1.0, name="b")
v = tf.Variable([0.0, 0.0], name="v")
c = v.assign_add(b, name="c")
config = tf.ConfigProto(log_device_placement=True, device_count={"CPU": 2})
with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(2):
        session.run(c, {a: [1.0, 2.0]})
"""
THEIRS = (
    "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\ntf.disable_resource_variables()\n"
)


def test_placement_is_logged_in_tensorflows_words(oracle_python: str) -> None:
    """TensorFlow logs the whole graph, and each line twice; headrace what it runs."""

    def said(python: str, source: str) -> list[str]:
        done = subprocess.run(
            [python, "-c", source],
            capture_output=True,
            text=True,
            check=True,
            timeout=PROGRAM_WITHIN_S,
        )
        return [line for line in (done.stderr + done.stdout).splitlines() if ": (" in line]

    theirs = said(oracle_python, THEIRS + LOGGED)
    ours = said(sys.executable, "import headrace as tf\n" + LOGGED)
    assert len(set(ours)) == len(ours)
    assert {line.partition(":")[0] for line in ours} >= {"b", "b/y", "c", "v", "v/Assign", "init"}
    assert set(ours) <= set(theirs)
