"""Training with a parameter server: between-graph replication, every worker at its own pace."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks import mlp
from benchmarks.row import Bench, Floor, Unit, row

CLUSTER = {"ps": 1, "worker": 2}
WORKERS = CLUSTER["worker"]


@row(
    "asynchronous SGD, MLP 784-300-100-10, batch 50, 1 ps and 2 workers",
    unit=Unit.PER_SECOND,
    cluster=CLUSTER,
    faster=6,
    floors=[
        Floor(
            "in NumPy by hand, 2 processes of one thread",
            lambda bench: mlp.by_hand_in_processes(bench, WORKERS),
        )
    ],
)
def asynchronous_sgd(tf: Any, bench: Bench) -> None:
    """Steps of all workers: each is fed, computes with variables of the ps and sends it gradients; the first losses are
    those of NumPy by hand.
    """
    image_batch, label_batch = mlp.batch()
    with ExitStack() as stack:
        steps, losses = [], []
        for task in range(WORKERS):
            graph = stack.enter_context(tf.Graph().as_default())
            worker = f"/job:worker/task:{task}"
            setter = tf.train.replica_device_setter(1, worker_device=worker)
            with tf.device(setter):
                images = tf.placeholder(tf.float32, [None, mlp.SIZES[0]])
                labels = tf.placeholder(tf.int32, [None])
                loss, train = mlp.build(tf, images, labels)
            session = stack.enter_context(tf.Session(bench.target("worker", task), graph=graph))
            feed = {images: image_batch, labels: label_batch}
            if task == 0:
                session.run(tf.global_variables_initializer())
            steps.append(lambda s=session, t=train, f=feed: s.run(t, f))
            losses.append(lambda s=session, v=loss, t=train, f=feed: s.run([v, t], f)[0])

        got = [losses[step % WORKERS]() for step in range(mlp.CHECKED_STEPS)]
        bench.expect(got, mlp.losses(mlp.CHECKED_STEPS), relative=1e-4)
        bench.rate(steps)
        bench.expect(losses[0]() < got[-1], True)
