"""Embeddings of tf.contrib.layers, which tf-slim does not have, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as tf

IDS = np.array([[1, 3, 0], [3, 3, 2]])
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) + 1


def _rows(shape: object, dtype: object = None, partition_info: object = None) -> tf.Tensor:
    return tf.constant(ROWS)


@pytest.mark.parametrize("unique", [False, True])
def test_a_sequence_of_ids_is_one_of_rows(unique: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.placeholder(tf.int64, [None, 3])
        found = tf.contrib.layers.embed_sequence(ids, 4, 3, unique, _rows, scope="words")
        again = tf.contrib.layers.embed_sequence(ids, unique=unique, scope="words", reuse=True)
        session.run(tf.global_variables_initializer())
        assert found.shape.as_list() == [None, 3, 3]
        assert [v.name for v in tf.model_variables()] == ["words/embeddings:0"]
        for value in session.run([found, again], {ids: IDS}):
            np.testing.assert_array_equal(value, ROWS[IDS])


def test_the_variable_of_a_sequence_needs_a_shape() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Must specify vocab size"):
        tf.contrib.layers.embed_sequence(IDS, 5)


def test_a_bag_of_words_is_the_mean_of_its_rows_and_zeros_pad_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        padded = tf.contrib.layers.bow_encoder(IDS, 4, 3, initializer=_rows)
        dense = tf.contrib.layers.bow_encoder(
            IDS, 4, 3, sparse_lookup=False, initializer=_rows, scope="dense"
        )
        session.run(tf.global_variables_initializer())
        means = [np.mean(ROWS[[1, 3]], 0), np.mean(ROWS[[3, 3, 2]], 0)]
        np.testing.assert_allclose(session.run(padded), means, rtol=1e-6)
        np.testing.assert_allclose(session.run(dense), ROWS[IDS].mean(1), rtol=1e-6)
        sparse = tf.SparseTensor([[0, 0]], np.array([1]), [1, 1])
        with pytest.raises(TypeError, match="ids are expected to be dense Tensor"):
            tf.contrib.layers.bow_encoder(sparse, 4, 3, sparse_lookup=False, scope="other")


def test_each_id_is_looked_up_once_and_its_gradient_is_the_sum() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.constant(ROWS)
        found = tf.contrib.layers.embedding_lookup_unique(rows, IDS)
        gradient = tf.gradients(found, rows)[0]
        assert found.shape.as_list() == [2, 3, 3]
        np.testing.assert_array_equal(session.run(found), ROWS[IDS])
        counts = np.bincount(IDS.ravel(), minlength=4)
        dense = session.run(tf.convert_to_tensor(gradient))
        np.testing.assert_array_equal(dense, np.repeat(counts[:, None], 3, 1))
