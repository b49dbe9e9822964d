"""tf.graph_util.must_run_on_cpu: TensorFlow's answers, found by asking it."""

from __future__ import annotations

import pytest

import headrace as tf


def test_strings_and_sizes_stay_in_memory_of_the_host() -> None:
    on_cpu = tf.graph_util.must_run_on_cpu
    with tf.Graph().as_default() as graph:
        variable = tf.Variable(1.0)
        handled = tf.Variable(1.0, use_resource=True)
        number, text, real = tf.constant(1), tf.constant("a"), tf.constant(1.0)
        assert [on_cpu(each.op) for each in (number, text, real)] == [True, True, False]
        assert not on_cpu(tf.constant(1, tf.int64).op)
        assert on_cpu(tf.dynamic_stitch([[0]], [[1]]).op)
        assert not on_cpu(tf.dynamic_stitch([[0]], [[1.0]]).op)
        assert on_cpu(tf.cast(number, tf.float32).op)
        assert not on_cpu(tf.cast(real, tf.int32).op)
        assert not on_cpu(tf.range(3).op)
        assert [on_cpu(variable.op, pin) for pin in (False, True)] == [False, True]
        assert not on_cpu(handled.handle.op, True)
        assert not on_cpu(graph.as_graph_def().node[0])
        with pytest.raises(AssertionError):
            on_cpu(number)
