"""The resolver for Slurm; its answers are compared with TensorFlow's in tests/oracle/test_slurm_cluster_resolver.py."""

from __future__ import annotations

import os

import pytest

import headrace as tf
from headrace.training.slurm_cluster_resolver import gpu_count

STEP = {
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}


@pytest.fixture(autouse=True)
def step(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in STEP.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_a_step_without_gpus_is_a_cluster() -> None:
    """Where TensorFlow raises, since it divides GPUs that there are not."""
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver({"ps": 1, "worker": 3})
    cluster = resolver.cluster_spec()
    assert cluster.as_dict() == {
        "ps": ["n1:8888"],
        "worker": ["n1:8889", "n2:8888", "n2:8889"],
    }
    assert resolver.get_task_info() == ("worker", 1)
    assert resolver.master() == "grpc://n2:8888"
    assert resolver.num_accelerators() == {"GPU": 0}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_it_has_its_names_in_contrib_too() -> None:
    assert (
        tf.contrib.cluster_resolver.SlurmClusterResolver
        is tf.distribute.cluster_resolver.SlurmClusterResolver
    )


def test_another_number_of_tasks_is_said() -> None:
    with pytest.raises(RuntimeError, match=r"Requested 3 tasks but only 4 were assigned: jobs is"):
        tf.distribute.cluster_resolver.SlurmClusterResolver({"worker": 3})


def test_gpus_are_counted_by_what_is_visible() -> None:
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "0,3"}) == 2
    assert gpu_count({"CUDA_VISIBLE_DEVICES": ""}) == 0
