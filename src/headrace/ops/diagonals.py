"""Diagonals of matrices and tensors: taking them out, making matrices of them, the trace.

Called by: users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/diag_op.cc, matrix_diag_op.cc; the V3 ops as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.constants import constant
from headrace.ops.reductions import reduce_sum
from headrace.ops.tables import FLOATS, make

__all__ = ["diag", "diag_part", "matrix_diag", "matrix_diag_part", "trace"]

_DIAG_TYPES = f"T: {{{FLOATS}, int32, int64, complex64, complex128}}"

# -- Diag: a tensor of twice the rank -----------------------------------------------------------


def _doubled(c: ShapeContext) -> Shape:
    shape = c.with_rank_at_least("diagonal", 1)
    return None if shape is None else shape + shape


@op("Diag", inputs="diagonal: T", outputs="output: T", attrs=_DIAG_TYPES, shape=_doubled)
def diag(xp: Any, diagonal: Any) -> Any:
    """Zeros, but for output[i, …, i, …] = diagonal[i, …].

    diagonal [d1..dk]; output [d1..dk, d1..dk].
    Raises InvalidArgument for a scalar.
    Source: TF 1.15 core/kernels/diag_op.cc
    """
    if diagonal.ndim == 0:
        raise errors.invalid_argument("diagonal must have at least one dimension, but is a scalar")
    out = np.zeros((diagonal.size, diagonal.size), diagonal.dtype)
    np.fill_diagonal(out, diagonal.ravel())
    return out.reshape(diagonal.shape * 2)


@diag.gradient
def _(op: Operation, dout: Any) -> Any:
    return diag_part(dout)


def _halved(c: ShapeContext) -> Shape:
    shape = c.shape("input")
    if shape is None:
        return None
    if not shape or len(shape) % 2:
        raise ValueError(
            f"input must have an even rank above 0, but has shape {shape_rules.text(shape)}"
        )
    half = len(shape) // 2
    return shape_rules.merge(shape[:half], shape[half:])


@op("DiagPart", inputs="input: T", outputs="diagonal: T", attrs=_DIAG_TYPES, shape=_halved)
def diag_part(xp: Any, input: Any) -> Any:
    """diagonal[i, …] = input[i, …, i, …].

    input [d1..dk, d1..dk]; diagonal [d1..dk].
    Raises InvalidArgument for other shapes.
    Source: TF 1.15 core/kernels/diag_op.cc
    """
    half = input.ndim // 2
    if input.ndim == 0 or input.ndim % 2 or input.shape[:half] != input.shape[half:]:
        raise errors.invalid_argument(
            f"input must have a shape [d1..dk, d1..dk], but has {list(input.shape)}"
        )
    side = int(np.prod(input.shape[:half]))
    return input.reshape(side, side).diagonal().reshape(input.shape[:half]).copy()


@diag_part.gradient
def _(op: Operation, dout: Any) -> Any:
    return diag(dout)


# -- MatrixDiagPart: diagonals k[0] .. k[1] of each matrix --------------------------------------

_ALIGNED = "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"


def _band(k: Any) -> tuple[int, int]:
    """The lowest and highest diagonal meant by k.  Raises ValueError."""
    values = [int(v) for v in np.asarray(k).reshape(-1)]
    if len(values) not in (1, 2) or values[0] > values[-1]:
        raise ValueError(f"k must be one diagonal, or a lowest and a highest, not {values}")
    return values[0], values[-1]


def _length(rows: int, columns: int, k: int) -> int:
    """Elements of diagonal k."""
    return max(0, min(rows + min(k, 0), columns - max(k, 0)))


def _start(length: int, longest: int, k: int, align: bytes) -> int:
    """Where a diagonal's first element stands in its row of length `longest`."""
    upper, lower = align.split(b"_")
    side = upper if k > 0 else lower if k < 0 else b"LEFT"
    return longest - length if side == b"RIGHT" else 0


def _part_shape(c: ShapeContext) -> Shape:
    shape = c.with_rank_at_least("input", 2)
    k = c.value("k")
    if shape is None or k is None:
        return None
    low, high = _band(k)
    rows, columns = shape[-2:]
    known = rows is not None and columns is not None
    longest = max(_length(rows, columns, d) for d in range(low, high + 1)) if known else None  # type: ignore[arg-type]
    return (*shape[:-2], longest) if low == high else (*shape[:-2], high - low + 1, longest)


@op(
    "MatrixDiagPartV3",
    inputs="input: T; k: int32; padding_value: T",
    outputs="diagonal: T",
    attrs=f"T: type; {_ALIGNED}",
    shape=_part_shape,
)
def matrix_diag_part_v3(xp: Any, input: Any, k: Any, padding_value: Any, *, align: bytes) -> Any:
    """Diagonals k[0] to k[1] of matrices, the highest first; short ones are padded as `align` says.

    input [..., m, n]; diagonal [..., l] for one, [..., k[1]-k[0]+1, l] for several, l the longest.
    Raises InvalidArgument if input is no matrix or a diagonal lies outside it.
    Source: TF 2.2 core/kernels/matrix_diag_op.cc
    """
    if input.ndim < 2:
        raise errors.invalid_argument(f"input must be matrices, but has shape {list(input.shape)}")
    low, high = _checked_band(k, input.shape[-2:])
    rows, columns = input.shape[-2:]
    longest = max(_length(rows, columns, d) for d in range(low, high + 1))
    out = np.empty((*input.shape[:-2], high - low + 1, longest), input.dtype)
    out[...] = padding_value
    for row, d in enumerate(range(high, low - 1, -1)):
        length = _length(rows, columns, d)
        start = _start(length, longest, d, align)
        out[..., row, start : start + length] = np.diagonal(input, d, -2, -1)
    return out[..., 0, :] if low == high else out


