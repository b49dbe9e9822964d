"""`headrace.ray.launch` in a Ray of several nodes on this machine, with a node killed in training: `make ray`."""

from __future__ import annotations

import logging
import os
import queue
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import headrace as tf
from headrace.ray import launch
from headrace.training import ray_tasks

MEMORY = 80 * 2**20  # of a node's store of objects
SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 10,  # a busy machine is slow, not gone
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """A head without room for tasks, and nodes with other addresses, for one task each and a spare one."""
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args={**head, "_system_config": SOON})
    try:
        for number in range(2, 6):
            ip = f"127.0.0.{number}"
            cluster.add_node(num_cpus=1, node_ip_address=ip, object_store_memory=MEMORY)
        ray.init(address=cluster.address, runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}})
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def node_of(address: str, cluster: Cluster) -> Any:
    (found,) = [each for each in cluster.list_all_nodes() if each.node_ip_address == address]
    return found


def train(folder: str) -> bool:
    """Of a chief: trains, says where the ps is, trains on until it is elsewhere; whether from the checkpoint."""
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
                session.run(more)
            Path(folder, "news").write_text(before)
            Path(folder, "go").read_text()
            while resolved(host, 1)[0][1][0] == before:  # it outlives its node for a moment
                session.run(more)
            step: int = session.run(more)
    return step > 40  # else it has begun anew


def test_training_goes_on_when_the_node_of_the_ps_is_killed(nodes: Cluster, tmp_path: Path) -> None:
    for name in ("news", "go"):
        os.mkfifo(tmp_path / name)
    folder = str(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        counts = {"ps": 1, "chief": True, "workers": 1}
        found = pool.submit(launch, lambda: train(folder), **counts, serve_ps=True)
        ip = (tmp_path / "news").read_text()
        nodes.remove_node(node_of(ip, nodes), allow_graceful=False)
        (tmp_path / "go").write_text("go on")
        assert found.result() == {"chief 0": True}


def test_a_command_is_a_task_with_templates(nodes: Cluster, tmp_path: Path) -> None:
    program = "import os, sys; open(sys.argv[1], 'w').write(os.environ['TF_CONFIG'])"
    path = f"{tmp_path}/{{job}}-{{task}}"
    assert launch([sys.executable, "-c", program, path], workers=2) == {
        "worker 0": None,
        "worker 1": None,
    }
    assert sorted(each.name for each in tmp_path.iterdir()) == ["worker-0", "worker-1"]


def test_a_launch_that_waits_for_what_nobody_has_says_so_until_somebody_has_it(
    nodes: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.put(record.getMessage())

    monkeypatch.setattr(ray_tasks, "_NOTICE_S", 1.0)
    listener, log = Listener(), logging.getLogger("headrace")
    log.addHandler(listener)
    try:
        with ThreadPoolExecutor(1) as pool:
            needs = {"CPU": 1, "balance": 2}
            found = pool.submit(launch, lambda: "has it", workers=1, resources=needs)
            texts = [said.get(timeout=60) for _ in range(2)]
            node = nodes.add_node(
                num_cpus=1,
                node_ip_address="127.0.0.6",
                resources={"balance": 2},
                object_store_memory=MEMORY,
            )
            assert found.result() == {"worker 0": "has it"}
        nodes.remove_node(node)
    finally:
        log.removeHandler(listener)
    for waited, text in zip((1, 2), texts, strict=True):
        wanted = f"still waiting, for {waited} s, for Ray to reserve [{needs}], a bundle for each"
        assert wanted in text
        assert "balance" not in text.partition("free in its cluster are")[2]


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
