"""Graphs of TensorFlow clients with ops that headrace does not have.

Each case says the class of the error, whether its text names the op and the node, and what the session gives next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()
OPS: dict[str, str] = {}
"""By case: the op that is not known."""


def unknown(op: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorator: a function that builds a program with one node of this op, and gives what to fetch."""

    def add(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
        TABLE.parts[program.__name__] = lambda tf, here: refused(tf, here, program, op)
        OPS[program.__name__] = op
        return program

    return add


def refused(tf: Any, here: Here, program: Callable[[Any], Any], op: str) -> Any:
    """[class, whether the op is named, whether the node is, what another step of the session gives]"""
    tf.Session.reset(here.worker)
    with tf.device(WORKER):
        fine = tf.constant(1.0) + 1.0
    with tf.Session(here.worker) as session:
        before = session.run(fine)
        with tf.device(PS):
            wanted = program(tf)
        (node,) = [each for each in tf.get_default_graph().get_operations() if each.type == op]
        try:
            session.run(wanted)
        except tf.errors.OpError as error:
            kind, text = type(error).__name__, error.message
    with tf.Session(here.worker, graph=tf.Graph()) as session, session.graph.as_default():
        return [kind, op in text, node.name in text, before + session.run(tf.constant(1.0) + 1.0)]


@unknown("SleepDataset")
def data_sets(tf: Any) -> Any:
    made = tf.raw_ops.RangeDataset(
        start=tf.constant(0, tf.int64), stop=tf.constant(3, tf.int64), step=tf.constant(1, tf.int64),
        output_types=[tf.int64], output_shapes=[[]],
    )  # fmt: skip
    late = tf.raw_ops.SleepDataset(
        input_dataset=made, sleep_microseconds=tf.constant(1, tf.int64), output_types=[tf.int64], output_shapes=[[]]
    )  # fmt: skip
    return tf.raw_ops.DatasetCardinality(input_dataset=late)


@unknown("ImageProjectiveTransformV2")
def any_other_op(tf: Any) -> Any:
    return tf.raw_ops.ImageProjectiveTransformV2(
        images=tf.random_uniform([1, 2, 2, 1]),
        transforms=tf.ones([1, 8]),
        output_shape=[2, 2],
        interpolation="NEAREST",
    )
