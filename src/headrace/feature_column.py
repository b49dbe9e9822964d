"""`tf.feature_column`: how raw features become what a model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.library.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
    weighted_categorical_column,
)
from headrace.library.feature_column.crossed import crossed_column
from headrace.library.feature_column.indicator import indicator_column
from headrace.library.feature_column.input_layer import input_layer
from headrace.library.feature_column.linear_model import linear_model
from headrace.library.feature_column.numeric import bucketized_column, numeric_column
from headrace.library.feature_column.sequence_columns import (
    sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column,
)
from headrace.library.feature_column.specs import make_parse_example_spec
from headrace.training.embedding_columns import embedding_column, shared_embedding_columns

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "crossed_column",
    "embedding_column",
    "indicator_column",
    "input_layer",
    "linear_model",
    "make_parse_example_spec",
    "numeric_column",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column",
    "shared_embedding_columns",
    "weighted_categorical_column",
]
