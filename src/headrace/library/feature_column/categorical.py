"""Columns of categories: by hash, by vocabulary, by number, and any of those with weights.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.graph.sparse import SparseTensor, convert_to_tensor_or_sparse_tensor
from headrace.library.feature_column.column import (
    CategoricalColumn,
    Features,
    IdsAndWeights,
    check_key,
)
from headrace.library.feature_column.features import to_sparse
from headrace.library.parsing import VarLenFeature
from headrace.library.vocabularies import index_table_from_file, index_table_from_tensor
from headrace.ops.array.constants import fill
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import logical_or, where_v2
from headrace.ops.string.hashes import string_to_hash_bucket_fast
from headrace.ops.string.strings import as_string
from headrace.run.readers.files import ANYWHERE

__all__ = [
    "HashedCategoricalColumn",
    "IdentityCategoricalColumn",
    "VocabularyFileCategoricalColumn",
    "VocabularyListCategoricalColumn",
    "WeightedCategoricalColumn",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "weighted_categorical_column",
]


def _check_kind(dtype: DType, prefix: str) -> None:
    if not (dtype.is_integer or dtype.base_dtype is dtypes.string):
        raise ValueError(f"{prefix} dtype must be string or integer. dtype: {dtype}.")


def _checked(given: Any, key: str, dtype: DType) -> SparseTensor:
    """A feature without the elements that are none.  Raises ValueError: not of the column's kind."""
    found = to_sparse(given)
    if dtype.is_integer != found.dtype.is_integer:
        raise ValueError(
            "Column dtype and SparseTensors dtype must be compatible. "
            f"key: {key}, column dtype: {dtype}, tensor dtype: {found.dtype}"
        )
    _check_kind(found.dtype, f"column_name: {key} input_tensor")
    return found


