"""One task of a cluster that learns to read digits: an Estimator, which TF_CONFIG tells what its part is (README.md).

Nothing here knows of chief, workers, parameter servers or the evaluator.  With --fails JOB a task of that job kills
itself, once, when the global step has come to --fail-at, so that its launch has something to restart.  If it is the
chief or the worker, the other waits there until it is back.
"""

import argparse
import os
import signal
import time
from pathlib import Path

import numpy as np

import headrace as tf

DATA = Path(__file__).parents[1] / "data"
DIGITS = 10


def read(pattern):
    """Features and labels: images float32 [n, 64] of 0 to 1, digits int32 [n]."""
    rows = [
        np.genfromtxt(file, delimiter=",", skip_header=1, filling_values=0)
        for file in sorted(DATA.glob(pattern))
    ]
    table = np.concatenate(rows)
    return {"pixels": (table[:, :-1] / 16).astype(np.float32)}, table[:, -1].astype(np.int32)


def train_input_fn():
    """Batches without end."""
    dataset = tf.data.Dataset.from_tensor_slices(read("digits-train-*.csv"))
    return dataset.shuffle(1500).repeat().batch(50)


def eval_input_fn():
    """The test digits, once."""
    return tf.data.Dataset.from_tensor_slices(read("digits-test-*.csv")).batch(360)


def serving_input_receiver_fn():
    """What an exported model is fed."""
    pixels = tf.placeholder(tf.float32, [None, 64], name="pixels")
    return tf.estimator.export.ServingInputReceiver({"pixels": pixels}, {"pixels": pixels})


def model_fn(features, labels, mode, params):
    """Two dense layers."""
    hidden = tf.layers.dense(features["pixels"], params["units"], activation=tf.nn.relu)
    logits = tf.layers.dense(hidden, DIGITS)
    digits = tf.argmax(logits, axis=1, output_type=tf.int32)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"digit": digits, "probabilities": tf.nn.softmax(logits)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, digits)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = tf.train.AdamOptimizer(0.005)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Failure(tf.train.SessionRunHook):
    """At step --fail-at, kills its process if that is the one to fail, the first time; chief and worker wait there for
    each other.  Tells at which step it begins.
    """

    def __init__(self, args, task):
        self.fails, self.at_step = args.fails == task, args.fail_at
        self.waits = {args.fails, task} == {"chief", "worker"}
        self.failed, self.back = (
            Path(args.directory, f"{word}-{args.fails}") for word in ("failed", "back")
        )
        if self.fails and self.failed.exists():
            self.back.touch()
        self.step = 0

    def begin(self):
        self.global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        print(f"begins at step {session.run(self.global_step)}", flush=True)

    def before_run(self, run_context):
        self.look()  # only now all hooks are done with the step before: the chief's has saved
        return tf.train.SessionRunArgs(self.global_step)

    def after_run(self, run_context, run_values):
        self.step = run_values.results

    def end(self, session):
        self.look()

    def look(self):
        if self.step < self.at_step:
            return
        if self.fails and not self.failed.exists():
            self.failed.touch()
            print(f"fails at step {self.step}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        while self.waits and not self.back.exists():  # else it may be done before a slow one fails
            time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("directory", nargs="?", default="/tmp/estimator", help="of checkpoints, events and exports")
    add("--steps", type=int, default=1000)
    add("--fails", choices=["chief", "worker", "evaluator"], help="the job that kills itself")
    add("--fail-at", type=int, default=300, metavar="STEP")
    args = parser.parse_args()

    config = tf.estimator.RunConfig(
        save_checkpoints_steps=100,
        experimental_max_worker_delay_secs=0,  # they do not wait for each other's first steps
    )
    hooks = [Failure(args, config.task_type)]
    reader = tf.estimator.Estimator(model_fn, args.directory, config, params={"units": 64})
    tf.estimator.train_and_evaluate(
        reader,
        tf.estimator.TrainSpec(train_input_fn, max_steps=args.steps, hooks=hooks),
        tf.estimator.EvalSpec(
            eval_input_fn,
            steps=None,
            hooks=hooks if config.task_type == "evaluator" else None,
            exporters=tf.estimator.FinalExporter("digits", serving_input_receiver_fn),
            start_delay_secs=0,
            throttle_secs=0,
        ),
    )
    print("done", flush=True)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    main()
