"""An LSTM reads rows of numbers one after the other and says whether their sum is positive."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import rnn
from tensorflow.contrib.framework import nest
from tensorflow.contrib.rnn import LSTMStateTuple

timesteps, num_input, num_hidden = 6, 1, 12
tf.set_random_seed(2)

X = tf.placeholder("float", [None, timesteps, num_input])
Y = tf.placeholder("float", [None, 2])
weights = {"out": tf.Variable(tf.random_normal([num_hidden, 2], stddev=0.3, seed=5))}
biases = {"out": tf.Variable(tf.zeros([2]))}


def RNN(x, weights, biases):
    x = tf.unstack(x, timesteps, 1)
    cell = rnn.BasicLSTMCell(num_hidden, forget_bias=1.0)
    outputs, state = rnn.static_rnn(cell, x, dtype=tf.float32)
    assert isinstance(state, LSTMStateTuple)
    assert len(nest.flatten(state)) == 2
    return tf.matmul(outputs[-1], weights["out"]) + biases["out"]


logits = RNN(X, weights, biases)
loss_op = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=Y))
optimizer = tf.train.RMSPropOptimizer(learning_rate=0.02)
gradients, variables = zip(*optimizer.compute_gradients(loss_op))
gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
train_op = optimizer.apply_gradients(zip(gradients, variables))
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(Y, 1)), tf.float32))


def batch(size, random):
    xs = random.uniform(-1, 1, [size, timesteps, num_input])
    return xs, np.eye(2)[(xs.sum((1, 2)) > 0).astype(int)]


random = np.random.RandomState(0)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(120):
        xs, ys = batch(64, random)
        sess.run(train_op, {X: xs, Y: ys})
    xs, ys = batch(400, random)
    print("accuracy %.2f" % sess.run(accuracy, {X: xs, Y: ys}))
