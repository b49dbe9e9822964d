"""Diagonals of matrices.

A band of diagonals k0..k1 of a [rows, cols] matrix is stored as a [k1 - k0 + 1, longest] matrix,
highest diagonal first, each aligned left or right in its row.
Called by: users, gradients.  Threads: any.
Source: behaviour of TF 1.15 and 2.21 (core/kernels/matrix_diag_op.cc,
matrix_set_diag_op.cc), GraphDefs as 2.21.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_scalar
from headrace.ops.array.constants import ones, zeros, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.tables import make

__all__ = ["eye", "matrix_diag", "matrix_diag_part", "matrix_set_diag"]

_ALIGN = "T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"


class Band(NamedTuple):
    """Diagonals low..high of a [rows, cols] matrix; 0 is the main one, positive ones are above it."""

    rows: int
    cols: int
    low: int
    high: int

    @property
    def longest(self) -> int:
        return max(min(self.rows + min(self.high, 0), self.cols - max(self.low, 0)), 0)

    def places(self, align: bytes) -> tuple[Any, Any, Any, Any]:
        """Where elements are in the stored band (row, column) and in the matrix (row, column)."""
        above, below = align.split(b"_")
        found = []
        for m, diagonal in enumerate(range(self.high, self.low - 1, -1)):
            length = max(min(self.cols - max(diagonal, 0), self.rows + min(diagonal, 0)), 0)
            right = (diagonal >= 0 and above == b"RIGHT") or (diagonal <= 0 and below == b"RIGHT")
            n = np.arange(length)
            shift = self.longest - length if right else 0
            found.append(
                (np.full(length, m), n + shift, n + max(-diagonal, 0), n + max(diagonal, 0))
            )
        stored_row, stored_column, row, column = (
            np.concatenate(parts) for parts in zip(*found, strict=True)
        )
        return stored_row, stored_column, row, column


def limits_of(k: Any) -> tuple[int, int]:
    """(low, high) of a k input: a scalar, or a vector of one or two."""
    flat = np.reshape(k, -1)
    if np.ndim(k) > 1 or not 1 <= len(flat) <= 2:
        raise errors.invalid_argument(
            f"the diagonal index k must be a scalar or a vector of one or two elements, not {np.asarray(k).tolist()}"
        )
    low, high = int(flat[0]), int(flat[-1])
    if low > high:
        raise errors.invalid_argument(
            f"the lower diagonal index {low} must not be above the upper one, {high}"
        )
    return low, high


def band_of(sizes: tuple[int, ...], k: Any) -> Band:
    if len(sizes) < 2:
        raise errors.invalid_argument(
            f"input must be at least 2-dim, received shape: {text(sizes)}"
        )
    rows, cols = sizes[-2:]
    low, high = limits_of(k)
    for which in (low, high):
        if which and not -rows < which < cols:
            raise errors.invalid_argument(
                f"diagonal index {which} must be between {-rows} and {cols} for matrices of {rows} x {cols}"
            )
    return Band(rows, cols, low, high)


# -- MatrixDiagPart ---------------------------------------------------------------------------


def _static_limits(c: ShapeContext, arg: str = "k") -> tuple[int, int] | None:
    c.with_rank_at_most(arg, 1)
    k = c.value(arg)
    if k is None:
        return None
    try:
        return limits_of(k)
    except errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None


def _check_limits(matrix: Shape, limits: tuple[int, int] | None) -> None:
    """Raises ValueError for diagonals that matrices of that size do not have."""
    if matrix is None or limits is None or None in matrix[-2:]:
        return
    rows, cols = matrix[-2:]
    for name, which in zip(("lower", "upper"), limits, strict=True):
        if which and not -rows < which < cols:  # type: ignore[operator]
            raise ValueError(
                f"{name}_diag_index is out of bound: {which}, for matrices of {rows} x {cols}"
            )


def _part_shape(c: ShapeContext) -> Shape:
    whole, limits = c.with_rank_at_least("input", 2), _static_limits(c)
    c.with_rank("padding_value", 0)
    if whole is None or limits is None:
        return None
    _check_limits(whole, limits)
    low, high = limits
    rows, cols = whole[-2:]
    longest = None if rows is None or cols is None else Band(rows, cols, low, high).longest
    middle = () if low == high else (high - low + 1,)
    return (*whole[:-2], *middle, longest)


def _filler(value: Any) -> Any:
    """Raises InvalidArgument if it is no scalar."""
    if np.ndim(value):
        raise errors.invalid_argument(
            f"padding_value must be a scalar, but has shape {list(np.shape(value))}"
        )
    return value


def _part(input: Any, k: Any, padding_value: Any, align: bytes) -> Any:
    band = band_of(input.shape, k)
    count = band.high - band.low + 1
    out = np.empty((*input.shape[:-2], count, band.longest), input.dtype)
    out[...] = _filler(padding_value)
    m, n, i, j = band.places(align)
    out[..., m, n] = input[..., i, j]
    return out[..., 0, :] if count == 1 else out


@op(
    "MatrixDiagPartV3",
    inputs="input: T; k: int32; padding_value: T",
    outputs="diagonal: T",
    attrs=_ALIGN,
    shape=_part_shape,
)
def matrix_diag_part_v3_op(xp: Any, input: Any, k: Any, padding_value: Any, *, align: bytes) -> Any:
    """Diagonal k of the matrices, or the band k[0]..k[1] of them.

    input [..., rows, cols].  out [..., longest], or [..., diagonals, longest] for a band; short
    diagonals are padded.  Raises InvalidArgument on a diagonal outside the matrix.
    """
    return _part(input, k, padding_value, align)


@op(
    "MatrixDiagPartV2",
    inputs="input: T; k: int32; padding_value: T",
    outputs="diagonal: T",
    attrs="T: type",
    shape=_part_shape,
)
def matrix_diag_part_v2_op(xp: Any, input: Any, k: Any, padding_value: Any) -> Any:
    """MatrixDiagPartV3 with diagonals aligned left.  Raises as MatrixDiagPartV3."""
    return _part(input, k, padding_value, b"LEFT_LEFT")


def shortest(rows: int | None, columns: int | None) -> int | None:
    """The length of a matrix's main diagonal, as far as it is known."""
    if 0 in (rows, columns):
        return 0
    return None if rows is None or columns is None else min(rows, columns)


