"""Labels before a ctc loss; averages of losses; dense labels."""

from __future__ import annotations

import numpy as np

import headrace as tf


def test_repeated_labels_are_collapsed_as_far_as_they_count() -> None:
    labels = np.array([[1, 1, 2, 2, 1], [3, 3, 3, 4, 4], [5, 6, 7, 0, 0]], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        made, lengths = session.run(list(tf.nn.collapse_repeated(labels, [5, 4, 3])))
    np.testing.assert_array_equal(made, [[1, 2, 1], [3, 4, 0], [5, 6, 7]])
    np.testing.assert_array_equal(lengths, [3, 2, 3])


def test_distinct_labels_are_found_in_each_row() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        distinct, places = session.run(list(tf.nn.ctc_unique_labels([[3, 4, 4, 3], [5, 6, 7, 8]])))
    np.testing.assert_array_equal(distinct, [[3, 4, 0, 0], [5, 6, 7, 8]])
    np.testing.assert_array_equal(places, [[0, 1, 1, 0], [0, 1, 2, 3]])


def test_losses_are_averaged_over_examples() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        average = tf.nn.compute_average_loss
        made = [
            average([1.0, 2.0, 6.0]),
            average([1.0, 2.0, 6.0], [1.0, 0.0, 2.0]),
            average([1.0, 2.0], global_batch_size=6),
            tf.nn.scale_regularization_loss([1.0, 4.0]),
        ]
        assert session.run(made) == [3.0, np.float32(13 / 3), 0.5, 5.0]


def test_dense_labels_have_the_loss_of_sparse_ones() -> None:
    logits = np.random.default_rng(2).normal(size=(7, 2, 5)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        dense = tf.nn.ctc_loss_v2([[1, 2, 2], [4, 0, 0]], logits, [3, 1], [7, 6])
        sparse = tf.SparseTensor(
            [[0, 0], [0, 1], [0, 2], [1, 0]], tf.constant([0, 1, 1, 3], tf.int32), [2, 3]
        )
        moved = np.concatenate((logits[..., 1:], logits[..., :1]), axis=-1)
        first, second = session.run([dense, tf.nn.ctc_loss(sparse, moved, [7, 6])])
    np.testing.assert_allclose(first, second, rtol=1e-5)
