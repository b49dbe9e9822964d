"""Operators that are said by a matrix or a vector: LinearOperatorFullMatrix, LinearOperatorLowerTriangular,
LinearOperatorHouseholder.

Called by: programs, library.linalg.registrations.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.linalg.operator import LinearOperator
from headrace.library.linalg.support import batch_solution, check_kind, check_rank
from headrace.ops.array.constants import ones, zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import adjoint as adjoint_of
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.identities import no_op
from headrace.ops.linalg.bands import matrix_band_part
from headrace.ops.linalg.diagonals import matrix_diag_part, matrix_set_diag
from headrace.ops.linalg.products import matmul
from headrace.ops.linalg.solving import matrix_triangular_solve
from headrace.ops.math.casting import cast, conj
from headrace.ops.math.magnitudes import abs as modulus
from headrace.ops.math.reductions import norm, reduce_prod, reduce_sum
from headrace.ops.tables import make

__all__ = [
    "LinearOperatorFullMatrix",
    "LinearOperatorHouseholder",
    "LinearOperatorLowerTriangular",
]


class LinearOperatorFullMatrix(LinearOperator):
    """Matrices as they are, [B1, …, Bb, M, N]."""

    def __init__(
        self,
        matrix: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        """Raises TypeError for what is not of floats, ValueError for less than a matrix."""
        with name_scope(name, values=[matrix]):
            self._matrix = convert(matrix, name="matrix")
            check_kind(self._matrix, "matrix")
            check_rank(self._matrix, 2, "matrix")
            super().__init__(
                self._matrix.dtype,
                [self._matrix],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )

    @property
    def matrix(self) -> Any:
        """[B1, …, Bb, M, N]."""
        return self._matrix

    def _shape(self) -> TensorShape:
        found: TensorShape = self._matrix.shape
        return found

    def _shape_tensor(self) -> Any:
        return sizes_of(self._matrix)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return matmul(self._matrix, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _to_dense(self) -> Any:
        return self._matrix


class LinearOperatorLowerTriangular(LinearOperator):
    """The lower triangles of `tril` [B1, …, Bb, N, N]; what stands above their diagonals counts as 0."""

    def __init__(
        self,
        tril: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        """Raises TypeError for what is not of floats, ValueError for less than a matrix or a hint that is not so."""
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        with name_scope(name, values=[tril]):
            self._tril = convert(tril, name="tril")
            check_kind(self._tril, "tril")
            check_rank(self._tril, 2, "tril")
            super().__init__(
                self._tril.dtype,
                [self._tril],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )
            self._triangle = matrix_band_part(self._tril, -1, 0)
            self._diagonal = matrix_diag_part(self._tril)

    @property
    def tril(self) -> Any:
        """As it was given, [B1, …, Bb, N, N]."""
        return self._tril

    def _shape(self) -> TensorShape:
        found: TensorShape = self._tril.shape
        return found

    def _shape_tensor(self) -> Any:
        return sizes_of(self._tril)

    def _assert_non_singular(self) -> Any:
        return self._assert_diagonal_has_inverse(self._diagonal, "Diagonal")

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return matmul(self._triangle, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        return batch_solution(
            lambda matrix, right: matrix_triangular_solve(
                matrix, right, lower=True, adjoint=adjoint
            ),
            self._triangle,
            rhs,
        )

    def _determinant(self) -> Any:
        return reduce_prod(self._diagonal, axis=[-1])

    def _log_abs_determinant(self) -> Any:
        return reduce_sum(make.Log(modulus(self._diagonal)), axis=[-1])

    def _diag_part(self) -> Any:
        return self._diagonal

    def _to_dense(self) -> Any:
        return self._triangle


class LinearOperatorHouseholder(LinearOperator):
    """Reflections at the hyperplanes that are normal to `reflection_axis` [B1, …, Bb, N]: I - 2vvᴴ, v of length 1."""

    def __init__(
        self,
        reflection_axis: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        """Raises TypeError for what is not of floats, ValueError for a scalar or a hint that is not so."""
        with name_scope(name, values=[reflection_axis]):
            self._axis = convert(reflection_axis, name="reflection_axis")
            check_kind(self._axis, "reflection_axis")
            check_rank(self._axis, 1, "reflection_axis")
            if is_self_adjoint is False:
                raise ValueError("A Householder operator is always self adjoint.")
            if is_positive_definite is True:
                raise ValueError("A Householder operator is always non-positive definite.")
            if is_square is False:
                raise ValueError("A Householder operator is always square.")
            super().__init__(
                self._axis.dtype,
                [self._axis],
                is_non_singular=is_non_singular,
                is_self_adjoint=True,
                is_positive_definite=False,
                is_square=True,
                name=name,
            )

    @property
    def reflection_axis(self) -> Any:
        """As it was given, [B1, …, Bb, N]."""
        return self._axis

    def _shape(self) -> TensorShape:
        shape = self._axis.shape
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Any:
        sizes = sizes_of(self._axis)
        return concat([sizes, sizes[-1:]], 0)

    def _assert_non_singular(self) -> Any:
        return no_op("assert_non_singular")

    def _assert_self_adjoint(self) -> Any:
        return no_op("assert_self_adjoint")

    def _normal(self) -> Any:
        """The axis of length 1, [..., N]."""
        length = norm(self._axis, axis=-1, keepdims=True)
        return self._axis / cast(length, self.dtype)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        normal = expand_dims(self._normal(), -1)
        return x - 2 * normal * matmul(normal, x, adjoint_a=True)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint, adjoint_arg)  # a reflection is its own inverse

    def _determinant(self) -> Any:
        return -ones(self._batch_sizes(), dtype=self.dtype)

    def _log_abs_determinant(self) -> Any:
        return zeros(self._batch_sizes(), dtype=self.dtype)

    def _trace(self) -> Any:
        one = ones(self._batch_sizes(), dtype=self.dtype)
        return (cast(self._columns(), self.dtype) - 2) * one

    def _diag_part(self) -> Any:
        normal = self._normal()
        return 1.0 - 2 * normal * conj(normal)

    def _to_dense(self) -> Any:
        normal = expand_dims(self._normal(), -1)
        outer = -2 * matmul(normal, normal, adjoint_b=True)
        return matrix_set_diag(outer, 1.0 + matrix_diag_part(outer))
