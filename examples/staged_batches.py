"""Batches that are copied to a GPU one step ahead: a staging area there hands each to the next step.

    pip install headrace[xla]                        # on hosts with CUDA: jax[cuda12], too
    python examples/staged_batches.py                # on a GPU, if there is one, else on the CPU
    HEADRACE_GPUS=1 python examples/staged_batches.py   # on a stand-in of this host's processors

Each step trains on the batch that the one before it has put aside, and puts the next one aside meanwhile.  Prints where
the batches are, the loss at the beginning and at the end, and how many were left.
"""

from collections.abc import Iterator

import numpy as np

import headrace as tf

STEPS = 80
ROWS = 32


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and what a line makes of them, over and over."""
    rng = np.random.default_rng(0)
    line = np.float32([[1.5], [-2.0], [0.5]])
    while True:
        rows = rng.uniform(-1, 1, (ROWS, 3)).astype(np.float32)
        yield rows, rows @ line


def build(device: str) -> tuple[list[tf.Tensor], tf.Operation, tf.Tensor, tf.Tensor, tf.Operation]:
    """What is fed, what puts it aside, how much is aside, the loss, and what trains."""
    with tf.device("/cpu:0"):
        rows = tf.placeholder(tf.float32, [ROWS, 3], name="rows")
        wanted = tf.placeholder(tf.float32, [ROWS, 1], name="wanted")
    with tf.device(device):
        area = tf.contrib.staging.StagingArea(
            [tf.float32, tf.float32], shapes=[[ROWS, 3], [ROWS, 1]], capacity=2
        )
        put = area.put([rows, wanted])
        left = area.size()
        here, there = area.get()
        weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(here, weights) - there))
        train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    return [rows, wanted], put, left, loss, train


def main() -> None:
    """Train a line on batches that are there already."""
    gpus = [device.name for device in tf.Session().list_devices() if device.device_type == "GPU"]
    device = gpus[0].rpartition("/")[2] if gpus else "device:CPU:0"
    fed, put, left, loss, train = build(f"/{device}")
    given = batches()

    def next_batch() -> dict[tf.Tensor, np.ndarray]:
        return dict(zip(fed, next(given), strict=True))

    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        print("batches on", device)
        session.run(put, next_batch())
        for step in range(STEPS):
            value, _, _ = session.run([loss, train, put], next_batch())
            if step in (0, STEPS - 1):
                print(f"step {step}: loss {value:.4f}")
        print(session.run(left), "left")


if __name__ == "__main__":
    main()
