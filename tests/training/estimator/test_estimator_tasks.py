"""Tasks of a cluster in one process: their configuration, and what train_and_evaluate has each of them do."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.serve.connect import local_servers
from headrace.training.estimator import train_and_evaluate as tasks
from tests.serve.clusters import addresses
from tests.training.estimator.models import E, estimator, rows

CLUSTER = {"chief": ["h:1"], "ps": ["h:2", "h:3"], "worker": ["h:4", "h:5"]}


def said(monkeypatch: pytest.MonkeyPatch, cluster: Any, job: str, index: int = 0) -> None:
    """By TF_CONFIG."""
    text = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    monkeypatch.setenv("TF_CONFIG", text)


def test_a_task_knows_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, CLUSTER, "worker", 1)
    config = E.RunConfig()
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert (config.num_ps_replicas, config.num_worker_replicas) == (2, 3)
    assert (config.master, config.global_id_in_cluster) == ("grpc://h:5", 2)
    assert config.session_config.device_filters == ["/job:ps", "/job:worker/task:1"]
    said(monkeypatch, CLUSTER, "evaluator")
    config = E.RunConfig()
    assert not config.cluster_spec
    assert config.master == ""
    assert config.global_id_in_cluster is None


def test_variables_go_to_the_ps_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said(monkeypatch, CLUSTER, "worker", 1)
    one = estimator(tmp_path)
    with tf.Graph().as_default(), tf.device(one._device_fn):
        placed = [tf.get_variable(name, []).device for name in "abc"]
        computed = tf.constant(1).device
    assert placed == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]
    assert computed == "/job:worker/task:1"


NEVER = [("evaluator", "evaluator 0"), ("ps", "ps 0")]


@pytest.mark.parametrize(("job", "named"), NEVER)
def test_tasks_that_do_not_train_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, job: str, named: str
) -> None:
    said(monkeypatch, CLUSTER, job)
    with pytest.raises(ValueError, match=f"train_and_evaluate which calls proper API.*{named}"):
        estimator(tmp_path).train(rows())


def specs(**train: Any) -> tuple[Any, Any]:
    return E.TrainSpec(rows(), **train), E.EvalSpec(rows(1), start_delay_secs=0, throttle_secs=0)


def test_a_worker_without_a_ps_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said(monkeypatch, {"chief": ["h:1"], "worker": ["h:2"]}, "worker")
    with pytest.raises(ValueError, match="a worker needs a ps"):
        E.train_and_evaluate(estimator(tmp_path), *specs(max_steps=1))


def test_workers_begin_one_after_the_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waited: list[float] = []
    monkeypatch.setattr(tasks, "_server", lambda config: None)
    monkeypatch.setattr(tasks, "_train", lambda *arguments: None)
    monkeypatch.setattr(tasks.time, "sleep", waited.append)
    many = {**CLUSTER, "worker": [f"w:{port}" for port in range(20)]}
    for index, most in ((0, None), (1, None), (19, None), (19, 7), (3, 0)):
        said(monkeypatch, many, "worker", index)
        one = estimator(tmp_path, experimental_max_worker_delay_secs=most)
        E.train_and_evaluate(one, *specs())
    assert waited == [5, 10, 60, 7]


@pytest.mark.parametrize("chief", ["chief", "master"])
def test_chief_worker_and_ps_train_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chief: str
) -> None:
    cluster = addresses({chief: 1, "ps": 1, "worker": 1})
    made = {}
    for job in (chief, "ps", "worker"):
        said(monkeypatch, cluster, job)
        made[job] = estimator(
            tmp_path, save_checkpoints_steps=5, experimental_max_worker_delay_secs=0
        )
    monkeypatch.delenv("TF_CONFIG")
    errors: list[BaseException] = []

    def run(job: str) -> None:
        try:
            assert E.train_and_evaluate(made[job], *specs(max_steps=20)) is None
        except BaseException as error:
            errors.append(error)

    threads = {job: threading.Thread(target=run, args=(job,)) for job in made}
    for thread in threads.values():
        thread.start()
    try:
        for job in (chief, "worker"):
            threads[job].join(60)
        asked = [float(each["y"]) for each in made[chief].predict(rows(1))]  # by its own server
    finally:
        for job in made:
            server = local_servers.find(cluster[job][0])
            if server is not None:
                server.stop()
        threads["ps"].join(60)
    assert errors == []
    assert made[chief].get_variable_value("global_step") >= 20
    assert len(asked) == 6
    assert (tmp_path / "eval").exists() == (chief == "master")
