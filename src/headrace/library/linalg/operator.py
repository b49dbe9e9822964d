"""What linear operators have in common: `LinearOperator`, a batch of matrices by what they do.

Public methods open scopes, check and call the private ones.  A class says its shape and `_matmul`; what follows from
these is said here, by way of the dense matrix, and better said by classes that know more.  Hints (`is_non_singular`,
…) are promises of whoever made the operator: True, False, or None for what is not known.
Called by: library.linalg, library.contrib.distributions, programs, which derive classes of their own.  Threads: as
graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import Dimension, TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.linalg import algebra
from headrace.library.linalg.support import (
    assert_no_zeros,
    assert_zero_imaginary,
    batch_solution,
    without_last,
)
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import adjoint as adjoint_of
from headrace.ops.array.shapes import expand_dims
from headrace.ops.flow.checks import assert_equal, assert_less, assert_positive
from headrace.ops.flow.identities import no_op
from headrace.ops.linalg.decompositions import svd
from headrace.ops.linalg.diagonals import eye, matrix_diag_part
from headrace.ops.linalg.functions import matrix_determinant, slogdet
from headrace.ops.linalg.solving import cholesky, cholesky_solve, matrix_solve
from headrace.ops.math.casting import cast, real
from headrace.ops.math.reductions import reduce_max, reduce_min, reduce_sum
from headrace.ops.tables import make

__all__ = ["LinearOperator"]


class LinearOperator:
    """A batch of matrices [B1, …, Bb, M, N]; see the module header."""

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        """dtype: of the matrix.  graph_parents: the tensors it is made of.

        Raises ValueError for hints that contradict each other, and parents that are no tensors.
        """
        for at, each in enumerate(graph_parents or ()):
            if not isinstance(each, Tensor):
                raise ValueError(f"Graph parent item {at} is not a Tensor; {each}.")
        if is_positive_definite:
            if is_non_singular is False:
                raise ValueError("A positive definite matrix is always non-singular.")
            is_non_singular = True
        if is_non_singular:
            if is_square is False:
                raise ValueError("A non-singular matrix is always square.")
            is_square = True
        if is_self_adjoint:
            if is_square is False:
                raise ValueError("A self-adjoint matrix is always square.")
            is_square = True
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        self._graph_parents = list(graph_parents or ())
        self._is_non_singular = is_non_singular
        self._is_self_adjoint = is_self_adjoint
        self._is_positive_definite = is_positive_definite
        self._is_square = is_square
        self._name = name or type(self).__name__

    @contextmanager
    def _scope(self, name: str | None) -> Iterator[None]:
        with name_scope(self._name), name_scope(name):
            yield

    # -- what it is -------------------------------------------------------------------------------

    @property
    def dtype(self) -> Any:
        """Of the matrix."""
        return self._dtype

    @property
    def name(self) -> str:
        """Begins the names of its nodes."""
        return self._name

    @property
    def graph_parents(self) -> list[Any]:
        """The tensors it was made of."""
        return self._graph_parents

    @property
    def is_non_singular(self) -> bool | None:
        """Hint: it has an inverse."""
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        """Hint: it is its own conjugate transpose."""
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        """Hint: the real part of xᴴAx is above 0 for every x that is not 0."""
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        """Hint, or what its static shape says.  Raises ValueError where the two differ."""
        columns, rows = self.domain_dimension.value, self.range_dimension.value
        found = None if columns is None or rows is None else columns == rows
        if self._is_square is False and found:
            raise ValueError("User set is_square hint to False, but the operator was square.")
        return found if self._is_square is None else self._is_square

    def _can_use_cholesky(self) -> bool:
        return bool(self.is_self_adjoint and self.is_positive_definite)

    # -- shapes -----------------------------------------------------------------------------------

    def _shape(self) -> TensorShape:
        raise NotImplementedError("_shape is not implemented.")

    def _shape_tensor(self) -> Any:
        raise NotImplementedError("_shape_tensor is not implemented.")

    def _sizes(self) -> Any:
        """[rank] int32: of constants as far as the shape is known."""
        known = self.shape
        if known.is_fully_defined():
            return constant(known.as_list(), dtypes.int32)
        return self._shape_tensor()

    @property
    def shape(self) -> TensorShape:
        """[B1, …, Bb, M, N], as far as it is known."""
        return self._shape()

    def shape_tensor(self, name: str = "shape_tensor") -> Any:
        """[rank] int32."""
        with self._scope(name):
            return self._sizes()

    @property
    def batch_shape(self) -> TensorShape:
        """[B1, …, Bb], as far as it is known."""
        return self.shape[:-2]

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """[b] int32."""
        with self._scope(name):
            return self._batch_sizes()

    def _batch_sizes(self) -> Any:
        known = self.batch_shape
        if known.is_fully_defined():
            return constant(known.as_list(), dtypes.int32)
        return self._sizes()[:-2]

    @property
    def tensor_rank(self) -> int | None:
        """b + 2, if it is known."""
        return self.shape.ndims

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Any:
        """[] int32."""
        with self._scope(name):
            known = self.tensor_rank
            return constant(known) if known is not None else make.Size(self._sizes())

    @property
    def domain_dimension(self) -> Any:
        """N, a Dimension."""
        return _size(self.shape, -1)

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Any:
        """N, [] int32."""
        with self._scope(name):
            return self._columns()

    def _columns(self) -> Any:
        known = self.domain_dimension.value
        return constant(known) if known is not None else self._sizes()[-1]

    @property
    def range_dimension(self) -> Any:
        """M, a Dimension."""
        return _size(self.shape, -2)

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Any:
        """M, [] int32."""
        with self._scope(name):
            return self._rows()

    def _rows(self) -> Any:
        known = self.range_dimension.value
        return constant(known) if known is not None else self._sizes()[-2]

    # -- checks of a step -------------------------------------------------------------------------

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """An operation that fails unless there is an inverse that can be computed."""
        with self._scope(name):
            return self._assert_non_singular()

    def _assert_non_singular(self) -> Any:
        values = svd(self._to_dense(), compute_uv=False)
        largest, smallest = reduce_max(values, axis=-1), reduce_min(values, axis=-1)
        least = _precision(values.dtype) * cast(self._columns(), values.dtype) * largest
        return assert_less(least, smallest, message="Singular matrix up to precision epsilon.")

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """An operation that fails unless it is positive definite; it must be self-adjoint."""
        with self._scope(name):
            return self._assert_positive_definite()

    def _assert_positive_definite(self) -> Any:
        """Raises NotImplementedError for what is not known to be self-adjoint."""
        if not self.is_self_adjoint:
            raise NotImplementedError(
                "assert_positive_definite is for operators that are self-adjoint: is_self_adjoint=True says that "
                f"{self.name} is"
            )
        diagonal = matrix_diag_part(cholesky(self._to_dense()))
        if diagonal.dtype.is_complex:
            diagonal = real(diagonal)
        return assert_positive(diagonal, message="Matrix was not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """An operation that fails unless it is its own conjugate transpose."""
        with self._scope(name):
            return self._assert_self_adjoint()

    def _assert_self_adjoint(self) -> Any:
        dense = self._to_dense()
        says = f"Matrix was not equal to its adjoint: {self.name}"
        return assert_equal(dense, adjoint_of(dense), message=says)

    # -- products ---------------------------------------------------------------------------------

    def _given(self, x: Any, name: str, side: int, arg_side: int) -> Any:
        """x as a tensor.  Raises TypeError, ValueError for what does not fit."""
        x = convert(x, name=name)
        if self._dtype is not None and x.dtype.base_dtype != self._dtype:
            raise TypeError(
                f"Expected argument to have dtype {self._dtype!r}.  Found: {x.dtype!r} in tensor {x}; "
                "tf.cast gives it that"
            )
        shape = x.shape
        if shape.ndims is not None:
            if shape.ndims < -arg_side:
                raise ValueError(
                    f"Shape must be at least rank {-arg_side} but is rank {shape.ndims}: {name} of {self.name}"
                )
            _size(self.shape, side).assert_is_compatible_with(shape[arg_side])
        return x

    def _operand(self, other: LinearOperator, adjoint: bool, adjoint_arg: bool) -> Any:
        """(left, right).  Raises ValueError for operators that do not fit."""
        left = self.adjoint() if adjoint else self
        right = other.adjoint() if adjoint_arg else other
        columns, rows = left.domain_dimension.value, right.range_dimension.value
        if columns is not None and rows is not None and columns != rows:
            raise ValueError(
                f"Operators are incompatible. Expected `x` to have dimension {columns} but got {rows}."
            )
        return left, right

    def matmul(
        self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul"
    ) -> Any:
        """A · x, x [..., N, R], or the operator of A · x for an operator x; of the adjoints where it is asked for."""
        if isinstance(x, LinearOperator):
            left, right = self._operand(x, adjoint, adjoint_arg)
            with self._scope(name):
                return algebra.matmul(left, right)
        with self._scope(name):
            x = self._given(x, "x", -2 if adjoint else -1, -1 if adjoint_arg else -2)
            return self._matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        raise NotImplementedError("_matmul is not implemented.")

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """A · x of vectors x [..., N]."""
        with self._scope(name):
            x = self._given(x, "x", -2 if adjoint else -1, -1)
            return self._matvec(x, adjoint=adjoint)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return without_last(self._matmul(expand_dims(x, axis=-1), adjoint=adjoint))

    # -- determinants -----------------------------------------------------------------------------

    def determinant(self, name: str = "det") -> Any:
        """[B1, …, Bb].  Raises NotImplementedError for what is not square."""
        self._check_square("Determinant")
        with self._scope(name):
            return self._determinant()

    def _determinant(self) -> Any:
        if self._can_use_cholesky():
            return make.Exp(self._log_abs_determinant())
        return matrix_determinant(self._to_dense())

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """log |det A|, [B1, …, Bb].  Raises NotImplementedError for what is not square."""
        self._check_square("Determinant")
        with self._scope(name):
            return self._log_abs_determinant()

    def _log_abs_determinant(self) -> Any:
        if self._can_use_cholesky():
            diagonal = matrix_diag_part(cholesky(self._to_dense()))
            return 2 * reduce_sum(make.Log(diagonal), axis=[-1])
        return slogdet(self._to_dense()).log_abs_determinant

    def _check_square(self, what: str) -> None:
        if self.is_square is False:
            raise NotImplementedError(
                f"{what} not implemented for an operator that is expected to not be square."
            )

    # -- systems of equations ---------------------------------------------------------------------

    def _check_solvable(self) -> None:
        if self.is_non_singular is False:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to be singular."
            )
        self._check_square("Exact solve")

    def solve(
        self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve"
    ) -> Any:
        """X of A · X = rhs [..., M, R], or the operator of A⁻¹ · rhs for an operator.

        Raises NotImplementedError for what is known to have no inverse.
        """
        self._check_solvable()
        if isinstance(rhs, LinearOperator):
            left, right = self._operand(rhs, adjoint, adjoint_arg)
            with self._scope(name):
                return algebra.solve(left, right)
        with self._scope(name):
            rhs = self._given(rhs, "rhs", -1 if adjoint else -2, -1 if adjoint_arg else -2)
            return self._solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        dense = self._to_dense()
        if self._can_use_cholesky():
            return batch_solution(cholesky_solve, cholesky(dense), rhs)
        return batch_solution(
            lambda matrix, right: matrix_solve(matrix, right, adjoint=adjoint), dense, rhs
        )

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """x of A · x = rhs, vectors [..., M].  Raises NotImplementedError for what is known to have no inverse."""
        with self._scope(name):
            self._check_solvable()
            rhs = self._given(rhs, "rhs", -1, -1)
            return self._solvevec(rhs, adjoint=adjoint)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return without_last(self._solve(expand_dims(rhs, axis=-1), adjoint=adjoint))

    # -- other operators --------------------------------------------------------------------------

    def adjoint(self, name: str = "adjoint") -> Any:
        """The operator of the conjugate transpose; itself where that is the same."""
        if self.is_self_adjoint is True:
            return self
        with self._scope(name):
            return algebra.adjoint(self)

    H = property(adjoint, None)

    def inverse(self, name: str = "inverse") -> Any:
        """The operator of the inverse.  Raises ValueError for what is known to have none."""
        if self.is_square is False:
            raise ValueError(
                "Cannot take the Inverse: This operator represents a non square matrix."
            )
        if self.is_non_singular is False:
            raise ValueError("Cannot take the Inverse: This operator represents a singular matrix.")
        with self._scope(name):
            return algebra.inverse(self)

    def cholesky(self, name: str = "cholesky") -> Any:
        """The operator of the lower triangle L with L · Lᴴ = A.  Raises ValueError unless the hints allow it."""
        if not self._can_use_cholesky():
            raise ValueError(
                "Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix."
            )
        with self._scope(name):
            return algebra.cholesky(self)

    # -- the matrix -------------------------------------------------------------------------------

    def to_dense(self, name: str = "to_dense") -> Any:
        """The matrix, [B1, …, Bb, M, N]."""
        with self._scope(name):
            return self._to_dense()

    def _to_dense(self) -> Any:
        batch: Any = self.batch_shape
        batch = batch.as_list() if batch.is_fully_defined() else self._batch_sizes()
        columns = self.domain_dimension.value
        columns = self._columns() if columns is None else columns
        return self._matmul(eye(columns, batch_shape=batch, dtype=self._dtype))

    def diag_part(self, name: str = "diag_part") -> Any:
        """The diagonal, [B1, …, Bb, min(M, N)]."""
        with self._scope(name):
            return self._diag_part()

    def _diag_part(self) -> Any:
        return matrix_diag_part(self._to_dense())

    def trace(self, name: str = "trace") -> Any:
        """The sum of the diagonal, [B1, …, Bb]."""
        with self._scope(name):
            return self._trace()

    def _trace(self) -> Any:
        return reduce_sum(self._diag_part(), axis=-1)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Any:
        """A + x."""
        with self._scope(name):
            return self._add_to_tensor(self._of_type(x))

    def _add_to_tensor(self, x: Any) -> Any:
        return self._to_dense() + x

    def _of_type(self, x: Any) -> Any:
        """x as a tensor.  Raises TypeError for another dtype."""
        return self._given(x, "x", -1, -1)

    # -- what classes say in the same words -------------------------------------------------------

    def _assert_diagonal_has_inverse(self, diagonal: Any, what: str) -> Any:
        return assert_no_zeros(diagonal, f"Singular operator:  {what} contained zero values.")

    def _assert_real(self, x: Any, message: str) -> Any:
        return assert_zero_imaginary(x, message) if self.dtype.is_complex else no_op()


def _size(shape: TensorShape, at: int) -> Any:
    """The dimension, of which nothing is known where the rank is not."""
    return Dimension(None) if shape.ndims is None else shape[at]


def _precision(kind: Any) -> float:
    return float(np.finfo(kind.real_dtype.np).eps)
