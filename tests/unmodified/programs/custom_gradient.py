"""Gradients of one's own: for a py_func, for an op in a scope, and for an identity that reverses them."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_array_ops
from tensorflow.python.ops.gen_math_ops import mat_mul


def py_func(function, inputs, dtype, gradient, name):
    """A py_func that knows its gradient."""
    registered = "PyFuncGrad" + name
    ops.RegisterGradient(registered)(gradient)
    with ops.get_default_graph().gradient_override_map({"PyFunc": registered}):
        return tf.py_func(function, inputs, dtype, name=name)


@ops.RegisterGradient("Reversed")
def _reversed(op, grad):
    return [-grad]


def flip_gradient(x):
    with ops.get_default_graph().gradient_override_map({"Identity": "Reversed"}):
        return tf.identity(x)


@tf.custom_gradient
def log1pexp(x):
    e = tf.exp(x)
    return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))


x = tf.constant([1.0, 2.0, 3.0])
cube = py_func(lambda v: v**3, [x], tf.float32, lambda op, g: 3 * op.inputs[0] ** 2 * g, "Cube")
flipped = flip_gradient(x)
shaped = gen_array_ops.reshape(x, [3, 1])
square = mat_mul(shaped, shaped, transpose_a=True)
with tf.Session() as sess:
    print("cube", sess.run(cube).tolist(), sess.run(tf.gradients(cube, x)[0]).tolist())
    print("flipped", sess.run(tf.gradients(flipped, x)[0]).tolist())
    print("square", sess.run(square).tolist(), sess.run(tf.gradients(square, x)[0]).tolist())
    large = tf.constant(100.0)
    print("log1pexp", np.isnan(sess.run(tf.gradients(log1pexp(large), large)[0])))
