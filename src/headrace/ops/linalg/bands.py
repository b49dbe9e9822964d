"""Bands of matrices, and diagonals of tensors of any rank.

Called by: users, gradients.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/matrix_band_part_op.cc, diag_op.cc).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor

__all__ = ["diag", "diag_part", "matrix_band_part"]

# -- bands ------------------------------------------------------------------------------------


def _banded(xp: Any, input: Any, num_lower: Any, num_upper: Any) -> Any:
    """The matrices with everything outside the band set to zero.

    input [..., rows, cols]; num_lower, num_upper []: how many diagonals below and above the main
    one stay, negative for all.  Raises InvalidArgument if there are not so many.
    """
    if np.ndim(input) < 2:
        raise errors.invalid_argument(
            f"input must be at least 2-dim, received shape: {text(np.shape(input))}"
        )
    rows, cols = input.shape[-2:]
    for what, count, limit, side in (
        ("num_lower", num_lower, rows, "rows"),
        ("num_upper", num_upper, cols, "columns"),
    ):
        if np.ndim(count):
            raise errors.invalid_argument(
                f"{what} must be a scalar, but has shape {list(np.shape(count))}"
            )
        if count > limit:
            raise errors.invalid_argument(
                f"{what} must be negative or less or equal to number of {side} ({limit}) got: {int(count)}"
            )
    below = np.arange(rows)[:, None] - np.arange(cols)
    kept = np.ones((rows, cols), bool)
    if num_lower >= 0:
        kept &= below <= int(num_lower)
    if num_upper >= 0:
        kept &= -below <= int(num_upper)
    return np.where(kept, input, np.zeros((), input.dtype)).astype(input.dtype, copy=False)


matrix_band_part = op(
    "MatrixBandPart",
    inputs="input: T; num_lower: Tindex; num_upper: Tindex",
    outputs="band: T",
    attrs="T: type; Tindex: {int32, int64} = int64",
    shape=unchanged,
)(_banded)

batch_matrix_band_part_op = op(
    "BatchMatrixBandPart",
    inputs="input: T; num_lower: int64; num_upper: int64",
    outputs="band: T",
    attrs="T: type",
    shape=unchanged,
)(_banded)


@matrix_band_part.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    return matrix_band_part(dout, op.inputs[1], op.inputs[2]), None, None


# -- Diag, of any rank ------------------------------------------------------------------------

_DIAG_TYPES = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"


def _twice(c: ShapeContext) -> Shape:
    whole = c.with_rank_at_least("diagonal", 1)
    return None if whole is None else whole + whole


@op("Diag", inputs="diagonal: T", outputs="output: T", attrs=_DIAG_TYPES, shape=_twice)
def diag_op(xp: Any, diagonal: Any) -> Any:
    """out[i..., i...] = diagonal[i...], zero elsewhere: shape d to shape d + d.

    Raises InvalidArgument for a scalar.
    """
    if np.ndim(diagonal) < 1:
        raise errors.invalid_argument("Input must be at least rank 1, got 0: diagonal is a scalar")
    count = diagonal.size
    out = np.zeros((count, count), diagonal.dtype)
    out[np.arange(count), np.arange(count)] = diagonal.reshape(-1)
    return out.reshape(diagonal.shape + diagonal.shape)


def _half(c: ShapeContext) -> Shape:
    whole = c.shape("input")
    if whole is None:
        return None
    if not whole or len(whole) % 2:
        raise ValueError(
            f"Input must have even and non-zero rank, input rank is {len(whole)}: its shape is {text(whole)}"
        )
    middle = len(whole) // 2
    pairs = zip(whole[:middle], whole[middle:], strict=True)
    return tuple(
        shape_rules.merge_sizes(
            x, y, f"the halves of the input's shape {text(whole)} must be the same"
        )
        for x, y in pairs
    )


@op("DiagPart", inputs="input: T", outputs="diagonal: T", attrs=_DIAG_TYPES, shape=_half)
def diag_part_op(xp: Any, input: Any) -> Any:
    """out[i...] = input[i..., i...]: shape d + d to shape d.

    Raises InvalidArgument if the shape is not of that form.
    """
    sizes = np.shape(input)
    middle = len(sizes) // 2
    if len(sizes) % 2 or sizes[:middle] != sizes[middle:]:
        pairs = enumerate(zip(sizes[:middle], sizes[middle:], strict=False))
        says = next(
            (
                f"Invalid shape {text(sizes)}: dimensions {at} and {at + middle} do not match"
                for at, (one, other) in pairs
                if one != other and not len(sizes) % 2
            ),
            f"The rank of the tensor should be even and positive, got shape {text(sizes)}",
        )
        raise errors.invalid_argument(f"{says}: it must be twice the same sizes")
    count = int(np.prod(sizes[:middle], dtype=np.int64))
    flat = input.reshape(count, count)
    return flat[np.arange(count), np.arange(count)].reshape(sizes[:middle])


@diag_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    made: Tensor = diag_part_op(dout)
    return made


@diag_part_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    made: Tensor = diag_op(dout)
    return made


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """A tensor of shape d + d with `diagonal`, of shape d, on its diagonal."""
    made: Tensor = diag_op(diagonal, name=name)
    return made


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """The diagonal, of shape d, of a tensor of shape d + d."""
    made: Tensor = diag_part_op(input, name=name)
    return made
