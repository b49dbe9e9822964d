"""A cart on a rail, stepped in Python from inside the graph, and a controller that is found by random search."""

import importlib

import numpy as np

tf = importlib.import_module("tensorflow")
gen_state_ops = importlib.import_module("tensorflow.python.ops.gen_state_ops")
errors = importlib.import_module("tensorflow.python.framework.errors_impl")


class Cart:
    """Position and speed; pushed left or right, and lost when it leaves [-2, 2]."""

    def __init__(self):
        self.state = np.zeros(2, np.float32)

    def reset(self, seed):
        self.state = np.random.RandomState(seed).uniform(-1, 1, 2).astype(np.float32)
        return self.state

    def step(self, force):
        position, speed = self.state
        speed += 0.1 * force
        self.state = np.array([position + 0.1 * speed, speed], np.float32)
        return self.state, np.float32(1 - abs(self.state[0])), bool(abs(self.state[0]) > 2)


cart = Cart()
gains = tf.placeholder(tf.float32, [2])
seed = tf.placeholder(tf.int64, [])
start = tf.py_func(cart.reset, [seed], tf.float32)
start.set_shape([2])


def step(time, state, total, lost):
    force = tf.clip_by_value(tf.reduce_sum(gains * state), -1.0, 1.0)
    state, reward, lost = tf.py_func(cart.step, [force], [tf.float32, tf.float32, tf.bool])
    state.set_shape([2])
    reward.set_shape([])
    lost.set_shape([])
    return time + 1, state, total + reward, lost


goes_on = lambda time, state, total, lost: tf.logical_and(time < 60, tf.logical_not(lost))  # noqa: E731
steps, last, total, _ = tf.while_loop(goes_on, step, [0, start, 0.0, False], parallel_iterations=1)
assert gen_state_ops.assign is not None

random = np.random.RandomState(1)
with tf.Session() as sess:
    idle = sess.run(total, {gains: [0, 0], seed: 3})
    tries = [random.uniform(-4, 1, 2) for _ in range(25)]
    scores = [sess.run(total, {gains: each, seed: 3}) for each in tries]
    best = tries[int(np.argmax(scores))]
    print("better than idle", max(scores) > idle)
    print("pushes back", best[0] < 0)
    try:
        sess.run(tf.py_func(lambda: {}["x"], [], tf.float32))
    except errors.OpError as error:
        print("failed", type(error).__name__, "KeyError" in str(error))
