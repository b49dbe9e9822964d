"""tf.contrib.layers beside tf-slim: variables, nodes, collections, static shapes, values and errors of each layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.contrib import framework, layers
from headrace.library.contrib import layer_utils, summaries
from tests.oracle.slim_names import PREPARED

BUILT = """
def built(what):
    tf.reset_default_graph()
    graph = tf.get_default_graph()
    tf.set_random_seed(7)
    x = tf.constant(np.random.RandomState(1).standard_normal((2, 8, 6, 3)).astype(np.float32), name="x")
    training = tf.placeholder_with_default(True, [], name="training")
    try:
        found = eval(what, {**globals(), "x": x, "training": training})
    except Exception as error:
        return "error", type(error).__name__, str(error)
    nodes = {n.name: (n.op, list(n.input)) for n in graph.as_graph_def().node if n.op != "Const"}
    collections = {
        key: [v.name.partition(":")[0] for v in tf.get_collection(key)]
        for key in graph.get_all_collection_keys()
        if isinstance(key, str) and key != "cond_context" and tf.get_collection(key)
    }
    if not isinstance(found, tf.Tensor):
        return "value", repr(found), nodes, collections
    rng = np.random.RandomState(2)
    with tf.Session() as session:
        for variable in tf.global_variables():
            drawn = rng.standard_normal(variable.shape.as_list()) ** 2 + 0.5
            session.run(variable.initializer, {variable.initial_value: drawn})
        value = session.run(found) if "ropout" not in what and "image_summary" not in what else None
    static = found.shape.as_list() if found.shape.ndims is not None else None
    return "tensor", found.name, static, nodes, collections, value
