"""Our Chrome trace of TensorFlow's own statistics has what TensorFlow's trace of them has."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from headrace.codec import protos as pb
from headrace.python.client.timeline import Timeline
from tests.ports import own_ports

TRACED = """
from tensorflow.python.client import timeline
address = iter(["127.0.0.1:%d" % port for port in ports]).__next__

cluster = tf.train.ClusterSpec({"ps": [address()], "worker": [address()]})
ps = tf.train.Server(cluster, "ps", 0)
worker = tf.train.Server(cluster, "worker", 0)
with tf.device(tf.train.replica_device_setter(cluster=cluster)):
    x = tf.placeholder(tf.float32, [None, 64])
    w = tf.Variable(tf.random_normal([64, 10]), name="w")
    labels = tf.placeholder(tf.int32, [None])
    logits = tf.matmul(x, w)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    step = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(loss))
metadata = tf.RunMetadata()
options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
with tf.Session(worker.target) as session:
    session.run(tf.global_variables_initializer())
    session.run(step, {x: np.zeros((5, 64)), labels: [1] * 5}, options, metadata)
made = timeline.Timeline(metadata.step_stats)
result = (
    metadata.SerializeToString(),
    made.generate_chrome_trace_format(show_dataflow=True, show_memory=False),
    made.generate_chrome_trace_format(show_dataflow=False, show_memory=True),
)
"""
OURS_ALONE = {"tensor", "from", "to", "bytes"}  # what a RecvTensor moved: TensorFlow leaves it out


@pytest.fixture(scope="module")
def traces(oracle: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Events of the same step: theirs and ours with dataflow, theirs and ours with memory."""
    metadata, flowing, remembering = oracle.run(TRACED, ports=own_ports(2))
    made = Timeline(pb.RunMetadata.FromString(metadata).step_stats)
    texts = (
        flowing,
        made.generate_chrome_trace_format(show_dataflow=True, show_memory=False),
        remembering,
        made.generate_chrome_trace_format(show_dataflow=False, show_memory=True),
    )
    a, b, c, d = (json.loads(text)["traceEvents"] for text in texts)
    return a, b, c, d


def rows(events: list[Any]) -> dict[int, str]:
    return {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}


def complete(events: list[Any]) -> Counter[Any]:
    names = rows(events)
    return Counter(
        (
            names[e["pid"]],
            e["name"],
            e["cat"],
            e["ts"],
            e["dur"],
            json.dumps({k: v for k, v in e["args"].items() if k not in OURS_ALONE}, sort_keys=True),
        )
        for e in events
        if e["ph"] == "X"
    )


def test_every_span_is_the_same(traces: Any) -> None:
    theirs, ours, _, _ = traces
    assert sum(complete(theirs).values()) > 20
    assert complete(ours) == complete(theirs)


def test_the_rows_are_the_same_each_once(traces: Any) -> None:
    theirs, ours, _, _ = traces
    assert set(rows(ours).values()) == set(rows(theirs).values())
    assert len(rows(ours)) == len(set(rows(ours).values()))  # TensorFlow repeats a device


def test_events_have_the_keys_that_theirs_have(traces: Any) -> None:
    theirs, ours, theirs_with_memory, ours_with_memory = traces

    def keys(events: list[Any]) -> dict[str, set[str]]:
        return {e["ph"]: set(e) for e in events}

    expected = {**keys(theirs), **keys(theirs_with_memory)}
    got = {**keys(ours), **keys(ours_with_memory)}
    # An arrow ends with "f" and says that it belongs to the slice around it; theirs stops at "t".
    expected["f"] = expected.pop("t", set()) | {"bp"}
    assert {ph: expected[ph] - got.get(ph, set()) for ph in expected} == {
        ph: set() for ph in expected
    }


def test_the_same_tensors_are_held(traces: Any) -> None:
    _, _, theirs, ours = traces

    def tensors(events: list[Any]) -> Counter[Any]:
        names = rows(events)
        return Counter((names[e["pid"]], e["name"], e["ts"]) for e in events if e["ph"] == "N")

    assert tensors(ours) == tensors(theirs)


def test_what_crosses_tasks_has_an_arrow(traces: Any) -> None:
    _, ours, _, _ = traces
    received = {e["args"]["tensor"] for e in ours if "tensor" in e.get("args", {})}
    starts = {e["name"] for e in ours if e["ph"] == "s"}
    assert "w/read" in received
    assert received <= starts
