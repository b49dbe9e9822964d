"""input_layer: the dense columns of a model side by side.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.graph.collections import GraphKeys
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.column import (
    DenseColumn,
    check_batch_sizes,
    checked_columns,
    elements,
)
from headrace.library.feature_column.features import TransformedFeatures
from headrace.library.variables.variable_scope import get_variable_scope, variable_scope
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of

__all__ = ["as_matrix", "collections_with", "input_layer"]


def collections_with(given: Sequence[Any] | None) -> list[Any]:
    """Collections for a model's variables: those given, and TensorFlow's own."""
    found = list(given or [])
    for own in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES):
        if own not in found:
            found.append(own)
    return found


def as_matrix(column: DenseColumn, tensor: Tensor) -> Tensor:
    """What a column gave, as [batch, numbers of an example]."""
    return reshape(tensor, (shape_of(tensor)[0], elements(column.variable_shape)))


def input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: Sequence[Any] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Tensor:
    """The dense columns of a model side by side in the order of their names: float32 [batch, numbers of an example].

    features: tensors, sparse ones included, by name.  weight_collections: beside GLOBAL_VARIABLES and
    MODEL_VARIABLES.  cols_to_vars, cols_to_output_tensors: dictionaries that get each column's variables and its part.
    Raises ValueError, AttributeError (features is no dictionary).
    """
    columns = checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical column with an "
                f"embedding_column or indicator_column. Given: {column}"
            )
    collections = collections_with(weight_collections)
    if not isinstance(features, Mapping):
        raise AttributeError(
            f"features has no attribute 'values': a dictionary of tensors by name is wanted, and not {features!r:.80}"
        )
    made = TransformedFeatures(features)
    outputs: list[Tensor] = []
    with variable_scope(None, default_name="input_layer", values=features.values()):
        for column in columns:
            assert isinstance(column, DenseColumn)
            with variable_scope(None, default_name=column.scope_name):
                output = as_matrix(column, column.dense(made, collections, trainable))
                outputs.append(output)
                if cols_to_vars is not None:
                    cols_to_vars[column] = get_default_graph().get_collection(
                        GraphKeys.GLOBAL_VARIABLES, scope=get_variable_scope().name
                    )
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = output
        check_batch_sizes(outputs, columns)
        return concat(outputs, 1)
