"""What contrib's functions say to arguments that cannot be meant."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf

layers, legacy, rnn = tf.contrib.layers, tf.contrib.legacy_seq2seq, tf.contrib.rnn
framework = tf.contrib.framework


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