def _main_part_shape(c: ShapeContext) -> Shape:
    whole = c.with_rank_at_least("input", 2)
    if whole is None:
        return None
    rows, cols = whole[-2:]
    return (*whole[:-2], shortest(rows, cols))


@op(
    "MatrixDiagPart",
    inputs="input: T",
    outputs="diagonal: T",
    attrs="T: type",
    shape=_main_part_shape,
)
def matrix_diag_part_v1_op(xp: Any, input: Any) -> Any:
    """The main diagonals of the matrices: [..., rows, cols] to [..., min(rows, cols)].  Raises as MatrixDiagPartV3."""
    return _part(input, 0, 0 if input.dtype != object else b"", b"LEFT_LEFT")


# -- MatrixDiag -------------------------------------------------------------------------------


def sizes_of(longest: int, low: int, high: int, num_rows: int, num_cols: int) -> tuple[int, int]:
    """Rows and columns of the matrix; -1 asks for the smallest that fits.  Raises ValueError."""
    least_rows, least_cols = longest - min(high, 0), longest + max(low, 0)
    for what, given, least in (
        ("num_rows", num_rows, least_rows),
        ("num_cols", num_cols, least_cols),
    ):
        if given != -1 and given < least:
            raise ValueError(f"{what} {given} is too small: the diagonals need {least}")
    if num_rows == num_cols == -1:
        num_rows = num_cols = max(least_rows, least_cols)
    rows = least_rows if num_rows == -1 else num_rows
    cols = least_cols if num_cols == -1 else num_cols
    if rows != least_rows and cols != least_cols:
        raise ValueError(
            f"num_rows {rows} and num_cols {cols} do not fit diagonals of {longest} elements: one must be minimal, "
            f"{least_rows} or {least_cols}"
        )
    return rows, cols


