"""tf.profiler beside TensorFlow's: operations of every op that is counted, messages and lines of every view."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import headrace as tf
from headrace.training.profiler.statistics import get_stats_for_node_def

COUNTED = """
import numpy as np
def counted(tf, stats):
    with tf.Graph().as_default() as graph:
        image = tf.placeholder(tf.float32, [2, 8, 9, 3])
        kernel = tf.constant(np.ones([3, 2, 3, 4], np.float32))
        found = tf.nn.conv2d(image, kernel, [1, 2, 2, 1], "SAME")
        tf.nn.depthwise_conv2d(image, tf.ones([3, 2, 3, 2]), [1, 1, 1, 1], "VALID")
        tf.nn.conv3d(tf.ones([1, 4, 5, 6, 2]), tf.ones([2, 3, 2, 2, 5]), [1, 1, 1, 1, 1], "SAME")
        most = tf.nn.max_pool(image, [1, 2, 3, 1], [1, 2, 2, 1], "VALID")
        mean = tf.nn.avg_pool(image, [1, 2, 3, 1], [1, 2, 2, 1], "VALID")
        tf.nn.dilation2d(image, tf.ones([3, 2, 3]), [1, 1, 1, 1], [1, 1, 1, 1], "SAME")
        m = tf.matmul(tf.ones([3, 4]), tf.ones([4, 5]))
        tf.matmul(tf.ones([4, 3]), tf.ones([5, 4]), transpose_a=True, transpose_b=True)
        tf.matmul(tf.ones([2, 3, 4]), tf.ones([2, 4, 5]))
        tf.matmul(tf.ones([2, 3, 4]), tf.ones([2, 5, 4]), transpose_b=True)
        biased = tf.nn.bias_add(m, tf.ones([5]))
        tf.nn.softmax(m), tf.nn.l2_loss(m), tf.add_n([m, m, m])
        tf.reduce_sum(m, 0), tf.reduce_mean(m, 1), tf.argmax(m, 0), tf.argmin(m, 1)
        tf.reciprocal(m), tf.square(m), tf.rsqrt(m), tf.log(m), -m
        m + 1.0, m - 1.0, m * 2.0, m / 3.0, tf.maximum(m, 1.0), tf.minimum(m, 1.0), m**2.0
        m > 1.0, m >= 1.0, m < 1.0, m <= 1.0, tf.equal(m, 1.0), tf.not_equal(m, 1.0)
        tf.squared_difference(m, 1.0)
        tf.matmul(tf.placeholder(tf.float32, [None, 4]), tf.ones([4, 2]))
        with tf.variable_scope("v", use_resource=False):
            v, b = tf.get_variable("v", [3, 5]), tf.get_variable("b", [5])
        tf.assign_add(v, m), tf.assign_sub(v, m)
        tf.gradients([found, most, mean, biased], [image, kernel])
        tf.gradients(tf.nn.bias_add(m, b), b), tf.gradients(tf.rsqrt(v), v)
        result = []
        for op in graph.get_operations():
            try:
                value = stats(graph, op.node_def, "flops").value
            except ValueError:
                value = "ValueError"
            if value is not None:
                result.append((op.type, value))
        return result
"""

REPORTED = """
def small(tf):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [10, 4], name="x")
        with tf.variable_scope("one", use_resource=False):
            w, b = tf.get_variable("w", [4, 3]), tf.get_variable("b", [3])
            hidden = tf.nn.relu(tf.matmul(x, w) + b)
        with tf.variable_scope("two", use_resource=False):
            y = tf.matmul(hidden, tf.get_variable("w", [3, 2], trainable=False))
        tf.reduce_mean(tf.square(y), name="loss")
    return graph

def chosen(builder):
    flops = builder.float_operation
    return {
        "flops": flops(),
        "parameters": builder.trainable_variables_parameter(),
        "default": builder().build(),
        "two deep": builder(flops()).with_max_depth(2).build(),
        "columns": builder().select(["params", "float_ops", "op_types", "device"]).with_max_depth(3).build(),
        "all of it": builder().select(["params", "float_ops"]).with_min_float_operations(20).build(),
        "beneath": builder(flops()).with_node_names(start_name_regexes=["one.*"]).build(),
        "not these": builder(flops()).with_node_names(hide_name_regexes=[".*MatMul"]).build(),
        "trimmed": builder().select(["float_ops"]).with_node_names(trim_name_regexes=["one.*"]).build(),
        "by name": builder(flops()).order_by("name").build(),
        "often": builder().select(["params"]).with_min_occurrence(4).order_by("params").build(),
        "variables": builder().select(["params"]).with_accounted_types(["VariableV2"]).build(),
    }

def profile(tf, command, options, printed):
    message, text = printed(lambda: tf.profiler.profile(small(tf), cmd=command, options=options))
    body = text.partition("Profile:")[2].partition("=====")[0].splitlines()
    return message.SerializeToString(deterministic=True), [" ".join(line.split()) for line in body if line.strip()]

def reported(tf, printed):
    return {
        (command, name): profile(tf, command, options, printed)
        for command in ("scope", "graph", "op")
        for name, options in chosen(tf.profiler.ProfileOptionBuilder).items()
    }
"""

THEIRS = """
import os, tempfile
from tensorflow.python.framework import ops
import tensorflow.python.profiler.model_analyzer

def printed(function):
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            made = function()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return made, file.read().decode()

result = counted(tf, ops.get_stats_for_node_def), reported(tf, printed)
"""


def printed(function: Any) -> tuple[Any, str]:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        made = function()
    return made, text.getvalue()


def test_operations_messages_and_lines_are_tensorflows(oracle: Any) -> None:
    mine: dict[str, Any] = {}
    exec(COUNTED + REPORTED, mine)
    counted, reported = oracle.run(COUNTED + REPORTED + THEIRS)
    assert mine["counted"](tf, get_stats_for_node_def) == counted
    kinds = {"op": tf.profiler.MultiGraphNodeProto}
    for (command, name), (message, lines) in mine["reported"](tf, printed).items():
        their_message, their_lines = reported[command, name]
        kind = kinds.get(command, tf.profiler.GraphNodeProto)
        assert lines == their_lines, (command, name)
        assert kind.FromString(message) == kind.FromString(their_message), (command, name)
