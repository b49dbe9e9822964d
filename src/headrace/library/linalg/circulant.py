"""Operators that Fourier transforms make fast: LinearOperatorCirculant, …2D, …3D and LinearOperatorToeplitz.

A circulant matrix is F⁻¹ · diag(spectrum) · F, F the discrete Fourier transform, of blocks in two and three dimensions.
Called by: programs, library.linalg.registrations.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.linalg.operator import LinearOperator
from headrace.library.linalg.support import assert_zero_imaginary, check_rank
from headrace.ops.array.broadcast import broadcast_dynamic_shape, broadcast_static_shape
from headrace.ops.array.constants import constant, ones, zeros
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import adjoint as adjoint_of
from headrace.ops.array.shapes import expand_dims, matrix_transpose, reshape
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_equal, assert_greater, assert_less, assert_positive
from headrace.ops.math.casting import cast, conj, imag, real
from headrace.ops.math.magnitudes import abs as modulus
from headrace.ops.math.reductions import reduce_max, reduce_prod, reduce_sum
from headrace.ops.signal import fourier
from headrace.ops.tables import make

__all__ = [
    "LinearOperatorCirculant",
    "LinearOperatorCirculant2D",
    "LinearOperatorCirculant3D",
    "LinearOperatorToeplitz",
]


def _complex_type(kind: Any) -> Any:
    wide = kind.base_dtype in (dtypes.float64, dtypes.complex128)
    return dtypes.complex128 if wide else dtypes.complex64


class _Circulant(LinearOperator):
    """What depends on the depth of the blocks alone."""

    _depth: ClassVar[int]
    _forward: ClassVar[Any]
    _back: ClassVar[Any]

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        """spectrum: [B1, …, Bb, N] and, for blocks, more of these.  input_output_dtype: of what it is multiplied with.

        Raises ValueError for a spectrum of too few dimensions, or a hint that is not so.
        """
        name = name or type(self).__name__
        with name_scope(name, values=[spectrum]):
            self._spectrum = convert(spectrum, name="spectrum")
            check_rank(self._spectrum, self._depth, "`spectrum`")
            if not self._spectrum.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError(
                        "A real spectrum always corresponds to a self-adjoint operator."
                    )
                is_self_adjoint = True
            if is_square is False:
                raise ValueError("A [[nested] block] circulant operator is always square.")
            super().__init__(
                input_output_dtype,
                [self._spectrum],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )

    @property
    def block_depth(self) -> int:
        """1 for circulant matrices, 2 for block circulant ones with circulant blocks, and so on."""
        return self._depth

    @property
    def spectrum(self) -> Any:
        """As it was given."""
        return self._spectrum

    @property
    def block_shape(self) -> TensorShape:
        """The last `block_depth` sizes of the spectrum, as far as they are known."""
        found: TensorShape = self._spectrum.shape[-self._depth :]
        return found

    def block_shape_tensor(self, name: str = "block_shape_tensor") -> Any:
        """The same, [block_depth] int32."""
        with self._scope(name):
            return self._block_sizes()

    def _block_sizes(self) -> Any:
        return sizes_of(self._spectrum)[-self._depth :]

    def _shape(self) -> TensorShape:
        shape = self._spectrum.shape
        if shape.ndims is None:
            return TensorShape(None)
        sizes = shape[-self._depth :].as_list()
        size = None if None in sizes else math.prod(each or 0 for each in sizes)
        return shape[: -self._depth].concatenate(TensorShape([size, size]))

    def _shape_tensor(self) -> Any:
        size = reduce_prod(self._block_sizes())
        return concat([sizes_of(self._spectrum)[: -self._depth], stack([size, size])], 0)

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """The inverse transform of the spectrum, of the operator's dtype: the matrix's first column, as a block."""
        with self._scope(name):
            return cast(self._kernel(), self.dtype)

    def _kernel(self) -> Any:
        return type(self)._back(self._complex_spectrum())

    def _complex_spectrum(self) -> Any:
        return cast(self._spectrum, _complex_type(self.dtype))

    # -- checks -----------------------------------------------------------------------------------

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Any:
        """An operation that fails where the matrix is not real."""
        with self._scope(name):
            size = modulus(imag(self._kernel()))
            limit = 5 * float(np.finfo(size.dtype.np).eps)
            count = cast(reduce_prod(self._block_sizes()), size.dtype)
            most = limit * count * reduce_max(modulus(self._complex_spectrum()))
            return assert_less(size, most + limit, message="Imaginary convolution kernel")

    def _assert_non_singular(self) -> Any:
        size = modulus(self._complex_spectrum())
        most = reduce_max(size, axis=self._block_axes(), keepdims=True)
        limit = float(np.finfo(size.dtype.np).eps) * most
        return assert_greater(size, limit, message="Singular operator: Spectrum contained zeros")

    def _assert_positive_definite(self) -> Any:
        says = "Not positive definite:  Real part of spectrum was not all positive."
        return assert_positive(real(self._spectrum), message=says)

    def _assert_self_adjoint(self) -> Any:
        says = "Not self-adjoint:  The spectrum contained non-zero imaginary part."
        return assert_zero_imaginary(self._complex_spectrum(), says)

    # -- what it does -----------------------------------------------------------------------------

    def _block_axes(self) -> list[int]:
        return list(range(-self._depth, 0))

    def _through_spectrum(self, x: Any, spectrum: Any) -> Any:
        """F⁻¹ · diag(spectrum) · F · x."""
        columns = matrix_transpose(cast(x, spectrum.dtype))
        blocks = columns
        if self._depth > 1:
            blocks = reshape(columns, concat([sizes_of(columns)[:-1], self._block_sizes()], 0))
        changed = type(self)._forward(blocks) * expand_dims(spectrum, -self._depth - 1)
        blocks = type(self)._back(changed)
        if self._depth > 1:
            blocks = reshape(blocks, concat([sizes_of(blocks)[: -self._depth], [-1]], 0))
        made = cast(matrix_transpose(blocks), self.dtype)
        if x.shape.ndims is not None and self._spectrum.shape.ndims is not None:
            batch = broadcast_static_shape(x.shape[:-2], self.batch_shape)
            made.set_shape(batch.concatenate(TensorShape([self.range_dimension, x.shape[-1]])))
        return made

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        spectrum = self._complex_spectrum()
        return self._through_spectrum(x, conj(spectrum) if adjoint else spectrum)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        spectrum = self._complex_spectrum()
        return self._through_spectrum(rhs, 1 / (conj(spectrum) if adjoint else spectrum))

    def _determinant(self) -> Any:
        return cast(reduce_prod(self._complex_spectrum(), axis=self._block_axes()), self.dtype)

    def _log_abs_determinant(self) -> Any:
        logs = make.Log(modulus(self._complex_spectrum()))
        return cast(reduce_sum(logs, axis=self._block_axes()), self.dtype)

    def _trace(self) -> Any:
        return cast(reduce_sum(self._complex_spectrum(), axis=self._block_axes()), self.dtype)

    def _diag_part(self) -> Any:
        size = self._columns()
        each = self._trace() / cast(size, self.dtype)
        made = expand_dims(each, -1) * ones(stack([size]), dtype=self.dtype)
        made.set_shape(self.shape[:-1])
        return made


class LinearOperatorCirculant(_Circulant):
    """Circulant matrices: each column is the one before it, moved down by one."""

    _depth, _forward, _back = 1, fourier.fft, fourier.ifft

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant",
    ) -> None:
        """spectrum: [B1, …, Bb, N], the transform of the first column.  See `_Circulant`."""
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(spectrum, input_output_dtype, *hints, name)


class LinearOperatorCirculant2D(_Circulant):
    """Block circulant matrices of circulant blocks."""

    _depth, _forward, _back = 2, fourier.fft2d, fourier.ifft2d

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant2D",
    ) -> None:
        """spectrum: [B1, …, Bb, N0, N1].  See `_Circulant`."""
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(spectrum, input_output_dtype, *hints, name)


class LinearOperatorCirculant3D(_Circulant):
    """Block circulant matrices of block circulant ones."""

    _depth, _forward, _back = 3, fourier.fft3d, fourier.ifft3d

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant3D",
    ) -> None:
        """spectrum: [B1, …, Bb, N0, N1, N2].  See `_Circulant`."""
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(spectrum, input_output_dtype, *hints, name)


class LinearOperatorToeplitz(LinearOperator):
    """Matrices that are constant along their diagonals, of the first column and the first row [B1, …, Bb, N]."""

    def __init__(
        self,
        col: Any,
        row: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        """What both begin with must be the same.

        Raises ValueError for scalars, for other lengths, and for a hint that is not so.
        """
        with name_scope(name, values=[row, col]):
            self._row, self._col = convert(row, name="row"), convert(col, name="col")
            check_rank(self._row, 1, "row")
            check_rank(self._col, 1, "col")
            if is_square is False:
                raise ValueError("Only square Toeplitz operators currently supported.")
            lengths = [each.shape.ndims and each.shape[-1].value for each in (self._row, self._col)]
            if None not in lengths and lengths[0] != lengths[1]:
                raise ValueError(
                    f"Expected square matrix, got row and col with mismatched dimensions. They are {lengths}"
                )
            super().__init__(
                self._row.dtype,
                [self._row, self._col],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )

    @property
    def col(self) -> Any:
        """The first column."""
        return self._col

    @property
    def row(self) -> Any:
        """The first row."""
        return self._row

    def _shape(self) -> TensorShape:
        shape = broadcast_static_shape(self._row.shape, self._col.shape)
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Any:
        sizes = broadcast_dynamic_shape(sizes_of(self._row), sizes_of(self._col))
        return concat([sizes, sizes[-1:]], 0)

    def _assert_self_adjoint(self) -> Any:
        says = "row and col are not equal, and so the operator is not self-adjoint."
        return assert_equal(self._row, conj(self._col), message=says)

    def _both(self) -> tuple[Any, Any]:
        """(column, row) of one batch shape."""
        extra = zeros(self._sizes()[:-1], dtype=self.dtype)
        return self._col + extra, self._row + extra

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        """By a circulant matrix of 2N - 1 rows whose corner it is."""
        x = adjoint_of(x) if adjoint_arg else x
        col, row = self._both()
        if adjoint:
            col, row = conj(row), conj(col)
        column = concat([col, _reversed(row[..., 1:])], -1)
        missing = self._columns() - 1
        longer = concat(
            [x, zeros(concat([sizes_of(x)[:-2], stack([missing, sizes_of(x)[-1]])], 0), x.dtype)],
            -2,
        )
        kind = _complex_type(self.dtype)
        circulant = LinearOperatorCirculant(fourier.fft(cast(column, kind)), kind)
        found = cast(circulant.matmul(cast(longer, kind)), self.dtype)[..., : self._columns(), :]
        if x.shape.ndims is not None and self.shape.ndims is not None:
            batch = broadcast_static_shape(x.shape[:-2], self.batch_shape)
            found.set_shape(batch.concatenate(TensorShape([self.range_dimension, x.shape[-1]])))
        return found

    def _to_dense(self) -> Any:
        col, row = self._both()
        values = concat([_reversed(row[..., 1:]), col], -1)
        size = self._columns()
        at = range_of(size)
        found: Tensor = gather(values, expand_dims(at, 1) - at + (size - 1), axis=-1)
        found.set_shape(self.shape)
        return found

    def _diag_part(self) -> Any:
        return self._col[..., :1] + zeros(self._sizes()[:-1], dtype=self.dtype)

    def _trace(self) -> Any:
        first = self._col[..., 0] + zeros(self._batch_sizes(), dtype=self.dtype)
        return cast(self._columns(), self.dtype) * first


def _reversed(x: Any) -> Any:
    return make.ReverseV2(x, constant([-1]))
