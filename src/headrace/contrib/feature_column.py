"""`tf.contrib.feature_column`: features that are sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.feature_column.sequence_columns import (
        sequence_categorical_column_with_hash_bucket,
        sequence_categorical_column_with_identity,
        sequence_categorical_column_with_vocabulary_file,
        sequence_categorical_column_with_vocabulary_list,
        sequence_numeric_column,
    )
    from headrace.library.feature_column.sequence_input_layer import sequence_input_layer
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.feature_column.sequence_columns": (
                "sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity "
                "sequence_categorical_column_with_vocabulary_file sequence_categorical_column_with_vocabulary_list "
                "sequence_numeric_column"
            ),
            "headrace.library.feature_column.sequence_input_layer": "sequence_input_layer",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_input_layer",
    "sequence_numeric_column",
]
