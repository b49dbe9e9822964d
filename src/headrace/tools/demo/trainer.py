"""A trainer: a TF 1.x program that trains the network asynchronously with the other trainers.

Its session is on its own worker; `replica_device_setter` puts the variables on the parameter
server.  It takes batches from the shared queue until that is closed and empty.  Task 0 initializes
the variables or restores them, and saves them now and then and at the end; the others wait for that.
Each writes events, for TensorBoard, to a directory of its own.

Run as: python -m headrace.tools.demo.trainer (by `headrace demo`).
Writes: checkpoints (task 0), events; messages `variables` (task 0), `step` (every step), `trace`
(task 0, once), `trained`.
"""

from __future__ import annotations

import argparse
import base64
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import headrace as tf
from headrace.tools.demo.messages import emit
from headrace.tools.demo.model import PS, QUEUE, examples_queue, network
from headrace.tools.lifeline import end_process_when_lost
from headrace.tools.serve import parse_cluster

INITIALIZED_WITHIN_S = 30.0
FIRST_LOOK_S = 0.02
NOISE = 0.2  # added to pixels of 0..1
LEAST_OF_RATE = 0.02
SUMMARY_EVERY = 10  # steps
SAVE_EVERY_S = 2.0
WRITTEN_WITHIN_S = 1.0
CHECKPOINT = "model.ckpt"
LOSS_TAG = "cross_entropy"


class Training(NamedTuple):
    """The tensors of one step, and what waiting and initializing need."""

    train: Any
    loss: Any
    count: Any
    global_step: Any
    uninitialized: Any
    initialize: Any
    summary: Any
    saver: Any


def build(
    cluster: Any, task: int, batch: int, learning_rate: float, steps: int, start: int
) -> Training:
    """The graph of worker `task`; the learning rate falls linearly over `steps` global steps from `start`."""
    place = tf.train.replica_device_setter(
        cluster=cluster, worker_device=f"/job:worker/task:{task}"
    )
    with tf.device(place):
        queue = examples_queue()
        with tf.device(PS):  # where the queue is: only the batch travels
            pixels, labels = queue.dequeue_up_to(batch)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=network(pixels, NOISE)
        )
        loss = tf.reduce_mean(losses, name="loss")
        global_step = tf.train.get_or_create_global_step()
        left = 1.0 - tf.cast(global_step - start, tf.float32) * (1.0 / steps)
        rate = learning_rate * tf.maximum(left, LEAST_OF_RATE, name="left")
        train = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)
        tf.summary.scalar(LOSS_TAG, loss)
        tf.summary.scalar("learning_rate", rate)
        for variable in tf.trainable_variables():
            tf.summary.histogram(f"values/{variable.op.name}", variable)
        return Training(
            train,
            loss,
            tf.size(labels, name="count"),
            global_step,
            tf.report_uninitialized_variables(tf.global_variables()),
            tf.global_variables_initializer(),
            tf.summary.merge_all(),
            tf.train.Saver(max_to_keep=2) if task == 0 else None,
        )


def wait_until_initialized(session: Any, uninitialized: Any) -> None:
    """Look, with growing pauses, until task 0 has initialized; an error after the deadline."""
    deadline = time.monotonic() + INITIALIZED_WITHIN_S
    pause = FIRST_LOOK_S
    never = threading.Event()
    while names := [name.decode() for name in session.run(uninitialized)]:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"after {INITIALIZED_WITHIN_S:.0f} s {len(names)} variables are uninitialized "
                f"({', '.join(names[:3])}, ...): has the trainer of task 0 started?"
            )
        never.wait(pause)
        pause = min(2 * pause, 0.5)


def describe_variables() -> list[dict[str, Any]]:
    """What was placed where: name, dtype, shape, bytes and device of each variable."""
    trainable = {variable.name for variable in tf.trainable_variables()}
    return [
        {
            "name": variable.op.name,
            "dtype": variable.dtype.base_dtype.name,
            "shape": variable.get_shape().as_list(),
            "bytes": variable.get_shape().num_elements() * variable.dtype.base_dtype.size,
            "device": variable.device,
            "trainable": variable.name in trainable,
        }
        for variable in tf.global_variables()
    ]


