"""A cluster in one program: what sessions share, where variables live, and what a trace shows.

    python examples/gentle_introduction.py [localhost:2222 localhost:2223]

Two servers, the two tasks of a cluster, run in this process.  Local sessions do not share a
variable; sessions on the cluster do.  Then two variables are pinned to a task each, and the traces
of some runs show which node ran on which device: a RecvTensor where a value crossed tasks.
"""

import sys

import headrace as tf


def counter():
    """A graph with a variable that no device is asked for."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.Variable(0.0, name="x")
        return graph, x.initializer, tf.assign_add(x, 1.0)


def pinned():
    """A graph with a variable on each task, and their sum, which is computed on task 1."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:local/task:0"):
            a = tf.Variable(1.0, name="a")
        with tf.device("/job:local/task:1"):
            b = tf.Variable(2.0, name="b")
            total = tf.add(a, b, name="total")
        return graph, tf.global_variables_initializer(), a, b, total


def count(title, targets):
    """Increment x in a session on each of the targets, all of them open at once."""
    graph, initialize, increment = counter()
    sessions = [tf.Session(target, graph=graph) for target in targets]
    if targets[0]:
        sessions[0].run(initialize)
    else:
        for sess in sessions:
            sess.run(initialize)
    print(title, *[sess.run(increment) for sess in sessions])
    for sess in sessions:
        sess.close()


def traced(sess, fetch):
    """Run with a full trace, and print the nodes of each device."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    print(f"{fetch.op.name} = {sess.run(fetch, options=options, run_metadata=metadata)}")
    for device in sorted(metadata.step_stats.dev_stats, key=lambda stats: stats.device):
        names = sorted({node.node_name for node in device.node_stats})
        if names:
            print(f"  {device.device}: {', '.join(names)}")


def main(*addresses):
    cluster = tf.train.ClusterSpec({"local": list(addresses)})
    server0 = tf.train.Server(cluster, job_name="local", task_index=0)
    server1 = tf.train.Server(cluster, job_name="local", task_index=1)

    count("local sessions:", ["", ""])
    count("cluster sessions:", [server0.target, server1.target])

    graph, initialize, a, b, total = pinned()
    with tf.Session(server0.target, graph=graph) as sess:
        sess.run(initialize)
        traced(sess, a)
        traced(sess, b)
        traced(sess, total)

    server0.stop()
    server1.stop()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["localhost:2222", "localhost:2223"]))
