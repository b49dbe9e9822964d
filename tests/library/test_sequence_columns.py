"""Columns of sequences, and what sequence_input_layer makes of them; values are TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

columns = tf.feature_column
sequence_input_layer = tf.contrib.feature_column.sequence_input_layer


def counting(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def numbers(values: list[float], at: list[list[int]], shape: list[int]) -> tf.SparseTensor:
    return tf.SparseTensor(at, np.array(values, np.float32), shape)


def words() -> tf.SparseTensor:
    return tf.SparseTensor(
        [[0, 0], [1, 0], [1, 1], [3, 0]], np.array([2, 0, 1, 1], np.int64), [5, 2]
    )


def read(features: dict[str, Any], *of: Any) -> tuple[Any, Any]:
    layer, lengths = sequence_input_layer(features, of)
    assert layer.dtype == tf.float32
    assert lengths.dtype == tf.int64
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        found = sess.run([layer, lengths])
    return found[0].tolist(), found[1].tolist()


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


PAIRS = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [1, 3]]
TWOS = [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
DIGITS = [2.0, 5.0, 1.0, 1.0, 3.0, 4.0]


def test_embeddings_of_a_sequence_are_not_combined_over_its_steps() -> None:
    column = columns.sequence_categorical_column_with_identity("a", 3)
    found, lengths = read({"a": words()}, columns.embedding_column(column, 2, initializer=counting))
    assert found == [
        [[4, 5], [0, 0]],
        [[0, 1], [2, 3]],
        [[0, 0], [0, 0]],
        [[2, 3], [0, 0]],
        [[0, 0], [0, 0]],
    ]
    assert lengths == [1, 2, 0, 1, 0]
    assert [each.op.name for each in tf.global_variables()] == [
        "sequence_input_layer/a_embedding/embedding_weights"
    ]


def test_shared_embeddings_of_sequences_have_one_variable() -> None:
    both = [columns.sequence_categorical_column_with_identity(key, 3) for key in "ab"]
    shared = columns.shared_embedding_columns(both, 2, initializer=counting)
    found, _ = read({"a": words(), "b": words()}, *shared)
    assert found[1] == [[0, 1, 0, 1], [2, 3, 2, 3]]
    assert len(tf.global_variables()) == 1


def test_categories_of_each_step_are_counted() -> None:
    column = columns.sequence_categorical_column_with_vocabulary_list("b", ["x", "y", "z"])
    feature = tf.SparseTensor([[0, 0, 0], [0, 1, 0], [0, 1, 1]], ["x", "y", "y"], [2, 2, 2])
    found, lengths = read({"b": feature}, columns.indicator_column(column))
    assert found == [[[1, 0, 0], [0, 2, 0]], [[0, 0, 0], [0, 0, 0]]]
    assert lengths == [2, 0]


def test_a_dense_feature_of_categories_is_a_sequence_too() -> None:
    column = columns.sequence_categorical_column_with_vocabulary_list("b", ["x", "y", "z"])
    found, lengths = read(
        {"b": np.array([["x", "q"], ["z", "y"]])}, columns.indicator_column(column)
    )
    assert found == [[[1, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 1, 0]]]
    assert lengths == [2, 2]


@pytest.mark.parametrize(("at", "shape"), [(PAIRS, [2, 4]), (TWOS, [2, 2, 2])])
@pytest.mark.parametrize(("normalizer", "by"), [(None, 1), (lambda numbers: numbers * 2.0, 2)])
def test_numbers_of_a_step_stand_together_and_what_is_missing_is_filled(
    at: Any, shape: Any, normalizer: Any, by: int
) -> None:
    column = columns.sequence_numeric_column(
        "n", shape=(2,), default_value=9.0, normalizer_fn=normalizer
    )
    found, lengths = read({"n": numbers(DIGITS, at, shape)}, column)
    assert found == [[[2 * by, 5 * by], [9, 9]], [[by, by], [3 * by, 4 * by]]]
    assert lengths == [1, 2]


def test_columns_stand_side_by_side_step_by_step() -> None:
    column = columns.sequence_categorical_column_with_identity("a", 3)
    embedded = columns.embedding_column(column, 2, initializer=counting)
    feature = numbers([2, 5, 1, 1], [[0, 0], [1, 0], [1, 1], [3, 0]], [5, 2])
    found, _ = read({"a": words(), "n": feature}, columns.sequence_numeric_column("n"), embedded)
    assert found[1] == [[0, 1, 5], [2, 3, 1]]


def test_columns_that_disagree_about_lengths_are_refused_by_the_step() -> None:
    one = columns.indicator_column(columns.sequence_categorical_column_with_identity("a", 3))
    feature = numbers([1] * 5, [[each, 0] for each in range(5)], [5, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="disagree about the lengths"):
        read({"a": words(), "n": feature}, one, columns.sequence_numeric_column("n"))


def test_every_kind_of_sequence_is_parsed_as_a_list_of_any_length(tmp_path: Any) -> None:
    file = tmp_path / "words"
    file.write_text("x\ny\n")
    kinds: list[Any] = [
        columns.sequence_categorical_column_with_hash_bucket("h", 4),
        columns.sequence_categorical_column_with_vocabulary_file("f", str(file)),
        columns.sequence_numeric_column("n"),
    ]
    assert columns.make_parse_example_spec(kinds) == {
        "h": tf.VarLenFeature(tf.string),
        "f": tf.VarLenFeature(tf.string),
        "n": tf.VarLenFeature(tf.float32),
    }
    assert [each.num_buckets for each in kinds[:2]] == [4, 2]


def test_weighted_categories_are_not_crossed() -> None:
    """As in TensorFlow, whose message it is."""
    weighted = columns.weighted_categorical_column(
        columns.categorical_column_with_identity("a", 3), "w"
    )
    cross = columns.crossed_column([weighted, "b"], 7)
    features = {
        "a": words(),
        "w": numbers([1, 2, 3, 4], [[0, 0], [1, 0], [1, 1], [3, 0]], [5, 2]),
        "b": ["x"] * 5,
    }
    with pytest.raises(ValueError, match="Given column: a_weighted_by_w"):
        columns.linear_model(features, [cross])
    one = columns.sequence_categorical_column_with_identity("a", 3)
    crossed = columns.linear_model(features, [columns.crossed_column([one, "b"], 7)])
    assert crossed.shape.as_list()[1:] == [1]


def refusals() -> list[tuple[Callable[[], Any], type[Exception], str]]:
    plain = columns.categorical_column_with_identity("a", 3)
    one = columns.sequence_categorical_column_with_identity("a", 3)
    made = columns.sequence_numeric_column
    features: Any = {"a": [[1]], "n": [[1.0]]}
    return [
        (
            lambda: columns.input_layer(features, [columns.embedding_column(one, 2)]),
            ValueError,
            "must not be of type _Seq",
        ),
        (
            lambda: columns.input_layer(features, [columns.indicator_column(one)]),
            ValueError,
            "sequence_input_layer",
        ),
        (lambda: columns.input_layer(features, [made("n")]), ValueError, "_DenseColumn"),
        (lambda: columns.linear_model(features, [made("n")]), ValueError, "_DenseColumn"),
        (
            lambda: sequence_input_layer(features, [columns.embedding_column(plain, 2)]),
            ValueError,
            "must be of type _Seq",
        ),
        (
            lambda: sequence_input_layer(features, [columns.indicator_column(plain)]),
            ValueError,
            "must be of type _Seq",
        ),
        (
            lambda: sequence_input_layer(features, [columns.numeric_column("n")]),
            ValueError,
            "_SequenceDenseColumn",
        ),
        (lambda: sequence_input_layer(features, [made("n")]), TypeError, "must be a SparseTensor"),
        (lambda: made("n", shape=(0,)), ValueError, "greater than 0"),
        (lambda: made("n", shape=(2.0,)), TypeError, "must be integer"),
        (lambda: made("n", dtype=tf.string), ValueError, "convertible to float"),
        (lambda: made("n", normalizer_fn=3), TypeError, "must be a callable"),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("number", range(len(refusals())))
def test_a_column_where_it_cannot_be_is_refused_in_words(number: int) -> None:
    act, kind, words = refusals()[number]
    with pytest.raises(kind, match=words):
        act()
