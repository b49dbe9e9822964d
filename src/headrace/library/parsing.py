"""tf.parse_example and its kin: what examples hold, said by a dict of features; tensors out of them.

Called by: programs.  Threads: as graph.
Source: TF 1.15 python/ops/parsing_ops.py, for behaviour; GraphDefs as 2.21
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import rank, reshape
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import with_dependencies
from headrace.ops.sparse.order import sparse_merge

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "VarLenFeature",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]


class FixedLenFeature(NamedTuple):
    """A feature with as many values in every example.  default_value: where it is missing; None: it may not be."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values: a SparseTensor."""

    dtype: Any


class SparseFeature(NamedTuple):
    """A SparseTensor of `size` whose indices and values are two features (or more: a list of index_key and size)."""

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class FixedLenSequenceFeature(NamedTuple):
    """A feature of any number of rows of `shape`, filled up with `default_value` (None: zeros) to the longest."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class Wanted:
    """Features as the ops take them."""

    def __init__(self) -> None:
        self.sparse: dict[str, dtypes.DType] = {}
        self.dense: dict[str, dtypes.DType] = {}
        self.shapes: dict[str, TensorShape] = {}
        self.defaults: dict[str, Any] = {}

    def default_tensors(self) -> list[Tensor]:
        """One tensor for each dense feature: its default, or an empty one."""
        return [self._default(key) for key in self.dense]

    def _default(self, key: str) -> Tensor:
        dtype, shape, value = self.dense[key], self.shapes[key], self.defaults.get(key)
        varies = shape.ndims is not None and shape.ndims > 0 and shape._raw[0] is None  # type: ignore[index]
        plain = re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
        if varies:
            if value is None:
                return convert("" if dtype is dtypes.string else 0, dtype)
            filler: Tensor = reshape(convert(value, dtype, f"padding_{plain}"), [])
            return filler
        if value is None:
            return constant([], dtype)
        given: Tensor = reshape(convert(value, dtype, f"key_{plain}"), shape)
        return given

    def shape_list(self) -> list[TensorShape]:
        """Of the dense features, in order."""
        return list(self.shapes.values())


# -- what is asked for ------------------------------------------------------------------------


def _wanted(features: Mapping[str, Any], allowed: tuple[type, ...]) -> Wanted:
    """Raises ValueError."""
    wanted = Wanted()
    for key in sorted(features):
        feature = features[key]
        if type(feature) not in allowed:
            raise ValueError(
                f"Unsupported {type(feature).__name__} {feature!r:.80} for key {key!r}; "
                f"use {', '.join(kind.__name__ for kind in allowed)}"
            )
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}: {feature}")
        if isinstance(feature, VarLenFeature):
            _add_sparse(wanted, key, dtypes.as_dtype(feature.dtype))
        elif isinstance(feature, SparseFeature):
            _add_sparse_feature(wanted, feature)
        elif isinstance(feature, FixedLenFeature):
            _add_dense(wanted, key, feature)
        else:
            _add_sequence(wanted, key, feature)
    both = sorted(set(wanted.sparse) & set(wanted.dense))
    if both:
        raise ValueError(
            f"features cannot be both dense and sparse, and {both} are asked for as both"
        )
    return wanted


def wanted_of(features: Mapping[str, Any]) -> Wanted:
    """Features of Examples as the ops take them.  Raises ValueError."""
    return _wanted(
        features, (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)
    )


def _add_sparse(wanted: Wanted, key: str, dtype: dtypes.DType) -> None:
    known = wanted.sparse.setdefault(key, dtype)
    if known != dtype:
        raise ValueError(f"feature {key!r} is wanted as {known.name} and as {dtype.name}")


def _add_sparse_feature(wanted: Wanted, feature: SparseFeature) -> None:
    if not feature.index_key:
        raise ValueError(f"Missing index_key for SparseFeature {feature}")
    if not feature.value_key:
        raise ValueError(f"Missing value_key for SparseFeature {feature}")
    keys = [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)
    for key in sorted(keys):
        _add_sparse(wanted, key, dtypes.int64)
    _add_sparse(wanted, feature.value_key, dtypes.as_dtype(feature.dtype))


def _add_dense(wanted: Wanted, key: str, feature: FixedLenFeature) -> None:
    if feature.shape is None:
        raise ValueError(f"Missing shape for feature {key}: {feature}")
    shape = TensorShape(feature.shape)
    if shape.ndims and shape._raw is not None and shape._raw[0] is None:
        raise ValueError(
            f"First dimension of shape for feature {key} unknown. Consider using FixedLenSequenceFeature: {feature}"
        )
    wanted.dense[key] = dtypes.as_dtype(feature.dtype)
    wanted.shapes[key] = shape
    if feature.default_value is not None:
        wanted.defaults[key] = feature.default_value


def _add_sequence(wanted: Wanted, key: str, feature: FixedLenSequenceFeature) -> None:
    if feature.shape is None:
        raise ValueError(f"Missing shape for feature {key}: {feature}")
    if not feature.allow_missing:
        raise ValueError(
            f"Unsupported: FixedLenSequenceFeature requires allow_missing to be True: feature {key!r} of an Example"
        )
    wanted.dense[key] = dtypes.as_dtype(feature.dtype)
    wanted.shapes[key] = TensorShape([None]).concatenate(TensorShape(feature.shape))
    if feature.default_value is not None:
        wanted.defaults[key] = feature.default_value


def with_sparse_features(features: Mapping[str, Any], parsed: dict[str, Any]) -> dict[str, Any]:
    """The SparseFeatures made of what was parsed for them beside the rest, and nothing that was not asked for."""
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            index = feature.index_key
            ids = parsed[index] if isinstance(index, str) else [parsed[each] for each in index]
            values = parsed[feature.value_key]
            parsed[key] = sparse_merge(
                ids, values, feature.size, already_sorted=feature.already_sorted
            )
    return {key: value for key, value in parsed.items() if key in features}


def _sparse_tensors(outputs: Sequence[list[Tensor]]) -> list[SparseTensor]:
    return [SparseTensor(*parts) for parts in zip(*outputs, strict=True)]


def _scalar(value: Tensor, name: str) -> Tensor:
    """`value`, which must be a scalar.  Raises ValueError; InvalidArgumentError in a step."""
    ndims = value.get_shape().ndims
    if ndims == 0:
        return value
    if ndims is not None:
        raise ValueError(
            f"Input {name} must be a scalar, and {value.name} has shape {value.get_shape()}"
        )
    equal = get("Equal")(rank(value), 0, name="Equal")
    check = Assert(equal, [f"Input {name} must be a scalar"], name=f"{name.capitalize()}IsScalar")
    checked: Tensor = with_dependencies([check], value, name=f"{name}Dependencies")
    checked.set_shape([])
    return checked


# -- examples ---------------------------------------------------------------------------------


def _parsed(serialized: Any, names: Any, wanted: Wanted, name: str | None) -> dict[str, Any]:
    with name_scope(name, "ParseExample", [serialized, names]):
        spec = get("ParseExampleV2")
        serialized = convert(serialized, None, "serialized", dtypes.string)
        sparse_indices, sparse_values, sparse_shapes, dense, _, _ = spec(
            serialized,
            [] if names is None else names,
            list(wanted.sparse),
            list(wanted.dense),
            [],
            wanted.default_tensors(),
            num_sparse=len(wanted.sparse),
            sparse_types=list(wanted.sparse.values()),
            ragged_value_types=[],
            ragged_split_types=[],
            dense_shapes=wanted.shape_list(),
            name=name,
        )
    sparse = _sparse_tensors([sparse_indices, sparse_values, sparse_shapes])
    return dict(zip([*wanted.sparse, *wanted.dense], [*sparse, *dense], strict=True))


def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Features of serialized tf.train.Examples [n], by key: Tensors [n, ...] and SparseTensors.

    features: key -> FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or SparseFeature.
    example_names: string [n], for errors.  Raises ValueError, TypeError; in a step InvalidArgumentError for what is no
    Example, a missing feature without default_value, and one of another type or number of values.
    """
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features!r}")
    wanted = wanted_of(features)
    return with_sparse_features(features, _parsed(serialized, example_names, wanted, name))


