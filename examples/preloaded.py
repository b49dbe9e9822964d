"""A training set that fits into memory, kept in variables of the graph and read by its queues.

    python examples/preloaded.py [TARGET]

TARGET is a server such as grpc://localhost:2222; without it, everything runs in this process.

The set enters the graph once, through placeholders that initialize two variables.  They are in no
collection, so that no initializer, saver or optimizer takes them for part of the model.  From them
`slice_input_producer` takes rows in random order, and `batch` puts rows together; each epoch has
every row once.  The rows lie on the line label = 2 x - 1, which is what a step is fitted to.
"""

import sys

import numpy as np

import headrace as tf

ROWS = 16
EPOCHS = 40
BATCH_SIZE = 4


def training_set():
    """xs float32 [16, 1] and labels float32 [16, 1]."""
    xs = np.linspace(-1, 1, ROWS, dtype=np.float32)[:, None]
    return xs, 2 * xs - 1


def preloaded(name, values):
    """A variable for the whole set, and the placeholder that it is initialized from."""
    initial = tf.placeholder(values.dtype, values.shape, name=f"{name}_initial")
    return tf.Variable(initial, trainable=False, collections=[], name=name), initial


def build(xs, labels, epochs, batch_size):
    """The preloaded variables, what they are fed, a training step and the loss of its batch."""
    all_xs, xs_initial = preloaded("xs", xs)
    all_labels, labels_initial = preloaded("labels", labels)
    row = tf.train.slice_input_producer([all_xs, all_labels], num_epochs=epochs, seed=7)
    x, label = tf.train.batch(row, batch_size=batch_size, allow_smaller_final_batch=True)
    slope = tf.Variable([[0.0]], name="slope")
    offset = tf.Variable([0.0], name="offset")
    loss = tf.reduce_mean(tf.square(tf.matmul(x, slope) + offset - label), name="loss")
    step = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    feeds = {xs_initial: xs, labels_initial: labels}
    return [all_xs, all_labels], feeds, step, loss, slope, offset


def main(target=""):
    sets, feeds, step, loss, slope, offset = build(*training_set(), EPOCHS, BATCH_SIZE)
    with tf.Session(target) as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        sess.run([variable.initializer for variable in sets], feeds)  # once, and never fed again
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        steps = 0
        try:
            while not coord.should_stop():
                _, now = sess.run([step, loss])
                steps += 1
        except tf.errors.OutOfRangeError:
            print(f"{steps} steps, the last loss below 1e-3: {now < 1e-3}")
        finally:
            coord.request_stop()
        coord.join(threads)
        print(f"label = {sess.run(slope)[0, 0]:.1f} x + {sess.run(offset)[0]:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