def _diag_shape(c: ShapeContext) -> Shape:
    whole, limits = c.with_rank_at_least("diagonal", 1), _static_limits(c)
    for arg in ("num_rows", "num_cols", "padding_value"):
        c.with_rank(arg, 0)
    rows, cols = c.value("num_rows"), c.value("num_cols")
    if whole is None or limits is None:
        return None
    low, high = limits
    front = whole[:-1] if low == high else whole[:-2]
    if low != high:
        c.with_rank_at_least("diagonal", 2)
        if whole[-2] not in (None, high - low + 1):
            raise ValueError(
                "The number of rows of `diagonal` doesn't match the number of diagonals implied from `d_lower` and "
                f"`d_upper`.: they are {whole[-2]}, and k is from {low} to {high}"
            )
    if whole[-1] is None or rows is None or cols is None:
        return (*front, None, None)
    return (*front, *sizes_of(whole[-1], low, high, int(rows), int(cols)))


def _diag(
    diagonal: Any, k: Any, num_rows: Any, num_cols: Any, padding_value: Any, align: bytes
) -> Any:
    low, high = limits_of(k)
    if diagonal.ndim < (1 if low == high else 2):
        raise errors.invalid_argument(
            f"diagonal must be at least {1 + (low != high)}-dim, received shape: {text(diagonal.shape)}"
        )
    if low != high and diagonal.shape[-2] != high - low + 1:
        raise errors.invalid_argument(
            f"diagonal has {diagonal.shape[-2]} rows, but k from {low} to {high} needs {high - low + 1}"
        )
    try:
        wanted = checked_scalar(num_rows, "num_rows"), checked_scalar(num_cols, "num_cols")
        rows, cols = sizes_of(diagonal.shape[-1], low, high, *wanted)
    except ValueError as error:
        raise errors.invalid_argument(str(error)) from None
    stored = diagonal[..., None, :] if low == high else diagonal
    out = np.empty((*stored.shape[:-2], rows, cols), diagonal.dtype)
    out[...] = _filler(padding_value)
    m, n, i, j = Band(rows, cols, low, high).places(align)
    out[..., i, j] = stored[..., m, n]
    return out


@op(
    "MatrixDiagV3",
    inputs="diagonal: T; k: int32; num_rows: int32; num_cols: int32; padding_value: T",
    outputs="output: T",
    attrs=_ALIGN,
    shape=_diag_shape,
)
def matrix_diag_v3_op(
    xp: Any,
    diagonal: Any,
    k: Any,
    num_rows: Any,
    num_cols: Any,
    padding_value: Any,
    *,
    align: bytes,
) -> Any:
    """Matrices with the given diagonals, and padding_value elsewhere.

    diagonal [..., longest], or [..., diagonals, longest] for a band k[0]..k[1]; num_rows, num_cols:
    -1 for the smallest that fit.  Raises InvalidArgument if they do not fit.
    """
    return _diag(diagonal, k, num_rows, num_cols, padding_value, align)


@op(
    "MatrixDiagV2",
    inputs="diagonal: T; k: int32; num_rows: int32; num_cols: int32; padding_value: T",
    outputs="output: T",
    attrs="T: type",
    shape=_diag_shape,
)
def matrix_diag_v2_op(
    xp: Any, diagonal: Any, k: Any, num_rows: Any, num_cols: Any, padding_value: Any
) -> Any:
    """MatrixDiagV3 with diagonals aligned left.  Raises as MatrixDiagV3."""
    return _diag(diagonal, k, num_rows, num_cols, padding_value, b"LEFT_LEFT")


def _main_diag_shape(c: ShapeContext) -> Shape:
    whole = c.with_rank_at_least("diagonal", 1)
    return None if whole is None else (*whole, whole[-1])


@op(
    "MatrixDiag", inputs="diagonal: T", outputs="output: T", attrs="T: type", shape=_main_diag_shape
)
def matrix_diag_v1_op(xp: Any, diagonal: Any) -> Any:
    """Square matrices with the given main diagonals: [..., n] to [..., n, n].  Raises as MatrixDiagV3."""
    if np.ndim(diagonal) < 1:
        raise errors.invalid_argument("diagonal must have rank 1 or more, but is a scalar")
    return _diag(diagonal, 0, -1, -1, 0 if diagonal.dtype != object else b"", b"LEFT_LEFT")


# -- MatrixSetDiag ----------------------------------------------------------------------------