def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """As `parse_example`, of one Example, string []: the results have no dimension for the batch."""
    if not features:
        raise ValueError(f"Invalid argument: features cannot be empty, and are {features!r}")
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        scalar = _scalar(convert(serialized, None, "serialized"), "serialized")
        wanted = wanted_of(features)
        return with_sparse_features(features, _parsed(scalar, example_names, wanted, name))


# -- sequence examples ------------------------------------------------------------------------


class _Lists:
    """Feature lists as the ops take them."""

    def __init__(self) -> None:
        self.sparse: dict[str, dtypes.DType] = {}
        self.dense: dict[str, dtypes.DType] = {}
        self.shapes: dict[str, TensorShape] = {}
        self.optional: dict[str, bool] = {}


def _wanted_lists(features: Mapping[str, Any]) -> _Lists:
    """Raises ValueError."""
    lists = _Lists()
    for key in sorted(features):
        feature = features[key]
        if not isinstance(feature, (VarLenFeature, FixedLenSequenceFeature)):
            raise ValueError(
                f"Unsupported {type(feature).__name__} {feature!r:.80} for key {key!r} of a feature list; "
                "use FixedLenSequenceFeature or VarLenFeature"
            )
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}: {feature}")
        if isinstance(feature, VarLenFeature):
            lists.sparse[key] = dtypes.as_dtype(feature.dtype)
            continue
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}: {feature}")
        if feature.default_value is not None:
            raise ValueError(
                f"feature list {key!r} cannot have a default_value: lists are filled up with zeros"
            )
        lists.dense[key] = dtypes.as_dtype(feature.dtype)
        lists.shapes[key] = TensorShape(feature.shape)
        lists.optional[key] = bool(feature.allow_missing)
    return lists


