"""A convolutional network learns to read handwritten digits.

    python examples/digits_cnn.py [TARGET [EPOCHS]]

TARGET is a server such as grpc://localhost:2222; without it, everything runs in this process.

Two 3x3 convolutions with max pooling between them, then a dense layer with dropout and one output
for each digit; Adam on the cross entropy.  The images of data/ are 8x8 pixels, 1,437 to learn from
and 360 to be tested with.  After each epoch the share of the test images that are read correctly is
printed.
"""

import sys
from pathlib import Path

import numpy as np

import headrace as tf

DATA = Path(__file__).parent / "data"
SIDE, DIGITS = 8, 10
BATCH_SIZE = 50


def read(pattern):
    """Images float32 [n, 8, 8, 1] of 0 to 1 and labels int32 [n]; an empty cell is a pixel 0."""
    files = sorted(DATA.glob(pattern))
    rows = np.concatenate(
        [np.genfromtxt(file, delimiter=",", skip_header=1, filling_values=0) for file in files]
    )
    images = rows[:, :-1].reshape(-1, SIDE, SIDE, 1) / 16
    return images.astype(np.float32), rows[:, -1].astype(np.int32)


def weights(*shape, inputs):
    """A variable with random values that keep the size of signals from `inputs` inputs each."""
    return tf.Variable(tf.truncated_normal(shape, stddev=np.sqrt(2 / inputs)), name="weights")


def convolution(signal, channels, filters, name):
    """relu(3x3 convolution + bias), images [n, h, w, channels] to [n, h, w, filters]."""
    with tf.name_scope(name):
        kernel = weights(3, 3, channels, filters, inputs=9 * channels)
        bias = tf.Variable(tf.zeros([filters]), name="bias")
        made = tf.nn.conv2d(signal, kernel, strides=[1, 1, 1, 1], padding="SAME")
        return tf.nn.relu(tf.nn.bias_add(made, bias))


def dense(signal, inputs, outputs, name):
    """[n, inputs] to [n, outputs]."""
    with tf.name_scope(name):
        bias = tf.Variable(tf.zeros([outputs]), name="bias")
        return tf.nn.xw_plus_b(signal, weights(inputs, outputs, inputs=inputs), bias)


def build():
    """Placeholders of images, labels and whether to learn; the training step; the share of correct digits."""
    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, SIDE, SIDE, 1], name="images")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    kept = tf.placeholder_with_default(1.0, [], name="kept")

    signal = convolution(images, 1, 16, "first")
    signal = tf.nn.max_pool(signal, [1, 2, 2, 1], [1, 2, 2, 1], padding="SAME")
    signal = convolution(signal, 16, 32, "second")
    signal = tf.nn.max_pool(signal, [1, 2, 2, 1], [1, 2, 2, 1], padding="SAME")
    flat = tf.reshape(signal, [-1, 2 * 2 * 32])
    hidden = tf.nn.dropout(tf.nn.relu(dense(flat, 2 * 2 * 32, 64, "hidden")), rate=1 - kept)
    logits = dense(hidden, 64, DIGITS, "digits")

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    step = tf.train.AdamOptimizer(0.006).minimize(tf.reduce_mean(losses, name="loss"))
    correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
    return images, labels, kept, step, tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")


def main(target="", epochs="6"):
    train_images, train_labels = read("digits-train-*.csv")
    test_images, test_labels = read("digits-test-*.csv")
    images, labels, kept, step, accuracy = build()
    order = np.random.default_rng(0)
    with tf.Session(target) as sess:
        sess.run(tf.global_variables_initializer())
        for epoch in range(1, int(epochs) + 1):
            rows = order.permutation(len(train_images))
            for first in range(0, len(rows), BATCH_SIZE):
                batch = rows[first : first + BATCH_SIZE]
                feeds = {images: train_images[batch], labels: train_labels[batch], kept: 0.7}
                sess.run(step, feeds)
            share = sess.run(accuracy, {images: test_images, labels: test_labels})
            print(f"epoch {epoch}: {share:.1%} of {len(test_images)} test images")


if __name__ == "__main__":
    main(*sys.argv[1:])
