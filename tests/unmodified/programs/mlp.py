"""Two hidden layers with dropout, in an interactive session, as programs for TensorFlow 2 run 1.x graphs."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)


def layer(inputs, units, name, activation=tf.nn.relu):
    with tf.variable_scope(name):
        weights = tf.get_variable(
            "weights",
            [inputs.shape[1], units],
            initializer=tf.truncated_normal_initializer(stddev=0.2),
        )
        biases = tf.get_variable("biases", [units], initializer=tf.constant_initializer(0.1))
        outputs = tf.matmul(inputs, weights) + biases
        return outputs if activation is None else activation(outputs)


x = tf.placeholder(tf.float32, [None, 2])
y_ = tf.placeholder(tf.int64, [None])
keep_prob = tf.placeholder_with_default(1.0, [])
hidden = layer(x, 32, "first")
hidden = tf.nn.dropout(layer(hidden, 16, "second"), keep_prob=keep_prob)
logits = layer(hidden, 2, "logits", None)
loss = tf.losses.sparse_softmax_cross_entropy(labels=y_, logits=logits)
global_step = tf.train.get_or_create_global_step()
rate = tf.train.exponential_decay(0.02, global_step, 50, 0.9, staircase=True)
train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)
accuracy = tf.reduce_mean(tf.to_float(tf.nn.in_top_k(logits, y_, 1)))

sess = tf.InteractiveSession()
tf.global_variables_initializer().run()
random = np.random.RandomState(0)
for _ in range(150):
    points = random.uniform(-1, 1, [64, 2])
    labels = (points[:, 0] * points[:, 1] > 0).astype(int)
    train_op.run({x: points, y_: labels, keep_prob: 0.9})
points = random.uniform(-1, 1, [400, 2])
labels = (points[:, 0] * points[:, 1] > 0).astype(int)
print("global step", global_step.eval())
print("accuracy %.2f" % accuracy.eval({x: points, y_: labels}))
print("trainable", *[v.op.name for v in tf.trainable_variables()])
sess.close()
