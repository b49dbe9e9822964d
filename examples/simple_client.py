"""A variable lives on the cluster, not in the program that made it.

Start two tasks, each in a terminal of its own:

    headrace serve --cluster 'local=localhost:2222,localhost:2223' --job local --task 0
    headrace serve --cluster 'local=localhost:2222,localhost:2223' --job local --task 1

Then run the client on one of them, which initializes x, and again on the other:

    python examples/simple_client.py grpc://localhost:2222 init      # prints 1.0
    python examples/simple_client.py grpc://localhost:2223           # prints 2.0

Both find the same x: an op that is not pinned to a device goes to the cluster's first task,
whichever server the session is on, and a variable stays there, under its name, when the session ends.
"""

import sys

import headrace as tf


def build():
    x = tf.Variable(0.0, name="x")
    return tf.global_variables_initializer(), tf.assign_add(x, 1.0)


def main(target, *words):
    initialize, increment = build()
    with tf.Session(target) as sess:
        if "init" in words:
            sess.run(initialize)
        print(sess.run(increment))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
