"""Labels of sequences before a ctc loss: repetitions taken out, distinct ones found.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ctc_ops.py)
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.functional import map_fn
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.constants import ones_like
from headrace.ops.array.gathering import gather_nd, scatter_nd
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import pad
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.unique import unique
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import logical_and, not_equal
from headrace.ops.math.reductions import reduce_max, reduce_sum
from headrace.ops.tables import make

__all__ = ["collapse_repeated", "ctc_unique_labels"]


def collapse_repeated(
    labels: Any, seq_length: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """labels [batch, length] without those that repeat the one before, and how many are left of each, [batch].

    seq_length [batch]: how many count.  What is left is padded with zeros to the longest.
    """
    with name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels = convert_to_tensor(labels, name="labels")
        seq_length = convert_to_tensor(seq_length, name="seq_length")
        first = cast(ones_like(labels[:, :1]), dtypes.bool)
        new = concat([first, not_equal(labels[:, 1:], labels[:, :-1])], axis=1)
        kept = logical_and(new, sequence_mask(seq_length, shape_of(labels)[1]))
        counts = reduce_sum(cast(kept, dtypes.int32), axis=1)
        flat = gather_nd(labels, make.Where(kept))
        longest = reduce_max(counts)
        places = make.Where(sequence_mask(counts, longest))
        size = stack([shape_of(labels)[0], longest])
        made = scatter_nd(cast(places, dtypes.int32), flat, size)
        return made, cast(counts, seq_length.dtype)


def ctc_unique_labels(labels: Any, name: str | None = None) -> list[Tensor]:
    """The distinct labels of each row of [batch, length], padded with zeros, and which of them each label is."""
    with name_scope(name, "ctc_unique_labels", [labels]):
        labels = convert_to_tensor(labels, name="labels")

        def of_row(row: Tensor) -> list[Tensor]:
            distinct, place = unique(row)
            missing = shape_of(row)[0] - shape_of(distinct)[0]
            return [cast(pad(distinct, [[0, missing]]), dtypes.int64), place]

        found: list[Tensor] = map_fn(of_row, labels, dtype=[dtypes.int64, dtypes.int32])
        return found
