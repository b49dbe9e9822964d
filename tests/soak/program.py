"""The program that the chaos is let loose on: training with its variables on a ps, and a queue there for all clients.

Each step of a client has a number of its own.  The ps counts per number how often a training step was applied, or a
step that only counts, which the client asks of the ps by itself.  Numbers are what is in the queue.  So whatever is
applied twice, or lost after it was confirmed, can be named.
"""

from __future__ import annotations

import headrace as tf

STEPS_PER_CLIENT = 1 << 14
MOST_CLIENTS = 32
CAPACITY = 64
SIZE = 2_000


class Program:
    """A client's steps: `train`, `count`, `put` and `take`.

    For the one who checks: `counts`, `global_step` and `rest`.
    """

    def __init__(self, worker: int = 0) -> None:
        """worker: the task that computes gradients."""
        self.number = tf.placeholder(tf.int32, [])
        with tf.device("/job:ps"):
            self.counts = tf.Variable(
                tf.zeros([STEPS_PER_CLIENT * MOST_CLIENTS], tf.int32), name="counts"
            )
            self.global_step = tf.Variable(0, name="global_step")
            weights = tf.Variable(tf.zeros([SIZE]), name="weights")
            queue = tf.FIFOQueue(CAPACITY, [tf.int32], [[]], shared_name="numbers")
            self.size = queue.size()
            self.rest = queue.dequeue_up_to(self.size)
        with tf.device(f"/job:worker/task:{worker}"):
            loss = tf.reduce_mean(tf.square(weights - 1.0))
            double = self.number * 2
            (gradient,) = tf.gradients(loss, [weights])
        with tf.device("/job:ps"):
            applied = [weights.assign_sub(gradient), self.global_step.assign_add(1)]
            with tf.control_dependencies(applied):
                self.train = tf.scatter_add(self.counts, [self.number], [1]).op
            self.count = tf.scatter_add(self.counts, [self.number], [1]).op
            self.put = queue.enqueue(double // 2)
            taken = queue.dequeue()
        with tf.device(f"/job:worker/task:{worker}"):
            self.take = taken + 0
        self.init = tf.global_variables_initializer()