class _OfKey(CategoricalColumn):
    key: str
    dtype: Any

    @property
    def name(self) -> str:
        """The feature's."""
        return self.key

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        return {self.key: VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> Any:
        """The feature's ids."""
        return self.ids_of(features.get(self.key))

    def ids_of(self, given: Any) -> SparseTensor:
        """The ids of a feature.  Raises ValueError."""
        raise NotImplementedError


@dataclass(frozen=True)
class HashedCategoricalColumn(_OfKey):
    """See `categorical_column_with_hash_bucket`."""

    key: str
    hash_bucket_size: int
    dtype: DType

    @property
    def num_buckets(self) -> int:
        """See `CategoricalColumn`."""
        return self.hash_bucket_size

    def ids_of(self, given: Any) -> SparseTensor:
        """See `_OfKey`."""
        found = _checked(given, self.key, self.dtype)
        values = found.values
        if found.dtype.base_dtype is not dtypes.string:
            values = as_string(values)
        ids = string_to_hash_bucket_fast(values, self.hash_bucket_size, name="lookup")
        return SparseTensor(found.indices, ids, found.dense_shape)


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> HashedCategoricalColumn:
    """A column of strings or integers, whose ids are their hashes below hash_bucket_size.  Raises ValueError."""
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    check_key(key)
    kind = dtypes.as_dtype(dtype)
    _check_kind(kind, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, kind)


def _looked_up(given: Any, key: str, dtype: DType, table: Any) -> Any:
    """The ids that a table has for a feature; table: makes it for keys of a kind."""
    found = _checked(given, key, dtype)
    kind = dtype
    if found.dtype.is_integer:
        kind = dtypes.int64
        found = cast(found, dtypes.int64)
    return table(kind).lookup(found)


@dataclass(frozen=True)
class VocabularyFileCategoricalColumn(_OfKey):
    """See `categorical_column_with_vocabulary_file`."""

    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: DType
    default_value: int

    @property
    def num_buckets(self) -> int:
        """See `CategoricalColumn`."""
        return self.vocabulary_size + self.num_oov_buckets

    def ids_of(self, given: Any) -> SparseTensor:
        """See `_OfKey`."""
        found: SparseTensor = _looked_up(
            given,
            self.key,
            self.dtype,
            lambda kind: index_table_from_file(
                self.vocabulary_file,
                self.num_oov_buckets,
                self.vocabulary_size,
                self.default_value,
                key_dtype=kind,
                name=f"{self.key}_lookup",
            ),
        )
        return found


def _lines_of(path: str, key: str) -> int:
    try:
        with ANYWHERE.open(os.fsencode(path), "rb") as file:
            return sum(1 for _ in file)
    except OSError as error:
        raise ValueError(
            f"vocabulary_file in {key} does not exist. {path!r}: {error.strerror}"
        ) from error


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = dtypes.string,
) -> VocabularyFileCategoricalColumn:
    """A column whose ids are the lines of a file that its strings or integers are on.

    vocabulary_size: as many lines count; all, if it is not given.  What is not there has the id default_value
    (-1, which counts for nothing), or one of num_oov_buckets behind the file's.  Raises ValueError.
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_size is None:
        vocabulary_size = _lines_of(vocabulary_file, key)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    if num_oov_buckets:
        if default_value is not None:
            raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
        if num_oov_buckets < 0:
            raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")
    kind = dtypes.as_dtype(dtype)
    _check_kind(kind, f"column_name: {key}")
    check_key(key)
    return VocabularyFileCategoricalColumn(
        key,
        vocabulary_file,
        vocabulary_size,
        num_oov_buckets or 0,
        kind,
        -1 if default_value is None else default_value,
    )


@dataclass(frozen=True)
class VocabularyListCategoricalColumn(_OfKey):
    """See `categorical_column_with_vocabulary_list`."""

    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: DType
    default_value: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:
        """See `CategoricalColumn`."""
        return len(self.vocabulary_list) + self.num_oov_buckets

    def ids_of(self, given: Any) -> SparseTensor:
        """See `_OfKey`."""
        found: SparseTensor = _looked_up(
            given,
            self.key,
            self.dtype,
            lambda kind: index_table_from_tensor(
                self.vocabulary_list,
                self.num_oov_buckets,
                self.default_value,
                dtype=kind,
                name=f"{self.key}_lookup",
            ),
        )
        return found


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Any,
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListCategoricalColumn:
    """A column whose ids are the places that its strings or integers have in a list.

    dtype: that of the list, if it is not given.  What is not there has the id default_value (-1 counts for nothing), or
    one of num_oov_buckets behind the list's.  Raises ValueError.
    """
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    listed = dtypes.as_dtype(np.array(vocabulary_list).dtype)
    if num_oov_buckets:
        if default_value != -1:
            raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
        if num_oov_buckets < 0:
            raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")
    _check_kind(listed, f"column_name: {key} vocabulary")
    kind = listed if dtype is None else dtypes.as_dtype(dtype)
    if kind.is_integer != listed.is_integer:
        raise ValueError(
            f"dtype {kind} and vocabulary dtype {listed} do not match, column_name: {key}"
        )
    _check_kind(kind, f"column_name: {key}")
    check_key(key)
    return VocabularyListCategoricalColumn(
        key, tuple(vocabulary_list), kind, default_value, num_oov_buckets
    )


@dataclass(frozen=True)
class IdentityCategoricalColumn(_OfKey):
    """See `categorical_column_with_identity`."""

    key: str
    number_buckets: int
    default_value: int | None

    @property
    def num_buckets(self) -> int:
        """See `CategoricalColumn`."""
        return self.number_buckets

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        return {self.key: VarLenFeature(dtypes.int64)}

    def ids_of(self, given: Any) -> SparseTensor:
        """See `_OfKey`."""
        found = to_sparse(given)
        if not found.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {found.dtype}")
        values: Any = found.values
        if values.dtype != dtypes.int64:
            values = cast(values, dtypes.int64, name="values")
        if self.default_value is not None:
            values = cast(found.values, dtypes.int64, name="values")  # again, as TensorFlow does
            count = cast(self.number_buckets, dtypes.int64, name="num_buckets")
            zero = cast(0, dtypes.int64, name="zero")
            outside = logical_or(values < zero, values >= count, name="out_of_range")
            default = fill(
                shape_of(values), cast(self.default_value, dtypes.int64), name="default_values"
            )
            values = where_v2(outside, default, values)
        return SparseTensor(found.indices, values, found.dense_shape)


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """A column of integers that are ids: below num_buckets, or default_value instead.

    Without default_value, negative ids count for nothing, and looking up ones that are too large fails.
    Raises ValueError.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}"
        )
    check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


@dataclass(frozen=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """See `weighted_categorical_column`."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: DType

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`.  Raises ValueError: both columns read one feature in two ways."""
        found = dict(self.categorical_column.spec)
        if self.weight_feature_key in found:
            raise ValueError(
                f"Parse config {found[self.weight_feature_key]} already exists for {self.weight_feature_key}."
            )
        return {**found, self.weight_feature_key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        """See `CategoricalColumn`."""
        return self.categorical_column.num_buckets

    def transform(self, features: Features) -> Any:
        """Ids, and weights as floats.  Raises ValueError."""
        given = features.get(self.weight_feature_key)
        if given is None:
            raise ValueError(f"Missing weights {self.weight_feature_key}.")
        weights: Any = convert_to_tensor_or_sparse_tensor(given)
        if self.dtype != weights.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        weights = to_sparse(weights, 0.0)
        if not weights.dtype.is_floating:
            weights = cast(weights, dtypes.float32)
        return features.get(self.categorical_column), weights

    def sparse(self, features: Features) -> IdsAndWeights:
        """See `CategoricalColumn`."""
        ids, weights = features.get(self)
        return IdsAndWeights(ids, weights)


def weighted_categorical_column(
    categorical_column: Any, weight_feature_key: str, dtype: Any = dtypes.float32
) -> WeightedCategoricalColumn:
    """The categories of a column, weighted by the numbers that a feature has at the same places.

    dtype: that of the weights.  Raises ValueError.
    """
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if kind is None or not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, kind)
