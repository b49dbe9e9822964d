"""One task of a cluster that learns to read handwritten digits; README.md says how the tasks are started.

The parameter server holds the variables.  Each worker computes gradients of batches of its own; worker 0, the chief,
initializes the variables or restores them, saves them every 50 steps, and writes summaries for TensorBoard.  Without
--sync a worker's gradients are applied when they are there; with it a step is one update by the mean of both workers'.
"""

import argparse
from pathlib import Path

import numpy as np

import headrace as tf

DATA = Path(__file__).resolve().parents[1] / "data"
PIXELS, HIDDEN, DIGITS = 64, 64, 10
BATCH_SIZE = 50
SAID_EVERY = 50


def read(pattern):
    """Pixels float32 [n, 64] of 0 to 1 and labels int32 [n]; an empty cell is a pixel 0."""
    rows = np.concatenate(
        [
            np.genfromtxt(file, delimiter=",", skip_header=1, filling_values=0)
            for file in sorted(DATA.glob(pattern))
        ]
    )
    return (rows[:, :-1] / 16).astype(np.float32), rows[:, -1].astype(np.int32)


def dense(signal, inputs, outputs, name):
    """[n, inputs] to [n, outputs]."""
    with tf.variable_scope(name):
        start = tf.truncated_normal_initializer(stddev=(2 / inputs) ** 0.5)
        weights = tf.get_variable("weights", [inputs, outputs], initializer=start)
        biases = tf.get_variable("biases", [outputs], initializer=tf.zeros_initializer())
        return tf.nn.xw_plus_b(signal, weights, biases)


class Beginning(tf.train.SessionRunHook):
    """Says where a session begins: the first one, and each that takes the place of one whose ps was lost."""

    def __init__(self, global_step):
        self.global_step = global_step

    def after_create_session(self, session, coord):
        print(f"begins at step {session.run(self.global_step)}", flush=True)


def build(args, cluster):
    """Placeholders of pixels and labels, the training op, the share of digits read right, and the hooks."""
    place = tf.train.replica_device_setter(
        cluster=cluster, worker_device=f"/job:worker/task:{args.task}"
    )
    with tf.device(place):
        pixels = tf.placeholder(tf.float32, [None, PIXELS], name="pixels")
        labels = tf.placeholder(tf.int32, [None], name="labels")
        hidden = tf.nn.relu(dense(pixels, PIXELS, HIDDEN, "hidden"))
        logits = dense(hidden, HIDDEN, DIGITS, "logits")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        tf.summary.scalar("cross_entropy", loss)
        found = tf.cast(tf.argmax(logits, 1), tf.int32)
        right = tf.reduce_mean(tf.cast(tf.equal(found, labels), tf.float32))
        hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
        optimizer = tf.train.AdamOptimizer(0.003)
        if args.sync:
            count = cluster.num_tasks("worker")
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, count, count)
            hooks.append(optimizer.make_session_run_hook(args.task == 0))
        step = tf.train.get_or_create_global_step()
        train = optimizer.minimize(loss, global_step=step)
        hooks.append(Beginning(step))
    return pixels, labels, train, step, right, hooks


def work(args, cluster, server):
    """Train until the global step is --steps."""
    pixels, labels, train, global_step, right, hooks = build(args, cluster)
    images, digits = read("digits-train-*.csv")
    tests = dict(zip((pixels, labels), read("digits-test-*.csv"), strict=True))
    random = np.random.RandomState(args.task)
    chief = args.task == 0
    with (
        tf.train.MonitoredTrainingSession(
            master=server.target,
            is_chief=chief,
            checkpoint_dir=args.logs if chief else None,
            save_checkpoint_steps=50 if chief else None,
            save_checkpoint_secs=None,
            save_summaries_steps=20,
            hooks=hooks,
            stop_grace_period_secs=2,  # the chief's thread waits for gradients that nobody sends any more
        ) as session
    ):
        said = None
        while not session.should_stop():
            chosen = random.randint(len(images), size=BATCH_SIZE)
            feed = {pixels: images[chosen], labels: digits[chosen]}
            _, step = session.run([train, global_step], feed)
            if chief and step // SAID_EVERY != said and not session.should_stop():
                said = step // SAID_EVERY
                share = session.run_step_fn(
                    lambda step_context: step_context.session.run(right, tests)
                )
                print(f"step {step}: {share:.1%} of the test digits", flush=True)
    print("done", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--job", choices=["ps", "worker"], required=True)
    add("--task", type=int, default=0)
    add("--ps", default="localhost:2222", metavar="HOST:PORT")
    add("--workers", default="localhost:2223,localhost:2224", metavar="HOST:PORT,…")
    add("--logs", default="/tmp/replicated_digits", metavar="DIR", help="of worker 0")
    add("--steps", type=int, default=600)
    add("--sync", action="store_true", help="apply the mean of both workers' gradients")
    args = parser.parse_args()
    cluster = tf.train.ClusterSpec({"ps": [args.ps], "worker": args.workers.split(",")})
    server = tf.train.Server(cluster, job_name=args.job, task_index=args.task)
    if args.job == "ps":
        server.join()
    else:
        work(args, cluster, server)


if __name__ == "__main__":
    main()
