"""Two GPUs of one machine train one model: variables on the CPU, a tower on each GPU, averaged gradients.

    pip install headrace[xla]               # on hosts with CUDA: jax[cuda12], too
    python examples/towers.py               # on the GPUs that there are, else on CPUs
    HEADRACE_GPUS=2 python examples/towers.py   # on two stand-ins of this host's processors

Prints where each tower computes, and the loss at the beginning and at the end.
"""

import numpy as np

import headrace as tf

STEPS = 60
ROWS = 64  # of a batch, divided among the towers


def parabola(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, and which side of a parabola they are on."""
    points = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    return points, (points[:, 1] > points[:, 0] ** 2).astype(np.int64)


def tower_loss(points: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The loss of the model on some rows; the variables are the same for all towers."""
    hidden = tf.layers.dense(points, 16, tf.nn.tanh, name="hidden")
    logits = tf.layers.dense(hidden, 2, name="logits")
    return tf.losses.sparse_softmax_cross_entropy(labels, logits)


def main() -> None:
    """Build the towers, train, and print."""
    gpus = [device.name for device in tf.Session().list_devices() if device.device_type == "GPU"]
    devices = [name.rpartition("/")[2] for name in gpus[:2]] or ["device:CPU:0"] * 2
    tf.set_random_seed(1)

    points = tf.placeholder(tf.float32, [ROWS, 2])
    labels = tf.placeholder(tf.int64, [ROWS])
    optimizer = tf.train.AdamOptimizer(0.03)
    parts = zip(tf.split(points, len(devices)), tf.split(labels, len(devices)), strict=True)
    losses, gradients = [], []
    for device, (some_points, some_labels) in zip(devices, parts, strict=True):
        # Variables go to the CPU, what computes with them to the tower's device.
        setter = tf.train.replica_device_setter(
            ps_tasks=1, ps_device="/device:CPU:0", worker_device=f"/{device}"
        )
        with tf.device(setter), tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            loss = tower_loss(some_points, some_labels)
            losses.append(loss)
            gradients.append(optimizer.compute_gradients(loss))
    with tf.device("/device:CPU:0"):
        mean_loss = tf.add_n(losses) / len(losses)
        mean = [
            (tf.add_n([gradient for gradient, _ in each]) / len(each), each[0][1])
            for each in zip(*gradients, strict=True)
        ]
        train = optimizer.apply_gradients(mean)

    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        rng = np.random.default_rng(0)
        print("towers on", " and ".join(devices))
        for step in range(STEPS):
            some_points, some_labels = parabola(rng, ROWS)
            fed = {points: some_points, labels: some_labels}
            value, _ = session.run([mean_loss, train], fed)
            if step in (0, STEPS - 1):
                print(f"step {step}: loss {value:.3f}")


if __name__ == "__main__":
    main()
