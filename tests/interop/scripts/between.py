"""Values between tasks that a TensorFlow master sends partitions to, which it has not told who pushes to whom."""

from __future__ import annotations

from typing import Any

from tests.interop.scripts.table import PS, Here, Table

TABLE = Table()
OTHER = "/job:worker/task:1"


def both_ways(tf: Any, here: Here) -> Any:
    """A variable of the ps to the other worker, what that makes of it back, several steps of one program."""
    with tf.device(PS):
        x = tf.Variable(tf.ones([1000]), name="x")
        number = x.assign_add(tf.ones([1000]))
    with tf.device(OTHER):
        half = number / 2.0
    with tf.device(PS):
        total = tf.reduce_sum(half)
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        return [session.run(total) for _ in range(3)]


def branches(tf: Any, here: Here) -> Any:
    """What is dead on one task is dead on the other."""
    with tf.device(PS):
        which = tf.placeholder(tf.bool, [], name="which")
        no, yes = tf.raw_ops.Switch(data=tf.constant([1.0, 2.0]), pred=which)
    with tf.device(OTHER):
        tens, ones = yes * 10.0, no + 0.0
    with tf.device(PS):
        merged = tf.raw_ops.Merge(inputs=[tens, ones]).output
    with tf.Session(here.worker) as session:
        return [session.run(merged, {which: value}).tolist() for value in (True, False)]


TABLE.parts.update(both_ways=both_ways, branches=branches)
