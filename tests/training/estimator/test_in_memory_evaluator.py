"""Evaluations within a training; beside TensorFlow's they are compared in tests/estimator_oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

E = tf.estimator
XS = np.array([[1.0], [2.0], [3.0], [4.0]], np.float32)


def data(epochs: int | None = None) -> Any:
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": XS}, 2.0 * XS)).repeat(epochs).batch(2)


def line(features: Any, labels: Any, mode: str) -> Any:
    slope = tf.get_variable("slope", [1, 1], initializer=tf.constant_initializer(0.5))
    loss = tf.reduce_mean(tf.square(tf.matmul(features["x"], slope) - labels))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    metrics = {"slope": tf.metrics.mean(slope)}
    return E.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)


def made(folder: Path) -> Any:
    return E.Estimator(line, str(folder), E.RunConfig(tf_random_seed=1))


def written(directory: str) -> dict[int, Any]:
    """The slope that was written at each step."""
    found = tf.contrib.estimator.read_eval_metrics(directory)
    return {step: each["slope"] for step, each in found.items()}


class Slopes(tf.train.SessionRunHook):
    """The variable after each step."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        slope = run_context.session.graph.get_tensor_by_name("slope:0")
        self.found.append(float(run_context.session.run(slope)[0, 0]))


def test_it_evaluates_what_the_variables_are(tmp_path: Path) -> None:
    one, slopes = made(tmp_path), Slopes()
    hook = E.experimental.InMemoryEvaluatorHook(one, data(1), every_n_iter=2)
    assert tf.contrib.estimator.InMemoryEvaluatorHook is E.experimental.InMemoryEvaluatorHook
    one.train(data(), hooks=[hook, slopes], steps=5)
    seen = dict(enumerate([0.5, *slopes.found]))
    wanted = {step: seen[step] for step in (0, 2, 4, 5)}
    assert written(one.eval_dir()) == pytest.approx(wanted)
    assert slopes.found == sorted(slopes.found)  # it was learned meanwhile


def test_it_adds_no_nodes_by_evaluating_again(tmp_path: Path) -> None:
    one, counts = made(tmp_path), []

    class Nodes(tf.train.SessionRunHook):
        def end(self, session: Any) -> None:
            counts.append(len(session.graph.get_operations()))

    hook = E.experimental.InMemoryEvaluatorHook(one, data(1), hooks=[Nodes()], every_n_iter=1)
    one.train(data(), hooks=[hook], steps=3)
    assert len(counts) == 5
    assert len(set(counts)) == 1


def test_it_may_be_given_to_a_second_training(tmp_path: Path) -> None:
    one = made(tmp_path)
    hook = E.experimental.InMemoryEvaluatorHook(one, data(1), name="again", every_n_iter=10)
    for _ in range(2):
        one.train(data(), hooks=[hook], steps=2)
    assert sorted(written(one.eval_dir("again"))) == [0, 2, 4]


def test_a_training_that_lost_its_session_is_evaluated_when_it_goes_on(tmp_path: Path) -> None:
    one = E.Estimator(line, str(tmp_path), E.RunConfig(tf_random_seed=1, save_checkpoints_steps=1))

    class Loses(tf.train.SessionRunHook):
        lost = False

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if not self.lost and run_context.session.run("global_step:0") == 2:
                self.lost = True
                raise tf.errors.AbortedError(None, None, "a task was lost")

    hook = E.experimental.InMemoryEvaluatorHook(one, data(1), every_n_iter=100)
    one.train(data(), hooks=[Loses(), hook], max_steps=3)
    assert len(written(one.eval_dir())) == 3  # before the first step, when it was back, at the end


def test_a_training_on_a_cluster_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "TF_CONFIG",
        '{"cluster": {"chief": ["h:1"], "ps": ["h:2"]}, "task": {"type": "chief", "index": 0}}',
    )
    with pytest.raises(ValueError, match=r"aka Local\) setting.*1 ps"):
        E.experimental.InMemoryEvaluatorHook(made(tmp_path), data(1))
