"""ParseExample and its kin: serialized tf.train.Example and SequenceExample messages to tensors.

Three generations stand side by side, all over codec.examples: the oldest take keys as inputs one by one, the `Single`
ones as attrs, the newest as vectors.
Called by: library.parsing, ops.data.dataset_examples, graphs that name these ops.  Threads: kernels any step's.
Source: TF 1.15 core/ops/parsing_ops.cc, core/kernels/example_parsing_ops.cc; the V2 ops of 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import PER_RECORD
from headrace.codec import examples as codec
from headrace.codec.example_layouts import Layouts
from headrace.codec.examples import Batch, DenseSpec, ListSpec, SparseSpec
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.example_specs import (
    batch_of,
    checked_counts,
    dense_specs,
    no_ragged,
    sparse_specs,
    texts,
)
from headrace.run.queues.columns import row

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_TYPES = "{float, int64, string}"


# -- what the ops have in common --------------------------------------------------------------


def _checked_scalar(serialized: Array) -> None:
    if serialized.ndim:
        raise errors.invalid_argument(
            f"serialized must be a scalar, but has shape {list(serialized.shape)}"
        )


def _scalars(boxes: Sequence[Array]) -> list[Any]:
    return [box[()] for box in boxes]


def _flat(sparse: list[codec.Sparse], whole: bool) -> list[Array]:
    """All indices, then all values, then all shapes; without `whole` of a single message, so one rank less."""
    if not whole:
        sparse = [(indices[:, 1:], values, shape[1:]) for indices, values, shape in sparse]
    return [part for at in range(3) for part in (each[at] for each in sparse)]


def _parsed(
    batch: Batch, sparse: list[SparseSpec], dense: list[DenseSpec], whole: bool
) -> list[Array]:
    features = codec.examples(batch)
    return _context(features, batch, sparse, dense, whole)


def _parsed_alike(batch: Batch, dense: list[DenseSpec], layouts: Layouts) -> list[Array]:
    """As `_parsed` of a whole batch without sparse features, of Examples that may be laid out alike."""
    found = layouts.columns(batch.serialized)
    return _parsed(batch, [], dense, True) if found is None else found


def _context(
    features: list[Any], batch: Batch, sparse: list[SparseSpec], dense: list[DenseSpec], whole: bool
) -> list[Array]:
    values = [codec.dense(features, spec, batch) for spec in dense]
    found = _flat([codec.sparse(features, spec, batch) for spec in sparse], whole)
    return found + (values if whole else [row(value, 0) for value in values])


def _lists(
    lists: list[Any], batch: Batch, sparse: list[SparseSpec], dense: list[ListSpec], whole: bool
) -> tuple[list[Array], list[Any]]:
    """Outputs of feature lists, and the lengths of the dense ones."""
    pairs = [codec.dense_lists(lists, spec, batch) for spec in dense]
    found = _flat([codec.sparse_lists(lists, spec, batch) for spec in sparse], whole)
    if whole:
        return found + [values for values, _ in pairs], [lengths for _, lengths in pairs]
    return found + [values[0] for values, _ in pairs], [lengths[0] for _, lengths in pairs]


def _list_specs(
    keys: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    optional: Sequence[bool],
) -> list[ListSpec]:
    checked_counts("sequence", keys, types, shapes, optional)
    return [
        ListSpec(key, kind, tuple(size or 0 for size in shape._raw or ()), maybe)
        for key, kind, shape, maybe in zip(keys, types, shapes, optional, strict=True)
    ]


def _fits(**lists: int) -> None:
    """Raises ValueError unless the lists, of which these are the lengths, are as long as the first."""
    (first, count), *others = lists.items()
    for name, other in others:
        if other != count:
            raise ValueError(
                f"len({first}) != len({name}): there are {count} and {other}, and each feature needs one of both"
            )


def _sparse_shapes(count: int, rank: int | None) -> list[Shape]:
    return [(None, rank)] * count + [(None,)] * count + [(rank,)] * count


def _dense_shape(prefix: Shape, shape: TensorShape) -> Shape:
    raw = shape._raw
    return None if prefix is None or raw is None else (*prefix, *raw)


def _full(c: ShapeContext, shapes: Sequence[TensorShape], what: str) -> None:
    for shape in shapes:
        if not shape.is_fully_defined():
            raise ValueError(f"{what}: shape {shape} must be fully defined")


def _known_defaults(c: ShapeContext, shapes: Sequence[TensorShape]) -> None:
    for shape in shapes:
        raw = shape._raw
        if raw is None or any(size is None for size in raw[1:]):
            raise ValueError(f"dense_shapes: of {shape} only the first dimension may be unknown")


# -- examples ---------------------------------------------------------------------------------


def _example_shapes(c: ShapeContext, sparse: int, serialized: Shape) -> list[Shape]:
    rank = None if serialized is None else len(serialized) + 1
    dense_shapes = c.attr("dense_shapes")
    _fits(sparse_keys=sparse, sparse_types=len(c.attr("sparse_types")))
    if "dense_keys" in c.op.attrs:  # of the other ops the numbers are attrs, or known to the step
        _fits(num_sparse=sparse, sparse_keys=len(c.attr("sparse_keys")))
        dense: int = len(c.attr("dense_keys"))
    else:
        dense = c.op.attrs.get("Ndense", len(c.attr("Tdense")))
    _fits(dense_keys=dense, dense_types=len(c.attr("Tdense")), dense_shapes=len(dense_shapes))
    _known_defaults(c, dense_shapes)
    return _sparse_shapes(sparse, rank) + [_dense_shape(serialized, s) for s in dense_shapes]


@op(
    "ParseExample",
    inputs="serialized: string; names: string; sparse_keys: Nsparse * string; dense_keys: Ndense * string; "
    "dense_defaults: Tdense",
    outputs="sparse_indices: Nsparse * int64; sparse_values: sparse_types; sparse_shapes: Nsparse * int64; "
    "dense_values: Tdense",
    attrs=f"Nsparse: int >= 0; Ndense: int >= 0; sparse_types: list({_TYPES}) >= 0; Tdense: list({_TYPES}) >= 0; "
    "dense_shapes: list(shape) >= 0",
    shape=lambda c: _example_shapes(c, c.attr("Nsparse"), c.with_rank("serialized", 1)),
    differentiable=False,
)
def parse_example_op(
    xp: Any,
    serialized: Array,
    names: Array,
    *rest: Array,
    Nsparse: int,
    Ndense: int,
    sparse_types: list[DType],
    Tdense: list[DType],
    dense_shapes: list[TensorShape],
) -> list[Array]:
    """serialized [n]; names [n] or [0]; see codec.examples.  Raises InvalidArgument."""
    keys = texts(_scalars(rest[: Nsparse + Ndense]))
    sparse = sparse_specs(keys[:Nsparse], sparse_types)
    dense = dense_specs(keys[Nsparse:], Tdense, dense_shapes, rest[Nsparse + Ndense :])
    return _parsed(batch_of(serialized, names), sparse, dense, True)


def _example_v2_shapes(c: ShapeContext) -> list[Shape]:
    serialized = c.with_rank_at_most("serialized", 1)
    for name in ("sparse_keys", "dense_keys", "ragged_keys"):
        c.with_rank(name, 1)
    found = _example_shapes(c, c.attr("num_sparse"), serialized)
    return found + [None] * (c.num_outputs - len(found))


@op(
    "ParseExampleV2",
    inputs="serialized: string; names: string; sparse_keys: string; dense_keys: string; ragged_keys: string; "
    "dense_defaults: Tdense",
    outputs="sparse_indices: num_sparse * int64; sparse_values: sparse_types; sparse_shapes: num_sparse * int64; "
    "dense_values: Tdense; ragged_values: ragged_value_types; ragged_row_splits: ragged_split_types",
    attrs=f"Tdense: list({_TYPES}) >= 0; num_sparse: int >= 0; sparse_types: list({_TYPES}) >= 0; "
    f"ragged_value_types: list({_TYPES}) >= 0; ragged_split_types: list({{int32, int64}}) >= 0; "
    "dense_shapes: list(shape) >= 0",
    shape=_example_v2_shapes,
    traits={PER_RECORD},
    differentiable=False,
)
def parse_example_v2_op(
    xp: Any,
    serialized: Array,
    names: Array,
    sparse_keys: Array,
    dense_keys: Array,
    ragged_keys: Array,
    *dense_defaults: Array,
    sparse_types: list[DType],
    Tdense: list[DType],
    dense_shapes: list[TensorShape],
) -> list[Array]:
    """serialized [n] or []; see codec.examples.  Raises InvalidArgument, Unimplemented (ragged features)."""
    no_ragged(ragged_keys)
    sparse = sparse_specs(texts(sparse_keys), sparse_types)
    dense = dense_specs(texts(dense_keys), Tdense, dense_shapes, dense_defaults)
    return _parsed(batch_of(serialized, names), sparse, dense, serialized.ndim == 1)


@parse_example_v2_op.knowing
def _known_features(op: Operation, known: Sequence[Any]) -> Callable[..., Any] | None:
    """The kernel of a node of dense features alone, all of which are constants: it remembers layouts."""
    _, _, sparse, keys, ragged, *defaults = known
    if any(each is None for each in (sparse, keys, ragged, *defaults)):
        return None
    if op.attrs["num_sparse"] or sparse.size or ragged.size or keys.ndim != 1:
        return None
    try:
        dense = dense_specs(texts(keys), op.attrs["Tdense"], op.attrs["dense_shapes"], defaults)
    except errors.OpError:  # for the step to report
        return None
    layouts = Layouts(dense)

    def parse(serialized: Any, names: Any, *_: Any) -> list[Array]:
        batch = batch_of(serialized, names)
        if serialized.ndim == 1:
            return _parsed_alike(batch, dense, layouts)
        return _parsed(batch, [], dense, False)

    return parse


@op(
    "ParseSingleExample",
    inputs="serialized: string; dense_defaults: Tdense",
    outputs="sparse_indices: num_sparse * int64; sparse_values: sparse_types; sparse_shapes: num_sparse * int64; "
    "dense_values: Tdense",
    attrs="num_sparse: int >= 0; sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; "
    f"sparse_types: list({_TYPES}) >= 0; Tdense: list({_TYPES}) >= 0; dense_shapes: list(shape) >= 0",
    shape=lambda c: _example_shapes(c, c.attr("num_sparse"), c.with_rank("serialized", 0)),
    traits={PER_RECORD},
    differentiable=False,
)
def parse_single_example_op(
    xp: Any,
    serialized: Array,
    *dense_defaults: Array,
    sparse_keys: list[bytes],
    dense_keys: list[bytes],
    sparse_types: list[DType],
    Tdense: list[DType],
    dense_shapes: list[TensorShape],
) -> list[Array]:
    """serialized []; see codec.examples.  Raises InvalidArgument."""
    _checked_scalar(serialized)
    sparse = sparse_specs(texts(sparse_keys), sparse_types)
    dense = dense_specs(texts(dense_keys), Tdense, dense_shapes, dense_defaults)
    return _parsed(batch_of(serialized, np.empty(0, object)), sparse, dense, False)


def parse_example_rows(op: Operation, known: Sequence[Any]) -> Callable[..., list[Array]] | None:
    """The kernel of a ParseSingleExample or a ParseExampleV2, for all serialized [n]: see plan.rules.batching_rules.

    known: the inputs after `serialized`.  Only for dense features of one length each.
    """
    attrs = op.attrs
    if attrs["num_sparse"] or not all(shape.is_fully_defined() for shape in attrs["dense_shapes"]):
        return None
    if op.type == "ParseSingleExample":
        keys, defaults = attrs["dense_keys"], known
    else:
        names, _, keys, ragged, *defaults = known
        if names.size or ragged.size:
            return None
    try:
        dense = dense_specs(texts(keys), attrs["Tdense"], attrs["dense_shapes"], defaults)
    except errors.OpError:  # for the step to report
        return None
    layouts = Layouts(dense)
    return lambda serialized, *_: _parsed_alike(Batch(serialized.tolist(), ()), dense, layouts)


# -- sequence examples ------------------------------------------------------------------------

_SEQUENCE_TYPES = (
    f"context_sparse_types: list({_TYPES}) >= 0 = []; Tcontext_dense: list({_TYPES}) >= 0 = []; "
    f"feature_list_dense_types: list({_TYPES}) >= 0 = []; context_dense_shapes: list(shape) >= 0 = []; "
    f"feature_list_sparse_types: list({_TYPES}) >= 0 = []; feature_list_dense_shapes: list(shape) >= 0 = []"
)
_CONTEXT_OUT = (
    "context_sparse_indices: Ncontext_sparse * int64; context_sparse_values: context_sparse_types; "
    "context_sparse_shapes: Ncontext_sparse * int64; context_dense_values: Tcontext_dense; "
)
_LISTS_OUT = (
    "feature_list_sparse_indices: Nfeature_list_sparse * int64; "
    "feature_list_sparse_values: feature_list_sparse_types; "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64; "
    "feature_list_dense_values: feature_list_dense_types"
)
_COUNTS = (
    "Ncontext_sparse: int >= 0 = 0; Ncontext_dense: int >= 0 = 0; Nfeature_list_sparse: int >= 0 = 0; "
    "Nfeature_list_dense: int >= 0 = 0; "
)


def _sequences_fit(c: ShapeContext) -> None:
    """As `_fits`; of how many keys there are only the step knows in the second version, where they are inputs."""
    sizes = {
        name: len(value) for name, value in c.op.attrs.items() if isinstance(value, (list, tuple))
    }
    counts = c.op.attrs.get
    for where, dense_types in (
        ("context", "Tcontext_dense"),
        ("feature_list", "feature_list_dense_types"),
    ):
        _fits(
            **{
                f"{where}_sparse_keys": counts(f"N{where}_sparse", 0),
                f"{where}_sparse_types": sizes[f"{where}_sparse_types"],
            }
        )
        _fits(
            **{
                f"{where}_dense_keys": counts(f"N{where}_dense", sizes[dense_types]),
                f"{where}_dense_types": sizes[dense_types],
                f"{where}_dense_shapes": sizes[f"{where}_dense_shapes"],
            }
        )


def _sequence_shapes(
    c: ShapeContext, serialized: Shape, lengths: bool, ragged: int = 0
) -> list[Shape]:
    context, lists = c.attr("context_dense_shapes"), c.attr("feature_list_dense_shapes")
    _sequences_fit(c)
    _full(c, context, "context_dense_shapes")
    _full(c, lists, "feature_list_dense_shapes")
    rank = None if serialized is None else len(serialized) + 1
    frames = None if serialized is None else (*serialized, None)
    found = _sparse_shapes(c.attr("Ncontext_sparse"), rank)
    found += [_dense_shape(serialized, shape) for shape in context]
    found += [None] * (2 * ragged)
    found += _sparse_shapes(c.attr("Nfeature_list_sparse"), None if rank is None else rank + 1)
    found += [_dense_shape(frames, shape) for shape in lists]
    return found + [serialized] * (len(lists) if lengths else 0)


@op(
    "ParseSingleSequenceExample",
    inputs="serialized: string; feature_list_dense_missing_assumed_empty: string; "
    "context_sparse_keys: Ncontext_sparse * string; context_dense_keys: Ncontext_dense * string; "
    "feature_list_sparse_keys: Nfeature_list_sparse * string; feature_list_dense_keys: Nfeature_list_dense * string; "
    "context_dense_defaults: Tcontext_dense; debug_name: string",
    outputs=_CONTEXT_OUT + _LISTS_OUT,
    attrs=_COUNTS + _SEQUENCE_TYPES,
    shape=lambda c: _sequence_shapes(c, c.with_rank("serialized", 0), False),
    differentiable=False,
)
def parse_single_sequence_example_op(
    xp: Any,
    serialized: Array,
    feature_list_dense_missing_assumed_empty: Array,
    *rest: Array,
    Ncontext_sparse: int,
    Ncontext_dense: int,
    Nfeature_list_sparse: int,
    Nfeature_list_dense: int,
    context_sparse_types: list[DType],
    Tcontext_dense: list[DType],
    feature_list_dense_types: list[DType],
    context_dense_shapes: list[TensorShape],
    feature_list_sparse_types: list[DType],
    feature_list_dense_shapes: list[TensorShape],
) -> list[Array]:
    """serialized []; see codec.examples.  Raises InvalidArgument."""
    _checked_scalar(serialized)
    if feature_list_dense_missing_assumed_empty.ndim != 1:
        raise errors.invalid_argument(
            "feature_list_dense_missing_assumed_empty must be a vector, but has shape "
            f"{list(feature_list_dense_missing_assumed_empty.shape)}"
        )
    keys: list[list[str]] = []
    at = 0
    for count in (Ncontext_sparse, Ncontext_dense, Nfeature_list_sparse, Nfeature_list_dense):
        keys.append(texts(_scalars(rest[at : at + count])))
        at += count
    batch = batch_of(serialized, rest[-1])
    empty = set(texts(feature_list_dense_missing_assumed_empty.reshape(-1)))
    context, lists = codec.sequence_examples(batch)
    found = _context(
        context,
        batch,
        sparse_specs(keys[0], context_sparse_types),
        dense_specs(keys[1], Tcontext_dense, context_dense_shapes, rest[at:-1]),
        False,
    )
    optional = [key in empty for key in keys[3]]
    more, _ = _lists(
        lists,
        batch,
        sparse_specs(keys[2], feature_list_sparse_types),
        _list_specs(keys[3], feature_list_dense_types, feature_list_dense_shapes, optional),
        False,
    )
    return found + more


@op(
    "ParseSequenceExample",
    inputs="serialized: string; debug_name: string; context_dense_defaults: Tcontext_dense",
    outputs=_CONTEXT_OUT + _LISTS_OUT + "; feature_list_dense_lengths: Nfeature_list_dense * int64",
    attrs="feature_list_dense_missing_assumed_empty: list(string) >= 0; context_sparse_keys: list(string) >= 0; "
    "context_dense_keys: list(string) >= 0; feature_list_sparse_keys: list(string) >= 0; "
    "feature_list_dense_keys: list(string) >= 0; " + _COUNTS + _SEQUENCE_TYPES,
    shape=lambda c: _sequence_shapes(c, c.with_rank("serialized", 1), True),
    differentiable=False,
)
def parse_sequence_example_op(
    xp: Any,
    serialized: Array,
    debug_name: Array,
    *context_dense_defaults: Array,
    feature_list_dense_missing_assumed_empty: list[bytes],
    context_sparse_keys: list[bytes],
    context_dense_keys: list[bytes],
    feature_list_sparse_keys: list[bytes],
    feature_list_dense_keys: list[bytes],
    context_sparse_types: list[DType],
    Tcontext_dense: list[DType],
    feature_list_dense_types: list[DType],
    context_dense_shapes: list[TensorShape],
    feature_list_sparse_types: list[DType],
    feature_list_dense_shapes: list[TensorShape],
) -> list[Array]:
    """serialized [n]; see codec.examples.  Raises InvalidArgument."""
    optional = [key in feature_list_dense_missing_assumed_empty for key in feature_list_dense_keys]
    return _sequences(
        batch_of(serialized, debug_name),
        True,
        sparse_specs(texts(context_sparse_keys), context_sparse_types),
        dense_specs(
            texts(context_dense_keys), Tcontext_dense, context_dense_shapes, context_dense_defaults
        ),
        sparse_specs(texts(feature_list_sparse_keys), feature_list_sparse_types),
        _list_specs(
            texts(feature_list_dense_keys),
            feature_list_dense_types,
            feature_list_dense_shapes,
            optional,
        ),
    )


def _sequences(
    batch: Batch,
    whole: bool,
    sparse: list[SparseSpec],
    dense: list[DenseSpec],
    list_sparse: list[SparseSpec],
    list_dense: list[ListSpec],
) -> list[Array]:
    """The outputs of the ops that give lengths."""
    context, lists = codec.sequence_examples(batch)
    found = _context(context, batch, sparse, dense, whole)
    more, lengths = _lists(lists, batch, list_sparse, list_dense, whole)
    return found + more + lengths


@op(
    "ParseSequenceExampleV2",
    inputs="serialized: string; debug_name: string; context_sparse_keys: string; context_dense_keys: string; "
    "context_ragged_keys: string; feature_list_sparse_keys: string; feature_list_dense_keys: string; "
    "feature_list_ragged_keys: string; feature_list_dense_missing_assumed_empty: bool; "
    "context_dense_defaults: Tcontext_dense",
    outputs=_CONTEXT_OUT
    + "context_ragged_values: context_ragged_value_types; context_ragged_row_splits: context_ragged_split_types; "
    + _LISTS_OUT
    + "; feature_list_dense_lengths: Nfeature_list_dense * int64; "
    "feature_list_ragged_values: feature_list_ragged_value_types; "
    "feature_list_ragged_outer_splits: feature_list_ragged_split_types; "
    "feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    attrs=f"Ncontext_sparse: int >= 0 = 0; Tcontext_dense: list({_TYPES}) >= 0 = []; "
    f"context_sparse_types: list({_TYPES}) >= 0 = []; context_ragged_value_types: list({_TYPES}) >= 0 = []; "
    "context_ragged_split_types: list({int32, int64}) >= 0 = []; context_dense_shapes: list(shape) >= 0 = []; "
    "Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= 0 = 0; "
    f"feature_list_dense_types: list({_TYPES}) >= 0 = []; feature_list_sparse_types: list({_TYPES}) >= 0 = []; "
    f"feature_list_ragged_value_types: list({_TYPES}) >= 0 = []; "
    "feature_list_ragged_split_types: list({int32, int64}) >= 0 = []; feature_list_dense_shapes: list(shape) >= 0 = []",
    shape=lambda c: _sequence_v2_shapes(c),
    differentiable=False,
)
def parse_sequence_example_v2_op(
    xp: Any,
    serialized: Array,
    debug_name: Array,
    context_sparse_keys: Array,
    context_dense_keys: Array,
    context_ragged_keys: Array,
    feature_list_sparse_keys: Array,
    feature_list_dense_keys: Array,
    feature_list_ragged_keys: Array,
    feature_list_dense_missing_assumed_empty: Array,
    *context_dense_defaults: Array,
    context_sparse_types: list[DType],
    Tcontext_dense: list[DType],
    feature_list_dense_types: list[DType],
    context_dense_shapes: list[TensorShape],
    feature_list_sparse_types: list[DType],
    feature_list_dense_shapes: list[TensorShape],
) -> list[Array]:
    """serialized [n] or []; see codec.examples.  Raises InvalidArgument, Unimplemented (ragged features)."""
    no_ragged(context_ragged_keys, feature_list_ragged_keys)
    return _sequences(
        batch_of(serialized, debug_name),
        serialized.ndim == 1,
        sparse_specs(texts(context_sparse_keys), context_sparse_types),
        dense_specs(
            texts(context_dense_keys), Tcontext_dense, context_dense_shapes, context_dense_defaults
        ),
        sparse_specs(texts(feature_list_sparse_keys), feature_list_sparse_types),
        _list_specs(
            texts(feature_list_dense_keys),
            feature_list_dense_types,
            feature_list_dense_shapes,
            feature_list_dense_missing_assumed_empty.tolist(),
        ),
    )


def _sequence_v2_shapes(c: ShapeContext) -> list[Shape]:
    serialized = c.with_rank_at_most("serialized", 1)
    found = _sequence_shapes(c, serialized, True, len(c.attr("context_ragged_split_types")))
    return found + [None] * (c.num_outputs - len(found))
