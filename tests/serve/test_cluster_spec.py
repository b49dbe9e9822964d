"""ClusterSpec: every form it is made from, everything it tells.  Classes of errors are compared with TensorFlow's in
tests/oracle/test_cluster.py.
"""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb

CLUSTER_DEF = pb.ClusterDef(
    job=[
        pb.JobDef(name="ps", tasks={0: "a:1"}),
        pb.JobDef(name="worker", tasks={0: "b:1", 2: "c:1"}),
    ]
)

FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lists": ({"ps": ["a:1"], "worker": ["b:1", "c:1"]}, {"ps": ["a:1"], "worker": ["b:1", "c:1"]}),
    "tuples and bytes": ({b"ps": (b"a:1",)}, {"ps": ["a:1"]}),
    "dicts": ({"ps": {1: "b:1", 0: "a:1"}}, {"ps": ["a:1", "b:1"]}),
    "gaps": ({"ps": {3: "d:1"}}, {"ps": {3: "d:1"}}),
    "a ClusterDef": (CLUSTER_DEF, {"ps": ["a:1"], "worker": {0: "b:1", 2: "c:1"}}),
    "a ClusterSpec": (tf.train.ClusterSpec({"ps": ["a:1"]}), {"ps": ["a:1"]}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_spec_is_made_from(form: str) -> None:
    given, read = FORMS[form]
    spec = tf.train.ClusterSpec(given)
    assert spec.as_dict() == read
    assert tf.train.ClusterSpec(spec.as_cluster_def()) == spec
    assert bool(spec) == bool(read)
    assert eval(repr(spec), {"ClusterSpec": tf.train.ClusterSpec}) == spec


BAD = {
    "a number": (3, "`cluster` must be a dictionary"),
    "a string for tasks": ({"ps": "a:1"}, "The tasks for job 'ps' must be a list or a dictionary"),
    "a number for an address": (
        {"ps": [3]},
        r"Task address 3 must be bytes or unicode: it is that of job 'ps', task 0",
    ),
    "a number for a job": ({3: ["a:1"]}, "Job name 3 must be bytes or unicode"),
    "None for an index": (
        {"ps": {None: "a:1"}},
        "task indices are integers, and job 'ps' has None",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_spec_is_not_made_from(what: str) -> None:
    given, said = BAD[what]
    with pytest.raises(TypeError, match=said):
        tf.train.ClusterSpec(given)


def test_what_a_spec_tells() -> None:
    spec = tf.train.ClusterSpec(CLUSTER_DEF)
    assert spec.jobs == ["ps", "worker"]
    assert spec.num_tasks("worker") == 2
    assert spec.task_indices("worker") == [0, 2]
    assert spec.task_address("worker", 2) == "c:1"
    assert spec.job_tasks("worker") == ["b:1", None, "c:1"]
    assert spec.task_names() == {
        "/job:ps/replica:0/task:0": "a:1",
        "/job:worker/replica:0/task:0": "b:1",
        "/job:worker/replica:0/task:2": "c:1",
    }


MISSING = [
    (
        lambda spec: spec.num_tasks("chief"),
        "No such job in cluster: 'chief'; it has 'ps', 'worker'",
    ),
    (
        lambda spec: spec.task_address("worker", 1),
        r"No task with index 1 in job 'worker'; it has \[0, 2\]",
    ),
]


@pytest.mark.parametrize(("ask", "said"), MISSING, ids=[said for _, said in MISSING])
def test_what_is_not_there_is_named_with_what_is(ask: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ask(tf.train.ClusterSpec(CLUSTER_DEF))


def test_a_spec_keeps_nothing_of_what_it_was_made_from() -> None:
    given = {"ps": ["a:1"]}
    spec = tf.train.ClusterSpec(given)
    given["ps"].append("b:1")
    spec.as_dict()["ps"].append("c:1")
    assert spec.num_tasks("ps") == 1


def test_specs_are_equal_by_value_and_not_hashable() -> None:
    spec = tf.train.ClusterSpec({"ps": ["a:1"]})
    assert spec == tf.train.ClusterSpec({"ps": {0: "a:1"}})
    assert spec != tf.train.ClusterSpec({"ps": ["b:1"]})
    assert spec != {"ps": ["a:1"]}
    with pytest.raises(TypeError):
        hash(spec)
