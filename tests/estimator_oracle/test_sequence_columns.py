"""Columns of sequences: values, lengths and refusals are those of TensorFlow's layer of the same columns."""

from __future__ import annotations

from typing import Any

SETUP = """
columns = tf.feature_column

def read(features, *of):
    if hasattr(tf, "contrib"):
        return tf.contrib.feature_column.sequence_input_layer(features, list(of))
    return tf.keras.experimental.SequenceFeatures(list(of))(features)  # what took its place

def found(features, *of):
    with tf.Graph().as_default(), tf.Session() as sess:
        layer, lengths = read({key: make() for key, make in features.items()}, *of)
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return [layer.dtype.name, lengths.dtype.name, *sess.run([layer, lengths])]

def sparse(values, at, shape, dtype=np.float32):
    return lambda: tf.SparseTensor(at, np.array(values, dtype), shape)

def start(shape, dtype=None, partition_info=None):
    return tf.constant(np.arange(np.prod(shape)).reshape(shape).astype(np.float32))

at = [[0, 0], [1, 0], [1, 1], [3, 0]]
pairs = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [1, 3]]
twos = [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
digits = [2.0, 5.0, 1.0, 1.0, 3.0, 4.0]
a = columns.sequence_categorical_column_with_identity("a", 3)
words = columns.sequence_categorical_column_with_vocabulary_list("w", ["x", "y", "z"], num_oov_buckets=2)
hashed = columns.sequence_categorical_column_with_hash_bucket("w", 4)
number = columns.sequence_numeric_column("n")
two = columns.sequence_numeric_column("n", shape=(2,), default_value=9.0, normalizer_fn=lambda each: each * 2.0)
plain = columns.categorical_column_with_identity("a", 3)
nested = {"w": sparse(["x", "y", "y"], [[0, 0, 0], [0, 1, 0], [0, 1, 1]], [2, 2, 2], str)}
features = {
    "a": sparse([2, 0, 1, 1], at, [5, 2], np.int64), "n": sparse(digits[:4], at, [5, 2]),
    "w": sparse(["x", "y", "q", "z"], at, [5, 2], str)}
"""

CASES = [
    "found(features, columns.embedding_column(a, 2, initializer=start))",
    "found(features, columns.indicator_column(a))",
    "found(features, number)",
    "found({'n': sparse(digits, pairs, [2, 4])}, two)",
    "found({'n': sparse(digits, twos, [2, 2, 2])}, two)",
    "found(features, columns.indicator_column(words), columns.embedding_column(a, 2, initializer=start), number)",
    "found(features, columns.embedding_column(hashed, 3, combiner='sum', initializer=start))",
    "found({'w': lambda: tf.constant([['x', 'q'], ['z', '']])}, columns.indicator_column(words))",
    "found(nested, columns.indicator_column(words))",
]
ERRORS = [
    ("found(features, columns.embedding_column(plain, 2))", "In embedding_column: a_embedding."),
    ("found(features, columns.indicator_column(plain))", "In indicator_column: a_indicator."),
    ("columns.input_layer({'a': [[1]]}, [columns.embedding_column(a, 2)])",
     "must not be of type _SequenceCategoricalColumn."),
    ("columns.input_layer({'a': [[1]]}, [columns.indicator_column(a)])",
     "must not be of type _SequenceCategoricalColumn."),
    ("found({'n': lambda: tf.ones([2, 3])}, number)", "Input must be a SparseTensor"),
    ("found({'n': sparse(digits, pairs, [2, 4]), 'a': sparse([2], [[0, 0]], [5, 2], np.int64)}, number, "
     "columns.indicator_column(a))", "Batch size (first dimension) of each feature must be same."),
    ("columns.sequence_numeric_column('n', shape=(0,))", "shape dimensions must be greater than 0."),
    ("columns.sequence_numeric_column('n', shape=(2.0,))", "shape dimensions must be integer."),
    ("columns.sequence_numeric_column('n', dtype=tf.string)", "dtype must be convertible to float."),
    ("columns.sequence_numeric_column('n', normalizer_fn=3)", "normalizer_fn must be a callable."),
    ("columns.sequence_categorical_column_with_identity('n', 0)", "num_buckets 0 < 1, column_name n"),
]  # fmt: skip


def test_sequences_of_different_lengths_become_what_tensorflow_makes_of_them(agree: Any) -> None:
    agree(f"{SETUP}\nresult = [eval(text) for text in cases]", cases=CASES)


def test_what_does_not_fit_is_refused_as_tensorflow_refuses_it(agree: Any) -> None:
    found = agree(
        f"{SETUP}\nresult = [attempt(lambda: eval(text), phrase) for text, phrase in cases]",
        cases=ERRORS,
    )
    for (text, phrase), each in zip(ERRORS, found, strict=True):
        assert each.get("says") == phrase, (text, each)
