"""Edit distances between sequences that lie in two sparse tensors.

Called by: users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/edit_distance_op.cc); GraphDefs as 2.21
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.base.traits import ITERATES
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.sparse_keys import places_in_runs, runs
from headrace.ops.sparse.cutting import checked_indices
from headrace.ops.sparse.maps import checked_sparse

__all__ = ["edit_distance"]

Array = np.ndarray[Any, Any]


def _shape(c: ShapeContext) -> Shape:
    for side in ("hypothesis", "truth"):
        c.with_sparse(f"{side}_indices", f"{side}_values", f"{side}_shape")
    one, other = c.value("hypothesis_shape"), c.value("truth_shape")
    if one is None or other is None:
        return None
    _checked_sizes(one, other, ValueError)
    return tuple(np.maximum(one, other)[:-1].tolist())


def _checked_sizes(one: Array, other: Array, kind: Any) -> None:
    if len(one) != len(other):
        raise kind(
            f"Num elements of hypothesis_shape does not match truth_shape: {len(one)} vs. {len(other)}"
        )
    if len(one) < 2:
        raise kind(
            f"Input Hypothesis SparseTensors must have rank at least 2, but hypothesis_shape rank is: {len(one)}"
        )


@op(
    "EditDistance",
    inputs="hypothesis_indices: int64; hypothesis_values: T; hypothesis_shape: int64; "
    "truth_indices: int64; truth_values: T; truth_shape: int64",
    outputs="output: float",
    attrs="normalize: bool = true; T: type",
    shape=_shape,
    traits={ITERATES},
    differentiable=False,
)
def edit_distance_op(
    xp: Any,
    hypothesis_indices: Array,
    hypothesis_values: Array,
    hypothesis_shape: Array,
    truth_indices: Array,
    truth_values: Array,
    truth_shape: Array,
    *,
    normalize: bool,
) -> Any:
    """The Levenshtein distance of each sequence of the last dimension and the one at the same place.

    normalize: over the length of the truth; infinite for something where there is no truth.
    Raises InvalidArgument for parts that do not fit.
    """
    checked_sparse(hypothesis_indices, hypothesis_values, hypothesis_shape)
    checked_sparse(truth_indices, truth_values, truth_shape)
    _checked_sizes(hypothesis_shape, truth_shape, errors.invalid_argument)
    sizes = np.maximum(hypothesis_shape, truth_shape)[:-1].tolist()
    if min(sizes) < 0 or prod(sizes) >= 1 << 62:
        raise errors.invalid_argument(f"the output's shape {sizes} is negative, or too large")
    checked_indices(hypothesis_indices, hypothesis_shape)
    checked_indices(truth_indices, truth_shape)
    values = np.concatenate([hypothesis_values, truth_values])
    codes = np.unique(values, return_inverse=True)[1].reshape(-1)
    of_hypothesis = _groups(hypothesis_indices, codes[: len(hypothesis_values)], sizes)
    of_truth = _groups(truth_indices, codes[len(hypothesis_values) :], sizes)
    places = np.union1d(of_hypothesis[0], of_truth[0])
    one, lengths = _padded(*of_hypothesis, places)
    other, wanted = _padded(*of_truth, places)
    found = _distances(one, lengths, other, wanted).astype(np.float32)
    if normalize:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(wanted > 0, found / wanted, np.where(lengths > 0, np.inf, 0)).astype(
                np.float32
            )
    out = np.zeros(sizes, np.float32)
    out.reshape(-1)[places] = found
    return out


def _groups(indices: Array, codes: Array, sizes: list[int]) -> tuple[Array, Array, Array]:
    """Where each element's sequence is in the output, flat; the elements, and where sequences begin, by place."""
    flat = np.zeros(len(indices), np.int64)
    for column, size in enumerate(sizes):
        flat = flat * size + indices[:, column]
    order = np.argsort(flat, kind="stable")
    starts = runs(flat[order])
    return flat[order][starts], codes[order], starts


def _padded(keys: Array, codes: Array, starts: Array, places: Array) -> tuple[Array, Array]:
    """Sequences as rows, one a place, and their lengths."""
    rows = np.repeat(np.searchsorted(places, keys), np.diff(np.append(starts, len(codes))))
    lengths = np.bincount(rows, minlength=len(places))
    out = np.full((len(places), lengths.max(initial=0)), -1, np.int64)
    out[rows, places_in_runs(starts, len(codes))] = codes
    return out, lengths


def _distances(one: Array, lengths: Array, other: Array, wanted: Array) -> Array:
    """The distance of each row of one to that of other: all rows and columns of a table at once, row by row."""
    steps = np.arange(other.shape[1] + 1)
    row = np.broadcast_to(steps, (len(one), len(steps))).copy()
    found = np.take_along_axis(row, wanted[:, None], 1)[:, 0]
    for at in range(one.shape[1]):
        replaced = row[:, :-1] + (one[:, at : at + 1] != other)
        best = np.empty_like(row)
        best[:, 0] = at + 1
        best[:, 1:] = np.minimum(row[:, 1:] + 1, replaced)
        row = np.minimum.accumulate(best - steps, axis=1) + steps
        here = np.take_along_axis(row, wanted[:, None], 1)[:, 0]
        found = np.where(lengths == at + 1, here, found)
    return found


def edit_distance(
    hypothesis: Any, truth: Any, normalize: bool = True, name: str | None = "edit_distance"
) -> Tensor:
    """The Levenshtein distance of each sequence (last dimension) of two SparseTensors, over the truth's length.

    Raises TypeError for what is not sparse.
    """
    sides = []
    for what, given in (("Hypothesis", hypothesis), ("Truth", truth)):
        if not isinstance(given, (SparseTensor, SparseTensorValue)):
            raise TypeError(f"{what} must be a SparseTensor. It is {given!r:.80}")
        sides.append(
            SparseTensor.from_value(given) if isinstance(given, SparseTensorValue) else given
        )
    parts = [part for each in sides for part in (each.indices, each.values, each.dense_shape)]
    made: Tensor = edit_distance_op(*parts, normalize=normalize, name=name)
    assert made.dtype is dtypes.float32
    return made