def _set_shape(c: ShapeContext) -> Shape:
    whole, limits = c.with_rank_at_least("input", 2), (0, 0)
    stored = c.with_rank_at_least("diagonal", 1)
    if len(c.op.inputs) == 3:
        limits = _static_limits(c) or (0, 1)
        _check_limits(whole, _static_limits(c))
        if limits[0] != limits[1] and c.value("k") is not None:
            stored = c.with_rank_at_least("diagonal", 2)
        if c.value("k") is None:
            return whole
        if whole is not None and limits[0] != limits[1]:
            c.with_rank("diagonal", len(whole))
    elif whole is not None and stored is not None and None not in whole[-2:]:
        shape_rules.merge_sizes(min(whole[-2:]), stored[-1], "the diagonal and that of the input")  # type: ignore[type-var]
    if whole is None and stored is not None:
        return (*stored[: -1 if limits[0] == limits[1] else -2], None, None)
    if whole is not None and stored is not None and limits[0] == limits[1]:
        c.with_rank("diagonal", len(whole) - 1)
    return whole


def _set(input: Any, diagonal: Any, k: Any, align: bytes) -> Any:
    band = band_of(input.shape, k)
    count = band.high - band.low + 1
    wanted = (*input.shape[:-2], *((count,) if count > 1 else ()), band.longest)
    if diagonal.shape != wanted:
        raise errors.invalid_argument(
            "Either first dimensions of diagonal don't match input.shape[:-2], or its rows and columns do not fit: it "
            f"must have shape {text(wanted)} for an input of shape {text(input.shape)}, but has {text(diagonal.shape)}"
        )
    stored = diagonal[..., None, :] if count == 1 else diagonal
    out = np.array(input)
    m, n, i, j = band.places(align)
    out[..., i, j] = stored[..., m, n]
    return out


@op(
    "MatrixSetDiagV3",
    inputs="input: T; diagonal: T; k: int32",
    outputs="output: T",
    attrs=_ALIGN,
    shape=_set_shape,
)
def matrix_set_diag_v3_op(xp: Any, input: Any, diagonal: Any, k: Any, *, align: bytes) -> Any:
    """The matrices with diagonal k, or the band k[0]..k[1], replaced.

    input [..., rows, cols]; diagonal as MatrixDiagPartV3 gives it.  Raises InvalidArgument if it
    has another shape.
    """
    return _set(input, diagonal, k, align)


@op(
    "MatrixSetDiagV2",
    inputs="input: T; diagonal: T; k: int32",
    outputs="output: T",
    attrs="T: type",
    shape=_set_shape,
)
def matrix_set_diag_v2_op(xp: Any, input: Any, diagonal: Any, k: Any) -> Any:
    """MatrixSetDiagV3 with diagonals aligned left.  Raises as MatrixSetDiagV3."""
    return _set(input, diagonal, k, b"LEFT_LEFT")


@op(
    "MatrixSetDiag",
    inputs="input: T; diagonal: T",
    outputs="output: T",
    attrs="T: type",
    shape=_set_shape,
)
def matrix_set_diag_v1_op(xp: Any, input: Any, diagonal: Any) -> Any:
    """The matrices with their main diagonals replaced.  Raises as MatrixSetDiagV3."""
    return _set(input, diagonal, 0, b"LEFT_LEFT")


# -- gradients --------------------------------------------------------------------------------


@matrix_diag_part_v3_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    source, k, _ = op.inputs
    raw, align = source.raw_shape, op["align"].decode()
    sizes = None if raw is None else raw[-2:]
    if sizes is not None and shape_rules.is_fully_defined(sizes):
        return matrix_diag(dout, k=k, num_rows=sizes[0], num_cols=sizes[1], align=align), None, None
    return matrix_set_diag(zeros_like(source), dout, k=k, align=align), None, None


@matrix_diag_part_v2_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    source, k, _ = op.inputs
    return matrix_set_diag_v2_op(zeros_like(source), dout, k), None, None


@matrix_diag_part_v1_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    made: Tensor = matrix_set_diag_v1_op(zeros_like(op.inputs[0]), dout)
    return made


@matrix_diag_v3_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Any, ...]:
    return (
        matrix_diag_part(dout, k=op.inputs[1], align=op["align"].decode()),
        None,
        None,
        None,
        None,
    )


