"""Feature columns without TensorFlow: checkpoints of shared embeddings, columns as values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

ROWS = np.arange(15.0, dtype=np.float32).reshape(5, 3)


def _shared(**more: Any) -> Any:
    columns = [tf.feature_column.categorical_column_with_identity(key, 5) for key in "yx"]
    shared = tf.feature_column.shared_embedding_columns(columns, 3, **more)
    return tf.feature_column.input_layer({"x": [[1], [2]], "y": [[4], [0]]}, shared)


def test_shared_embeddings_begin_with_what_a_checkpoint_holds(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        made = _shared(initializer=tf.constant_initializer(ROWS))
        session.run(tf.global_variables_initializer())
        before = session.run(made)
        tf.train.Saver().save(session, path)
    assert np.array_equal(before, np.hstack([ROWS[[1, 2]], ROWS[[4, 0]]]))  # x before y
    with tf.Graph().as_default(), tf.Session() as session:
        made = _shared(
            ckpt_to_load_from=path,
            tensor_name_in_ckpt="input_layer/x_y_shared_embedding/embedding_weights",
        )
        session.run(tf.global_variables_initializer())
        assert np.array_equal(session.run(made), before)


def test_equal_columns_are_the_same_column() -> None:
    one, other = (tf.feature_column.numeric_column("a", shape=2) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != tf.feature_column.numeric_column("a")


def test_a_table_of_another_size_is_not_shared() -> None:
    with tf.Graph().as_default():
        tf.add_to_collection("shared", tf.get_variable("v", [2, 2]))
        with pytest.raises(ValueError, match=r"of unexpected shape \(2, 2\)"):
            _shared(shared_embedding_collection_name="shared")
