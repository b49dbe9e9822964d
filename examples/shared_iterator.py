"""Two workers train from one dataset: each batch is read once, and goes to whichever worker asks first.

    python examples/shared_iterator.py ps 0
    python examples/shared_iterator.py worker 0
    python examples/shared_iterator.py worker 1

The iterator is a resource of the parameter server: all who name it `training_set` in the same container share it, as
they share variables.  So files are read, parsed, shuffled and batched there, once, and the epochs are those of the
whole training.  A slow worker takes fewer batches.  Only the chief begins the iteration, with the variables: to begin
it is to begin it anew.  At its end every worker's next step is an OutOfRangeError, on which a MonitoredSession ends.
"""

import argparse
from pathlib import Path

import headrace as tf

DATA = Path(__file__).resolve().parent / "data"
PIXELS, DIGITS = 64, 10
BATCH_SIZE = 50


def parsed(line):
    """pixels float32 [64] of 0 to 1, and label int32 []; an empty cell is a pixel 0."""
    *cells, label = tf.decode_csv(line, record_defaults=[[0.0]] * PIXELS + [[-1]])
    return tf.stack(cells) / 16, label


def digits(pattern):
    """The rows of all files that match."""
    files = tf.data.Dataset.list_files(str(DATA / pattern), shuffle=False)
    lines = files.flat_map(lambda file: tf.data.TextLineDataset(file).skip(1))
    return lines.map(parsed)


def shared_iterator(epochs):
    """The iterator of the cluster, on the parameter server."""
    with tf.device("/job:ps/task:0"), tf.container("inputs"):
        dataset = digits("digits-train-*.csv").shuffle(1500).repeat(epochs)
        batches = dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(10)
        return tf.data.make_initializable_iterator(batches, shared_name="training_set")


def network(pixels):
    """[n, 64] to logits [n, 10]."""
    hidden = dense(pixels, PIXELS, 48, "hidden")
    return dense(tf.nn.relu(hidden), 48, DIGITS, "logits")


def dense(signal, inputs, outputs, name):
    """[n, inputs] to [n, outputs]."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        start = tf.truncated_normal_initializer(stddev=(2 / inputs) ** 0.5)
        weights = tf.get_variable("weights", [inputs, outputs], initializer=start)
        biases = tf.get_variable("biases", [outputs], initializer=tf.zeros_initializer())
        return tf.nn.xw_plus_b(signal, weights, biases)


def build(cluster, task, epochs):
    """The training op, and the share of the test digits that is read right."""
    place = tf.train.replica_device_setter(
        cluster=cluster, worker_device=f"/job:worker/task:{task}"
    )
    with tf.device(place):
        iterator = shared_iterator(epochs)
        with tf.control_dependencies([iterator.initializer]):
            begun = tf.identity(True)
        # Workers wait until all variables are initialized: so this one makes them wait for the iterator, too.
        tf.Variable(begun, trainable=False, name="input_begun")
        pixels, labels = iterator.get_next()
        loss = tf.losses.sparse_softmax_cross_entropy(labels, network(pixels))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.003).minimize(loss, global_step=step)
        tests = digits("digits-test-*.csv").batch(1000).make_one_shot_iterator()
        pixels, labels = tests.get_next()
        found = tf.argmax(network(pixels), 1, output_type=tf.int32)
        right = tf.reduce_mean(tf.cast(tf.equal(found, labels), tf.float32))
    return train, right


def all_done(workers):
    """A queue on the parameter server, of the workers that are done."""
    with tf.device("/job:ps/task:0"):
        return tf.FIFOQueue(workers, [tf.int32], [[]], shared_name="all_done")


def serve(server, workers):
    queue = all_done(workers)
    with tf.Session(server.target) as sess:
        for _ in range(workers):
            sess.run(queue.dequeue())
    server.stop(grace=10)  # the step that said so gets its reply


def work(server, cluster, task, epochs):
    """Train until there are no more batches."""
    train, right = build(cluster, task, epochs)
    done = all_done(cluster.num_tasks("worker")).enqueue(task)
    taken = 0
    with tf.train.MonitoredTrainingSession(server.target, is_chief=task == 0) as session:
        while not session.should_stop():
            session.run(train)
            taken += 1
    with tf.Session(server.target) as sess:
        print(f"{taken} batches, {sess.run(right):.1%} of the test digits")
        sess.run(done)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("job", choices=["ps", "worker"])
    add("task", type=int)
    add("--ps", default="localhost:2222", metavar="HOST:PORT")
    add("--workers", default="localhost:2223,localhost:2224", metavar="HOST:PORT,…")
    add("--epochs", type=int, default=20)
    args = parser.parse_args()
    cluster = tf.train.ClusterSpec({"ps": [args.ps], "worker": args.workers.split(",")})
    with tf.train.Server(cluster, job_name=args.job, task_index=args.task) as server:
        if args.job == "ps":
            serve(server, cluster.num_tasks("worker"))
        else:
            work(server, cluster, args.task, args.epochs)


if __name__ == "__main__":
    main()
