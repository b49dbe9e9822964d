"""Hooks that stop early: what workers beside the chief do, and what is read of events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.contrib.estimator import read_eval_metrics


def model(features: Any, labels: Any, mode: Any) -> Any:
    raise NotImplementedError


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The estimator of a worker that is not the chief."""
    cluster = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
    task = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    return tf.estimator.Estimator(model, str(tmp_path))


def test_a_worker_stops_when_the_chief_says_so(worker: Any) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        hook = tf.estimator.experimental.make_early_stopping_hook(worker, lambda: False)
        with tf.variable_scope("signal_early_stopping"):
            told = tf.assign(tf.get_variable("STOP", [], tf.bool, trainable=False), True)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            session.run(count)
            assert not session.should_stop()
            (said,) = [v for v in tf.global_variables() if "STOP" in v.op.name]
            assert said.op.name == "signal_early_stopping/STOP"
            session.run_step_fn(lambda step_context: step_context.session.run(told))
            session.run(count)
            assert session.should_stop()


def test_a_worker_stops_at_a_checkpoint_of_the_step(worker: Any, tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        hook = tf.estimator.experimental.make_stop_at_checkpoint_step_hook(
            worker, 3, wait_after_file_check_secs=0
        )
        saver = tf.train.Saver()
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(4):
                session.run(count)
                assert not session.should_stop()
            session.run_step_fn(
                lambda step_context: saver.save(
                    step_context.session, str(tmp_path / "model.ckpt"), 4
                )
            )
            session.run(count)
            assert session.should_stop()


def test_events_are_read_by_step(tmp_path: Path) -> None:
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        for step, name, value in ((5, "loss", 1.0), (2, "loss", 3.0), (5, "more", 2.0)):
            summary = tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=value)])
            writer.add_summary(summary, step)
    assert read_eval_metrics(tmp_path) == {2: {"loss": 3.0}, 5: {"loss": 1.0, "more": 2.0}}
    assert list(read_eval_metrics(tmp_path)) == [2, 5]
    assert read_eval_metrics(tmp_path / "none") == {}
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    assert read_eval_metrics(tmp_path) == {2: {"loss": 3.0}, 5: {"loss": 1.0}}
