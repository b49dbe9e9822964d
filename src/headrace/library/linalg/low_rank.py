"""LinearOperatorLowRankUpdate: an operator, and a product of slim matrices that is added to it.

Systems are solved by Woodbury's identity, determinants found by the lemma that goes with it: both need a system of as
many rows as the update has.
Called by: programs, library.linalg.registrations.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.linalg.diagonal import LinearOperatorDiag
from headrace.library.linalg.identity import LinearOperatorIdentity
from headrace.library.linalg.operator import LinearOperator
from headrace.library.linalg.support import batch_solution, check_rank, joint_batch
from headrace.ops.array.broadcast import broadcast_dynamic_shape
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import adjoint as adjoint_of
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.linalg.diagonals import matrix_diag_part
from headrace.ops.linalg.functions import matrix_determinant, slogdet
from headrace.ops.linalg.products import matmul
from headrace.ops.linalg.solving import cholesky, cholesky_solve, matrix_solve
from headrace.ops.math.casting import conj
from headrace.ops.math.reductions import reduce_prod, reduce_sum
from headrace.ops.tables import make

__all__ = ["LinearOperatorLowRankUpdate"]


class LinearOperatorLowRankUpdate(LinearOperator):
    """base_operator + u · diag(diag_update) · vᴴ."""

    def __init__(
        self,
        base_operator: Any,
        u: Any,
        diag_update: Any = None,
        v: Any = None,
        is_diag_update_positive: bool | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        """u [B1, …, Bb, M, K]; v [B1, …, Bb, N, K], u if None; diag_update [B1, …, Bb, K], ones if None.

        Raises ValueError for what does not fit, or hints that are not so.
        """
        if diag_update is None and is_diag_update_positive is False:
            raise ValueError(
                "Default diagonal is the identity, which is positive.  However, user set "
                "'is_diag_update_positive' to False."
            )
        positive = True if diag_update is None else is_diag_update_positive
        same = v is None
        with name_scope(name, values=[u, diag_update, v]):
            self._base = base_operator
            self._u = convert(u, name="u")
            check_rank(self._u, 2, "u")
            self._v = self._u if v is None else convert(v, name="v")
            check_rank(self._v, 2, "v")
            self._diag_update = None if diag_update is None else convert(diag_update, name="diag")
            hints = self._hints(same, positive, is_self_adjoint, is_positive_definite)
            super().__init__(
                base_operator.dtype,
                [
                    *base_operator.graph_parents,
                    *(each for each in (self._u, self._diag_update, self._v) if each is not None),
                ],
                is_non_singular,
                *hints,
                is_square,
                name,
            )
            if self._diag_update is None:
                width = self._u.shape.ndims and self._u.shape[-1].value
                rank = sizes_of(self._u)[-1] if width is None else width
                self._diag_operator: Any = LinearOperatorIdentity(rank, dtype=self.dtype)
            else:
                self._diag_operator = LinearOperatorDiag(
                    self._diag_update, is_positive_definite=positive
                )
            self._positive = positive
            self._check_fit()

    def _hints(
        self, same: bool, positive: bool | None, self_adjoint: bool | None, definite: bool | None
    ) -> tuple[bool | None, bool | None]:
        """(is_self_adjoint, is_positive_definite).  Raises ValueError for those that are not so."""
        diag = self._diag_update
        real = diag is None or not diag.dtype.is_complex
        self._symmetric = bool(
            same and self._base.is_self_adjoint and self._base.is_positive_definite and positive
        )
        if same and self._base.is_self_adjoint and real:
            if self_adjoint is False:
                raise ValueError(
                    "A = L + UDU^H, with L self-adjoint and D real diagonal.  Since UDU^H is self-adjoint, this must "
                    "be a self-adjoint operator."
                )
            self_adjoint = True
        if same and self._base.is_positive_definite and positive:
            if definite is False:
                raise ValueError(
                    "A = L + UDU^H, with L positive definite and D positive diagonal, must be positive definite."
                )
            definite = True
        return self_adjoint, definite

    def _check_fit(self) -> None:
        shape, u, v = self._base.shape, self._u.shape, self._v.shape
        if shape.ndims is None or u.ndims is None or v.ndims is None:
            return
        self._base.range_dimension.assert_is_compatible_with(u[-2])
        self._base.domain_dimension.assert_is_compatible_with(v[-2])
        u[-1].assert_is_compatible_with(v[-1])
        if self._diag_update is not None and self._diag_update.shape.ndims:
            u[-1].assert_is_compatible_with(self._diag_update.shape[-1])

    @property
    def u(self) -> Any:
        """[B1, …, Bb, M, K]."""
        return self._u

    @property
    def v(self) -> Any:
        """[B1, …, Bb, N, K]."""
        return self._v

    @property
    def is_diag_update_positive(self) -> bool | None:
        """Hint: the update's diagonal is above 0."""
        return self._positive

    @property
    def diag_update(self) -> Any:
        """[B1, …, Bb, K], or None for ones."""
        return self._diag_update

    @property
    def diag_operator(self) -> Any:
        """The operator of the update's diagonal."""
        return self._diag_operator

    @property
    def base_operator(self) -> Any:
        """What the product is added to."""
        return self._base

    def _shape(self) -> TensorShape:
        batches = [self._base.batch_shape, self._diag_operator.batch_shape]
        batches += [each.shape[:-2] for each in (self._u, self._v)]
        known: TensorShape = self._base.shape[-2:]
        return joint_batch(batches).concatenate(known)

    def _shape_tensor(self) -> Any:
        sizes = self._base.shape_tensor()
        batch = broadcast_dynamic_shape(sizes[:-2], self._diag_operator.batch_shape_tensor())
        for each in (self._u, self._v):
            batch = broadcast_dynamic_shape(batch, sizes_of(each)[:-2])
        return concat([batch, sizes[-2:]], 0)

    def _both(self, adjoint: bool) -> tuple[Any, Any]:
        return (self._v, self._u) if adjoint else (self._u, self._v)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        u, v = self._both(adjoint)
        by_base = self._base.matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
        slim = matmul(v, x, adjoint_a=True, adjoint_b=adjoint_arg)
        return by_base + matmul(u, self._diag_operator.matmul(slim, adjoint=adjoint))

    def _capacitance(self, adjoint: bool = False) -> Any:
        """D⁻¹ + vᴴL⁻¹u, [..., K, K]."""
        u, v = self._both(adjoint)
        inner = matmul(v, self._base.solve(u, adjoint=adjoint), adjoint_a=True)
        inverse = self._diag_operator.inverse()
        inverse = inverse.adjoint() if adjoint else inverse
        if self._diag_update is None:
            return inverse.add_to_tensor(inner)
        return inverse.to_dense() + inner

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        u, v = self._both(adjoint)
        by_base = self._base.solve(rhs, adjoint=adjoint)
        slim = matmul(v, by_base, adjoint_a=True)
        capacitance = self._capacitance(adjoint)
        if self._symmetric:
            inner = batch_solution(cholesky_solve, cholesky(capacitance), slim)
        else:
            inner = batch_solution(matrix_solve, capacitance, slim)
        return by_base - self._base.solve(matmul(u, inner), adjoint=adjoint)

    def _determinant(self) -> Any:
        capacitance = self._capacitance()
        if self._symmetric:
            of_capacitance = reduce_prod(matrix_diag_part(cholesky(capacitance)), axis=[-1]) ** 2
        else:
            of_capacitance = matrix_determinant(capacitance)
        return of_capacitance * self._diag_operator.determinant() * self._base.determinant()

    def _log_abs_determinant(self) -> Any:
        capacitance = self._capacitance()
        if self._symmetric:
            diagonal = matrix_diag_part(cholesky(capacitance))
            of_capacitance = 2 * reduce_sum(make.Log(diagonal), axis=[-1])
        else:
            of_capacitance = slogdet(capacitance).log_abs_determinant
        logs = self._diag_operator.log_abs_determinant(), self._base.log_abs_determinant()
        return of_capacitance + logs[0] + logs[1]

    def _diag_part(self) -> Any:
        scaled = adjoint_of(self._diag_operator.matmul(self._u, adjoint=True, adjoint_arg=True))
        return self._base.diag_part() + reduce_sum(scaled * conj(self._v), axis=-1)

    def _to_dense(self) -> Any:
        product = matmul(self._u, self._diag_operator.matmul(self._v, adjoint_arg=True))
        return self._base.to_dense() + product
