"""Programs that TensorFlow's graph optimizer rewrites before it sends them to the ps.

Each case computes the same in the client's own process and on the ps, traced; it gives the largest difference and
the ops that the ps says it ran.  For TensorFlow clients: some of what is here headrace's clients cannot build yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, Here, Table

TABLE = Table()
Program = Callable[[Any], tuple[list[Any], dict[Any, Any]]]
"""Builds a program; gives fetches and feeds."""

OPS: dict[str, frozenset[str]] = {}
"""By case: the ops that the ps must have run."""


def rewritten_to(*ops: str) -> Callable[[Program], Program]:
    """Decorator: a program of which the optimizer makes these ops."""

    def add(program: Program) -> Program:
        def run(tf: Any, here: Here) -> Any:
            return compared(tf, here, program)

        TABLE.parts[program.__name__] = run
        OPS[program.__name__] = frozenset(ops)
        return program

    return add


def compared(tf: Any, here: Here, program: Program) -> Any:
    """[largest difference between here and there, ops of the ps]"""
    found = []
    tf.Session.reset(here.worker)
    metadata = tf.RunMetadata()
    for target, device in (("", None), (here.worker, PS)):
        with tf.Graph().as_default():
            with tf.device(device):
                fetches, feeds = program(tf)
            with tf.Session(target) as session:
                session.run(tf.global_variables_initializer())
                options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                found.append(session.run(fetches, feeds, options, metadata))
    off = max(
        float(np.max(np.abs(np.asarray(a, float) - b), initial=0))
        for a, b in zip(*found, strict=True)
    )
    labels = [
        node.timeline_label for device in metadata.step_stats.dev_stats if "/job:ps" in device.device
        for node in device.node_stats
    ]  # fmt: skip
    return [off, sorted({label.partition(" = ")[2].partition("(")[0] for label in labels})]


def values(*shape: int, seed: int = 1) -> Any:
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def fed(tf: Any, feeds: dict[Any, Any], *shape: int) -> Any:
    placeholder = tf.placeholder(tf.float32, [None, *shape[1:]])
    feeds[placeholder] = values(*shape, seed=len(feeds) + 2)
    return placeholder


@rewritten_to("_FusedMatMul")
def dense_layers(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 4, 5)
    made = [
        activation(tf.nn.bias_add(tf.matmul(x, values(5, 3)), values(3)))
        for activation in (
            tf.nn.relu,
            tf.nn.relu6,
            tf.nn.elu,
            tf.tanh,
            tf.sigmoid,
            tf.nn.leaky_relu,
            tf.identity,
        )
    ]
    return made, feeds


@rewritten_to("_FusedMatMul")
def layers_with_gelu(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    y = tf.nn.bias_add(tf.matmul(fed(tf, feeds, 4, 5), values(5, 3)), values(3))
    z = tf.nn.bias_add(tf.matmul(fed(tf, feeds, 4, 5), values(5, 3)), values(3))
    cubed = z + 0.044715 * tf.pow(z, 3.0)
    exact = 0.5 * y * (1.0 + tf.erf(y * 0.7071067811865476))
    return [exact, 0.5 * z * (1.0 + tf.tanh(0.7978845608028654 * cubed))], feeds


@rewritten_to("_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedMatMul")
def layers_with_swish(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 2, 8, 8, 3)
    filters, depthwise = values(3, 3, 3, 3), values(3, 3, 3, 1)

    def convolved() -> Any:
        return tf.nn.bias_add(tf.nn.conv2d(x, filters, [1, 1, 1, 1], "SAME"), values(3))

    hard, soft = convolved(), convolved()
    per_channel = tf.nn.depthwise_conv2d(x, depthwise, [1, 1, 1, 1], "SAME")
    per_channel = tf.nn.bias_add(per_channel, values(3))
    dense = tf.nn.bias_add(tf.matmul(fed(tf, feeds, 4, 5), values(5, 3)), values(3))
    return [
        hard * tf.nn.relu6(hard + 3.0) * 0.16666667,
        soft * tf.sigmoid(soft),
        per_channel * tf.nn.relu6(per_channel + 3.0) * 0.16666667,
        dense * tf.sigmoid(dense),
    ], feeds


@rewritten_to("_FusedConv2D")
def convolutions(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 2, 8, 7, 3)
    made = []
    for activation in (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.leaky_relu, tf.identity):
        for strides, padding in (
            ([1, 1, 1, 1], "SAME"),
            ([1, 2, 2, 1], "SAME"),
            ([1, 2, 1, 1], "VALID"),
        ):
            y = tf.nn.conv2d(x, values(3, 2, 3, 4), strides, padding)
            made.append(activation(tf.nn.bias_add(y, values(4))))
    return made, feeds


@rewritten_to("_FusedConv2D")
def convolutions_that_are_normalized(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    y = tf.nn.conv2d(fed(tf, feeds, 2, 8, 8, 3), values(3, 3, 3, 4), [1, 1, 1, 1], "SAME")
    normal, _, _ = tf.nn.fused_batch_norm(
        y,
        values(4),
        values(4, seed=2),
        values(4, seed=3),
        abs(values(4, seed=4)),
        is_training=False,
    )
    return [tf.nn.relu(normal)], feeds


@rewritten_to("_FusedDepthwiseConv2dNative")
def convolutions_per_channel(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    y = tf.nn.depthwise_conv2d(fed(tf, feeds, 2, 8, 8, 3), values(3, 3, 3, 2), [1, 2, 2, 1], "SAME")
    return [tf.nn.relu(tf.nn.bias_add(y, values(6)))], feeds


@rewritten_to("_FusedConv3D")
def convolutions_of_volumes(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    y = tf.nn.conv3d(fed(tf, feeds, 1, 5, 6, 5, 2), values(2, 3, 2, 2, 3), [1, 1, 2, 1, 1], "SAME")
    return [tf.nn.relu(tf.nn.bias_add(y, values(3)))], feeds


@rewritten_to("_FusedBatchNormEx", "FusedBatchNormV3")
def normalized_batches(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 2, 4, 4, 3)
    scale, offset, mean, variance = (
        values(3),
        values(3, seed=2),
        values(3, seed=3),
        abs(values(3, seed=4)),
    )
    given, _, _ = tf.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)
    own = tf.nn.fused_batch_norm(x, scale, offset, is_training=True)
    return [tf.nn.relu(given), *own], feeds


@rewritten_to("_MklFusedBatchMatMulV2")
def attention_scores(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    q, k, mask = fed(tf, feeds, 2, 3, 4, 5), fed(tf, feeds, 2, 3, 5, 4), fed(tf, feeds, 2, 1, 4, 4)
    return [tf.nn.softmax(tf.matmul(q, k) * 0.5 + mask)], feeds


@rewritten_to("_MklFusedInstanceNorm")
def normalized_images(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 2, 4, 4, 3)
    mean, variance = tf.nn.moments(x, [1, 2], keep_dims=True)
    return [
        tf.nn.relu(tf.nn.batch_normalization(x, mean, variance, values(3), values(3, seed=2), 1e-3))
    ], feeds


@rewritten_to("_MklSwish", "_MklFusedMish", "_UnaryOpsComposition")
def chains_of_functions(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x, y, z = fed(tf, feeds, 7), fed(tf, feeds, 7), fed(tf, feeds, 7)
    chain = tf.sin(tf.cos(tf.log1p(tf.square(tf.exp(tf.tanh(z))))))
    return [
        x * tf.sigmoid(x),
        y * tf.tanh(tf.nn.softplus(y)),
        tf.exp(tf.tanh(tf.sqrt(tf.abs(z)))),
        chain,
    ], feeds


@rewritten_to("Snapshot")
def identities_in_disguise(tf: Any) -> Any:
    count = tf.Variable(-1.0, name="count")
    return [count.assign_add(1.0) + 0.0], {}


@rewritten_to("ReluGrad", "Conv2DBackpropFilter", "MaxPool", "MaxPoolGrad", "ApplyAdam")
def a_step_of_a_convolutional_net(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x, target = fed(tf, feeds, 6, 8, 8, 1), fed(tf, feeds, 6, 3)
    w1, b1 = tf.Variable(values(5, 5, 1, 4), name="w1"), tf.Variable(tf.zeros([4]), name="b1")
    w2, b2 = tf.Variable(values(64, 3), name="w2"), tf.Variable(tf.zeros([3]), name="b2")
    hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w1, [1, 1, 1, 1], "SAME"), b1))
    pooled = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    logits = tf.nn.bias_add(tf.matmul(tf.reshape(pooled, [-1, 64]), w2), b2)
    loss = tf.reduce_mean(tf.squared_difference(logits, target))
    with tf.control_dependencies([tf.train.AdamOptimizer().minimize(loss)]):
        after = [v.read_value() for v in (w1, b1, w2, b2)]
    return [loss, *after], feeds


@rewritten_to("Switch", "Merge", "Exit", "NextIteration")
def branches_and_loops(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 3)
    total = tf.reduce_sum(x)
    branch = tf.cond(total > 0, lambda: x * 2, lambda: x - 1)
    _, looped = tf.while_loop(lambda i, a: i < 10, lambda i, a: [i + 1, a * 1.1 + x], [0, x])
    return [branch, looped], feeds


def trained(tf: Any, loss: Any, optimizer: Any, variables: list[Any]) -> list[Any]:
    """The loss, and the variables after a step of the optimizer."""
    with tf.control_dependencies([optimizer.minimize(loss)]):
        return [loss, *(variable.read_value() for variable in variables)]


@rewritten_to("_FusedMatMul", "SoftmaxCrossEntropyWithLogits", "ReluGrad", "ApplyMomentum")
def a_step_of_a_perceptron(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x, labels = fed(tf, feeds, 6, 8), tf.nn.softmax(fed(tf, feeds, 6, 3))
    w1, b1 = tf.Variable(values(8, 5), name="w1"), tf.Variable(tf.zeros([5]), name="b1")
    w2, b2 = tf.Variable(values(5, 3), name="w2"), tf.Variable(tf.zeros([3]), name="b2")
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    return trained(tf, tf.reduce_mean(losses), optimizer, [w1, b1, w2, b2]), feeds


@rewritten_to("_FusedBatchNormEx", "FusedBatchNormGradV3", "ApplyGradientDescent")
def a_step_with_batch_norm(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 6, 8, 8, 2)
    w = tf.Variable(values(3, 3, 2, 4), name="w")
    scale, offset = tf.Variable(tf.ones([4]), name="s"), tf.Variable(tf.zeros([4]), name="o")
    y = tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
    y, _, _ = tf.nn.fused_batch_norm(y, scale, offset, is_training=True)
    loss = tf.reduce_mean(tf.square(tf.reduce_mean(tf.nn.relu(y), [1, 2]) - 1.0))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    return trained(tf, loss, optimizer, [w, scale, offset]), feeds


@rewritten_to("GatherV2", "ParallelDynamicStitch", "ScatterSub", "SparseSegmentMean")
def embeddings(tf: Any) -> Any:
    ids = tf.placeholder(tf.int32, [None])
    whole = tf.Variable(values(10, 4), name="whole")
    parts = [tf.Variable(values(5, 4, seed=seed), name=f"part{seed}") for seed in (2, 3)]
    pairs = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 4, 2], tf.int64), [2, 2])
    mean = tf.nn.embedding_lookup_sparse(whole, pairs, None, combiner="mean")
    with tf.control_dependencies([mean]):  # of the rows before the update
        found = tf.nn.embedding_lookup(whole, ids) * tf.nn.embedding_lookup(parts, ids)
    loss = tf.reduce_sum(found)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    return [mean, *trained(tf, loss, optimizer, [whole, *parts])], {ids: [1, 5, 3, 1]}


@rewritten_to("TensorArrayReadV3", "TensorArrayGradV3", "StackPushV2", "StackPopV2", "LoopCond")
def a_recurrent_net_and_its_gradients(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = tf.transpose(fed(tf, feeds, 3, 4, 5), [1, 0, 2])
    w, u = tf.Variable(values(5, 6), name="w"), tf.Variable(values(6, 6, seed=3), name="u")
    b = tf.Variable(tf.zeros([6]), name="b")

    def step(state: Any, given: Any) -> Any:
        return tf.tanh(tf.nn.bias_add(tf.matmul(given, w) + tf.matmul(state, u), b))

    states = tf.scan(step, x, initializer=tf.zeros([3, 6]))
    loss = tf.reduce_sum(states[-1])
    return [loss, *tf.gradients(loss, [w, u, b])], feeds


@rewritten_to("VarHandleOp", "_FusedMatMul", "ResourceApplyAdam")
def a_step_with_resource_variables(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x, target = fed(tf, feeds, 6, 8), fed(tf, feeds, 6, 3)
    w = tf.Variable(values(8, 3), name="w", use_resource=True)
    b = tf.Variable(tf.zeros([3]), name="b", use_resource=True)
    y = tf.nn.bias_add(tf.matmul(x, w), b)
    loss = tf.reduce_mean(tf.squared_difference(y, target))
    return trained(tf, loss, tf.train.AdamOptimizer(0.1), [w, b]), feeds


@rewritten_to("_ParallelConcatStart", "_ParallelConcatUpdate")
def rows_that_are_stacked_as_they_come(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = tf.placeholder(tf.float32, [3])
    feeds[x] = values(3)
    return [tf.parallel_stack([x, x * 2, tf.sin(x)])], feeds


@rewritten_to("Switch", "Merge", "Enter", "NextIteration")
def functions_become_branches_and_loops(tf: Any) -> Any:
    feeds: dict[Any, Any] = {}
    x = fed(tf, feeds, 3)
    chosen = tf.placeholder(tf.int32, [])
    feeds[chosen] = 1
    tf.enable_control_flow_v2()
    try:
        branch = tf.cond(chosen > 0, lambda: tf.sin(x), lambda: x - 1)
        case = tf.switch_case(chosen, [lambda: tf.sin(x), lambda: tf.cos(x), lambda: x * 3])
        invariants = [tf.TensorShape([]), x.get_shape()]
        loop = tf.while_loop(
            lambda i, _: i < 5, lambda i, a: [i + 1, tf.sin(a)], [0, x], shape_invariants=invariants
        )[1]
    finally:
        tf.disable_control_flow_v2()
    return [branch, case, loop], feeds
