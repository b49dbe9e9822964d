"""The features of one call of input_layer and its kin: raw ones with a batch, and what columns made of them, once each.

Called by: library.feature_column.  Threads: as graph.
Source: TF 1.15 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.base import dtypes
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.sparse import SparseTensor, convert_to_tensor_or_sparse_tensor
from headrace.library.feature_column.column import FeatureColumn
from headrace.ops.array.gathering import gather_nd, where
from headrace.ops.array.shapes import expand_dims, rank
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_positive
from headrace.ops.flow.control_flow import cond
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, not_equal
from headrace.ops.sparse.calls import sparse_reshape

__all__ = ["TransformedFeatures", "checked_features", "to_sparse"]


def checked_features(features: Any) -> Mapping[Any, Any]:
    """Raises ValueError: not a dictionary."""
    if not isinstance(features, Mapping):
        raise ValueError(f"We expected a dictionary here. Instead we got: {features}")
    return features


class TransformedFeatures:
    """Features by name, and what columns made of them by column."""

    def __init__(self, features: Mapping[Any, Any]) -> None:
        self._raw = dict(features)
        self._made: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """A feature as [batch, …], or what a column makes of its own.  Raises ValueError, TypeError."""
        if key in self._made:
            return self._made[key]
        if key in self._raw:
            value = _with_batch(key, self._raw[key])
        elif isinstance(key, str):
            raise ValueError(f"Feature {key} is not in features dictionary.")
        elif not isinstance(key, FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "_FeatureColumn". Provided: {key}')
        else:
            value = key.transform(self)
            if value is None:
                raise ValueError(f"Column {key.name} is not supported.")
        self._made[key] = value
        return value


def _with_batch(key: Any, given: Any) -> Any:
    """A raw feature; a vector as a column of a matrix."""
    raw: Any = convert_to_tensor_or_sparse_tensor(given)
    message = f"Feature (key: {key}) cannot have rank 0. Given: {raw}"

    def as_matrix() -> Any:
        if isinstance(raw, SparseTensor):
            return sparse_reshape(raw, [shape_of(raw)[0], 1])
        return expand_dims(raw, -1)

    known = raw.get_shape().ndims
    if known is not None:
        if known == 0:
            raise ValueError(message)
        return raw if known != 1 else as_matrix()
    with control_dependencies([assert_positive(rank(raw), message=message)]):
        return cond(equal(1, rank(raw)), as_matrix, lambda: raw)


def to_sparse(given: Any, ignore: Any = None) -> SparseTensor:
    """A dense tensor as a sparse one without the elements that are `ignore`: "" or -1, if that is not given."""
    value: Any = convert_to_tensor_or_sparse_tensor(given)
    if isinstance(value, SparseTensor):
        return value
    with name_scope(None, "to_sparse_input", [value, ignore]):
        if ignore is None:
            ignore = (
                ""
                if value.dtype.base_dtype is dtypes.string
                else -1
                if value.dtype.is_integer
                else None
            )
        if ignore is None:
            ignore = value.dtype.as_numpy_dtype()
        nothing = cast(ignore, value.dtype, name="ignore_value")
        places = where(not_equal(value, nothing), name="indices")
        values = gather_nd(value, places, name="values")
        return SparseTensor(
            places, values, shape_of(value, out_type=dtypes.int64, name="dense_shape")
        )