def traced_step(session: Any, fetches: Any) -> tuple[Any, Any]:
    """Run one step with a full trace: what it fetched, and its RunMetadata."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    fetched = session.run(fetches, options=options, run_metadata=metadata)
    return fetched, metadata


class Keeper:
    """Writes down what becomes of the training: events of this trainer, checkpoints if it is task 0's."""

    def __init__(self, session: Any, training: Training, directory: Path, task: int) -> None:
        self._session = session
        self._training = training
        self._path = str(directory / CHECKPOINT)
        self._saved_at = time.monotonic()
        self.writer = tf.summary.FileWriter(
            directory / f"worker{task}", session.graph, flush_secs=WRITTEN_WITHIN_S
        )

    def begin(self, global_step: int) -> None:
        """What was written of this step and later ones, by a run that was stopped, counts no more."""
        start = tf.SessionLog(status=tf.SessionLog.START)
        self.writer.add_session_log(start, global_step)

    def save(self, pause_s: float = 0.0) -> None:
        """A checkpoint, unless the last one is younger than the pause."""
        saver = self._training.saver
        if saver is not None and time.monotonic() - self._saved_at >= pause_s:
            saver.save(self._session, self._path, self._training.global_step)
            self._saved_at = time.monotonic()


def train(session: Any, training: Training, trace_at: set[int], keeper: Keeper) -> int:
    """Train until the queue is closed and empty; the number of steps this trainer took."""
    fetches = (training.train, training.loss, training.count, training.global_step)
    steps = 0
    while True:
        metadata = summary = None
        try:
            if steps in trace_at:
                fetched, metadata = traced_step(session, fetches)
            elif steps % SUMMARY_EVERY:
                fetched = session.run(fetches)
            else:
                fetched, summary = session.run((fetches, training.summary))
        except tf.errors.OutOfRangeError:
            return steps
        _, loss, count, global_step = fetched
        steps += 1
        emit("step", loss=float(loss), count=int(count), global_step=int(global_step))
        if summary is not None:
            keeper.writer.add_summary(summary, global_step)
        if metadata is not None:
            trace = base64.b64encode(metadata.SerializeToString()).decode("ascii")
            emit("trace", metadata=trace, global_step=int(global_step))
            keeper.writer.add_run_metadata(metadata, f"step {global_step}", global_step)
        keeper.save(SAVE_EVERY_S)


def restore(session: Any, saver: Any, checkpoint: str) -> None:
    """The variables as they were saved; older checkpoints go as if this program had written them, too."""
    saver.restore(session, checkpoint)
    state = tf.train.get_checkpoint_state(os.path.dirname(checkpoint))
    if state is not None:
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)


def main(argv: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="trainer")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--task", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--steps", type=int, required=True, help="of all trainers together")
    parser.add_argument("--start", type=int, default=0, metavar="STEP")
    parser.add_argument("--directory", type=Path, required=True, help="for events and checkpoints")
    parser.add_argument("--restore", metavar="CHECKPOINT")
    parser.add_argument("--trace-at", type=int, nargs="*", default=[], metavar="STEP")
    parser.add_argument("--watch-fd", type=int)
    args = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if args.watch_fd is not None:
        end_process_when_lost(args.watch_fd)
    cluster = tf.train.ClusterSpec(parse_cluster(args.cluster))
    training = build(cluster, args.task, args.batch, args.learning_rate, args.steps, args.start)
    with tf.Session(f"grpc://{cluster.task_address('worker', args.task)}") as session:
        if args.task == 0:
            if args.restore is None:
                session.run(training.initialize)
            else:
                restore(session, training.saver, args.restore)
            emit("variables", variables=describe_variables(), queue=QUEUE)
        else:
            wait_until_initialized(session, training.uninitialized)
        keeper = Keeper(session, training, args.directory, args.task)
        keeper.begin(args.start)
        with keeper.writer:
            steps = train(session, training, set(args.trace_at), keeper)
            keeper.save()
        emit("trained", steps=steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
