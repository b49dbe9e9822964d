"""tf.contrib.tpu without TPUs; beside TensorFlow's it is compared in tests/estimator_oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

T = tf.contrib.tpu


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """A slope, trained as programs for TPUs do it."""
    slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(features["x"] * slope - labels))
    if mode == tf.estimator.ModeKeys.EVAL:

        def metrics(labels: Any, features: Any) -> Any:
            return {"size": tf.metrics.mean(tf.size(labels)), "x": tf.metrics.mean(features)}

        return T.TPUEstimatorSpec(mode, loss=loss, eval_metrics=(metrics, [labels, features["x"]]))
    optimizer = T.CrossShardOptimizer(tf.train.MomentumOptimizer(0.01, 0.5))
    step = tf.train.get_global_step()
    train_op = optimizer.minimize(loss, global_step=step)

    def host_call(step: Any, loss: Any) -> Any:
        summary = tf.contrib.summary
        writer = summary.create_file_writer(params["events"])
        with writer.as_default(), summary.always_record_summaries():
            summary.scalar("told", loss[0], step=step[0])
        return summary.all_summary_ops()

    told = [tf.reshape(step, [1]), tf.reshape(loss, [1])]
    return T.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, host_call=(host_call, told))


def input_fn(params: Any) -> Any:
    """The line y = 2 x, in batches of the size that is asked for."""
    x = np.arange(8, dtype=np.float32)
    rows = tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).repeat()
    return rows.batch(params["batch_size"], drop_remainder=True)


def made(directory: Path, **more: Any) -> Any:
    more.setdefault("use_tpu", False)
    return T.TPUEstimator(
        model_fn,
        str(directory / "model"),
        T.RunConfig(log_step_count_steps=5),
        {"events": str(directory / "events")},
        train_batch_size=4,
        eval_batch_size=2,
        **more,
    )


def scalars(directory: Path) -> dict[str, list[int]]:
    """Steps of each tag in a directory's events."""
    found: dict[str, list[int]] = {}
    for file in sorted(directory.glob("events*")):
        for event in tf.train.summary_iterator(str(file)):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(event.step)
    return found


def test_a_program_for_tpus_trains_without_them(tmp_path: Path) -> None:
    estimator = made(tmp_path)
    estimator.train(input_fn, max_steps=12)
    assert estimator.get_variable_value("slope") == pytest.approx(2.0, abs=0.2)
    assert "slope/Momentum" in estimator.get_variable_names()
    found = estimator.evaluate(input_fn, steps=4)
    assert (found["size"], found["x"]) == (2.0, 3.5)
    tf.summary.FileWriterCache.clear()
    assert scalars(tmp_path / "events")["told"] == list(range(12))
    assert "examples/sec" in scalars(tmp_path / "model")


def test_params_may_be_hparams_and_a_class_of_ones_own_may_override(tmp_path: Path) -> None:
    class Own(T.TPUEstimator):  # type: ignore[misc, name-defined]
        def evaluate(self, input_fn: Any, **more: Any) -> Any:
            return super().evaluate(input_fn, steps=2, **more)

    params = tf.contrib.training.HParams(events=str(tmp_path / "events"), batch_size_seen=0)
    seen = []

    def watched(params: Any) -> Any:
        seen.append(params.batch_size)
        return input_fn({"batch_size": params.batch_size})

    def of_hparams(features: Any, labels: Any, mode: str, params: Any) -> Any:
        assert params.use_tpu is False
        return model_fn(features, labels, mode, params.values())

    estimator = Own(
        of_hparams,
        str(tmp_path / "model"),
        T.RunConfig(),
        params,
        use_tpu=False,
        train_batch_size=4,
        eval_batch_size=2,
    )
    estimator.train(watched, steps=1)
    assert estimator.evaluate(watched)["size"] == 2.0
    assert seen == [4, 2]


def test_tpus_are_refused_with_what_to_say_instead(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="use_tpu=False"):
        made(tmp_path, use_tpu=True)
    with pytest.raises(tf.errors.UnimplementedError, match="cluster is not offered"):
        T.RunConfig(cluster=object())
    with pytest.raises(AttributeError, match="TPUEstimator with use_tpu=False"):
        tf.contrib.tpu.rewrite  # noqa: B018


def test_an_input_fn_has_to_take_the_batch_size(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not include params argument"):
        made(tmp_path).train(lambda: input_fn({"batch_size": 2}), steps=1)


def test_one_shard_is_averaged_by_the_optimizer_itself() -> None:
    with tf.Graph().as_default():
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        optimizer = T.CrossShardOptimizer(
            tf.train.MomentumOptimizer(0.1, 0.9), tf.losses.Reduction.SUM
        )
        train = optimizer.minimize(tf.reduce_sum(v * v))
        assert optimizer.get_slot_names() == ["momentum"]
        assert optimizer.get_slot(v, "momentum").op.name == "v/Momentum"
        assert optimizer.variables() == [optimizer.get_slot(v, "momentum")]
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            assert sess.run(v) == pytest.approx([0.8, 0.8])
    with pytest.raises(TypeError, match="only works with optimizers"):
        T.CrossShardOptimizer(3)
    with pytest.raises(ValueError, match="`reduction` should be one of"):
        T.CrossShardOptimizer(tf.train.AdamOptimizer(), "weighted_sum_by_nonzero_weights")
