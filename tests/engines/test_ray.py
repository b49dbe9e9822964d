"""`headrace.ray.launch` in a Ray of several nodes on this machine, with a node killed in training: `make ray`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import headrace as tf
from headrace.ray import launch

MEMORY = 80 * 2**20  # of a node's store of objects
SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 5,
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """A head without room for tasks, and nodes with other addresses, for one task each."""
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args={**head, "_system_config": SOON})
    try:
        for number in range(2, 5):
            add(cluster, number)
        ray.init(address=cluster.address, runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}})
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add(cluster: Cluster, number: int) -> Any:
    return cluster.add_node(
        num_cpus=1, node_ip_address=f"127.0.0.{number}", object_store_memory=MEMORY
    )


def node_of(address: str, cluster: Cluster) -> Any:
    (found,) = [each for each in cluster.list_all_nodes() if each.node_ip_address == address]
    return found


def train(folder: str) -> str:
    """Of a chief: trains, says where the ps is, trains on when told to."""
    said = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    with tf.train.Server() as server, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            more = tf.train.get_or_create_global_step().assign_add(1)
        if said.task_type == "worker":
            with tf.train.MonitoredTrainingSession(server.target, False) as session:
                while True:
                    session.run(more)
        from headrace.serve.rpc.names import resolved

        host = said.cluster_spec().task_address("ps", 0).rpartition(":")[0]
        ((_, (before, _)),) = resolved(host, 1)
        with tf.train.MonitoredTrainingSession(
            server.target, checkpoint_dir=folder, save_checkpoint_steps=10, save_checkpoint_secs=None
        ) as session:  # fmt: skip
            for _ in range(50):
                step = session.run(more)
            Path(folder, "news").write_text(before)
            Path(folder, "go").read_text()
            goes_on = session.run(more)
        ((_, (after, _)),) = resolved(host, 1)
    return f"{'on' if goes_on > step - 20 else 'anew'}, {'moved' if before != after else 'there'}"


def test_training_goes_on_when_the_node_of_the_ps_is_killed(nodes: Cluster, tmp_path: Path) -> None:
    for name in ("news", "go"):
        os.mkfifo(tmp_path / name)

    def kill() -> None:
        ip = (tmp_path / "news").read_text()
        add(nodes, 5)
        nodes.remove_node(node_of(ip, nodes), allow_graceful=False)
        (tmp_path / "go").write_text("go on")

    killer = threading.Thread(target=kill)
    killer.start()
    folder = str(tmp_path)
    found = launch(lambda: train(folder), ps=1, chief=True, workers=1, serve_ps=True)
    killer.join()
    assert found == {"chief 0": "on, moved"}


def test_a_command_is_a_task_with_templates(nodes: Cluster, tmp_path: Path) -> None:
    program = "import os, sys; open(sys.argv[1], 'w').write(os.environ['TF_CONFIG'])"
    path = f"{tmp_path}/{{job}}-{{task}}"
    assert launch([sys.executable, "-c", program, path], workers=2) == {
        "worker 0": None,
        "worker 1": None,
    }
    assert sorted(each.name for each in tmp_path.iterdir()) == ["worker-0", "worker-1"]


def test_a_program_that_fails_is_tried_again_and_then_an_error(
    nodes: Cluster, tmp_path: Path
) -> None:
    folder = str(tmp_path)

    def fail() -> None:
        with open(f"{folder}/tries", "a") as tries:
            tries.write("x")
        raise KeyError("no such thing")

    with pytest.raises(RuntimeError, match=r"(?s)worker 0 has failed for good: .*no such thing"):
        launch(fail, workers=1, restarts=1)
    assert (tmp_path / "tries").read_text() == "xx"


def test_a_launch_that_would_not_end_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a chief or a worker"):
        launch(["true"], ps=1)
