"""Cluster resolvers against TensorFlow's: the same answers, the same classes of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

import headrace as tf

CLUSTER = {"ps": ["h:1"], "worker": ["h:2", "h:3"]}
CONFIGS: dict[str, Any] = {
    "nothing": {},
    "a task": {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}},
    "an index in quotes": {"cluster": CLUSTER, "task": {"type": "worker", "index": "1"}},
    "a protocol": {"cluster": CLUSTER, "task": {"type": "ps", "index": 0}, "rpc_layer": "grpc"},
    "a master of its own": {"cluster": CLUSTER, "session_master": "grpc://elsewhere:1"},
    "one task": {"cluster": {"local": ["h:1"]}},
    "one task and no list": {"cluster": {"ps": {"2": "h:1"}}, "task": {"type": "ps", "index": 2}},
    "tasks with gaps": {
        "cluster": {"ps": {"1": "h:1", "5": "h:2"}},
        "task": {"type": "ps", "index": 5},
    },
    "an evaluator": {"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}},
    "no task": {"cluster": CLUSTER},
    "a task without an index": {"cluster": CLUSTER, "task": {"type": "worker"}},
    "an index beyond the job": {"cluster": CLUSTER, "task": {"type": "worker", "index": 9}},
    "another environment": {"cluster": CLUSTER, "environment": "cloud"},
}
WRONG: dict[str, tuple[Any, str, str]] = {
    "a number for a cluster": ({"cluster": 3}, "r.cluster_spec().as_dict()", "TypeError"),
    "a string for tasks": ({"cluster": {"ps": "h:1"}}, "r.cluster_spec().as_dict()", "TypeError"),
    "a word for an index of the cluster": (
        {"cluster": {"ps": {"x": "h:1"}}}, "r.cluster_spec().as_dict()", "ValueError",
    ),
    "a word for an index": (
        {"cluster": CLUSTER, "task": {"type": "worker", "index": "x"}}, "r.task_id", "ValueError",
    ),
    "a number for a task": ({"cluster": CLUSTER, "task": 3}, "r.task_type", "TypeError"),
}  # fmt: skip
"""What is wrong in a part; TensorFlow finds it when that part is asked for, headrace whatever is."""

ASKED = [
    "r.cluster_spec().as_dict()",
    "r.task_type",
    "r.task_id",
    "r.rpc_layer",
    "r.environment",
    "r.master()",
    "r.master('ps', 0)",
    "r.master('worker', 0, 'grpc')",
    "r.master(rpc_layer='https')",
    "r.master('nobody', 0)",
    "r.master('worker', 7)",
]
MADE = [
    "TFConfigClusterResolver()",
    "TFConfigClusterResolver('worker', 0, 'grpc', 'here')",
    "TFConfigClusterResolver(task_id='0', task_type='ps')",
]


def answers(namespace: Any, spec: Any, made: str, asked: list[str]) -> list[Any]:
    names = {**{n: getattr(namespace, n) for n in dir(namespace)}, "ClusterSpec": spec}
    found: list[Any] = []
    for question in asked:
        try:
            names["r"] = eval(made, names)
            found.append(("value", eval(question, names)))
        except Exception as error:
            found.append(("error", type(error).__name__))
    return found


THEIRS = """
import os
if config is not None:
    os.environ["TF_CONFIG"] = config
from tensorflow.python.distribute import cluster_resolver as namespace
names = {**{n: getattr(namespace, n) for n in dir(namespace)}, "ClusterSpec": tf.train.ClusterSpec}
names["UnionResolver"] = names["UnionClusterResolver"]
result = []
for made in all_made:
    found = []
    for question in asked:
        try:
            names["r"] = eval(made, names)
            found.append(("value", eval(question, names)))
        except Exception as error:
            found.append(("error", type(error).__name__))
    result.append(found)
"""


@pytest.mark.parametrize("what", CONFIGS)
def test_tf_config_answers_as_in_tensorflow(
    oracle: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.dumps(CONFIGS[what])
    monkeypatch.setenv("TF_CONFIG", config)
    theirs = oracle.run(THEIRS, config=config, all_made=MADE, asked=ASKED)
    for made, expected in zip(MADE, theirs, strict=True):
        found = answers(tf.distribute.cluster_resolver, tf.train.ClusterSpec, made, ASKED)
        for question, one, other in zip(ASKED, found, expected, strict=True):
            assert one == other, (made, question)


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_an_error_of_the_same_class(
    oracle: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, question, kind = WRONG[what]
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    theirs = oracle.run(THEIRS, config=json.dumps(config), all_made=MADE[:1], asked=[question])
    assert theirs == [[("error", kind)]]
    found = answers(
        tf.distribute.cluster_resolver, tf.train.ClusterSpec, MADE[0], ["r.task_id", "r.master()"]
    )
    assert found == [("error", kind)] * 2


def test_what_is_no_json_is_a_value_error_on_both_sides(
    oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
import os
os.environ["TF_CONFIG"] = "{'cluster'"
from tensorflow.python.distribute.cluster_resolver import TFConfigClusterResolver
try:
    TFConfigClusterResolver().cluster_spec()
except ValueError:
    result = "ValueError"
"""
    monkeypatch.setenv("TF_CONFIG", "{'cluster'")
    with pytest.raises(ValueError, match="not JSON"):
        tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    assert oracle.run(source) == "ValueError"


ONE = (
    "SimpleClusterResolver(ClusterSpec({'ps': ['a:1'], 'worker': ['b:1', 'b:2']}), "
    "'m:1', 'worker', 1, 'e', {'GPU': 2}, 'grpc')"
)
TWO = "SimpleClusterResolver(ClusterSpec({'worker': ['c:1'], 'chief': ['d:1']}))"
GAPS = "SimpleClusterResolver(ClusterSpec({'worker': {7: 'e:1'}}))"
CLASH = "SimpleClusterResolver(ClusterSpec({'worker': {1: 'e:1'}}))"
GIVEN = [
    ONE,
    TWO,
    f"UnionResolver({ONE})",
    f"UnionResolver({ONE}, {TWO})",
    f"UnionResolver({TWO}, {ONE})",
    f"UnionResolver({ONE}, {GAPS})",
    f"UnionResolver({GAPS}, {ONE}, rpc_layer='x', task_type='ps', task_id=3)",
    f"UnionResolver({ONE}, {CLASH})",
    f"UnionResolver({TWO}, {GAPS}, {ONE})",
    "UnionResolver()",
    "UnionResolver(3)",
    f"UnionResolver({ONE}, x=1)",
    "SimpleClusterResolver({})",
    "SimpleClusterResolver(ClusterSpec({}), 3)",
    "SimpleClusterResolver(ClusterSpec({}))",
    "ClusterResolver()",
]


def test_what_is_given_is_answered_as_in_tensorflow(oracle: Any) -> None:
    asked = [*ASKED, "r.num_accelerators()", "r.num_accelerators('ps', 0)"]
    theirs = oracle.run(THEIRS, config=None, all_made=GIVEN, asked=asked)
    for made, expected in zip(GIVEN, theirs, strict=True):
        found = answers(tf.distribute.cluster_resolver, tf.train.ClusterSpec, made, asked)
        for question, one, other in zip(asked, found, expected, strict=True):
            assert one == other, (made, question)
