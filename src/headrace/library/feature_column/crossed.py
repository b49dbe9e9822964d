"""Columns of crosses: every combination of the categories of several features.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.base import dtypes
from headrace.library.feature_column.categorical import HashedCategoricalColumn
from headrace.library.feature_column.column import CategoricalColumn, FeatureColumn, Features
from headrace.library.parsing import VarLenFeature
from headrace.ops.sparse.crosses import sparse_cross_hashed

__all__ = ["CrossedColumn", "crossed_column"]


@dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """See `crossed_column`."""

    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None

    def _leaves(self) -> Iterator[Any]:
        for key in self.keys:
            if isinstance(key, CrossedColumn):
                yield from key._leaves()
            else:
                yield key

    @property
    def name(self) -> str:
        """The names of what is crossed, in their order."""
        names = (each.name if isinstance(each, FeatureColumn) else each for each in self._leaves())
        return "_X_".join(sorted(names))

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        found: dict[str, Any] = {}
        for key in self.keys:
            found.update(
                key.spec if isinstance(key, FeatureColumn) else {key: VarLenFeature(dtypes.string)}
            )
        return found

    @property
    def num_buckets(self) -> int:
        """See `CategoricalColumn`."""
        return self.hash_bucket_size

    def transform(self, features: Features) -> Any:
        """The ids of the crosses.  Raises ValueError: weights."""
        tensors = []
        for key in self._leaves():
            if isinstance(key, str):
                tensors.append(features.get(key))
                continue
            ids, weights = key.sparse(features)
            if weights is not None:
                raise ValueError(
                    "crossed_column does not support weight_tensor, but the given column populates weight_tensor. "
                    f"Given column: {key.name}"
                )
            tensors.append(ids)
        return sparse_cross_hashed(tensors, self.hash_bucket_size, self.hash_key)


def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """A column whose ids are hashes, below hash_bucket_size, of every combination of the categories of several.

    keys: names of features, and categorical columns but those of hashes.  hash_key: what the hashes begin with.
    Raises ValueError.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Give the feature's name: "
                f"what is hashed twice meets more often. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
