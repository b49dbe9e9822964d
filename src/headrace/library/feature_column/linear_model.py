"""linear_model: weighted sums of columns, and a bias.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.collections import GraphKeys
from headrace.graph.names import add_to_collections, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    check_batch_sizes,
    checked_columns,
    elements,
    listed,
)
from headrace.library.feature_column.features import TransformedFeatures, checked_features
from headrace.library.feature_column.input_layer import as_matrix, collections_with
from headrace.library.nn.safe_embedding import safe_embedding_lookup_sparse
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.library.variables.variable_scope import (
    get_variable,
    variable_scope,
)
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.linalg.products import matmul
from headrace.ops.math.sums import add_n
from headrace.ops.nn.bias import bias_add
from headrace.ops.sparse.calls import sparse_reshape

__all__ = ["linear_model"]


def _weights(name: str, shape: tuple[int, ...], collections: Sequence[Any], trainable: bool) -> Any:
    """A variable; one that is used again stands in the collections again, as TensorFlow leaves it."""
    found = get_variable(
        name,
        shape=shape,
        dtype=dtypes.float32,
        initializer=zeros_initializer(),
        trainable=trainable,
    )
    others = [each for each in collections if each != GraphKeys.GLOBAL_VARIABLES]
    for part in listed(found):
        add_to_collections(others, part)
    return found


def _sum_of(
    column: FeatureColumn,
    made: TransformedFeatures,
    weights: Any,
    combiner: str,
    collections: Sequence[Any],
    trainable: bool,
) -> Tensor:
    """A column's numbers or categories times its weights: [batch, units]."""
    if not isinstance(column, CategoricalColumn):
        assert isinstance(column, DenseColumn)
        tensor = column.dense(made, collections, trainable)
        return matmul(as_matrix(column, tensor), weights, name="weighted_sum")
    ids, of_ids = column.sparse(made)
    ids = sparse_reshape(ids, [shape_of(ids)[0], -1])
    if of_ids is not None:
        of_ids = sparse_reshape(of_ids, [shape_of(of_ids)[0], -1])
    return safe_embedding_lookup_sparse(
        weights, ids, of_ids, combiner=combiner, name="weighted_sum"
    )


def _last(scope_name: str) -> str:
    return scope_name.rpartition("/")[2]


def _scope_names(columns: Sequence[FeatureColumn]) -> list[str]:
    """What the columns' variable scopes are called, which is decided outside the model's."""
    names = []
    for column in columns:
        with variable_scope(None, default_name=column.scope_name) as scope:
            names.append(_last(scope.name))
    return names


def _rows(column: FeatureColumn) -> int:
    if isinstance(column, CategoricalColumn):
        return column.num_buckets
    assert isinstance(column, DenseColumn)
    return elements(column.variable_shape)


def linear_model(
    features: Any,
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Sequence[Any] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Tensor:
    """Sums of the columns' numbers and categories, each times a weight, and of a bias: float32 [batch, units].

    features: tensors, sparse ones included, by name.  sparse_combiner: how the categories of an example are put
    together, "sum", "mean" or "sqrtn".  weight_collections: beside GLOBAL_VARIABLES and MODEL_VARIABLES.
    cols_to_vars: a dictionary that gets each column's variables, and those of "bias".  Raises ValueError.
    """
    with variable_scope(None, "linear_model") as scope:
        model = _last(scope.name)
    columns = checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, (DenseColumn, CategoricalColumn)):
            raise ValueError(
                f"Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. Given: {column}"
            )
    collections = collections_with(weight_collections)
    names = _scope_names(columns)
    sums: list[Tensor] = []
    with name_scope(model), variable_scope(model):
        made = TransformedFeatures(checked_features(features))
        for column, name in zip(columns, names, strict=True):
            with variable_scope(name):
                weights = _weights("weights", (_rows(column), units), collections, trainable)
                sums.append(_sum_of(column, made, weights, sparse_combiner, collections, trainable))
            if cols_to_vars is not None:
                cols_to_vars[column] = [] if isinstance(weights, PartitionedVariable) else [weights]
        check_batch_sizes(sums, columns)
        total = add_n(sums, name="weighted_sum_no_bias")
        bias = _weights("bias_weights", (units,), collections, trainable)
        if cols_to_vars is not None:
            cols_to_vars["bias"] = listed(bias)
        return bias_add(total, bias, name="weighted_sum")
