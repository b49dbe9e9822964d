"""Ragged tensors as variants, and back: one for each row, or one for the whole.

Called by: graphs from elsewhere.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/ragged_conversion_ops.cc; 2.21 core/kernels/ragged_tensor_{to,from}_variant_op.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import ALIASES, NEVER_FOLDED, SNAPSHOTS
from headrace.codec.fields import objects
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import checked_sizes
from headrace.ops.array.shapes import shape as shape_of
from headrace.run.state.optionals import RaggedRow
from headrace.run.state.tensor_lists import zeros_of
from headrace.run.state.variants import described, each_of

Array = np.ndarray[Any, Any]


def _encoded_shape(c: ShapeContext) -> Shape:
    *splits, values = c.shapes
    for shape in splits:
        if shape is not None and len(shape) != 1:
            raise ValueError(
                f"Shape must be rank 1 but is rank {len(shape)}: row splits are vectors"
            )
    if not c.attr("batched_input"):
        return ()
    outer = splits[0] if splits else values
    if outer is None or outer[0] is None:
        return (None,)
    return (outer[0] - 1,) if splits else (outer[0],)


def _check_splits(splits: Sequence[Array], values: Array) -> None:
    """Raise InvalidArgument unless they divide what is below them."""
    for at, each in enumerate(splits):
        below = len(splits[at + 1]) - 1 if at + 1 < len(splits) else len(values)
        if each.ndim != 1 or not each.size or each[0] or (np.diff(each) < 0).any():
            raise errors.invalid_argument(
                f"Ragged splits must be a vector that begins with 0 and never falls: rt_nested_splits[{at}] is "
                f"{each.tolist()!r:.80}"
            )
        if int(each[-1]) != below:
            raise errors.invalid_argument(
                f"Ragged splits must end with the number of what they divide: rt_nested_splits[{at}] ends with "
                f"{int(each[-1])}, and there are {below}"
            )


@op(
    "RaggedTensorToVariant",
    inputs="rt_nested_splits: RAGGED_RANK * Tsplits; rt_dense_values: Tvalues",
    outputs="encoded_ragged: variant",
    attrs="RAGGED_RANK: int >= 0; Tvalues: type; Tsplits: {int32, int64} = DT_INT64; batched_input: bool",
    shape=_encoded_shape,
    traits={NEVER_FOLDED, ALIASES, SNAPSHOTS},
)
def ragged_tensor_to_variant_op(
    xp: Any, *inputs: Any, Tvalues: DType, Tsplits: DType, batched_input: bool
) -> Any:
    """A variant for each row [n], if batched_input, or one for the whole [].

    Raises InvalidArgument (splits, a scalar).
    """
    *splits, values = inputs
    if not values.ndim:
        raise errors.invalid_argument(
            "rt_dense_values must be at least a vector, and has shape []: its rows are divided"
        )
    _check_splits(splits, values)
    kinds = (*[Tsplits] * len(splits), Tvalues)
    if not batched_input:
        return RaggedRow(tuple(inputs), kinds)
    if not splits:
        return objects([RaggedRow((row,), kinds) for row in _rows(values)])
    made = []
    for first, last in zip(splits[0][:-1].tolist(), splits[0][1:].tolist(), strict=True):
        parts = []
        for each in splits[1:]:
            part = each[first : last + 1]
            parts.append(part - part[0])
            first, last = int(part[0]), int(part[-1])
        made.append(RaggedRow((*parts, values[first:last]), kinds[1:]))
    return objects(made)


def _rows(values: Array) -> list[Any]:
    return [values[at : at + 1].reshape(values.shape[1:]) for at in range(len(values))]


@ragged_tensor_to_variant_op.gradient
def _(op: Operation, dout: Tensor) -> list[Any]:
    *splits, values = op.inputs
    found = ragged_tensor_to_variant_gradient_op(
        dout,
        splits[0] if splits else np.int64(0),
        shape_of(values),
        Tvalues=values.dtype,
    )
    return [*[None] * len(splits), found]


def _ragged(encoded: Any, rank: int, values: DType, splits: DType) -> list[RaggedRow]:
    """The rows, each of that ragged rank and those types.  Raises InvalidArgument."""
    found = each_of(encoded)
    for at, row in enumerate(found):
        if not isinstance(row, RaggedRow):
            raise errors.invalid_argument(
                f"Input Variant element at index {at} doesn't hold a RaggedTensorVariant: {described(row)[1:-1]}"
            )
        if len(row.values) != rank + 1:
            raise errors.invalid_argument(
                f"Encoded input RaggedTensorVariant has ragged_rank={len(row.values) - 1}.  Expected ragged_rank="
                f"{rank}: it is what input_ragged_rank says"
            )
        if row.kinds[-1] is not values:
            raise errors.invalid_argument(
                f"Expected values Tensor dtype: {values.name}, found: {row.kinds[-1].name}: say the Tvalues that the "
                "variant was made of"
            )
        if any(kind is not splits for kind in row.kinds[:-1]):
            raise errors.invalid_argument(
                f"Expected row_splits Tensor dtype: {splits.name}, found: {row.kinds[0].name}: say the Tsplits that "
                "the variant was made of"
            )
    return found


def _decoded_shapes(c: ShapeContext) -> list[Shape]:
    wanted, given = c.attr("output_ragged_rank"), c.attr("input_ragged_rank")
    encoded = c.shape("encoded_ragged")
    if encoded is not None and given >= 0 and len(encoded) != wanted - given:
        raise ValueError(
            f"Shape must be rank {wanted - given} but is rank {len(encoded)}: encoded_ragged has one dimension for "
            "each ragged one that its elements lack"
        )
    return [*[(None,)] * wanted, None]


@op(
    "RaggedTensorFromVariant",
    inputs="encoded_ragged: variant",
    outputs="output_nested_splits: output_ragged_rank * Tsplits; output_dense_values: Tvalues",
    attrs="input_ragged_rank: int >= -1; output_ragged_rank: int >= 0; Tvalues: type; "
    "Tsplits: {int32, int64} = DT_INT64",
    shape=_decoded_shapes,
    traits={NEVER_FOLDED, ALIASES},
)
def ragged_tensor_from_variant_op(
    xp: Any,
    encoded_ragged: Any,
    *,
    input_ragged_rank: int,
    output_ragged_rank: int,
    Tvalues: DType,
    Tsplits: DType,
) -> tuple[Any, ...]:
    """Row splits, from the outermost on, and values: all elements, each of input_ragged_rank, as one ragged tensor.

    Where it is -1 and there is one dimension too many, the elements are parts of rows, all of one shape.

    Raises InvalidArgument (ranks, types, what is no ragged tensor, rows that do not fit together).
    """
    dims = np.ndim(encoded_ragged)
    rank = output_ragged_rank - dims if input_ragged_rank == -1 else input_ragged_rank
    if rank < -1 or rank + dims != output_ragged_rank:
        raise errors.invalid_argument(
            "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); output_ragged_rank: "
            f"{output_ragged_rank} input_ragged_rank: {rank} encoded_ragged.dims(): {dims}"
        )
    rows = _ragged(encoded_ragged, max(rank, 0), Tvalues, Tsplits)
    if not dims:
        return tuple(rows[0].values)
    splits: list[Array] = []
    count = 1
    sizes = np.shape(encoded_ragged)
    for at in range(1, dims):  # rows of these are equally long
        count *= sizes[at - 1]
        splits.append(np.arange(count + 1, dtype=Tsplits.np) * sizes[at])
    if rank < 0:
        return (*splits, _stacked(rows, Tvalues))
    lengths = [len(row.values[0]) - (1 if rank else 0) for row in rows]
    splits.append(_ends(lengths, Tsplits))
    for level in range(rank):
        each = [row.values[level] for row in rows]
        splits.append(_ends([int(n) for part in each for n in np.diff(part)], Tsplits))
    return (*splits, _values(rows, Tvalues))


def _ends(lengths: list[int], kind: DType) -> Array:
    return np.concatenate([np.zeros(1, kind.np), np.cumsum(lengths, dtype=kind.np)]).astype(kind.np)


def _values(rows: list[RaggedRow], kind: DType) -> Array:
    parts = [row.values[-1] for row in rows]
    if not parts:
        return np.empty(0, kind.np)
    for at, part in enumerate(parts):
        if part.shape[1:] != parts[0].shape[1:] or not part.ndim:
            raise errors.invalid_argument(
                "All flat_values must have compatible shapes.  Shape at index 0: "
                f"{text(parts[0].shape)}.  Shape at index {at}: {text(part.shape)}."
            )
    return np.concatenate(parts)


def _stacked(rows: list[RaggedRow], kind: DType) -> Array:
    parts = [row.values[-1] for row in rows]
    if any(part.shape != parts[0].shape for part in parts):
        shapes = ", ".join(sorted({text(part.shape) for part in parts}))
        raise errors.invalid_argument(f"All flat_values must have one shape to be joined: {shapes}")
    return np.stack(parts) if parts else np.empty(0, kind.np)


@ragged_tensor_from_variant_op.gradient
def _(op: Operation, *douts: Any) -> Any:
    raw = op.inputs[0].raw_shape
    if raw is None or len(raw) > 1:
        raise ValueError(
            "Unable to compute gradient: RaggedTensorToVariant can currently only generate 0D or 1D output."
        )
    splits = list(op.outputs[:-1])
    return ragged_tensor_to_variant_op(splits, douts[-1], batched_input=len(raw) == 1)


@op(
    "RaggedTensorToVariantGradient",
    inputs="encoded_ragged_grad: variant; row_splits: Tsplits; dense_values_shape: int32",
    outputs="dense_values_grad: Tvalues",
    attrs="Tvalues: type; Tsplits: {int32, int64} = DT_INT64",
    shape=lambda c: c.shape_value("dense_values_shape"),
    traits={NEVER_FOLDED, ALIASES},
    differentiable=False,
)
def ragged_tensor_to_variant_gradient_op(
    xp: Any, encoded_ragged_grad: Any, row_splits: Any, dense_values_shape: Any, *, Tvalues: DType
) -> Array:
    """The values of all rows, one after another, in that shape.  Raises InvalidArgument."""
    if row_splits.ndim == 1 and row_splits.size and row_splits[0]:
        raise errors.invalid_argument(
            "Invalid ragged splits: first element of ragged splits  must be 0 but is "
            f"{row_splits[0]}"
        )
    found = each_of(encoded_ragged_grad)
    rank = len(found[0].values) - 1 if found and isinstance(found[0], RaggedRow) else 0
    kind = found[0].kinds[0] if rank else Tvalues
    rows = _ragged(encoded_ragged_grad, rank, Tvalues, kind)
    shape = checked_sizes(dense_values_shape, "dense_values_shape")
    if not rows:
        nothing: Array = zeros_of(Tvalues, shape)
        return nothing
    if not rank and not row_splits.ndim and np.ndim(encoded_ragged_grad):
        values = np.stack([row.values[-1] for row in rows])
    else:
        values = _values(rows, Tvalues)
    if values.shape != shape:
        raise errors.invalid_argument(
            f"Invalid shape for the gradient of ragged values: {text(values.shape)} came, and the values have "
            f"{text(shape)}"
        )
    return values
