"""Vocabularies as tf.contrib.lookup has them: `library.vocabularies` under older names and arguments.

Called by: public namespaces.  Threads: as graph.
Source: TF 1.15 contrib/lookup, for behaviour
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.library import vocabularies
from headrace.library.lookup import FastHashSpec, HasherSpec, HashTable
from headrace.library.vocabularies import index_table_from_file

__all__ = [
    "index_table_from_tensor",
    "index_to_string",
    "index_to_string_table_from_tensor",
    "string_to_index",
    "string_to_index_table_from_file",
    "string_to_index_table_from_tensor",
]


def string_to_index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    name: str | None = None,
) -> Any:
    """Old name of `index_table_from_file`."""
    return index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, name=name
    )


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = dtypes.string,
    name: str | None = None,
) -> Any:
    """A table of the words of the vector `mapping` and their places; see `library.vocabularies`.  Raises ValueError."""
    if mapping is None:
        raise ValueError("mapping must be specified.")
    return vocabularies.index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
    )


def string_to_index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    name: str | None = None,
) -> Any:
    """Old name of `index_table_from_tensor`, of strings."""
    return index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, name=name)


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> HashTable:
    """A table of places in the vector `mapping` and its strings.  Raises ValueError."""
    if mapping is None:
        raise ValueError("mapping must be specified.")
    return vocabularies.index_to_string_table_from_tensor(mapping, default_value, name)


def string_to_index(
    tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None
) -> Any:
    """The places of the strings of `tensor` in `mapping`, after tf.tables_initializer()."""
    table = index_table_from_tensor(mapping, default_value=default_value, name=name)
    return table.lookup(tensor)


def index_to_string(
    tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """The strings of `mapping` at the places in `tensor`, after tf.tables_initializer()."""
    table = index_to_string_table_from_tensor(mapping, default_value=default_value, name=name)
    return table.lookup(tensor)
