"""LinearOperatorDiag: a diagonal.

Called by: programs, library.linalg.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.linalg.operator import LinearOperator
from headrace.library.linalg.support import check_kind, check_rank
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import adjoint as adjoint_of
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_positive
from headrace.ops.linalg.diagonals import matrix_diag, matrix_diag_part, matrix_set_diag
from headrace.ops.math.casting import cast, conj, real
from headrace.ops.math.magnitudes import abs as modulus
from headrace.ops.math.reductions import reduce_prod, reduce_sum
from headrace.ops.tables import make

__all__ = ["LinearOperatorDiag"]


class LinearOperatorDiag(LinearOperator):
    """Diagonal matrices, of `diag` [B1, …, Bb, N]."""

    def __init__(
        self,
        diag: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        """Raises TypeError for what is not of floats, ValueError for a scalar or a hint that is not so."""
        with name_scope(name, values=[diag]):
            self._diag = convert(diag, name="diag")
            check_kind(self._diag, "diag")
            check_rank(self._diag, 1, "diag")
            if not self._diag.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError("A real diagonal operator is always self adjoint.")
                is_self_adjoint = True
            if is_square is False:
                raise ValueError("Only square diagonal operators currently supported.")
            super().__init__(
                self._diag.dtype,
                [self._diag],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )

    @property
    def diag(self) -> Any:
        """[B1, …, Bb, N]."""
        return self._diag

    def _shape(self) -> TensorShape:
        shape = self._diag.shape
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Any:
        sizes = sizes_of(self._diag)
        return concat([sizes, sizes[-1:]], 0)

    def _assert_non_singular(self) -> Any:
        return self._assert_diagonal_has_inverse(self._diag, "Diagonal")

    def _assert_positive_definite(self) -> Any:
        says = "Diagonal operator had diagonal entries with non-positive real part, thus was not positive definite."
        return assert_positive(real(self._diag), message=says)

    def _assert_self_adjoint(self) -> Any:
        says = "This diagonal operator contained non-zero imaginary values.  Thus it was not self-adjoint."
        return self._assert_real(self._diag, says)

    def _one(self, adjoint: bool) -> Any:
        return conj(self._diag) if adjoint else self._diag

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        return expand_dims(self._one(adjoint), -1) * x

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self._one(adjoint) * x

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        return rhs * expand_dims(1.0 / self._one(adjoint), -1)

    def _determinant(self) -> Any:
        return reduce_prod(self._diag, axis=[-1])

    def _log_abs_determinant(self) -> Any:
        found = reduce_sum(make.Log(modulus(self._diag)), axis=[-1])
        return cast(found, self.dtype)

    def _to_dense(self) -> Any:
        return matrix_diag(self._diag)

    def _diag_part(self) -> Any:
        return self._diag

    def _add_to_tensor(self, x: Any) -> Any:
        return matrix_set_diag(x, self._diag + matrix_diag_part(x))
