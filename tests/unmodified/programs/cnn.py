"""A small convolutional network, written with the modules inside tensorflow.python."""

import numpy as np
from tensorflow.python.client import session
from tensorflow.python.framework import constant_op, dtypes, ops
from tensorflow.python.layers import convolutional, core, pooling
from tensorflow.python.ops import array_ops, init_ops, math_ops, nn_ops, variables
from tensorflow.python.training import adam

SIDE = 12


def images(count, seed):
    """Bars that lie or stand."""
    random = np.random.RandomState(seed)
    found = 0.2 * random.randn(count, SIDE, SIDE, 1)
    labels = random.randint(2, size=count)
    for image, label, at in zip(found, labels, random.randint(1, SIDE - 1, size=count)):
        if label:
            image[at, :, 0] += 1
        else:
            image[:, at, 0] += 1
    return found.astype(np.float32), labels


def main():
    with ops.Graph().as_default():
        x = array_ops.placeholder(dtypes.float32, [None, SIDE, SIDE, 1])
        y = array_ops.placeholder(dtypes.int64, [None])
        init = init_ops.VarianceScaling(seed=3)
        net = convolutional.conv2d(
            x, 4, 5, padding="same", activation=nn_ops.relu, kernel_initializer=init
        )
        net = pooling.max_pooling2d(net, 2, 2)
        net = convolutional.conv2d(net, 8, 3, activation=nn_ops.relu, kernel_initializer=init)
        net = array_ops.reshape(net, [-1, int(np.prod(net.shape.as_list()[1:]))])
        logits = core.dense(net, 2, kernel_initializer=init)
        loss = math_ops.reduce_mean(
            nn_ops.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
        train = adam.AdamOptimizer(0.02).minimize(loss)
        right = math_ops.equal(math_ops.argmax(logits, 1), y)
        accuracy = math_ops.reduce_mean(math_ops.cast(right, dtypes.float32))
        doubled = math_ops.multiply(constant_op.constant(2.0), accuracy, name="doubled")
        with session.Session() as sess:
            sess.run(variables.global_variables_initializer())
            for step in range(40):
                xs, ys = images(32, step)
                sess.run(train, {x: xs, y: ys})
            xs, ys = images(200, 1000)
            print("accuracy %.2f" % sess.run(accuracy, {x: xs, y: ys}))
            assert sess.run("doubled:0", {x: xs, y: ys}) == 2 * sess.run(accuracy, {x: xs, y: ys})
        print("variables", len(variables.trainable_variables()), doubled.op.type)


if __name__ == "__main__":
    main()
