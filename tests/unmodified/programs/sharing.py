"""Variables that are shared by scope, by template and between towers, with averages of them."""

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import variable_scope as vs
from tensorflow.python.training import moving_averages


def linear(x):
    w = vs.get_variable("w", [2, 1], initializer=tf.ones_initializer())
    return tf.matmul(x, w)


x = tf.placeholder(tf.float32, [None, 2])
with vs.variable_scope("model"):
    first = linear(x)
with vs.variable_scope("model", reuse=True):
    again = linear(x)
with vs.variable_scope("other", reuse=tf.AUTO_REUSE):
    other = linear(x) + linear(x)
template = tf.make_template("scaled", lambda x, s: s * linear(x), s=tf.constant(3.0))
one, two = template(x), template(2 * x)

losses = [tf.reduce_mean(tf.square(y - 1.0)) for y in (first, again)]
optimizer = tf.train.GradientDescentOptimizer(0.1)
towers = [optimizer.compute_gradients(loss, tf.trainable_variables("model")) for loss in losses]
averaged = [
    (tf.reduce_mean(tf.stack([g for g, _ in pairs]), 0), pairs[0][1]) for pairs in zip(*towers)
]
train = optimizer.apply_gradients(averaged)
(weights,) = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="model")
average = tf.train.ExponentialMovingAverage(0.5)
with tf.control_dependencies([train]):
    train_and_average = average.apply([weights])
slow = tf.Variable(0.0, trainable=False)
move = moving_averages.assign_moving_average(slow, 4.0, 0.75, zero_debias=False)
try:
    with vs.variable_scope("model"):
        linear(x)
except ValueError as error:
    print("refused", "already exists" in str(error))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    points = np.array([[1.0, 1.0], [2.0, 0.0]])
    for _ in range(50):
        sess.run(train_and_average, {x: points})
    print("names", *sorted(v.op.name for v in tf.trainable_variables()))
    print("same", np.array_equal(*sess.run([first, again], {x: points})))
    print("weights", np.round(sess.run(weights).ravel(), 2).tolist())
    print("average", np.allclose(*sess.run([average.average(weights), weights]), atol=0.05))
    print("template", sess.run([one, two], {x: [[1.0, 0.0]]})[1].tolist())
    print("moved", sess.run(move))
