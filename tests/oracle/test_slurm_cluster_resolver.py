"""The resolver for Slurm against TensorFlow's: the same answers, the same classes of errors."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf
from headrace.serve.slurm import expand_counts, expand_hostlist

STEP = {
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "CUDA_VISIBLE_DEVICES": "0,1",
}
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "a step": STEP,
    "uneven": STEP | {"SLURM_STEP_TASKS_PER_NODE": "1,3", "CUDA_VISIBLE_DEVICES": "0,1,2"},
    "more tasks than jobs have": STEP | {"SLURM_STEP_TASKS_PER_NODE": "2,3"},
    "the first": STEP | {"SLURM_PROCID": "0"},
    **{f"without {name}": {k: v for k, v in STEP.items() if k != name} for name in list(STEP)[:4]},
}
MADE: list[dict[str, Any]] = [
    {},
    {"jobs": {"worker": 4}, "gpus_per_node": 2, "gpus_per_task": 1},
    {"jobs": {"ps": 1, "worker": 3}, "gpus_per_node": 4, "gpus_per_task": 1, "port_base": 1000},
    {"jobs": {"worker": 2}, "gpus_per_node": 2, "gpus_per_task": 1},
    {"jobs": {"worker": 4}, "gpus_per_node": 2, "gpus_per_task": 2},
    {"jobs": {"worker": 4}, "gpus_per_node": 9, "gpus_per_task": 2},
    {"jobs": {"worker": 2}, "gpus_per_node": 1, "gpus_per_task": 1, "tasks_per_node": 1},
    {"gpus_per_node": 4, "gpus_per_task": 1, "auto_set_gpu": False, "rpc_layer": "x"},
]
ASKED = [
    "r.get_task_info()",
    "r.master()",
    "r.master('worker', 0)",
    "r.master('worker', 0, 'y')",
    "r.master('nobody', 0)",
    "r.cluster_spec().as_dict()",
    "r.get_task_info()",
    "r.master()",
    "r.master('worker')",
    "r.master('worker', 0, '')",
    "r.num_accelerators()",
    "os.environ.get('CUDA_VISIBLE_DEVICES')",
    "(r.rpc_layer, r.environment, r.task_type, r.task_id)",
]
ASKING = """
import os
result = []
for options in made:
    os.environ.update(environment)
    found = []
    try:
        r = Resolver(**options)
    except Exception as error:
        result.append([type(error).__name__])
        continue
    for question in asked:
        try:
            found.append(eval(question, {"r": r, "os": os}))
        except Exception as error:
            found.append(type(error).__name__)
    result.append(found)
"""
IMPORT = "from tensorflow.python.distribute.cluster_resolver.slurm_cluster_resolver import *\n"


@pytest.mark.parametrize("what", ENVIRONMENTS)
def test_a_step_is_answered_as_in_tensorflow(
    oracle: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = ENVIRONMENTS[what]
    clear = "import os\nfor name in [n for n in os.environ if n.startswith('SLURM_')]: del os.environ[name]\n"
    find = "Resolver = SlurmClusterResolver\n"
    theirs = oracle.run(
        IMPORT.replace("*", "SlurmClusterResolver") + find + clear + ASKING,
        environment=environment, made=MADE, asked=ASKED,
    )  # fmt: skip
    for name in STEP:
        monkeypatch.delenv(name, raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    names: dict[str, Any] = {
        "Resolver": tf.distribute.cluster_resolver.SlurmClusterResolver,
        "environment": environment, "made": MADE, "asked": ASKED,
    }  # fmt: skip
    exec(ASKING, names)
    for options, ours, expected in zip(MADE, names["result"], theirs, strict=True):
        assert ours == expected, options


@pytest.mark.parametrize(
    "text", ["n1", "n[1-3]", "n[01-03],m[4,6-7]", "", "n[08-11]", "n[1,1]", "n[", "n1,,n2", "n[a]", "a[1-]"]
)  # fmt: skip
def test_lists_of_hosts_are_those_of_tensorflow(oracle: Any, text: str) -> None:
    theirs = oracle.run(
        IMPORT.replace("*", "expand_hostlist")
        + "try:\n    result = expand_hostlist(text)\nexcept ValueError as e:\n    result = str(e).partition(':')[0]",
        text=text,
    )
    try:
        ours: Any = expand_hostlist(text)
    except ValueError as error:
        ours = str(error).partition(":")[0]
    assert ours == theirs


@pytest.mark.parametrize("text", ["2(x3),1", "3", "0", "x", "2(x)", "(x3)", " 2"])
def test_counts_are_those_of_tensorflow(oracle: Any, text: str) -> None:
    theirs = oracle.run(
        IMPORT.replace("*", "expand_tasks_per_node")
        + "try:\n    result = expand_tasks_per_node(text)\n"
        + "except ValueError as e:\n    result = str(e).partition(':')[0]",
        text=text,
    )
    try:
        ours: Any = expand_counts(text)
    except ValueError as error:
        ours = str(error).partition(":")[0]
    assert ours == theirs
