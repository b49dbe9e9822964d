"""Containers keep the state of several problems on one cluster apart, and free one of them alone.

    headrace serve --cluster local=localhost:2222 --job local
    python examples/containers.py grpc://localhost:2222

Two graphs have a variable x each; that of the second is in the container my_problem_1.  They are two
variables.  Resetting my_problem_1 frees the second, leaves the first as it is, and closes the
sessions that are open on that server.
"""

import sys

import headrace as tf

CONTAINER = "my_problem_1"


def build(container, value):
    """A graph with a variable x in a container; "" is the default one."""
    graph = tf.Graph()
    with graph.as_default(), tf.container(container):
        x = tf.Variable(value, name="x")
        return graph, x.initializer, x


def main(target):
    graph, initialize, x = build("", 1.0)
    other_graph, other_initialize, other_x = build(CONTAINER, 2.0)

    sess = tf.Session(target, graph=graph)
    sess.run(initialize)
    with tf.Session(target, graph=other_graph) as other_sess:
        other_sess.run(other_initialize)
    print("x in the default container:", sess.run(x))
    with tf.Session(target, graph=other_graph) as other_sess:
        print(f"x in {CONTAINER}:", other_sess.run(other_x))

    tf.Session.reset(target, [CONTAINER])
    try:
        sess.run(x)
    except tf.errors.AbortedError:
        print("the session was closed by the reset")

    with tf.Session(target, graph=graph) as sess:
        print("x in the default container:", sess.run(x))
    with tf.Session(target, graph=other_graph) as other_sess:
        try:
            other_sess.run(other_x)
        except tf.errors.FailedPreconditionError as error:
            print(f"x in {CONTAINER}: {type(error).__name__}:", error.message)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
