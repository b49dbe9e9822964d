"""sequence_input_layer: the columns of sequences side by side, step by step.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.column import (
    check_batch_sizes,
    checked_columns,
    elements,
)
from headrace.library.feature_column.features import TransformedFeatures, checked_features
from headrace.library.feature_column.input_layer import collections_with
from headrace.library.feature_column.sequence import SequenceDenseColumn
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal
from headrace.ops.flow.identities import identity

__all__ = ["sequence_input_layer"]


def _agreed(lengths: Sequence[Tensor]) -> Tensor:
    """The lengths, which are the same for all columns: a step that finds others is InvalidArgument."""
    with name_scope(None, "assert_all_equal", lengths):
        checks = [
            assert_equal(
                lengths[0],
                each,
                message="columns of one sequence_input_layer disagree about the lengths of the sequences",
            )
            for each in lengths[1:]
        ]
        with control_dependencies(checks):
            agreed: Tensor = identity(lengths[0])
            return agreed


def sequence_input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: Sequence[Any] | None = None,
    trainable: bool = True,
) -> tuple[Tensor, Tensor]:
    """The columns of sequences side by side: float32 [batch, steps, numbers of a step], and int64 [batch] lengths.

    features: tensors by name, those of sequences sparse.  feature_columns: `sequence_numeric_column`s, and
    `embedding_column`s and `indicator_column`s of `sequence_categorical_column_with_…`.  weight_collections: beside
    GLOBAL_VARIABLES and MODEL_VARIABLES.  Raises ValueError, TypeError.
    """
    columns = checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, SequenceDenseColumn):
            raise ValueError(
                "All feature_columns must be of type _SequenceDenseColumn. You can wrap a sequence_categorical_column "
                f"with an embedding_column or indicator_column. Given (type {type(column)}): {column}"
            )
    collections = collections_with(weight_collections)
    outputs: list[Tensor] = []
    lengths: list[Tensor] = []
    made = TransformedFeatures(checked_features(features))
    with variable_scope(None, default_name="sequence_input_layer", values=features.values()):
        for column in columns:
            assert isinstance(column, SequenceDenseColumn)
            with variable_scope(None, default_name=column.scope_name):
                values, length = column.sequence_dense(made, collections, trainable)
                shape = shape_of(values)
                width = elements(column.variable_shape)
                outputs.append(reshape(values, [shape[0], shape[1], width]))
                lengths.append(length)
        check_batch_sizes(outputs, columns)
        return concat(outputs, -1), _agreed(lengths)
