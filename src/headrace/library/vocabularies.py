"""Vocabularies: tables of words and their numbers, from files and from tensors.

Called by: public namespaces.  Threads: as graph.
Source: TF 1.15 python/ops/lookup_ops.py, for behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.lookup import (
    FastHashSpec,
    HasherSpec,
    HashTable,
    IdTableWithHashBuckets,
    KeyValueTensorInitializer,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.math.casting import cast

__all__ = [
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]


def _checked_vocabulary(num_oov_buckets: int, key_dtype: Any, what: str = "key_dtype") -> DType:
    if num_oov_buckets < 0:
        raise ValueError(
            f"`num_oov_buckets` must be greater or equal than 0, got {num_oov_buckets}."
        )
    kind = dtypes.as_dtype(key_dtype)
    if not (kind.is_integer or kind.base_dtype is dtypes.string):
        raise TypeError(f"Dtype for `{what}` should be integer or string, and is {kind.name}.")
    return kind


def _checked_file(vocabulary_file: Any, vocab_size: int | None) -> None:
    if not isinstance(vocabulary_file, Tensor) and not vocabulary_file:
        raise ValueError("`vocabulary_file` must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(
            f"`vocab_size` must be greater than 0, got {vocab_size} for vocabulary_file: {vocabulary_file}."
        )


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: Any = dtypes.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """A table of the words of a file and their line numbers.

    num_oov_buckets: buckets beyond for other words, which else have default_value.  Raises TypeError, ValueError.
    """
    _checked_file(vocabulary_file, vocab_size)
    kind = _checked_vocabulary(num_oov_buckets, key_dtype)
    with name_scope(name, "string_to_index"):
        with name_scope(None, "hash_table"):
            init = TextFileIdTableInitializer(
                vocabulary_file,
                key_column_index,
                value_column_index,
                vocab_size,
                delimiter,
                "table_init",
                dtypes.int64 if kind.is_integer else kind,
            )
            table: Any = HashTable(init, default_value)
        if num_oov_buckets:
            return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=kind)
        return table


def index_table_from_tensor(
    vocabulary_list: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = dtypes.string,
    name: str | None = None,
) -> Any:
    """A table of the words of a vector and their places in it.

    num_oov_buckets: buckets beyond for other words, which else have default_value.  Raises TypeError, ValueError.
    """
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` must be specified.")
    kind = _checked_vocabulary(num_oov_buckets, dtype, "dtype")
    with name_scope(name, "string_to_index"):
        keys = convert(vocabulary_list)
        if keys.dtype.is_integer != kind.is_integer:
            wanted = "integer" if kind.is_integer else "non-integer"
            raise ValueError(
                f"Invalid `dtype`: Expected {wanted}, got {keys.dtype!r}: the words must be of dtype {kind.name}"
            )
        if not keys.dtype.is_integer and keys.dtype.base_dtype != kind:
            raise ValueError(f"Invalid `dtype`: Expected {kind!r}, got {keys.dtype!r}.")
        ids = cast(range_of(size_of(keys)), dtypes.int64)
        with name_scope(None, "hash_table"):
            words = cast(keys, dtypes.int64) if keys.dtype.is_integer else keys
            init = KeyValueTensorInitializer(
                words, ids, words.dtype.base_dtype, dtypes.int64, name="table_init"
            )
            table: Any = HashTable(init, default_value)
        if num_oov_buckets:
            return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=kind)
        return table


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> HashTable:
    """A table of line numbers of a file and what they hold.  Raises ValueError."""
    _checked_file(vocabulary_file, vocab_size)
    with name_scope(name, "index_to_string"):
        init = TextFileStringTableInitializer(
            vocabulary_file,
            key_column_index,
            value_column_index,
            vocab_size,
            delimiter,
            "table_init",
        )
        return HashTable(init, default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: str = "UNK", name: str | None = None
) -> HashTable:
    """A table of places in a vector of strings and what it holds there.  Raises ValueError."""
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` argument must be specified.")
    with name_scope(name, "index_to_string"):
        words = convert(vocabulary_list, dtypes.string)
        ids = cast(range_of(size_of(words)), dtypes.int64)
        init = KeyValueTensorInitializer(ids, words, dtypes.int64, dtypes.string, name="table_init")
        return HashTable(init, default_value)