@matrix_diag_v2_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Any, ...]:
    padding = zeros((), dout.dtype.base_dtype)
    return matrix_diag_part_v2_op(dout, op.inputs[1], padding), None, None, None, None


@matrix_diag_v1_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    made: Tensor = matrix_diag_part_v1_op(dout)
    return made


@matrix_set_diag_v3_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor, None]:
    k, align = op.inputs[2], op["align"].decode()
    cleared = matrix_set_diag(dout, _no_diagonal(op), k=k, align=align)
    return cleared, matrix_diag_part(dout, k=k, align=align), None


@matrix_set_diag_v2_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor, None]:
    padding = zeros((), dout.dtype.base_dtype)
    cleared = matrix_set_diag_v2_op(dout, _no_diagonal(op), op.inputs[2])
    return cleared, matrix_diag_part_v2_op(dout, op.inputs[2], padding), None


@matrix_set_diag_v1_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    return matrix_set_diag_v1_op(dout, _no_diagonal(op)), matrix_diag_part_v1_op(dout)


def _no_diagonal(op: Operation) -> Tensor:
    diagonal = op.inputs[1]
    if shape_rules.is_fully_defined(diagonal.raw_shape):
        return zeros(diagonal.raw_shape, diagonal.dtype.base_dtype)
    return zeros_like(diagonal)


# -- the functions ----------------------------------------------------------------------------


def _padding(of: Tensor, value: Any) -> Any:
    return bool(value) if of.dtype.is_bool and not isinstance(value, Tensor) else value


def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with the given diagonals: [..., n] to [..., n, n], or those of a band k = (low, high)."""
    if isinstance(diagonal, Tensor):
        padding_value = _padding(diagonal, padding_value)
    made: Tensor = matrix_diag_v3_op(
        diagonal, k, num_rows, num_cols, padding_value, align=align, name=name
    )
    return made


def matrix_diag_part(
    input: Any,
    name: str = "diag_part",
    k: Any = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Diagonal k of the matrices [..., rows, cols], or the band k = (low, high) of them."""
    if isinstance(input, Tensor):
        padding_value = _padding(input, padding_value)
    made: Tensor = matrix_diag_part_v3_op(input, k, padding_value, align=align, name=name)
    return made


def matrix_set_diag(
    input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The matrices [..., rows, cols] with diagonal k, or the band k = (low, high), replaced."""
    made: Tensor = matrix_set_diag_v3_op(input, diagonal, k, align=align, name=name)
    return made


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """batch_shape + [num_rows, num_columns], ones on the main diagonal; square if num_columns is None.

    Sizes may be tensors.  Raises TypeError, ValueError.
    """
    columns = num_rows if num_columns is None else num_columns
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        diagonal, square = _diagonal_of(num_rows, columns)
        batch = [] if batch_shape is None else batch_shape
        if not isinstance(batch, Tensor):
            batch = list(batch)
            if isinstance(diagonal, Tensor):
                batch = convert(batch, dtypes.int32, "shape")

        def sized(sizes: list[Any]) -> Any:
            return concat([batch, sizes], 0) if isinstance(batch, Tensor) else batch + sizes

        on_diagonal = sized([diagonal])
        if square:
            return matrix_diag(ones(on_diagonal, dtype))
        whole = sized([num_rows, columns])
        values = ones(on_diagonal, dtype)
        return matrix_set_diag(zeros(whole, dtype), values)


def _diagonal_of(rows: Any, columns: Any) -> tuple[Any, bool]:
    """Length of the main diagonal, a tensor if a size is one; whether the matrix is square for sure."""
    if isinstance(rows, Tensor) or isinstance(columns, Tensor):
        return make.Minimum(rows, columns), columns is rows
    if not all(isinstance(each, (int, np.integer)) for each in (rows, columns)):
        raise TypeError(
            "Arguments `num_rows` and `num_columns` must be positive integer values, "
            f"not {rows!r} and {columns!r}"
        )
    if min(rows, columns) < 0:
        raise ValueError(
            f"Fill dimensions must be >= 0: a matrix cannot have {rows} rows and {columns} columns"
        )
    return min(rows, columns), bool(rows == columns)
