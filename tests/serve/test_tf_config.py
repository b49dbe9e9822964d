"""TF_CONFIG: what a server, a spec and `headrace serve` read there, and what they say about one that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.serve import cluster as tf_config
from headrace.tools.commands import UsageError
from headrace.tools.serve import which_task

Set = Callable[[Any], None]

A, B, C = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
CLUSTER = {"ps": [A], "worker": [B, C]}


def task(kind: Any, index: Any = 0) -> dict[str, Any]:
    return {"type": kind, "index": index}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Sets TF_CONFIG: to a text, or to JSON of anything else."""

    def set_it(value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        monkeypatch.setenv("TF_CONFIG", text)

    return set_it


GOOD: dict[str, tuple[Any, dict[str, Any], tuple[str, int]]] = {
    "a task": ({"cluster": CLUSTER, "task": task("worker", 1)}, {}, ("worker", 1)),
    "an index in quotes": ({"cluster": CLUSTER, "task": task("worker", "1")}, {}, ("worker", 1)),
    "a chief": ({"cluster": {"chief": [A], **CLUSTER}, "task": task("chief")}, {}, ("chief", 0)),
    "a master": ({"cluster": {"master": [A], "ps": [B]}, "task": task("master")}, {}, ("master", 0)),
    "an evaluator that is in the cluster": (
        {"cluster": {"evaluator": [A], "ps": [B]}, "task": task("evaluator")}, {}, ("evaluator", 0),
    ),
    "tasks with gaps": (
        {"cluster": {"ps": {"1": A, "4": B}, "worker": [C]}, "task": task("ps", 4)}, {}, ("ps", 4),
    ),
    "the only task": ({"cluster": {"local": [A]}}, {}, ("local", 0)),
    "the only task, and null for a task": ({"cluster": {"local": [A]}, "task": None}, {}, ("local", 0)),
    "the only task of a job": ({"cluster": CLUSTER, "task": {"type": "ps"}}, {}, ("ps", 0)),
    "another index": ({"cluster": CLUSTER, "task": task("worker", 1)}, {"task_index": 0}, ("worker", 0)),
    "another job": ({"cluster": CLUSTER, "task": task("worker", 1)}, {"job_name": "ps"}, ("ps", 0)),
    "the same job": ({"cluster": CLUSTER, "task": task("worker", 1)}, {"job_name": "worker"}, ("worker", 1)),
    "as Kubeflow's TFJob says it": (
        {
            "cluster": {
                "chief": ["mnist-chief-0.default.svc:2222"],
                "ps": ["mnist-ps-0.default.svc:2222"],
                "worker": [f"mnist-worker-{n}.default.svc:2222" for n in range(2)],
            },
            "task": {"type": "worker", "index": 1},
            "environment": "cloud",
        }, {}, ("worker", 1),
    ),
    "what others want to know": (
        {"cluster": {"local": [A]}, "environment": "cloud", "rpc_layer": "grpc", "job": {"x": 1}}, {}, ("local", 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", GOOD)
def test_a_server_without_a_cluster_is_the_task_that_tf_config_names(what: str, said: Set) -> None:
    config, arguments, (job, index) = GOOD[what]
    said(config)
    server = tf.train.Server(start=False, **arguments)
    definition = server.server_def
    assert (definition.job_name, definition.task_index, definition.protocol) == (job, index, "grpc")
    cluster = tf.train.ClusterSpec(definition.cluster)
    assert cluster == tf.train.ClusterSpec.from_tf_config()
    assert cluster == tf.train.ClusterSpec(config["cluster"])


def test_such_a_server_serves(said: Set) -> None:
    said({"cluster": CLUSTER, "task": task("worker", 1)})
    alone = tf.ConfigProto(device_filters=["/job:nobody"])  # the others are not up
    with tf.train.Server() as server, tf.Session(server.target, config=alone) as session:
        assert session.list_devices()[0].name == "/job:worker/replica:0/task:1/device:CPU:0"


def test_a_cluster_that_is_given_goes_before_tf_config(said: Set) -> None:
    said("no JSON at all")
    assert tf.train.Server({"local": [A]}, start=False).server_def.job_name == "local"


EXAMPLE = r'it should look like \{"cluster": \{'
BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "nothing": ("", ValueError, f"Server.. without a cluster.*not set.*set TF_CONFIG='{EXAMPLE[20:]}"),
    "blanks": ("  ", ValueError, "not set"),
    "Python's quotes": (
        "{'cluster': {}}", ValueError, f"not JSON.*line 1, column 2.*double quotes.*{EXAMPLE}",
    ),
    "half of it": ('{"cluster": {"ps": ["h:1"', ValueError, f"not JSON.*line 1.*{EXAMPLE}"),
    "braces without end": ("[" * 100_000, ValueError, "nested too deeply"),
    "a list": ([1], TypeError, f"the whole in TF_CONFIG must be an object in braces, not .1.*{EXAMPLE}"),
    "a list for a cluster": ({"cluster": ["h:1"]}, TypeError, f'"cluster".*not ..h:1.*{EXAMPLE}'),
    "a string for tasks": ({"cluster": {"ps": "h:1"}}, TypeError, f'"cluster" of TF_CONFIG.*job .ps.*{EXAMPLE}'),
    "a word for an index of the cluster": ({"cluster": {"ps": {"a": A}}}, ValueError, "job 'ps' has 'a'"),
    "no cluster": ({"task": task("worker")}, ValueError, f"has no cluster.*{EXAMPLE}"),
    "an empty cluster": ({"cluster": {}, "task": task("worker")}, ValueError, "has no cluster"),
    "no task": ({"cluster": CLUSTER}, ValueError, "has no task: add.*'ps', 'worker'"),
    "no index": (
        {"cluster": CLUSTER, "task": {"type": "worker"}}, ValueError,
        r"a task of job 'worker', and not which.*\[0, 1\].*\"index\"",
    ),
    "an index beyond the job": (
        {"cluster": CLUSTER, "task": task("worker", 2)}, ValueError, r"/job:worker/task:2.*tasks \[0, 1\]",
    ),
    "an index in a gap": (
        {"cluster": {"ps": {"1": A}}, "task": task("ps", 0)}, ValueError, r"/job:ps/task:0.*tasks \[1\]",
    ),
    "a job that is not there": (
        {"cluster": CLUSTER, "task": task("wroker")}, ValueError, "/job:wroker/task:0.*'ps', 'worker'; name the task",
    ),
    "an evaluator": (
        {"cluster": CLUSTER, "task": task("evaluator")}, ValueError, "no part of the cluster.*local session",
    ),
    "a chief where there is a master": (
        {"cluster": {"master": [A], "ps": [B]}, "task": task("chief")}, ValueError,
        "'master' is another word for 'chief'",
    ),
    "a master where there is a chief": (
        {"cluster": {"chief": [A], "ps": [B]}, "task": task("master")}, ValueError,
        "'chief' is another word for 'master'",
    ),
    "a list for a task": ({"cluster": CLUSTER, "task": ["ps", 0]}, TypeError, '"task".*an object in braces'),
    "a number for a job": ({"cluster": CLUSTER, "task": task(3)}, TypeError, '"type" of "task".*string, not 3'),
    "a word for an index": ({"cluster": CLUSTER, "task": task("ps", "x")}, ValueError, "from 0 on, not 'x'"),
    "half an index": ({"cluster": CLUSTER, "task": task("ps", 0.5)}, ValueError, "whole number from 0 on, not 0.5"),
    "no number for an index": ({"cluster": CLUSTER, "task": task("ps", True)}, TypeError, "a number, not True"),
    "an index without end": ('{"task": {"index": Infinity}}', ValueError, "whole number from 0 on, not inf"),
    "a negative index": ({"cluster": CLUSTER, "task": task("ps", -1)}, ValueError, "from 0 on, not -1"),
    "a job twice": ('{"cluster": {"ps": ["h:1"], "ps": ["h:2"]}}', ValueError, "'ps' twice.*h:1.*h:2.*one list"),
    "a protocol that is no string": ({"cluster": CLUSTER, "rpc_layer": 3}, TypeError, '"rpc_layer".*string, not 3'),
    "a protocol that nobody speaks": (
        {"cluster": {"ps": [A]}, "rpc_layer": "grpc+verbs"}, tf.errors.NotFoundError, "use 'grpc'",
    ),
    "no port": ({"cluster": {"ps": ["localhost"]}}, tf.errors.InvalidArgumentError, "HOST:PORT"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_tf_config_that_is_wrong_is_refused(what: str, said: Set) -> None:
    config, kind, complaint = BAD[what]
    said(config)
    with pytest.raises(kind, match=f"(?s){complaint}"):
        tf.train.Server()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            {"job_name": "chief"},
            "the program asks for /job:chief, and its cluster has the jobs 'ps'",
        ),
        ({"task_index": 7}, r"the program asks for /job:worker/task:7.*tasks \[0, 1\]"),
    ],
)
def test_who_asked_for_a_task_that_is_not_there_is_said(
    arguments: dict[str, Any], complaint: str, said: Set
) -> None:
    said({"cluster": CLUSTER, "task": task("worker", 1)})
    with pytest.raises(ValueError, match=complaint):
        tf.train.Server(**arguments)


NAMES = st.sampled_from(["cluster", "task", "type", "index", "rpc_layer", "ps", "0", "h:1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NAMES | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)


@given(st.text() | JSON.map(json.dumps))
def test_whatever_stands_there_is_a_task_or_an_error_that_names_tf_config(text: str) -> None:
    try:
        job, index = tf_config.parse(text).task()
    except (TypeError, ValueError) as error:
        complaint = str(error)
    else:
        complaint = ""
        assert tf_config.parse(text).cluster.task_address(job, index)
    assert not complaint or "TF_CONFIG" in complaint


# -- headrace serve -------------------------------------------------------------------------------

PORTS = {"ps": ["h:1"], "worker": ["h:2", "h:3"]}


def test_serve_without_options_is_the_task_that_tf_config_names(said: Set) -> None:
    said({"cluster": PORTS, "task": task("worker", 1)})
    assert which_task(None, None, None) == (tf.train.ClusterSpec(PORTS), "worker", 1)
    assert which_task(None, "ps", None)[1:] == ("ps", 0)
    assert which_task(None, None, 0)[1:] == ("worker", 0)
    assert which_task("a=h:9", "a", None) == (tf.train.ClusterSpec({"a": ["h:9"]}), "a", 0)


@pytest.mark.parametrize(
    ("config", "options", "complaint"),
    [
        ("", (None, None, None), "headrace serve without --cluster takes the cluster from TF_CONFIG"),
        ("", ("a=h:1", None, None), "--cluster needs --job"),
        ("{", (None, None, None), "not JSON"),
        ({"cluster": PORTS}, (None, None, None), "has no task"),
        ({"cluster": PORTS, "task": task("evaluator")}, (None, None, None), "runs no server"),
        ({"cluster": {"ps": ["h"]}}, (None, None, None), "'h' of job 'ps' is not HOST:PORT"),
        ({"cluster": {"ps": ["h:0"]}}, (None, None, None), "'h:0' of job 'ps' is not HOST:PORT"),
    ],
)  # fmt: skip
def test_serve_says_what_is_wrong_with_it(
    config: Any, options: tuple[Any, Any, Any], complaint: str, said: Set
) -> None:
    said(config)
    with pytest.raises(UsageError, match=complaint):
        which_task(*options)
