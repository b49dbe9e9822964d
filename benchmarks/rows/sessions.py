"""Sessions under supervision: what hooks cost a step, replicas in step, a start from a checkpoint."""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import in_step, mlp
from benchmarks.row import Bench, Floor, Unit, row

CLUSTER = {"ps": 1, "worker": 2}
WORKERS = CLUSTER["worker"]
CALLS = 200


def _quietly(measure: Callable[..., None]) -> Callable[..., None]:
    """Measure without the notices of sessions; who comes after hears them again."""

    @functools.wraps(measure)
    def quiet(tf: Any, bench: Bench) -> None:
        before = tf.logging.get_verbosity()
        tf.logging.set_verbosity(tf.logging.ERROR)
        try:
            measure(tf, bench)
        finally:
            tf.logging.set_verbosity(before)

    return quiet


def _median_s(step: Any, seconds: float) -> float:
    """Of a call."""
    samples = []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(CALLS):
            step()
        samples.append((time.perf_counter() - start) / CALLS)
    return statistics.median(samples)


@row("a step of MonitoredTrainingSession, default hooks: more than a bare session's", faster=5)
@_quietly
def monitored_step(tf: Any, bench: Bench) -> None:
    """Counts of steps a second, summaries and checkpoints are asked whether they are due; they are not meanwhile."""
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    with tempfile.TemporaryDirectory() as directory:
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=directory, log_step_count_steps=10_000_000
        ) as session:
            bare = session.run_step_fn(lambda step_context: step_context.session)
            before = int(session.run(count))
            bench.expect(int(session.run(count)), before + 1)
            _median_s(lambda: session.run(count), bench.seconds / 4)
            rounds = []
            for _ in range(4):
                watched = _median_s(lambda: session.run(count), bench.seconds / 8)
                rounds.append(watched - _median_s(lambda: bare.run(count), bench.seconds / 8))
            bench.record(statistics.median(rounds))
        tf.summary.FileWriterCache.clear()


@row(
    "synchronous SGD, MLP 784-300-100-10, batch 50, 1 ps and 2 workers",
    unit=Unit.PER_SECOND,
    cluster=CLUSTER,
    faster=5,
    floors=[
        Floor(
            "in step by hand, 3 processes that share memory",
            lambda bench: in_step.measure(bench, WORKERS),
        ),
        Floor(
            "in NumPy by hand, 2 processes of one thread that do not wait for each other",
            lambda bench: mlp.by_hand_in_processes(bench, WORKERS),
        ),
    ],
)
@_quietly
def synchronous_sgd(tf: Any, bench: Bench) -> None:
    """Steps of both workers; the means of both gradients are applied, and nobody begins a step before."""
    image_batch, label_batch = mlp.batch()
    with ExitStack() as stack:
        steps, losses = [], []
        for task in range(WORKERS):
            graph = stack.enter_context(tf.Graph().as_default())
            worker = f"/job:worker/task:{task}"
            with tf.device(tf.train.replica_device_setter(1, worker_device=worker)):
                images = tf.placeholder(tf.float32, [None, mlp.SIZES[0]])
                labels = tf.placeholder(tf.int32, [None])
                loss, _ = mlp.build(tf, images, labels)
                optimizer = tf.train.SyncReplicasOptimizer(
                    tf.train.GradientDescentOptimizer(0.1), WORKERS
                )
                train = optimizer.minimize(loss, tf.train.get_or_create_global_step())
            hook = optimizer.make_session_run_hook(task == 0, num_tokens=0)
            session = tf.train.MonitoredTrainingSession(
                bench.target("worker", task),
                is_chief=task == 0,
                hooks=[hook],
                stop_grace_period_secs=0,
            )
            stack.callback(session.close)
            feed = {images: image_batch, labels: label_batch}
            steps.append(lambda s=session, t=train, f=feed: s.run(t, f))
            losses.append(
                lambda s=session, v=loss, f=feed: s.run_step_fn(
                    lambda step_context: step_context.session.run(v, f)
                )
            )
            del graph
        first = losses[0]()
        bench.expect(first, mlp.losses(1)[0], relative=1e-4)
        bench.rate(steps)
        bench.expect(losses[0]() < first, True)


@row("start of a session from a checkpoint of 20 variables, 1 MB", faster=2)
@_quietly
def recovered_session(tf: Any, bench: Bench) -> None:
    """The graph is there; a session is made and its variables are restored, a step is run."""
    for n in range(20):
        tf.get_variable(f"v{n}", [12_800], initializer=tf.constant_initializer(float(n)))
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    with tempfile.TemporaryDirectory() as directory:
        saver = tf.train.Saver()
        scaffold = tf.train.Scaffold(saver=saver)
        with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
            session.run(count)
            session.run_step_fn(
                lambda step_context: saver.save(
                    step_context.session, str(Path(directory) / "model"), write_meta_graph=False
                )
            )

        def start() -> int:
            creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=directory)
            with tf.train.MonitoredSession(creator) as session:
                return int(session.run(count))

        bench.expect(start(), 2)
        bench.time(start)