result = [built(what) for what in sources]
"""

# Where TensorFlow 2.21 makes other nodes than 1.15 did: values, the name, variables and collections.
BY_NODES = [
    "L.fully_connected(tf.ones([2, 3]), 4)",
    "L.fully_connected(x, 4, normalizer_fn=L.layer_norm, activation_fn=tf.nn.tanh, scope='a')",
    "L.fully_connected(tf.ones([2, 3]), 4, variables_collections={'weights': ['w'], 'biases': ['b']}, "
    "outputs_collections='o', weights_regularizer=L.l2_regularizer(0.1), biases_regularizer=L.l1_regularizer(0.2))",
    "L.fully_connected(tf.ones([2, 3]), 4, biases_initializer=None, variables_collections=['x'], trainable=False)",
    "L.linear(tf.ones([2, 3]), 4)",
    "L.relu6(tf.ones([2, 3]), 4)",
    "L.conv1d(tf.ones([2, 8, 3]), 4, 3)",
    "L.conv2d(x, 4, 3)",
    "L.conv2d(x, 4, [3, 2], stride=2, padding='VALID', biases_initializer=None)",
    "L.conv2d(L.conv2d(x, 3, 3, scope='s', weights_regularizer=L.l2_regularizer(0.1)), 3, 3, scope='s', reuse=True, "
    "weights_regularizer=L.l2_regularizer(0.1))",
    "[(s := tf.variable_scope('p', partitioner=tf.fixed_size_partitioner(2))).__enter__(), L.conv2d(x, 4, 3, "
    "weights_regularizer=L.l2_regularizer(0.1), biases_regularizer=L.l1_regularizer(0.1)), "
    "s.__exit__(None, None, None)][1]",
    "[(s := tf.variable_scope('q')).__enter__(), L.conv2d(x, 3, 3, scope=tf.get_variable_scope(), "
    "weights_regularizer=L.l2_regularizer(0.1)), s.__exit__(None, None, None)][1]",
    "[(s := tf.variable_scope('q')).__enter__(), L.fully_connected(x, 3, scope=tf.get_variable_scope(), "
    "normalizer_fn=L.layer_norm), s.__exit__(None, None, None)][1]",
    "L.conv3d(tf.ones([2, 4, 4, 4, 3]), 4, 3)",
    "L.separable_conv2d(x, None, 3, 1)",
    "L.separable_conv2d(x, 4, 3, 2, stride=2)",
    "L.separable_conv2d(x, 4, 3, 1, rate=2)",
    "L.conv2d_in_plane(x, 3)",
    "L.bias_add(x, activation_fn=tf.nn.relu)",
    "L.one_hot_encoding(tf.constant([1, 2]), 3)",
    "L.one_hot_encoding(tf.constant([1, 2], tf.int64), 3, scope='q')",
    "L.unit_norm(x, 1)",
    "L.unit_norm(x, 0)",
    "L.unit_norm(x, 3)",
    "L.maxout(tf.ones([2, 6]), 3)",
    "L.maxout(x, 2, axis=1)",
    "L.softmax(x)",
    "L.spatial_softmax(x)",
    "L.spatial_softmax(x, temperature=2.0)",
    "L.repeat(x, 2, L.fully_connected, 4)",
    "L.stack(x, L.fully_connected, [4, 5])",
    "L.stack(x, L.conv2d, [(4, 3), (5, 1)], scope='fc')",
    "L.dropout(x, 0.5)",
    "L.dropout(x, 0.5, is_training=False, outputs_collections='o')",
    "L.dropout(x, 0.5, is_training=training)",
    "L.avg_pool2d(x, [2, 3], padding='SAME')",
    "L.max_pool2d(x, 3, outputs_collections='o', scope='p')",
    "L.max_pool3d(tf.ones([2, 8, 8, 8, 3]), 2)",
    "L.avg_pool3d(tf.ones([2, 8, 8, 8, 3]), 2, stride=1)",
    "slim.pool(x, [2, 3], 'AVG')",
    "slim.pool(x, 2, 'MAX', stride=2, outputs_collections='o')",
    "L.instance_norm(x)",
    "L.instance_norm(x, data_format='NCHW', center=False, activation_fn=tf.nn.relu)",
    "L.group_norm(x, 3)",
    "L.group_norm(tf.ones([2, 4, 8, 8]), 2, channels_axis=-3, reduction_axes=(-2, -1), scale=False)",
    "L.layer_norm(x)",
    "L.layer_norm(x, begin_norm_axis=2, activation_fn=tf.nn.relu, scale=False, outputs_collections='o')",
    "L.images_to_sequence(x)",
    "L.sequence_to_images(tf.ones([8, 16, 4]), 8)",
    "slim.dense_to_sparse(tf.constant([[1, 0]])).values",
    "L.legacy_fully_connected(tf.ones([2, 3]), 4)",
    "L.legacy_relu(tf.ones([2, 3]), 4)",
    "L.batch_norm(tf.ones([2, 3]), is_training=training, scale=True)",
    "L.batch_norm(tf.ones([2, 3]), is_training=False)",
    "L.batch_norm(x, updates_collections=None)",
    "L.batch_norm(x, updates_collections=None, is_training=training, center=False)",
    "L.batch_norm(x, updates_collections=['u', 'w'], is_training=training)",
    "L.batch_norm(x, fused=False, is_training=training, updates_collections=None)",
    "L.batch_norm(x, zero_debias_moving_mean=True)",
    "L.batch_norm(x, batch_weights=tf.constant([0.5, 2.0]))",
    "L.batch_norm(x, is_training=False, variables_collections={'moving_mean': ['mm'], 'beta': 'b'}, scale=True)",
    "L.batch_norm(x[0], is_training=False, updates_collections=None)",
    "L.summarize_tensor(tf.ones([2]))",
    "L.summarize_tensor(tf.ones([]), tag='mytag')",
    "L.summarize_tensor(tf.placeholder_with_default(1.0, None))",
    "L.summarize_activation(tf.nn.relu(x))",
    "L.summarize_activation(tf.nn.relu6(x, name='a/b'))",
    "L.summarize_activation(tf.identity(x))",
    "[(s := tf.name_scope('a')).__enter__(), L.summarize_tensor(x), S.add_scalar_summary(x[0, 0, 0, 0], 't'), "
    "s.__exit__(None, None, None)][2]",
    "S.add_histogram_summary(x, 'nm', prefix='p')",
    "S.add_image_summary(x, 'img')",
    "S.add_scalar_summary(tf.ones([]), 'sc', prefix='p')",
]
BY_VALUES = [
    "L.flatten(x)",
    "L.flatten(tf.placeholder_with_default(x, [None, None, 6, 3]))",
    "L.conv2d(x, 4, 3, rate=2)",
    "L.conv2d(x, 4, 3, normalizer_fn=L.batch_norm)",
    "L.conv2d(x, 4, 3, normalizer_fn=L.batch_norm, normalizer_params={'is_training': training, 'decay': 0.9})",
    "L.conv2d_transpose(x, 4, 3, stride=2)",
    "L.conv2d_transpose(tf.placeholder_with_default(x, [None, None, 6, 3]), 4, 3, stride=2, padding='VALID', "
    "normalizer_fn=L.batch_norm)",
    "L.conv3d_transpose(tf.ones([2, 4, 4, 4, 3]), 4, 3, stride=2)",
    "L.batch_norm(x)",
    "L.batch_norm(x, is_training=training, decay=tf.constant(0.5))",
    "L.batch_norm(x[0], scale=True, param_regularizers={'beta': L.l2_regularizer(0.1)}, is_training=True)",
    "L.batch_norm(x, fused=False, data_format='NCHW')",
    "L.batch_norm(x, scale=True, param_initializers={'gamma': tf.constant_initializer(2.0)})",
    "S.add_zero_fraction_summary(x, 'zf')",
    "U.last_dimension(tf.TensorShape([2, 3]))",
    "U.n_positive_integers(2, 3)",
    "U.n_positive_integers(2, [1, 2])",
    "U.two_element_tuple([1, 2])",
    "U.channel_dimension(tf.TensorShape([3, 4, 5]), 'NHWC')",
    "float(U.constant_value(tf.constant(3.0)))",
    "U.constant_value(x)",
    "U.smart_cond(True, lambda: tf.ones([]), lambda: tf.zeros([]))",
    "U.get_tensor_aliases(x)",
    "U.gather_tensors_aliases([L.conv2d(x, 4, 3, scope='a', outputs_collections='o')])",
    "L.conv2d(L.conv2d(x, 4, 3, scope='a/b', outputs_collections='o'), 3, 3, scope='c', outputs_collections=['o']) "
    "is x or [*U.convert_collection_to_dict('o', clear_collection=True)]",
]
ERRORS = [
    ("L.convolution(x, 4, 3, conv_dims=1)", "Convolution expects input with rank 3, got 4"),
    ("L.convolution(x, 4, 3, data_format='NHCW')", "Invalid data_format: 'NHCW'"),
    ("L.conv2d(tf.ones([2, 8, 8]), 4, 3)", "Convolution expects input with rank 4, got 3"),
    ("L.convolution(tf.ones([2, 8]), 4, 3)", "Convolution not supported for input with rank"),
    ("L.fully_connected(tf.ones([3]), 4)", "expected min_ndim=2, found ndim=1"),
    ("L.fully_connected(tf.ones([2, 3]), 4.5)", "num_outputs type should be one of"),
    (
        "L.fully_connected(tf.placeholder(tf.float32, [None, None]), 4)",
        "The last dimension of the inputs to `Dense`",
    ),
    ("L.batch_norm(tf.placeholder(tf.float32))", "undefined rank"),
    (
        "L.batch_norm(tf.ones([2, 3]), data_format='NHCW')",
        "data_format has to be either NCHW or NHWC.",
    ),
    ("L.max_pool2d(tf.ones([2, 3, 2]), 2)", "expected ndim=4, found ndim=3"),
    ("L.max_pool2d(x, 2, data_format='x')", "data_format has to be either NCHW or NHWC."),
    ("L.maxout(tf.ones([2, 6]), 4)", "number of features(6) is not a multiple of num_units(4)"),
    ("L.unit_norm(tf.ones([2, 3]), 2)", "dim must be positive but smaller than the input rank."),
    ("L.group_norm(x, 2)", "3 channels is not commensurate with 2 groups."),
    ("L.group_norm(x)", "Invalid groups 32 for 3 channels."),
    ("L.group_norm(x, 3, reduction_axes=(-1,))", "mutually exclusive"),
    ("L.conv2d_transpose(x, 4, 3, data_format='x')", "data_format has to be either NCHW or NHWC."),
    ("L.separable_conv2d(tf.ones([2, 8, 8]), 4, 3, 1)", "expected min_ndim=4, found ndim=3"),
    ("L.dropout(x, 1.5)", "Invalid value -0.5 received for `rate`"),
    ("L.spatial_softmax(x, data_format='x')", "data_format has to be either NCHW or NHWC."),
    ("L.layer_norm(x, begin_norm_axis=4)", "must be < rank(inputs)"),
    ("L.stack(x, L.conv2d, 5)", "stack_args need to be a list or tuple"),
    (
        "L.conv2d(L.conv2d(x, 4, 3, scope='s'), 4, 3, scope='s', reuse=True)",
        "Trying to share variable s/weights",
    ),
    (
        "L.conv2d(L.conv2d(x, 3, 3, scope='s'), 3, 3, scope='s')",
        "Variable s/weights already exists",
    ),
    (
        "U.last_dimension(tf.TensorShape([2, None]))",
        "dimension -1 of shape must be known but is None",
    ),
    ("U.n_positive_integers(2, [1, 0])", "expected positive integer, but received 0"),
    ("U.two_element_tuple([1, 2, 3])", "Must be a list with 2 elements: [1, 2, 3]"),
    (
        "U.channel_dimension(tf.TensorShape([3, 4]), 'NHWC', 3)",
        "rank of shape must be at least 3 not: 2",
    ),
]


class _Names:
    """headrace, whose default graph here is the test's own, or a namespace that stands for tf-slim's."""

    def __init__(self, *spaces: Any) -> None:
        self._spaces = spaces

    def __getattr__(self, name: str) -> Any:
        if name == "reset_default_graph":
            return lambda: None
        return next(getattr(space, name) for space in self._spaces if name in dir(space))


def ours_and_theirs(oracle: Any, sources: list[str]) -> list[tuple[Any, Any]]:
    """What both make of each source, in a graph of its own."""
    theirs = oracle.run(
        PREPARED + BUILT + "\nresult = result if has_keras else None", sources=sources
    )
    if theirs is None:
        pytest.skip(
            "the oracle has no tf-keras, which tf-slim's layers need; `make oracle` installs it"
        )
    ours = []
    for source in sources:
        with hr.Graph().as_default():
            names: dict[str, Any] = {
                "tf": _Names(hr),
                "np": np,
                "L": layers,
                "U": layer_utils,
                "S": summaries,
                "slim": _Names(layers, framework),
                "sources": [source],
            }
            exec(BUILT, names)
            ours += names["result"]
    return list(zip(ours, theirs, strict=True))


def test_nodes_collections_and_values_of_layers_are_those_of_tf_slim(oracle: Any) -> None:
    for source, (ours, theirs) in zip(BY_NODES, ours_and_theirs(oracle, BY_NODES), strict=True):
        assert ours[:-1] == theirs[:-1], source
        _same_values(ours[-1], theirs[-1], source)


def test_where_tensorflow_has_other_nodes_since_all_else_is_the_same(oracle: Any) -> None:
    for source, (ours, theirs) in zip(BY_VALUES, ours_and_theirs(oracle, BY_VALUES), strict=True):
        if ours[0] == "tensor":
            _same_values(ours[-1], theirs[-1], source)
            ours, theirs = (*ours[:3], ours[-2]), (*theirs[:3], theirs[-2])
        else:
            ours, theirs = (*ours[:2], ours[-1]), (*theirs[:2], theirs[-1])
        assert ours == theirs, source


def _same_values(ours: Any, theirs: Any, source: str) -> None:
    if isinstance(ours, np.ndarray) and ours.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5, err_msg=source)
    else:
        assert ours == theirs, source


def test_errors_of_layers_are_those_of_tf_slim(oracle: Any) -> None:
    for (source, phrase), (ours, theirs) in zip(
        ERRORS, ours_and_theirs(oracle, [source for source, _ in ERRORS]), strict=True
    ):
        assert ours[:2] == theirs[:2], source
        assert phrase in ours[2], source
        assert phrase in theirs[2], source