def _parsed_sequences(
    serialized: Any, context: Wanted, lists: _Lists, debug_name: Any, name: str | None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    with name_scope(name, "ParseSequenceExample", [serialized, debug_name]):
        found = get("ParseSequenceExampleV2")(
            serialized,
            [] if debug_name is None else debug_name,
            list(context.sparse),
            list(context.dense),
            [],
            list(lists.sparse),
            list(lists.dense),
            [],
            list(lists.optional.values()),
            context.default_tensors(),
            Ncontext_sparse=len(context.sparse),
            context_sparse_types=list(context.sparse.values()),
            context_ragged_value_types=[],
            context_ragged_split_types=[],
            context_dense_shapes=context.shape_list(),
            Nfeature_list_sparse=len(lists.sparse),
            Nfeature_list_dense=len(lists.dense),
            feature_list_dense_types=list(lists.dense.values()),
            feature_list_sparse_types=list(lists.sparse.values()),
            feature_list_ragged_value_types=[],
            feature_list_ragged_split_types=[],
            feature_list_dense_shapes=list(lists.shapes.values()),
            name=name,
        )
    in_context = [*_sparse_tensors(found[0:3]), *found[3]]
    in_lists = [*_sparse_tensors(found[6:9]), *found[9]]
    return (
        dict(zip([*context.sparse, *context.dense], in_context, strict=True)),
        dict(zip([*lists.sparse, *lists.dense], in_lists, strict=True)),
        dict(zip(lists.dense, found[10], strict=True)),
    )


def _both(context_features: Any, sequence_features: Any) -> tuple[Wanted, _Lists]:
    if not (context_features or sequence_features):
        raise ValueError(
            "Both context_features and sequence_features are None, but at least one should have values"
        )
    context = _wanted(context_features or {}, (VarLenFeature, FixedLenFeature))
    return context, _wanted_lists(sequence_features or {})


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """Contexts and feature lists of serialized tf.train.SequenceExamples [n], and the lists' lengths [n] by key.

    context_features: key -> FixedLenFeature or VarLenFeature.  sequence_features: key -> FixedLenSequenceFeature
    ([n, longest, ...], filled up with zeros) or VarLenFeature (a SparseTensor [n, longest, most values]).
    Raises as `parse_example`.
    """
    context, lists = _both(context_features, sequence_features)
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        return _parsed_sequences(serialized, context, lists, example_names, name)


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Context and feature lists of one SequenceExample, string []: no dimension for the batch, no lengths."""
    context, lists = _both(context_features, sequence_features)
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        with name_scope(name, "ParseSingleExample", [serialized, example_name]):
            scalar = _scalar(convert(serialized, None, "serialized"), "serialized")
        found = _parsed_sequences(scalar, context, lists, example_name, name)
    return found[0], found[1]
