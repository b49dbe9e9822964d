"""What a feature column is, and what lists of them must be.

Called by: library.feature_column.  Threads: any.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.variables.partitioned import PartitionedVariable

__all__ = [
    "CategoricalColumn",
    "DenseColumn",
    "FeatureColumn",
    "Features",
    "IdsAndWeights",
    "check_batch_sizes",
    "check_key",
    "checked_columns",
    "checked_shape",
    "elements",
    "listed",
]


class Features(Protocol):
    """The features of one call, and what columns made of them (`features.TransformedFeatures`)."""

    def get(self, key: Any) -> Any:
        """The raw feature of a name, or what a column makes of its own."""


class FeatureColumn:
    """One way to read features.  Columns are values: equal ones are the same column."""

    @property
    def name(self) -> str:
        """Unique within a model; of it are the names of variables."""
        raise NotImplementedError

    @property
    def scope_name(self) -> str:
        """What the column's variable scope is called."""
        return re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", self.name)

    @property
    def spec(self) -> dict[str, Any]:
        """How to parse the features that it reads, for tf.io.parse_example."""
        raise NotImplementedError

    def transform(self, features: Features) -> Any:
        """What the column makes of its features; asked for once a call."""
        raise NotImplementedError


class DenseColumn(FeatureColumn):
    """A column that gives a dense tensor [batch, …] of floats."""

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """The tensor's shape without the batch."""
        raise NotImplementedError

    def dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        """The tensor: [batch] + variable_shape."""
        raise NotImplementedError


class IdsAndWeights(NamedTuple):
    """Ids [batch, …] below a column's num_buckets, and weights at the same places or None."""

    ids: SparseTensor
    weights: SparseTensor | None


class CategoricalColumn(FeatureColumn):
    """A column that gives ids."""

    @property
    def num_buckets(self) -> int:
        """Ids are below it."""
        raise NotImplementedError

    def sparse(self, features: Features) -> IdsAndWeights:
        """The ids and their weights."""
        return IdsAndWeights(features.get(self), None)


def check_key(key: Any) -> None:
    """Raises ValueError: not a string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def elements(shape: Sequence[int]) -> int:
    """How many numbers a tensor of that shape has."""
    count = 1
    for size in shape:
        count *= size
    return count


def checked_columns(feature_columns: Any) -> list[FeatureColumn]:
    """The columns as a list.  Raises ValueError: none, no columns, two of a name."""
    if isinstance(feature_columns, FeatureColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, Iterator):
        feature_columns = list(feature_columns)
    if isinstance(feature_columns, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"Items of feature_columns must be a _FeatureColumn. Given (type {type(column)}): {column}."
            )
    if not feature_columns:
        raise ValueError("feature_columns must not be empty.")
    known: dict[str, FeatureColumn] = {}
    for column in feature_columns:
        if column.name in known:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and {known[column.name]}. "
                f"Both are called {column.name!r}: drop one, or give its feature a second name in the features"
            )
        known[column.name] = column
    return sorted(feature_columns, key=lambda column: column.name)


def check_batch_sizes(tensors: Sequence[Tensor], columns: Sequence[FeatureColumn]) -> None:
    """Raises ValueError if two static batch sizes differ."""
    first: tuple[int, FeatureColumn] | None = None
    for tensor, column in zip(tensors, columns, strict=True):
        size = None if tensor.shape.ndims is None else tensor.shape[0].value
        if size is None:
            continue
        if first is None:
            first = size, column
        elif first[0] != size:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. "
                f"Batch size of columns ({first[1].name}, {column.name}): ({first[0]}, {size})"
            )


def listed(variable: Any) -> list[Any]:
    """A variable, or the parts of a partitioned one."""
    return list(variable) if isinstance(variable, PartitionedVariable) else [variable]


def checked_shape(shape: Any, key: str) -> tuple[int, ...]:
    """A shape that was given for the feature `key`.  Raises TypeError, ValueError."""
    check_key(key)
    sizes = (
        tuple(shape) if isinstance(shape, (list, tuple)) or hasattr(shape, "__iter__") else (shape,)
    )
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"shape dimensions must be integer. shape: {sizes}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {sizes}, key: {key}")
    return sizes