def _checked_band(k: Any, sides: tuple[int, ...]) -> tuple[int, int]:
    try:
        low, high = _band(k)
    except ValueError as error:
        raise errors.invalid_argument(str(error)) from None
    rows, columns = sides
    for d in (low, high):
        if not (-rows < d < columns or d == 0):
            raise errors.invalid_argument(
                f"diagonal {d} lies outside a matrix of shape [{rows}, {columns}]"
            )
    return low, high


@matrix_diag_part_v3.gradient
def _(op: Operation, dout: Any) -> tuple[Any, None, None]:
    x, k = op.inputs[0], op.inputs[1]
    sides = (None, None) if x.raw_shape is None else x.raw_shape[-2:]
    if None in sides:
        sizes = make.Shape(x)
        sides = (sizes[-2], sizes[-1])
    with name_scope("diag") as scope:
        made = matrix_diag_v3(dout, k, *sides, constant(0, dout.dtype.base_dtype, name="padding_value"),
                              align=op["align"], name=scope)  # fmt: skip
    return made, None, None


# -- MatrixDiag -------------------------------------------------------------------------------


def _diag_shape(c: ShapeContext) -> Shape:
    shape = c.with_rank_at_least("diagonal", 1)
    values = [c.value(arg) for arg in ("k", "num_rows", "num_cols")]
    if shape is None or any(value is None for value in values):
        return None
    low, high = _band(values[0])
    batch = shape[:-1] if low == high else shape[:-2]
    if shape[-1] is None:
        return (*batch, None, None)
    return (*batch, *_sides(shape[-1], low, high, int(values[1]), int(values[2])))  # type: ignore[arg-type]


def _sides(longest: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of the matrix, -1 being as few as possible.  Raises ValueError."""
    least_rows, least_columns = longest - min(high, 0), longest + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    elif rows == -1:
        rows = least_rows
    elif columns == -1:
        columns = least_columns
    if (
        rows < least_rows
        or columns < least_columns
        or (rows != least_rows and columns != least_columns)
    ):
        raise ValueError(
            f"{rows} rows and {columns} columns do not fit diagonals {low} to {high} of {longest} elements"
        )
    return rows, columns


@op(
    "MatrixDiagV3",
    inputs="diagonal: T; k: int32; num_rows: int32; num_cols: int32; padding_value: T",
    outputs="output: T",
    attrs=f"T: type; {_ALIGNED}",
    shape=_diag_shape,
)
def matrix_diag_v3(
    xp: Any,
    diagonal: Any,
    k: Any,
    num_rows: Any,
    num_cols: Any,
    padding_value: Any,
    *,
    align: bytes,
) -> Any:
    """Matrices with given diagonals k[0] to k[1] and `padding_value` elsewhere.

    diagonal as of MatrixDiagPartV3; num_rows, num_cols: -1 for as few as hold the diagonals.
    Raises InvalidArgument if they do not fit.
    Source: TF 2.2 core/kernels/matrix_diag_op.cc
    """
    try:
        low, high = _band(k)
        if diagonal.ndim < (1 if low == high else 2):
            raise ValueError(
                f"diagonal has shape {list(diagonal.shape)}, too few dimensions for k {low} to {high}"
            )
        longest = diagonal.shape[-1]
        rows, columns = _sides(longest, low, high, int(num_rows), int(num_cols))
    except ValueError as error:
        raise errors.invalid_argument(str(error)) from None
    if low == high:
        diagonal = diagonal[..., np.newaxis, :]
    if diagonal.shape[-2] != high - low + 1:
        raise errors.invalid_argument(
            f"diagonal has {diagonal.shape[-2]} rows for the {high - low + 1} diagonals from {low} to {high}"
        )
    out = np.empty((*diagonal.shape[:-2], rows, columns), diagonal.dtype)
    out[...] = padding_value
    for row, d in enumerate(range(high, low - 1, -1)):
        length = _length(rows, columns, d)
        start = _start(length, longest, d, align)
        index = np.arange(length)
        out[..., index - min(d, 0), index + max(d, 0)] = diagonal[..., row, start : start + length]
    return out


@matrix_diag_v3.gradient
def _(op: Operation, dout: Any) -> tuple[Any, None, None, None, Any]:
    k = op.inputs[1]
    align = op["align"].decode()
    inside = matrix_diag_part(dout, k=k, align=align)
    # What is not on a diagonal came from the padding value.
    total = reduce_sum(dout)
    return inside, None, None, None, make.Sub(total, reduce_sum(inside), name="sub")


def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with the given diagonals k (one, or lowest and highest), `padding_value` elsewhere."""
    with name_scope(name, "diag", [diagonal]) as scope:
        diagonal = convert(diagonal, name="diagonal")
        padding = _padding(padding_value, diagonal)
        made: Tensor = matrix_diag_v3(
            diagonal, k, num_rows, num_cols, padding, align=align, name=scope
        )
        return made


def matrix_diag_part(
    input: Any,
    name: str = "diag_part",
    k: Any = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """The diagonals k (one, or lowest and highest) of matrices, short ones padded."""
    with name_scope(name, "diag_part", [input]) as scope:
        input = convert(input, name="input")
        made: Tensor = matrix_diag_part_v3(
            input, k, _padding(padding_value, input), align=align, name=scope
        )
        return made


def _padding(value: Any, like: Tensor) -> Any:
    if like.dtype.base_dtype is dtypes.bool and not isinstance(value, Tensor):
        value = bool(value)
    return value


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of the main diagonal of matrices [..., m, n]."""
    with name_scope(name, "Trace", [x]) as scope:
        x = convert(x, name="x")
        total: Tensor = reduce_sum(matrix_diag_part(x), [-1], name=scope)
        return total
