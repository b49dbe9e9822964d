"""Linear regression by gradient descent, fed a point at a time, under the module's full name."""

import numpy as np
import tensorflow

train_X = np.linspace(0.0, 4.0, 17)
train_Y = 1.5 * train_X - 0.7
X = tensorflow.placeholder("float")
Y = tensorflow.placeholder("float")
W = tensorflow.Variable(0.1, name="weight")
b = tensorflow.Variable(0.0, name="bias")
pred = tensorflow.add(tensorflow.multiply(X, W), b)
cost = tensorflow.reduce_sum(tensorflow.pow(pred - Y, 2)) / (2 * len(train_X))
optimizer = tensorflow.train.GradientDescentOptimizer(0.2).minimize(cost)
init = tensorflow.global_variables_initializer()

with tensorflow.Session() as sess:
    sess.run(init)
    for _ in range(150):
        for x, y in zip(train_X, train_Y):
            sess.run(optimizer, feed_dict={X: x, Y: y})
    training_cost = sess.run(cost, feed_dict={X: train_X, Y: train_Y})
    print("cost", training_cost < 1e-4)
    print("W %.2f b %.2f" % (sess.run(W), sess.run(b)))
