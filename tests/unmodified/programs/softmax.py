"""Softmax regression with flags: ten classes of noisy digits-like rows."""

import numpy as np
import tensorflow as tf

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 60, "Number of steps.")
flags.DEFINE_float("learning_rate", 0.5, "Initial learning rate.")
flags.DEFINE_boolean("verbose", False, "Whether to log each step.")

CLASSES, PIXELS = 10, 64


def batches(size, seed):
    random = np.random.RandomState(seed)
    patterns = np.random.RandomState(0).rand(CLASSES, PIXELS)
    while True:
        labels = random.randint(CLASSES, size=size)
        images = patterns[labels] + 0.3 * random.randn(size, PIXELS)
        yield images.astype(np.float32), np.eye(CLASSES, dtype=np.float32)[labels]


def main(_):
    x = tf.placeholder(tf.float32, [None, PIXELS], name="x")
    y_ = tf.placeholder(tf.float32, [None, CLASSES], name="labels")
    W = tf.Variable(tf.zeros([PIXELS, CLASSES]))
    b = tf.Variable(tf.zeros([CLASSES]))
    y = tf.matmul(x, W) + b
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
    train_step = tf.train.GradientDescentOptimizer(FLAGS.learning_rate).minimize(cross_entropy)
    correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    data = batches(100, seed=1)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.steps):
            xs, ys = next(data)
            _, loss = sess.run([train_step, cross_entropy], feed_dict={x: xs, y_: ys})
            if FLAGS.verbose:
                tf.logging.info("step %d: %g", step, loss)
        xs, ys = next(batches(500, seed=2))
        print("steps", FLAGS.steps)
        print("accuracy %.2f" % sess.run(accuracy, {x: xs, y_: ys}))


if __name__ == "__main__":
    tf.app.run()
