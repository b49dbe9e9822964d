"""Strings joined: neighbours in rows, and those of one segment.

Called by: library.ragged_strings, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/string_ngrams_op.cc, unsorted_segment_join_op.cc)
"""

from __future__ import annotations

from itertools import chain, pairwise
from math import prod
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.limits import Growth
from headrace.base.shapes import Shape, text
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor

__all__ = ["unsorted_segment_join"]

Array = np.ndarray[Any, Any]


def _ngram_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("data", 1)
    return [(None,), c.with_rank("data_splits", 1)]


@op(
    "StringNGrams",
    inputs="data: string; data_splits: Tsplits",
    outputs="ngrams: string; ngrams_splits: Tsplits",
    attrs="separator: string; ngram_widths: list(int) >= 0; left_pad: string; right_pad: string; pad_width: int; "
    "preserve_short_sequences: bool; Tsplits: {int32, int64} = int64",
    shape=_ngram_shapes,
    differentiable=False,
)
def string_ngrams_op(
    xp: Any,
    data: Array,
    data_splits: Array,
    *,
    separator: bytes,
    ngram_widths: list[int],
    left_pad: bytes,
    right_pad: bytes,
    pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Array, Array]:
    """For each row every run of so many neighbours, joined; of the first width, then of the second.

    data [n]; data_splits [rows + 1].  pad_width: how many pads stand on either side at most, -1 for one less than the
    width.  Raises InvalidArgument for splits that do not fit and widths below 1, ResourceExhausted (`base.limits`).
    """
    _check(data, data_splits, ngram_widths)
    words, splits = data.tolist(), data_splits.tolist()
    growth = Growth("the n-grams that are joined here")
    out: list[bytes] = []
    ends = [0] if splits else []
    for first, last in pairwise(splits):
        row, before = words[first:last], len(out)
        for width in ngram_widths:
            pads = width - 1 if pad_width < 0 else min(pad_width, width - 1)
            padded = [left_pad] * pads + row + [right_pad] * pads
            count = max(0, len(padded) - width + 1)
            growth.add(sum(map(len, padded)) * min(width, count) + count * width * len(separator))
            out += [separator.join(padded[at : at + width]) for at in range(count)]
        if preserve_short_sequences and len(out) == before and row:
            pads = max(pad_width, 0)
            out.append(separator.join([left_pad] * pads + row + [right_pad] * pads))
        ends.append(len(out))
    found = np.empty(len(out), object)
    found[:] = out
    return found, np.array(ends, data_splits.dtype)


def _check(data: Array, splits: Array, widths: list[int]) -> None:
    if data.ndim != 1 or splits.ndim != 1:
        raise errors.invalid_argument(
            f"data and data_splits must be vectors, not {text(data.shape)} and {text(splits.shape)}"
        )
    if any(width <= 0 for width in widths):
        raise errors.invalid_argument(f"ngram_widths must contain positive values: {widths}")
    listed = splits.tolist()
    if not listed:
        return
    if listed[0] != 0:
        raise errors.invalid_argument(f"First split value must be 0, got {listed[0]}")
    for before, after in pairwise(listed):
        if not before <= after <= len(data):
            raise errors.invalid_argument(
                f"Invalid split value {after}, must be in [{before}, {len(data)}]"
            )
    if listed[-1] != len(data):
        raise errors.invalid_argument(
            f"Last split value must be data size. Expected {len(data)}, got {listed[-1]}"
        )


def _joined_shape(c: ShapeContext) -> Shape:
    ids, whole = c.with_rank_at_least("segment_ids", 1), c.shape("inputs")
    count = c.value("num_segments")
    c.with_rank("num_segments", 0)
    if ids is None or whole is None:
        return None
    c.with_rank_at_least("inputs", len(ids))
    for size, given in zip(ids, whole, strict=False):
        if size is not None and given is not None and size != given:
            raise ValueError(
                f"Dimensions must be equal, but are {given} and {size}: inputs {text(whole)}, segment_ids {text(ids)}"
            )
    return (None if count is None else int(count), *whole[len(ids) :])


@op(
    "UnsortedSegmentJoin",
    inputs="inputs: string; segment_ids: Tindices; num_segments: Tnumsegments",
    outputs="output: string",
    attrs="separator: string = ''; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = int32",
    shape=_joined_shape,
    differentiable=False,
)
def unsorted_segment_join_op(
    xp: Any, inputs: Any, segment_ids: Any, num_segments: Any, *, separator: bytes
) -> Array:
    """The strings of each segment, joined in their order.

    inputs [...segment_ids.shape, ...rest]; output [num_segments, ...rest].
    Raises InvalidArgument for shapes that do not fit and ids that are out of range, ResourceExhausted (`base.limits`).
    """
    if np.ndim(num_segments):
        raise errors.invalid_argument(
            f"Number of segments must be a scalar, not {text(np.shape(num_segments))}"
        )
    count, ids, strings = int(num_segments), np.asarray(segment_ids), np.asarray(inputs)
    if count < 0:
        raise errors.invalid_argument(f"Number of segments must be non-negative but got {count}")
    if not ids.ndim:
        raise errors.invalid_argument("Segment_id cannot have rank 0: a vector or more is needed")
    if ids.ndim > strings.ndim:
        raise errors.invalid_argument(
            f"Invalid segment_id rank {ids.ndim} for input with {strings.ndim} dimension(s)"
        )
    for at in range(ids.ndim):
        if ids.shape[at] != strings.shape[at]:
            raise errors.invalid_argument(
                f"Segment dimension is {ids.shape[at]} while input dimension is {strings.shape[at]} in rank {at}"
            )
    bad = (ids < 0) | (ids >= count)
    if bad.any():
        raise errors.invalid_argument(
            "segment_ids are not allowed to exceed num_segments or to have negative values: one is "
            f"{ids[bad].reshape(-1)[0]} of {count}"
        )
    rest = strings.shape[ids.ndim :]
    rows = strings.reshape((ids.size, prod(rest))).tolist() if strings.size else []
    growth = Growth("the strings that are joined here")
    growth.add(8 * count * prod(rest) + len(separator) * strings.size)
    parts: list[list[list[bytes]]] = [[[] for _ in range(prod(rest))] for _ in range(count)]
    for at, row in zip(ids.reshape(-1).tolist(), rows, strict=False):
        for listed, value in zip(parts[at], row, strict=True):
            listed.append(value)
    out = np.empty((count, *rest), object)
    out.reshape(-1)[:] = [separator.join(each) for each in chain.from_iterable(parts)]
    return out


def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """The strings whose id is i, joined in their order, as row i."""
    made: Tensor = unsorted_segment_join_op(
        inputs, segment_ids, num_segments, separator=separator, name=name
    )
    return made
