"""Estimators: what a step costs beside one without, a whole training, predictions; beside TensorFlow 2.15."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.row import Bench, Unit, row

SIZE, EXAMPLES, BATCH, SMALL = 20, 512, 32, 4
STEPS, ROUNDS = 400, 4


def _rows() -> tuple[dict[str, Any], Any]:
    """Features [EXAMPLES, SIZE] and the label of each, one of two."""
    x = np.random.RandomState(7).uniform(-1, 1, [EXAMPLES, SIZE]).astype(np.float32)
    return {"x": x}, (x[:, :10].sum(1) > x[:, 10:].sum(1)).astype(np.int32)


def _input_fn(tf: Any, batch: int, epochs: int | None = None) -> Callable[[], Any]:
    return lambda: tf.data.Dataset.from_tensor_slices(_rows()).repeat(epochs).batch(batch)


def _model_fn(tf: Any) -> Callable[..., Any]:
    """A layer of 16 units, and two logits; of ops alone, which both libraries have."""

    def dense(x: Any, name: str, inputs: int, outputs: int) -> Any:
        start = tf.random_normal_initializer(stddev=inputs**-0.5, seed=3)
        w = tf.get_variable(f"{name}/w", [inputs, outputs], initializer=start)
        b = tf.get_variable(f"{name}/b", [outputs], initializer=tf.zeros_initializer())
        return tf.nn.xw_plus_b(x, w, b)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        hidden = tf.nn.relu(dense(features["x"], "hidden", SIZE, 16))
        logits = dense(hidden, "logits", 16, 2)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"class": tf.argmax(logits, 1)})
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        optimizer = tf.train.AdagradOptimizer(0.1)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, tf.train.get_global_step()),
            eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))},
        )

    return model_fn


@contextmanager
def _directory(tf: Any) -> Iterator[str]:
    """A new one; nothing is told on stderr meanwhile."""
    before = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)
    try:
        with tempfile.TemporaryDirectory() as directory:
            yield directory
            tf.summary.FileWriterCache.clear()
    finally:
        tf.logging.set_verbosity(before)


def _timer(tf: Any, seconds: float) -> Any:
    """A hook that keeps when steps ended, and asks for the stop so long after the first, and a few steps."""

    class Timer(tf.train.SessionRunHook):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.ended: list[float] = []

        def after_run(self, run_context: Any, run_values: Any) -> None:
            now = time.perf_counter()
            self.ended.append(now)
            if now >= self.ended[0] + seconds and len(self.ended) > 3:
                run_context.request_stop()

        def step_s(self) -> float:
            return statistics.median(np.diff(self.ended))

    return Timer()


def _bare_step_s(tf: Any, seconds: float) -> float:
    """Of the same model in a MonitoredTrainingSession without a directory."""
    with tf.Graph().as_default():
        tf.train.create_global_step()
        iterator = tf.data.make_initializable_iterator(_input_fn(tf, BATCH)())
        spec = _model_fn(tf)(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN)
        init = tf.group(iterator.initializer, tf.local_variables_initializer())
        timer = _timer(tf, seconds)
        with tf.train.MonitoredTrainingSession(
            hooks=[timer], scaffold=tf.train.Scaffold(local_init_op=init)
        ) as session:
            while not session.should_stop():
                session.run([spec.train_op, spec.loss])
    return float(timer.step_s())


@row(
    "a step of Estimator.train: more than one of a bare MonitoredTrainingSession",
    estimator=True,
    faster=10,
)
def estimator_step(tf: Any, bench: Bench) -> None:
    """Loss and steps a second are looked at, summaries and checkpoints asked whether they are due."""
    with _directory(tf) as directory:
        config = tf.estimator.RunConfig(save_summary_steps=10**9, log_step_count_steps=10**9)
        one = tf.estimator.Estimator(_model_fn(tf), directory, config)
        one.train(_input_fn(tf, BATCH), steps=5)
        bench.expect(int(one.get_variable_value("global_step")), 5)
        more = []
        for _ in range(ROUNDS):
            seconds = bench.seconds / (2 * ROUNDS)
            timer = _timer(tf, seconds)
            one.train(_input_fn(tf, BATCH), hooks=[timer])
            more.append(timer.step_s() - _bare_step_s(tf, seconds))
        bench.record(max(statistics.median(more), 1e-9))


@row(
    "train_and_evaluate, 400 steps of a small DNN, 2 evaluations and an export",
    estimator=True,
    faster=3,
)
def estimator_training(tf: Any, bench: Bench) -> None:
    """From the call on, in a process that has imported the library: graphs, files and sessions included."""

    def receiver() -> Any:
        x = tf.placeholder(tf.float32, [None, SIZE])
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    with _directory(tf) as directory:
        config = tf.estimator.RunConfig(save_checkpoints_steps=STEPS // 2)
        one = tf.estimator.Estimator(_model_fn(tf), directory, config)
        start = time.perf_counter()
        found, _ = tf.estimator.train_and_evaluate(
            one,
            tf.estimator.TrainSpec(_input_fn(tf, BATCH), max_steps=STEPS),
            tf.estimator.EvalSpec(
                _input_fn(tf, BATCH, 1),
                steps=None,
                exporters=tf.estimator.FinalExporter("final", receiver),
                throttle_secs=0,
            ),
        )
        took_s = time.perf_counter() - start
        bench.expect(bool(found["accuracy"] > 0.8), True)
        bench.record(took_s)


@row("Estimator.predict, batches of 4", unit=Unit.PER_SECOND, estimator=True, faster=5)
def estimator_predictions(tf: Any, bench: Bench) -> None:
    """Predictions a second, one dict each, of one open session."""
    with _directory(tf) as directory:
        one = tf.estimator.Estimator(_model_fn(tf), directory)
        one.train(_input_fn(tf, BATCH), steps=200)
        labels = _rows()[1]
        whole = [int(each["class"]) for each in one.predict(_input_fn(tf, SMALL, 1))]
        bench.expect(bool(np.mean(whole == labels) > 0.8), True)
        predictions = one.predict(_input_fn(tf, SMALL))
        rates = []
        end = time.perf_counter() + bench.seconds
        while (
            len(rates) < ROUNDS or time.perf_counter() < end
        ):  # in this thread, as TensorFlow wants it
            start = time.perf_counter()
            for _ in range(EXAMPLES):
                next(predictions)
            rates.append(EXAMPLES / (time.perf_counter() - start))
        predictions.close()
        bench.record(statistics.median(rates))
