"""ClusterSpec and the definitions of servers against TensorFlow's: same values, same classes of errors."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf

FORMS = {
    "lists": {"worker": ["a:1", "b:2"], "ps": ["c:3"]},
    "tuples": {"worker": ("a:1", "b:2")},
    "dicts": {"worker": {1: "b:2", 0: "a:1"}, "ps": {0: "c:3"}},
    "a dict with gaps": {"worker": {7: "h:7", 2: "c:2"}},
    "a dict that starts at one": {"worker": {1: "b:2"}},
    "a job without tasks": {"ps": [], "worker": ["a:1"]},
    "an empty cluster": {},
    "unicode": {"wörker": ["a:1"]},
    "addresses of any kind": {"worker": ["x", "", "a:b:c"]},
    "a string for tasks": {"worker": "a:1"},
    "a number for tasks": {"worker": 3},
    "a set of tasks": {"worker": {"a:1"}},
    "a number for an address": {"worker": [3]},
    "None for an address": {"worker": [None]},
    "a string for an index": {"worker": {"0": "a:1"}},
    "a word for an index": {"worker": {"first": "a:1"}},
    "a number for a job": {3: ["a:1"]},
    "a number": 3,
    "a list": ["a:1"],
    "None": None,
    "a string": "a:1",
}
"""What a ClusterSpec may, and may not, be made from."""

VIEWS = {
    "as_dict": "result = {k: v for k, v in spec.as_dict().items()}",
    "jobs": "result = sorted(spec.jobs)",
    "as_cluster_def": "result = str(spec.as_cluster_def())",
    "num_tasks": "result = [spec.num_tasks(job) for job in sorted(spec.jobs)]",
    "task_indices": "result = [list(spec.task_indices(job)) for job in sorted(spec.jobs)]",
    "job_tasks": "result = [spec.job_tasks(job) for job in sorted(spec.jobs)]",
    "bool": "result = bool(spec)",
    "round trip": "result = tf.train.ClusterSpec(spec.as_cluster_def()) == spec",
    "copy": "result = tf.train.ClusterSpec(spec) == spec and not tf.train.ClusterSpec(spec) != spec",
    "another": "result = tf.train.ClusterSpec({'x': ['y:1']}) == spec",
    "no spec": "result = spec == 3",
    "num_tasks of nothing": "spec.num_tasks('nobody')",
    "task_indices of nothing": "spec.task_indices('nobody')",
    "job_tasks of nothing": "spec.job_tasks('nobody')",
    "an address": "result = spec.task_address('worker', 0)",
    "no address": "spec.task_address('worker', 99)",
    "no job's address": "spec.task_address('nobody', 0)",
    "hash": "hash(spec)",
}
"""What is asked of one."""


def ours(source: str, **names: Any) -> tuple[str, Any]:
    names = {"tf": tf, **names}
    try:
        exec(compile(source, "<ours>", "exec"), names)
        return "value", names["result"]
    except Exception as error:
        return "error", type(error).__name__


OURS = {("a job without tasks", "job_tasks"): ("value", [[], ["a:1"]])}
"""Where TensorFlow falls over its own feet."""


@pytest.mark.parametrize("form", FORMS)
def test_a_spec_is_made_from_and_reads_as_in_tensorflow(oracle: Any, form: str) -> None:
    given = FORMS[form]
    made = "spec = tf.train.ClusterSpec(given); "
    theirs = oracle.run(
        """
result = {}
for name, source in views.items():
    names = {"tf": tf, "given": given}
    try:
        exec("spec = tf.train.ClusterSpec(given); " + source, names)
        result[name] = ("value", names["result"])
    except Exception as error:
        result[name] = ("error", type(error).__name__)
""",
        views=VIEWS,
        given=given,
    )
    for name, source in VIEWS.items():
        found = ours(made + source, given=given)
        assert found == OURS.get((form, name), theirs[name]), name


SERVERS = {
    "one job, one task": "{'local': ['localhost:0']}",
    "a job the cluster does not have": "{'ps': ['localhost:0']}, 'worker', 0",
    "a task the job does not have": "{'ps': ['localhost:0']}, 'ps', 1",
    "a negative task": "{'ps': ['localhost:0']}, 'ps', -1",
    "a job without tasks": "{'ps': []}, 'ps', 0",
    "an empty cluster": "{}, 'ps', 0",
    "an empty cluster and no job": "{}",
    "no job of several": "{'ps': ['localhost:0'], 'worker': ['localhost:0']}",
    "no task of several": "{'ps': ['localhost:0', 'localhost:1']}, 'ps'",
    "no task of one that is not 0": "{'ps': {3: 'localhost:0'}}",
    "a job of several, its only task": "{'ps': ['localhost:0'], 'worker': ['localhost:0']}, 'ps'",
    "another protocol": "{'ps': ['localhost:0']}, 'ps', 0, 'grpc+nothing'",
    "no cluster": "3",
    "a string for tasks": "{'ps': 'abc'}, 'ps', 0",
    "a string for a task": "{'ps': ['localhost:0']}, 'ps', '0'",
    "a number for a job": "{'ps': ['localhost:0']}, 3, 0",
    "no config": "{'ps': ['localhost:0']}, 'ps', 0, None, 3",
    "no port": "{'ps': ['localhost']}",
    "no number for a port": "{'ps': ['localhost:x']}",
}


@pytest.mark.parametrize("what", SERVERS)
def test_a_server_is_made_or_refused_as_in_tensorflow(oracle: Any, what: str) -> None:
    source = f"""
server = tf.train.Server({SERVERS[what]})
result = (server.server_def.job_name, server.server_def.task_index, server.server_def.protocol)
"""
    stopping = source + "\nserver.stop()"
    assert ours(stopping) == tuple(oracle.outcome(source))
