"""Between-graph replication: a parameter server and two workers, each a process with the flags of its task.

Without --job_name it starts the others, with ports that are free unless it is told some, and prints what they say.
"""

import socket
import subprocess
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.platform import app, flags
from tensorflow.python.training import server_lib

flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
flags.DEFINE_integer("task_index", 0, "Index of task within the job")
flags.DEFINE_string("ps_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("worker_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_integer("steps", 120, "Steps of all workers together")
FLAGS = flags.FLAGS


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = ["127.0.0.1:%d" % each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def start_all():
    ps, *workers = free_addresses(3)
    ps_hosts, worker_hosts = FLAGS.ps_hosts or ps, FLAGS.worker_hosts or ",".join(workers)
    hosts = ["--ps_hosts=" + ps_hosts, "--worker_hosts=" + worker_hosts]

    def start(job, task):
        command = [sys.executable, __file__, "--job_name", job, "--task_index=%d" % task]
        return subprocess.Popen(command + hosts, stdout=subprocess.PIPE, text=True)

    tasks = [start("ps", 0), start("worker", 0), start("worker", 1)]
    try:
        for task in tasks[1:]:
            print(task.communicate(timeout=60)[0], end="")
        print("ended", [task.returncode for task in tasks[1:]])
    finally:
        for task in tasks:
            task.kill()
            task.communicate()


def work(cluster, server):
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster
    )
    with tf.device(setter):
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.placeholder(tf.float32, [None, 1])
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
        global_step = tf.train.get_or_create_global_step()
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=global_step)
        waiting = tf.report_uninitialized_variables()
    with tf.device("/job:ps/task:0"):
        done = tf.FIFOQueue(2, tf.int32, shapes=[[]], shared_name="done")
        arrive, wait = done.enqueue(1), done.dequeue_many(2)
    chief = FLAGS.task_index == 0
    with tf.Session(server.target) as sess:
        if chief:
            sess.run(tf.global_variables_initializer())
        while sess.run(waiting).size:
            pass
        random = np.random.RandomState(FLAGS.task_index)
        step = 0
        while step < FLAGS.steps:
            xs = random.randn(20, 3)
            _, step = sess.run([train, global_step], {x: xs, y: xs.dot([[1.0], [-2.0], [0.5]])})
        sess.run(arrive)
        if chief:
            sess.run(wait)
            print("worker 0: weights", np.round(sess.run(w).ravel(), 1).tolist(), w.device)
        else:
            print("worker 1: done")


def main(_):
    if not FLAGS.job_name:
        start_all()
        return
    cluster = server_lib.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = server_lib.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    else:
        work(cluster, server)


if __name__ == "__main__":
    app.run(main=main)
