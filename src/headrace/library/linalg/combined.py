"""Operators that are made of operators: adjoints, inverses, products, blocks along a diagonal, Kronecker's products.

Called by: programs, library.linalg.registrations.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from headrace.base.shapes import TensorShape
from headrace.graph.names import name_scope
from headrace.library.linalg.operator import LinearOperator
from headrace.library.linalg.support import joint_batch, joint_batch_sizes
from headrace.ops.array.broadcast import broadcast_dynamic_shape, broadcast_to
from headrace.ops.array.constants import zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import adjoint as adjoint_of
from headrace.ops.array.shapes import expand_dims, matrix_transpose, reshape
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.identities import group
from headrace.ops.math.casting import cast, conj
from headrace.ops.tables import make

__all__ = [
    "LinearOperatorAdjoint",
    "LinearOperatorBlockDiag",
    "LinearOperatorComposition",
    "LinearOperatorInversion",
    "LinearOperatorKronecker",
]


class LinearOperatorAdjoint(LinearOperator):
    """The conjugate transpose of an operator."""

    def __init__(
        self,
        operator: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Raises ValueError for hints that the operator's contradict."""
        self._operator = operator
        hints = _same_hints(
            operator,
            (is_non_singular, is_self_adjoint, is_positive_definite),
            "An operator is {0} if and only if its adjoint is {0}.",
        )
        name = name or f"{operator.name}_adjoint"
        with name_scope(name):
            square = operator.is_square if is_square is None else is_square
            super().__init__(
                operator.dtype, operator.graph_parents, is_square=square, name=name, **hints
            )

    @property
    def operator(self) -> Any:
        """What this is the adjoint of."""
        return self._operator

    def _shape(self) -> TensorShape:
        shape = self._operator.shape
        if shape.ndims is None:
            return TensorShape(None)
        found: TensorShape = shape[:-2].concatenate(TensorShape([shape[-1], shape[-2]]))
        return found

    def _shape_tensor(self) -> Any:
        sizes = self._operator.shape_tensor()
        return concat([sizes[:-2], sizes[-1:], sizes[-2:-1]], 0)

    def _assert_non_singular(self) -> Any:
        return self._operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self._operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self._operator.assert_self_adjoint()

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(x, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self._operator.matvec(x, adjoint=not adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(rhs, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._operator.solvevec(rhs, adjoint=not adjoint)

    def _determinant(self) -> Any:
        return conj(self._operator.determinant())

    def _log_abs_determinant(self) -> Any:
        return self._operator.log_abs_determinant()

    def _trace(self) -> Any:
        return conj(self._operator.trace())

    def _diag_part(self) -> Any:
        return conj(self._operator.diag_part())

    def _to_dense(self) -> Any:
        return adjoint_of(self._operator.to_dense())


class LinearOperatorInversion(LinearOperator):
    """The inverse of an operator, which is never computed: to multiply is to solve."""

    def __init__(
        self,
        operator: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Raises ValueError for what is known to have no inverse, and hints that the operator's contradict."""
        self._operator = operator
        for what, given in (("is_square", is_square), ("is_non_singular", is_non_singular)):
            found = getattr(operator, what)
            if given is False or found is False:
                raise ValueError(
                    f"Argument `{what}` or argument `operator` must have supplied hint `{what}` equal to `True` or "
                    f"`None`. Found `operator.{what}`: {found}, `{what}`: {given}"
                )
        hints = _same_hints(
            operator,
            (is_non_singular, is_self_adjoint, is_positive_definite),
            "An operator is {0} if and only if its inverse is {0}.",
        )
        name = name or f"{operator.name}_inv"
        with name_scope(name):
            super().__init__(
                operator.dtype, operator.graph_parents, is_square=True, name=name, **hints
            )

    @property
    def operator(self) -> Any:
        """What this is the inverse of."""
        return self._operator

    def _shape(self) -> TensorShape:
        found: TensorShape = self._operator.shape
        return found

    def _shape_tensor(self) -> Any:
        return self._operator.shape_tensor()

    def _assert_non_singular(self) -> Any:
        return self._operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self._operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self._operator.assert_self_adjoint()

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Any:
        return 1.0 / self._operator.determinant()

    def _log_abs_determinant(self) -> Any:
        return -1.0 * self._operator.log_abs_determinant()


_WORDS = ("non-singular", "self-adjoint", "positive-definite")
_HINTS = ("is_non_singular", "is_self_adjoint", "is_positive_definite")


def _same_hints(operator: Any, given: Sequence[bool | None], says: str) -> Any:
    """The hints, the operator's where none are given.  Raises ValueError where the two differ."""
    found = {}
    for word, what, hint in zip(_WORDS, _HINTS, given, strict=True):
        of_operator = getattr(operator, what)
        if hint is not None and of_operator is not None and hint != of_operator:
            raise ValueError(says.format(word))
        found[what] = of_operator if hint is None else hint
    return found


def _checked(operators: Sequence[Any], says: str) -> list[Any]:
    """Raises ValueError for no operators, TypeError for other dtypes than the first one's."""
    found = list(operators)
    if not found:
        raise ValueError(says.format(found))
    if any(each.dtype != found[0].dtype for each in found):
        listed = "   ".join(str((each.name, each.dtype)) for each in found)
        raise TypeError(f"Expected all operators to have the same dtype.  Found {listed}")
    return found


def _all_or(hint: str, given: bool | None, operators: Sequence[Any], says: str) -> bool | None:
    """True if it holds for all operators, else what is given.  Raises ValueError if all have it and False is given."""
    if all(getattr(each, hint) for each in operators):
        if given is False:
            raise ValueError(says)
        return True
    return given


def _hints_of_all(
    operators: Sequence[Any], given: Sequence[bool | None], words: Sequence[str], says: str
) -> Any:
    """`_all_or` of the three hints."""
    return {
        hint: _all_or(hint, each, operators, says.format(word))
        for hint, each, word in zip(_HINTS, given, words, strict=True)
    }


def _parents(operators: Sequence[Any]) -> list[Any]:
    return [parent for each in operators for parent in each.graph_parents]


def _product(values: Any) -> Any:
    return reduce(lambda so_far, value: so_far * value, values)


def _sum(values: Any) -> Any:
    return reduce(lambda so_far, value: so_far + value, values)


class _OfSeveral(LinearOperator):
    _operators: list[Any]

    @property
    def operators(self) -> list[Any]:
        """What it is made of."""
        return self._operators

    def _together(self, sizes: Any) -> Any:
        """One size of the sizes of all operators."""
        raise NotImplementedError

    def _shape(self) -> TensorShape:
        rows, columns = (
            [getattr(each, what).value for each in self._operators]
            for what in ("range_dimension", "domain_dimension")
        )
        sizes = [None if None in each else self._together(each) for each in (rows, columns)]
        batch = joint_batch([each.batch_shape for each in self._operators])
        return batch.concatenate(TensorShape(sizes))

    def _shape_tensor(self) -> Any:
        rows = self._together(each.range_dimension_tensor() for each in self._operators)
        columns = self._together(each.domain_dimension_tensor() for each in self._operators)
        return concat([joint_batch_sizes(self._operators), stack([rows, columns])], 0)

    def _all_square(self) -> bool:
        return all(each.is_square for each in self._operators)


class LinearOperatorComposition(_OfSeveral):
    """A product of operators: the last one is the first to be applied."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Raises ValueError for none, or those that do not fit; TypeError for other dtypes."""
        self._operators = _checked(operators, "Expected a non-empty list of operators. Found: {}")
        says = "The composition of non-singular operators is always non-singular."
        is_non_singular = _all_or("is_non_singular", is_non_singular, self._operators, says)
        for left, right in zip(self._operators, self._operators[1:], strict=False):
            left.domain_dimension.assert_is_compatible_with(right.range_dimension)
        name = name or "_o_".join(each.name for each in self._operators)
        with name_scope(name):
            super().__init__(
                self._operators[0].dtype,
                _parents(self._operators),
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )

    def _shape(self) -> TensorShape:
        first, last = self._operators[0], self._operators[-1]
        batch = joint_batch([each.batch_shape for each in self._operators])
        return batch.concatenate(TensorShape([first.range_dimension, last.domain_dimension]))

    def _shape_tensor(self) -> Any:
        first, last = self._operators[0], self._operators[-1]
        sizes = stack([first.range_dimension_tensor(), last.domain_dimension_tensor()])
        return concat([joint_batch_sizes(self._operators), sizes], 0)

    def _assert_non_singular(self) -> Any:
        if self._all_square():
            return group(*(each.assert_non_singular() for each in self._operators))
        return super()._assert_non_singular()

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._one_by_one("matmul", x, not adjoint, adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._one_by_one("solve", rhs, adjoint, adjoint, adjoint_arg)

    def _one_by_one(
        self, what: str, x: Any, last_first: bool, adjoint: bool, adjoint_arg: bool
    ) -> Any:
        order = reversed(self._operators) if last_first else iter(self._operators)
        for each in order:
            x = getattr(each, what)(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
            adjoint_arg = False
        return x

    def _determinant(self) -> Any:
        if not self._all_square():
            return super()._determinant()
        return _product(each.determinant() for each in self._operators)

    def _log_abs_determinant(self) -> Any:
        if not self._all_square():
            return super()._log_abs_determinant()
        return _sum(each.log_abs_determinant() for each in self._operators)


class LinearOperatorBlockDiag(_OfSeveral):
    """Operators along the diagonal, zeros beside them."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        """Raises ValueError for none, and for hints that are not so; TypeError for other dtypes."""
        self._operators = held = _checked(
            operators, "Expected a non-empty list of operators. Found: {}"
        )
        hints = _hints_of_all(
            held,
            (is_non_singular, is_self_adjoint, is_positive_definite),
            ("non-singular", "self-adjoint", "positive definite"),
            "The direct sum of {0} operators is always {0}.",
        )
        name = name or "_ds_".join(each.name for each in held)
        with name_scope(name):
            super().__init__(held[0].dtype, _parents(held), is_square=is_square, name=name, **hints)

    def _together(self, sizes: Any) -> Any:
        return _sum(sizes)

    def _assert_non_singular(self) -> Any:
        return group(*(each.assert_non_singular() for each in self._operators))

    def _assert_positive_definite(self) -> Any:
        return group(*(each.assert_positive_definite() for each in self._operators))

    def _assert_self_adjoint(self) -> Any:
        return group(*(each.assert_self_adjoint() for each in self._operators))

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._by_blocks("matmul", x, not adjoint, adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._by_blocks("solve", rhs, adjoint, adjoint, adjoint_arg)

    def _by_blocks(
        self, what: str, x: Any, by_columns: bool, adjoint: bool, adjoint_arg: bool
    ) -> Any:
        """by_columns: the blocks of x are as long as the operators have columns, not rows."""
        x = adjoint_of(x) if adjoint_arg else x
        batch = broadcast_dynamic_shape(self.batch_shape_tensor(), sizes_of(x)[:-2])
        found, start = [], 0
        for each in self._operators:
            known = each.domain_dimension if by_columns else each.range_dimension
            size = known.value
            if size is None:
                size = (
                    each.domain_dimension_tensor() if by_columns else each.range_dimension_tensor()
                )
            part = x[..., start : start + size, :]
            made = getattr(each, what)(part, adjoint=adjoint)
            found.append(broadcast_to(made, concat([batch, sizes_of(made)[-2:]], 0)))
            start = start + size
        whole = concat(found, -2)
        if x.shape.ndims is not None and self.shape.ndims is not None:
            rows = self.range_dimension if by_columns else self.domain_dimension
            joint = joint_batch([self.batch_shape, x.shape[:-2]])
            whole.set_shape(joint.concatenate(TensorShape([rows, x.shape[-1]])))
        return whole

    def _determinant(self) -> Any:
        return _product(each.determinant() for each in self._operators)

    def _log_abs_determinant(self) -> Any:
        return _sum(each.log_abs_determinant() for each in self._operators)

    def _trace(self) -> Any:
        if self._all_square():
            return _sum(each.trace() for each in self._operators)
        return super()._trace()

    def _diag_part(self) -> Any:
        if not self._all_square():
            return super()._diag_part()
        batch = self._batch_sizes()
        parts = [each.diag_part() for each in self._operators]
        wide = [broadcast_to(each, concat([batch, sizes_of(each)[-1:]], 0)) for each in parts]
        made = concat(wide, -1)
        made.set_shape(self.shape[:-1])
        return made

    def _to_dense(self) -> Any:
        batch, whole = self._batch_sizes(), self._columns()
        rows: list[Any] = []
        before: Any = 0
        for each in self._operators:
            dense = each.to_dense()
            height, width = sizes_of(dense)[-2], sizes_of(dense)[-1]
            left, right = (
                zeros(concat([batch, stack([height, size])], 0), dtype=self.dtype)
                for size in (before, whole - before - width)
            )
            dense = broadcast_to(dense, concat([batch, sizes_of(dense)[-2:]], 0))
            rows.append(concat([left, dense, right], -1))
            before = before + width
        made = concat(rows, -2)
        made.set_shape(self.shape)
        return made


class LinearOperatorKronecker(_OfSeveral):
    """Kronecker's product of operators."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Raises ValueError for none, and for hints that are not so; TypeError for other dtypes."""
        self._operators = held = _checked(
            operators, "Argument `operators` must be a list of >=1 operators. Received: {}."
        )
        hints = _hints_of_all(
            held,
            (is_non_singular, is_self_adjoint, is_positive_definite),
            _WORDS,
            "The Kronecker product of {0} operators is always {0}.",
        )
        name = name or "_x_".join(each.name for each in held)
        with name_scope(name):
            super().__init__(held[0].dtype, _parents(held), is_square=is_square, name=name, **hints)

    def _together(self, sizes: Any) -> Any:
        return _product(sizes)

    def _assert_non_singular(self) -> Any:
        if self._all_square():
            return group(*(each.assert_non_singular() for each in self._operators))
        return super()._assert_non_singular()

    def _assert_self_adjoint(self) -> Any:
        if self._all_square():
            return group(*(each.assert_self_adjoint() for each in self._operators))
        return super()._assert_self_adjoint()

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._factor_by_factor(
            lambda each, part: each.matmul(part, adjoint=adjoint), x, not adjoint, adjoint_arg
        )

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._factor_by_factor(
            lambda each, part: each.solve(part, adjoint=adjoint), rhs, adjoint, adjoint_arg
        )

    def _factor_by_factor(
        self,
        function: Callable[[Any, Any], Any],
        x: Any,
        by_columns: bool,
        adjoint_arg: bool,
    ) -> Any:
        """Each factor along its own part of the rows, which then become the last dimension: after all of them x's
        columns stand before the new rows.
        """
        x = adjoint_of(x) if adjoint_arg else x
        count = sizes_of(x)[-1]
        batch = broadcast_dynamic_shape(self.batch_shape_tensor(), sizes_of(x)[:-2])
        part = broadcast_to(x, concat([batch, sizes_of(x)[-2:]], 0))
        for each in self._operators:
            size = each.domain_dimension_tensor() if by_columns else each.range_dimension_tensor()
            part = reshape(part, concat([batch, stack([size, -1])], 0))
            part = matrix_transpose(function(each, part))
        made = matrix_transpose(reshape(part, concat([batch, stack([count, -1])], 0)))
        if x.shape.ndims is not None and self.shape.ndims is not None:
            rows = self.range_dimension if by_columns else self.domain_dimension
            joint = joint_batch([self.batch_shape, x.shape[:-2]])
            made.set_shape(joint.concatenate(TensorShape([rows, x.shape[-1]])))
        return made

    def _power(self, each: Any) -> Any:
        """How often a factor stands along the diagonal."""
        return cast(self._columns() // each.domain_dimension_tensor(), self.dtype)

    def _determinant(self) -> Any:
        return _product(make.Pow(each.determinant(), self._power(each)) for each in self._operators)

    def _log_abs_determinant(self) -> Any:
        return _sum(each.log_abs_determinant() * self._power(each) for each in self._operators)

    def _trace(self) -> Any:
        if not self._all_square():
            return super()._trace()
        return _product(each.trace() for each in self._operators)

    def _diag_part(self) -> Any:
        if not self._all_square():
            return super()._diag_part()
        batch = self._batch_sizes()
        found = self._operators[0].diag_part()
        for each in self._operators[1:]:
            found = expand_dims(found, -1) * expand_dims(each.diag_part(), -2)
            found = reshape(found, concat([sizes_of(found)[:-2], [-1]], 0))
        made = broadcast_to(found, concat([batch, sizes_of(found)[-1:]], 0))
        made.set_shape(self.shape[:-1])
        return made

    def _to_dense(self) -> Any:
        found = self._operators[0].to_dense()
        for each in self._operators[1:]:
            one = each.to_dense()
            wide = found[..., :, None, :, None] * one[..., None, :, None, :]
            sizes = sizes_of(wide)
            last = stack([sizes[-4] * sizes[-3], sizes[-2] * sizes[-1]])
            found = reshape(wide, concat([sizes[:-4], last], 0))
        found.set_shape(self.shape)
        return found
