"""The deep MNIST tutorial's program in small, on files in MNIST's format that it writes first."""

import gzip
import os
import struct
import tempfile

import numpy
import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data


def write(folder, prefix, count, seed):
    """Digits are squares in one of ten places."""
    random = numpy.random.RandomState(seed)
    labels = random.randint(10, size=count).astype(numpy.uint8)
    images = random.randint(60, size=(count, 28, 28)).astype(numpy.uint8)
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 4)
        image[8 * row + 2 : 8 * row + 8, 6 * column + 2 : 6 * column + 7] = 250
    for kind, head, data in (
        ("images-idx3", struct.pack(">IIII", 2051, count, 28, 28), images),
        ("labels-idx1", struct.pack(">II", 2049, count), labels),
    ):
        with gzip.open(os.path.join(folder, "%s-%s-ubyte.gz" % (prefix, kind)), "wb") as file:
            file.write(head + data.tobytes())


def weight_variable(shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1, seed=1))


def deepnn(x):
    x_image = tf.reshape(x, [-1, 28, 28, 1])
    h_conv = tf.nn.relu(tf.nn.conv2d(x_image, weight_variable([5, 5, 1, 4]), [1, 2, 2, 1], "SAME"))
    h_pool = tf.nn.max_pool(h_conv, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    flat = tf.reshape(h_pool, [-1, 7 * 7 * 4])
    return tf.nn.xw_plus_b(flat, weight_variable([7 * 7 * 4, 10]), tf.constant(0.1, shape=[10]))


with tempfile.TemporaryDirectory() as folder:
    write(folder, "train", 600, seed=0)
    write(folder, "t10k", 200, seed=1)
    mnist = input_data.read_data_sets(folder, one_hot=True, validation_size=100)
x = tf.placeholder(tf.float32, [None, 784])
y_ = tf.placeholder(tf.float32, [None, 10])
y_conv = deepnn(x)
cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y_conv))
train_step = tf.train.AdamOptimizer(1e-2).minimize(cross_entropy)
correct_prediction = tf.equal(tf.argmax(y_conv, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(40):
        batch = mnist.train.next_batch(50)
        train_step.run(feed_dict={x: batch[0], y_: batch[1]})
    print(
        "examples", mnist.train.num_examples, mnist.validation.num_examples, mnist.test.num_examples
    )
    print("epochs", mnist.train.epochs_completed)
    print("accuracy %.2f" % accuracy.eval({x: mnist.test.images, y_: mnist.test.labels}))
