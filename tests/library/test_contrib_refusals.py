"""What contrib's functions say to arguments that cannot be meant."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

layers, legacy, rnn = tf.contrib.layers, tf.contrib.legacy_seq2seq, tf.contrib.rnn
framework, crf = tf.contrib.framework, tf.contrib.crf


def images() -> tf.Tensor:
    return tf.zeros([2, 8, 8, 4])


def steps(*shape: int) -> list[tf.Tensor]:
    return [tf.zeros(shape) for _ in range(3)]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: layers.conv2d(images(), 3, 3, padding=None), ValueError, "`padding` argument .* it is None"),
    (lambda: layers.max_pool2d(images(), 2, padding=1), ValueError, "`padding` argument .* it is 1"),
    (lambda: layers.conv2d(images(), 3, 0), ValueError, r"shape \[0, 0, 4, 3\] have no variance"),
    (lambda: layers.conv2d(images(), 3, 3, activation_fn="relu"), TypeError, "activation_fn must be .*'relu'"),
    (lambda: layers.fully_connected(tf.zeros([2, 3]), 4, normalizer_fn="norm"), TypeError, "normalizer_fn must be"),
    (lambda: layers.dropout(images(), keep_prob=None), ValueError, "keep_prob must be a number .* is None"),
    (lambda: layers.batch_norm(tf.constant(1.0), fused=False), ValueError, "has no channels"),
    (lambda: layers.maxout(tf.placeholder(tf.float32, [2, None]), 2), ValueError, "known number of features"),
    (lambda: layers.maxout(tf.zeros([2, 4]), 2, axis=2), ValueError, "axis 2 of maxout"),
    (lambda: layers.spatial_softmax(tf.placeholder(tf.float32)), ValueError, "takes four dimensions, not <unknown>"),
    (lambda: layers.sequence_to_images(tf.zeros([2, 6, 4]), 0), ValueError, "height of the images"),
    (lambda: layers.optimize_loss(None, None, 0.1, "SGD"), ValueError, "None values not supported"),
    (lambda: layers.summarize_tensor(None), TypeError, "summaries are made of tensors"),
    (lambda: layers.summarize_activation("x"), TypeError, "summaries are made of tensors"),
    (lambda: layers.safe_embedding_lookup_sparse([tf.zeros([2, 2])], None), TypeError, "sparse_ids must be"),
    (lambda: framework.assign_from_checkpoint(None, []), ValueError, "latest_checkpoint gives for a directory without"),
    (lambda: framework.init_from_checkpoint(None, {"/": "/"}), ValueError, "Couldn't find a checkpoint"),
    (lambda: framework.load_variable(None, "v"), ValueError, "Couldn't find a checkpoint"),
    (lambda: rnn.OutputProjectionWrapper(rnn.GRUCell(3), None), ValueError, "output_size must be > 0: None"),
    (lambda: rnn.EmbeddingWrapper(rnn.GRUCell(3), 4, None), ValueError, "must be > 0: 4, None"),
    (lambda: rnn.AttentionCellWrapper(rnn.GRUCell(3), None), ValueError, "greater than zero, got None"),
    (lambda: rnn.BasicLSTMCell(3)(tf.zeros([2, 3]), None), ValueError, "needs a state.*zero_state"),
    (lambda: legacy.rnn_decoder(None, None, rnn.GRUCell(3)), TypeError, "decoder_inputs must be a list"),
    (lambda: legacy.sequence_loss(tf.zeros([2, 4]), [], []), TypeError, "logits must be a list of tensors"),
    (
        lambda: legacy.attention_decoder(steps(2, 3), tf.zeros([2, 3]), tf.zeros([2, 3]), rnn.GRUCell(3)),
        ValueError, r"attention_states are \[batch, length, size\], and have shape \(2, 3\)",
    ),
    (lambda: legacy.attention_decoder(steps(2, 3), None, tf.zeros([2, 3, 4]), None), TypeError, "cell"),
    (lambda: legacy.model_with_buckets(steps(2, 3), steps(2, 3), None, [], [(1, 1)], len), TypeError, "targets must"),
    (lambda: layers.layer_norm(images(), begin_norm_axis=None), TypeError, "layer_norm: begin_norm_axis must be an"),
    (lambda: layers.layer_norm(images(), begin_params_axis=[1]), TypeError, "layer_norm: begin_params_axis must be an"),
    (lambda: layers.group_norm(images(), groups=None), TypeError, "group_norm: groups must be an integer, and is None"),
    (lambda: layers.group_norm(images(), groups=0), ValueError, "Invalid groups 0 for 4 channels"),
    (lambda: layers.group_norm(images(), 2, channels_axis="last"), TypeError, "channels_axis must be an integer"),
    (lambda: layers.group_norm(images(), 2, reduction_axes=None), TypeError, "reduction_axes must be a list of int"),
    (lambda: layers.group_norm(images(), 2, reduction_axes=[None]), TypeError, "each of reduction_axes must be an int"),
    (lambda: layers.group_norm(tf.constant(1.0)), ValueError, "has no channels"),
    (lambda: layers.instance_norm(images(), epsilon=None), TypeError, "instance_norm: epsilon must be a number"),
    (lambda: layers.instance_norm(images(), data_format=None), TypeError, "data_format must be one of 'NHWC', 'NCHW'"),
    (lambda: layers.unit_norm(images(), dim=None), TypeError, "unit_norm: dim must be an integer"),
    (lambda: layers.batch_norm(images(), decay=None), TypeError, "batch_norm: decay must be a number, and is None"),
    (lambda: layers.batch_norm(images(), epsilon="small"), TypeError, "batch_norm: epsilon must be a number"),
    (lambda: layers.batch_norm(images(), scale=np.ones(2)), TypeError, "batch_norm: scale must be True or False"),
    (lambda: layers.batch_norm(images(), param_initializers=1), TypeError, "param_initializers must be a dict"),
    (lambda: layers.batch_norm(images(), updates_collections=1), TypeError, "updates_collections must be a list"),
    (lambda: layers.fully_connected(tf.zeros([2, 3]), 4, variables_collections=1), TypeError, "variables_collections"),
    (lambda: layers.repeat(images(), None, layers.conv2d, 3, 3), TypeError, "repeat: repetitions must be an integer"),
    (lambda: layers.repeat(images(), 2, None), TypeError, "repeat: layer must be a function"),
    (lambda: layers.stack(images(), "conv2d", [3]), TypeError, "stack: layer must be a function"),
    (lambda: layers.pool(images(), 2, None), TypeError, "pool: pooling_type must be one of 'AVG', 'MAX'"),
    (lambda: layers.apply_regularization(None, [tf.zeros([])]), TypeError, "regularizer must be a function"),
    (lambda: layers.apply_regularization(len, 1), TypeError, "weights_list must be a list of variables"),
    (lambda: layers.sum_regularizer(None), TypeError, "regularizer_list must be a list"),
    (lambda: layers.summarize_tensors(None), TypeError, "tensors must be a list of tensors"),
    (lambda: layers.optimize_loss(1.5, None, 0.1, "SGD"), TypeError, "optimize_loss: loss must be a tensor"),
    (
        lambda: layers.optimize_loss(tf.zeros([]), None, 0.1, "SGD", gradient_multipliers=[1.0]),
        TypeError, "gradient_multipliers must be a dict",
    ),
    (lambda: crf.crf_log_likelihood(tf.zeros([2, 3]), [[1]], [1]), ValueError, r"inputs must be \[batch, time, tags\]"),
    (lambda: crf.crf_decode(tf.zeros([2, 4, 3]), 1.0, [1, 1]), ValueError, r"transition_params must be \[tags, tags\]"),
    (lambda: crf.crf_decode(tf.zeros([2, 4, 3]), tf.zeros([3, 3]), 1), ValueError, "sequence_length must be"),
    (lambda: crf.viterbi_decode(None, [[1.0]]), ValueError, "viterbi_decode: score must be"),
    (lambda: tf.losses.softmax_cross_entropy([[1.0]], [[1.0]], label_smoothing=None), TypeError, "smoothing must"),
    (lambda: tf.contrib.nccl.all_sum(1.5), TypeError, "tensors must be a list of tensors"),
    (lambda: tf.contrib.staging.StagingArea(None), TypeError, "StagingArea: dtypes must be a list"),
    (lambda: tf.contrib.staging.StagingArea([tf.int32], 1), TypeError, "StagingArea: shapes must be a list"),
    (lambda: tf.contrib.metrics.aggregate_metric_map([1]), TypeError, "names_to_tuples must be a dict"),
    (lambda: tf.metrics.auc([True], [0.5], num_thresholds=None), TypeError, "num_thresholds must be an integer"),
    (lambda: tf.metrics.recall_at_k([[1]], [[0.5]], None), TypeError, "recall_at_k: k must be an integer"),
    (lambda: tf.metrics.accuracy(None, [1]), ValueError, "None values not supported: accuracy needs labels"),
    (
        lambda: layers.safe_embedding_lookup_sparse([1], tf.SparseTensor([[0]], [1], [1])),
        TypeError, "embedding_weights must be a tensor, and one is 1",
    ),
    (lambda: tf.layers.dense(tf.zeros([2, 3]), None), TypeError, "'dense': units must be an integer, and is None"),
    (lambda: tf.contrib.seq2seq.hardmax(1.0), ValueError, "hardmax: logits must have one dimension"),
    (lambda: framework.assign_from_values(None), TypeError, "var_names_to_values must be a dict"),
    (lambda: framework.filter_variables(None), TypeError, "var_list must be a list of variables"),
    (lambda: framework.get_variables(suffix=1), TypeError, "suffix must be a string or None"),
    (lambda: framework.get_variables_by_name(None), TypeError, "given_name must be a string"),
    (lambda: framework.get_variable_full_name(None), TypeError, "var must be a variable"),
    (lambda: tf.contrib.training.parse_values(None, {}), TypeError, "parse_values: values must be"),
    (lambda: tf.contrib.training.parse_values("a=1", None), TypeError, "type_map must be a dict"),
    (lambda: tf.contrib.training.rejection_sample([images()], None, 2), TypeError, "accept_prob_fn must be a function"),
    (lambda: tf.contrib.training.resample_at_rate(None, [1.0]), TypeError, "inputs must be a list of tensors"),
    (lambda: tf.contrib.training.bucket([1.0], 0, 2, 0), ValueError, "num_buckets must be 1 or more"),
    (lambda: rnn.GLSTMCell(4, number_of_groups=0), ValueError, "number_of_groups must be 1 or more"),
    (lambda: rnn.ConvLSTMCell(2, None, 2, [3, 3]), TypeError, "input_shape must be a list of sizes"),
    (lambda: legacy.rnn_decoder(steps(2, 3), None, None), TypeError, "rnn_decoder: cell must be a function"),
    (
        lambda: legacy.model_with_buckets(steps(2, 3), steps(2, 3), steps(2), steps(2), [1], len),
        ValueError, "buckets must be pairs",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "said"), REFUSED)
def test_arguments_that_cannot_be_meant(
    call: Callable[[], Any], kind: type[Exception], said: str
) -> None:
    with tf.Graph().as_default(), pytest.raises(kind, match=said):
        call()


def test_values_of_lists_are_assigned() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", [2])
        assign, feeds = framework.assign_from_values({"v": [1.0, 2.0]})
        session.run(assign, feeds)
        assert session.run(variable).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: rnn.GRUCell(3),
        lambda: rnn.MultiRNNCell([rnn.BasicLSTMCell(3), rnn.LSTMCell(3, use_peepholes=True)]),
        lambda: rnn.DropoutWrapper(rnn.GRUCell(3), tf.constant(0.5)),
        lambda: rnn.ResidualWrapper(rnn.LayerNormBasicLSTMCell(3)),
    ],
)
def test_a_copy_of_a_cell_that_was_called_makes_variables_of_its_own(make: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, cell = tf.zeros([2, 3]), make()
        with tf.variable_scope("first"):
            cell(x, cell.zero_state(2, tf.float32))
        again = copy.deepcopy(cell)
        with tf.variable_scope("second"):
            made, _ = again(x, again.zero_state(2, tf.float32))
        with tf.variable_scope("first"):
            cell(x, cell.zero_state(2, tf.float32))
        names = [each.name for each in tf.trainable_variables()]
        first = [each for each in names if each.startswith("first/")]
        assert sorted(names) == sorted(
            [*first, *(each.replace("first", "second", 1) for each in first)]
        )
        session.run(tf.global_variables_initializer())
        assert session.run(made).shape == (2, 3)


def names_of_bucket_models(
    buckets: list[tuple[int, int]],
) -> tuple[list[Any], list[Any], list[str]]:
    """Outputs and losses of models with one cell for all, and the variables' names."""
    cell = rnn.MultiRNNCell([rnn.GRUCell(4) for _ in range(2)])

    def model(encoder: list[Any], decoder: list[Any]) -> Any:
        return legacy.embedding_attention_seq2seq(encoder, decoder, cell, 5, 6, 4)

    ids = [tf.ones([2], tf.int32)] * 4
    outputs, losses = legacy.model_with_buckets(ids, ids, ids, [tf.ones([2])] * 4, buckets, model)
    return outputs, losses, [each.op.name for each in tf.trainable_variables()]


def test_one_cell_is_trained_in_several_buckets() -> None:
    """The translation tutorial: a cell that is made once, for all buckets."""
    with tf.Graph().as_default():
        _, _, wanted = names_of_bucket_models([(3, 4)])
    with tf.Graph().as_default(), tf.Session() as session:
        outputs, losses, names = names_of_bucket_models([(2, 2), (3, 4)])
        assert [len(each) for each in outputs] == [2, 4]
        assert names == wanted
        train = tf.train.AdamOptimizer(0.1).minimize(losses[1])
        session.run(tf.global_variables_initializer())
        before = session.run(losses)
        for _ in range(5):
            session.run(train)
        assert all(a < b for a, b in zip(session.run(losses), before, strict=True))
