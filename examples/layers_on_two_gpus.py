"""A model whose layers are on two GPUs: what one has no memory for, two may have.

    pip install headrace[xla]                            # on hosts with CUDA: jax[cuda12], too
    python examples/layers_on_two_gpus.py                # on the GPUs that there are, else on CPUs
    HEADRACE_GPUS=2 python examples/layers_on_two_gpus.py   # on two stand-ins of this host's processors

Each layer's weights live on its GPU, and so do their slots and updates; only what one layer hands to the next passes
from GPU to GPU, and its gradient back.  Prints where the layers are, and the loss at the beginning and at the end.
"""

import numpy as np

import headrace as tf

STEPS = 60
ROWS = 64


def rings(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, and whether they are on the inner ring."""
    angles = rng.uniform(0, 2 * np.pi, rows)
    inside = rng.integers(0, 2, rows)
    radius = np.where(inside, 0.4, 1.0) + rng.normal(0, 0.05, rows)
    points = np.stack([np.cos(angles), np.sin(angles)], 1) * radius[:, None]
    return points.astype(np.float32), inside.astype(np.int64)


def build(
    first: str, second: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Operation, list[tf.Variable]]:
    """The points, the labels, the loss, what trains, and the weights of a model on two devices."""
    with tf.device("/cpu:0"):
        points = tf.placeholder(tf.float32, [ROWS, 2], name="points")
        labels = tf.placeholder(tf.int64, [ROWS], name="labels")
    with tf.device(first):
        narrow = tf.get_variable(
            "narrow", [2, 32], initializer=tf.random_normal_initializer(seed=1)
        )
        hidden = tf.tanh(tf.matmul(points, narrow))
    with tf.device(second):
        wide = tf.get_variable("wide", [32, 2], initializer=tf.random_normal_initializer(seed=2))
        logits = tf.matmul(tf.square(hidden), wide)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
    # Gradients are computed where the layer is that they are of.
    train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, colocate_gradients_with_ops=True)
    return points, labels, loss, train, [narrow, wide]


def main() -> None:
    """Build the model, train it, and print."""
    gpus = [device.name for device in tf.Session().list_devices() if device.device_type == "GPU"]
    devices = [name.rpartition("/")[2] for name in gpus[:2]] or ["device:CPU:0"]
    first, second = f"/{devices[0]}", f"/{devices[-1]}"
    points, labels, loss, train, _ = build(first, second)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        print("layers on", first[1:], "and", second[1:])
        rng = np.random.default_rng(0)
        for step in range(STEPS):
            some_points, some_labels = rings(rng, ROWS)
            value, _ = session.run([loss, train], {points: some_points, labels: some_labels})
            if step in (0, STEPS - 1):
                print(f"step {step}: loss {value:.3f}")


if __name__ == "__main__":
    main()
