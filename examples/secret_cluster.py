"""A parameter server on one host and a worker on another, which know each other by a secret.

    openssl rand -hex 32 > secret; chmod 600 secret          # once; both hosts need the file
    python examples/secret_cluster.py ps 192.0.2.1:2222 192.0.2.2:2222 secret          # on the first host
    python examples/secret_cluster.py worker 192.0.2.1:2222 192.0.2.2:2222 secret      # on the second one

Without the secret neither server would start, since others reach their addresses; nobody who does not know it can use
them. What passes between the hosts can be read on the way; `tls_cluster.py` encrypts it.
The worker fits a line whose variables are on the parameter server, and then tells the parameter server that it is done.
"""

import sys

import numpy as np

import headrace as tf

STEPS = 100


def all_done():
    """A queue on the parameter server that says when it is not needed any more."""
    with tf.device("/job:ps"):
        return tf.FIFOQueue(1, [tf.string], [[]], shared_name="all_done")


def serve(server, security):
    queue = all_done()
    print("serving", server.target, flush=True)
    with tf.Session(server.target, security=security) as sess:
        print("stopped by", sess.run(queue.dequeue()).decode())
    server.stop(grace=10)  # the step that said so gets its reply


def build():
    """(initialize, one step, the line's two variables)"""
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker")):
        slope, intercept = tf.Variable(0.0), tf.Variable(0.0)
        x = tf.constant(np.linspace(-1, 1, 20), tf.float32)
        loss = tf.reduce_mean(tf.square(slope * x + intercept - (3 * x + 1)))
        step = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
        return tf.global_variables_initializer(), step, (slope, intercept)


def train(server, security):
    init, step, line = build()
    done = all_done().enqueue("the worker")
    with tf.Session(server.target, security=security) as sess:
        sess.run(init)
        for _ in range(STEPS):
            sess.run(step)
        print("the line is {:.2f} x + {:.2f}".format(*sess.run(line)))
        sess.run(done)


def run(role, ps, worker, security):
    """Serve as `ps` or `worker`, one of the two addresses being this host's."""
    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": [worker]})
    with tf.train.Server(cluster, job_name=role, task_index=0, security=security) as server:
        if role == "ps":
            serve(server, security)
        else:
            train(server, security)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    role, ps, worker, secret_file = sys.argv[1:]
    run(role, ps, worker, tf.train.Security(secret_file=secret_file))
