"""Operators that are said by a size: LinearOperatorIdentity, LinearOperatorScaledIdentity, LinearOperatorZeros.

Called by: programs, library.linalg.registrations.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.library.linalg.operator import LinearOperator
from headrace.library.linalg.support import assert_no_zeros
from headrace.ops.array.broadcast import (
    broadcast_dynamic_shape,
    broadcast_static_shape,
    broadcast_to,
)
from headrace.ops.array.constants import constant, ones, zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import adjoint as adjoint_of
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_equal, assert_non_negative, assert_positive
from headrace.ops.flow.identities import identity, no_op
from headrace.ops.linalg.diagonals import matrix_diag_part, matrix_set_diag
from headrace.ops.math.casting import cast, conj, real
from headrace.ops.math.magnitudes import abs as modulus
from headrace.ops.tables import make

__all__ = ["LinearOperatorIdentity", "LinearOperatorScaledIdentity", "LinearOperatorZeros"]


class _Sizes:
    """Rows, columns and batch as they are known, and as tensors.  Raises TypeError, ValueError for what is no size."""

    def __init__(self, rows: Any, columns: Any, batch: Any, checks_in_step: bool) -> None:
        self.has_batch = batch is not None
        self.rows, self.rows_tensor = _scalar(rows, "num_rows", checks_in_step)
        if columns is None:
            self.columns, self.columns_tensor = self.rows, self.rows_tensor
        else:
            self.columns, self.columns_tensor = _scalar(columns, "num_columns", checks_in_step)
        self.batch = TensorShape([])
        self.batch_tensor: Any = constant([], dtypes.int32)
        if batch is not None:
            self.batch, self.batch_tensor = _vector(batch, checks_in_step)

    @property
    def static(self) -> TensorShape:
        """As far as it is known."""
        return self.batch.concatenate(TensorShape([self.rows, self.columns]))

    @property
    def tensor(self) -> Any:
        """[rank] int32."""
        return concat([self.batch_tensor, stack([self.rows_tensor, self.columns_tensor])], 0)

    def stretched(self, x: Any) -> Any:
        """x [..., m, n], its batch broadcast with this one."""
        if not self.has_batch:
            return x
        known = x.shape[:-2]
        if known.is_fully_defined() and self.batch.is_fully_defined():
            batch: Any = broadcast_static_shape(known, self.batch).as_list()
            if batch == known.as_list():
                return x
        else:
            batch = broadcast_dynamic_shape(sizes_of(x)[:-2], self.batch_tensor)
        return broadcast_to(x, concat([batch, sizes_of(x)[-2:]], 0))


def _scalar(size: Any, name: str, checks_in_step: bool) -> tuple[int | None, Any]:
    made = convert(size, name=name)
    if not made.dtype.is_integer:
        raise TypeError(f"Argument {name} must be integer type.  Found: {made}")
    known = constant_value(made)
    if made.shape.ndims not in (0, None):
        shown = made if known is None else np.asarray(known).tolist()
        raise ValueError(f"Argument {name} must be a 0-D Tensor.  Found: {shown}")
    if known is not None and known < 0:
        raise ValueError(f"Argument {name} must be non-negative.  Found: {known}")
    made = cast(made, dtypes.int32)
    if known is None and checks_in_step:
        says = f"Argument {name} must be non-negative"
        with control_dependencies([assert_non_negative(made, message=says)]):
            made = identity(made)
    return (None if known is None else int(known)), made


def _vector(batch: Any, checks_in_step: bool) -> tuple[TensorShape, Any]:
    if isinstance(batch, TensorShape):
        batch = batch.as_list()
    empty = not hasattr(batch, "dtype") and np.size(batch) == 0
    made = convert(batch, dtypes.int32 if empty else None, name="batch_shape_arg")
    if not made.dtype.is_integer:
        raise TypeError(f"Argument batch_shape must be integer type.  Found: {made}")
    known = constant_value(made)
    if made.shape.ndims not in (1, None):
        shown = made if known is None else np.asarray(known).tolist()
        raise ValueError(f"Argument batch_shape must be a 1-D Tensor.  Found: {shown}")
    made = cast(made, dtypes.int32)
    if known is not None:
        if (np.asarray(known) < 0).any():
            raise ValueError(f"Argument batch_shape must be non-negative.  Found: {known}")
        return TensorShape(np.asarray(known).tolist()), made
    if checks_in_step:
        says = "Argument batch_shape must be non-negative"
        with control_dependencies([assert_non_negative(made, message=says)]):
            made = identity(made)
    count = made.shape.ndims and made.shape[0].value
    return TensorShape(None if count is None else [None] * count), made


class _BySize(LinearOperator):
    """What the sizes alone say of an operator."""

    _held: _Sizes
    _checks_in_step = False

    def _shape(self) -> TensorShape:
        return self._held.static

    def _shape_tensor(self) -> Any:
        return self._held.tensor

    def _fitting(self, x: Any, rows: Any) -> Any:
        """x, once it is known to have so many rows, if steps are to check that."""
        if not self._checks_in_step:
            return x
        says = f"Incompatible matrices: x has other rows than {self.name} has columns"
        with control_dependencies([assert_equal(sizes_of(x)[-2], rows, message=says)]):
            return identity(x)

    def _ones_on_diagonal(self) -> Any:
        """[..., min(M, N)]."""
        return self._of_batch(ones, [self._least()])

    def _least(self) -> Any:
        held = self._held
        if held.rows is not None and held.columns is not None:
            return min(held.rows, held.columns)
        return make.Minimum(held.rows_tensor, held.columns_tensor)

    def _of_batch(self, made: Any, more: list[Any]) -> Any:
        """made([*batch, *more]) of the operator's type."""
        held = self._held
        known = held.batch.is_fully_defined()
        if known and not any(hasattr(each, "dtype") for each in more):
            return made([*held.batch.as_list(), *more], dtype=self.dtype)
        if not more:
            return made(held.batch_tensor, dtype=self.dtype)
        return made(concat([held.batch_tensor, stack(more)], 0), dtype=self.dtype)


class LinearOperatorIdentity(_BySize):
    """The identity of num_rows, and as many of it as batch_shape says."""

    def __init__(
        self,
        num_rows: Any,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool | None = True,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        """dtype: float32 if None.  assert_proper_shapes: steps check sizes that are not known before.

        Raises ValueError for a hint that is not so, TypeError, ValueError for what is no size.
        """
        with name_scope(name):
            for hint, says in (
                (is_self_adjoint, "self adjoint"),
                (is_non_singular, "non-singular"),
                (is_positive_definite, "positive-definite"),
                (is_square, "square"),
            ):
                if not hint:
                    raise ValueError(f"An identity operator is always {says}.")
            super().__init__(
                dtype or dtypes.float32,
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )
            self._checks_in_step = assert_proper_shapes
            self._held = _Sizes(num_rows, None, batch_shape, assert_proper_shapes)

    def _assert_non_singular(self) -> Any:
        return no_op("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        return no_op("assert_positive_definite")

    def _assert_self_adjoint(self) -> Any:
        return no_op("assert_self_adjoint")

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = self._fitting(adjoint_of(x) if adjoint_arg else x, self._held.rows_tensor)
        return self._held.stretched(x)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Any:
        return self._of_batch(ones, [])

    def _log_abs_determinant(self) -> Any:
        return self._of_batch(zeros, [])

    def _trace(self) -> Any:
        return cast(self._held.rows_tensor, self.dtype) * self._of_batch(ones, [])

    def _diag_part(self) -> Any:
        return self._ones_on_diagonal()

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Any:
        """The identity + mat [..., N, N]; of batches that fit."""
        with self._scope(name):
            mat = self._of_type(mat)
            return matrix_set_diag(mat, 1 + matrix_diag_part(mat))


class LinearOperatorScaledIdentity(_BySize):
    """A multiple of the identity of num_rows for each element of `multiplier` [B1, …, Bb]."""

    def __init__(
        self,
        num_rows: Any,
        multiplier: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        """assert_proper_shapes: steps check sizes that are not known before.

        Raises ValueError for a hint that is not so, TypeError, ValueError for what is no size.
        """
        with name_scope(name, values=[multiplier, num_rows]):
            self._multiplier = convert(multiplier, name="multiplier")
            if not self._multiplier.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError("A real diagonal operator is always self adjoint.")
                is_self_adjoint = True
            if not is_square:
                raise ValueError("A ScaledIdentity operator is always square.")
            super().__init__(
                self._multiplier.dtype,
                [self._multiplier],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )
            self._checks_in_step = assert_proper_shapes
            self._held = _Sizes(num_rows, None, None, assert_proper_shapes)
            self._held.batch = self._multiplier.shape
            self._held.batch_tensor = sizes_of(self._multiplier)

    @property
    def multiplier(self) -> Any:
        """[B1, …, Bb]."""
        return self._multiplier

    def _wide(self, count: int = 2) -> Any:
        wide = self._multiplier
        for _ in range(count):
            wide = expand_dims(wide, -1)
        return wide

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._multiplier, "LinearOperator was singular")

    def _assert_positive_definite(self) -> Any:
        return assert_positive(
            real(self._multiplier), message="LinearOperator was not positive definite."
        )

    def _assert_self_adjoint(self) -> Any:
        return self._assert_real(self._multiplier, "LinearOperator was not self-adjoint")

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = self._fitting(adjoint_of(x) if adjoint_arg else x, self._held.rows_tensor)
        return x * (conj(self._wide()) if adjoint else self._wide())

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = self._fitting(adjoint_of(rhs) if adjoint_arg else rhs, self._held.rows_tensor)
        return rhs / (conj(self._wide()) if adjoint else self._wide())

    def _determinant(self) -> Any:
        return make.Pow(self._multiplier, cast(self._held.rows_tensor, self.dtype))

    def _log_abs_determinant(self) -> Any:
        size = modulus(self._multiplier)
        return cast(self._held.rows_tensor, size.dtype) * make.Log(size)

    def _trace(self) -> Any:
        return cast(self._held.rows_tensor, self.dtype) * self._multiplier

    def _diag_part(self) -> Any:
        return self._wide(1) * ones(stack([self._held.rows_tensor]), dtype=self.dtype)

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Any:
        """The operator + mat [..., N, N]."""
        with self._scope(name):
            mat = self._of_type(mat)
            mat = mat + zeros(concat([self._held.batch_tensor, [1, 1]], 0), dtype=self.dtype)
            return matrix_set_diag(mat, matrix_diag_part(mat) + self._wide(1))


class LinearOperatorZeros(_BySize):
    """Zeros [num_rows, num_columns] (square if columns are not given), and as many as batch_shape says."""

    def __init__(
        self,
        num_rows: Any,
        num_columns: Any = None,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool | None = False,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = False,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        """dtype: float32 if None.  assert_proper_shapes: steps check sizes that are not known before.

        Raises ValueError for a hint that is not so, TypeError, ValueError for what is no size.
        """
        with name_scope(name):
            if not is_self_adjoint and is_square:
                raise ValueError("A zero operator is always self adjoint.")
            if is_non_singular:
                raise ValueError("A zero operator is always singular.")
            if is_positive_definite:
                raise ValueError("A zero operator is always not positive-definite.")
            super().__init__(
                dtype or dtypes.float32,
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )
            self._checks_in_step = assert_proper_shapes
            self._held = held = _Sizes(num_rows, num_columns, batch_shape, assert_proper_shapes)
            if is_square and held.rows is not None and held.columns not in (held.rows, None):
                raise ValueError(
                    "LinearOperatorZeros initialized as is_square=True, but got "
                    f"num_rows({held.rows}) != num_columns({held.columns})"
                )

    def _assert_non_singular(self) -> Any:
        raise errors.InvalidArgumentError(
            None, None, f"Zero operators are always non-invertible: {self.name}"
        )

    def _assert_positive_definite(self) -> Any:
        raise errors.InvalidArgumentError(
            None, None, f"Zero operators are always non-positive definite: {self.name}"
        )

    def _assert_self_adjoint(self) -> Any:
        return no_op("assert_self_adjoint")

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        held = self._held
        x = adjoint_of(x) if adjoint_arg else x
        rows, inner = (
            (held.columns_tensor, held.rows_tensor)
            if adjoint
            else (held.rows_tensor, held.columns_tensor)
        )
        x = self._fitting(x, inner)
        batch = broadcast_dynamic_shape(sizes_of(x)[:-2], held.batch_tensor)
        made = zeros(concat([batch, stack([rows, sizes_of(x)[-1]])], 0), dtype=x.dtype)
        known = held.columns if adjoint else held.rows
        if x.shape.ndims is not None and held.batch.ndims is not None:
            joint = broadcast_static_shape(x.shape[:-2], held.batch)
            made.set_shape(joint.concatenate(TensorShape([known, x.shape[-1]])))
        return made

    def _determinant(self) -> Any:
        return self._of_batch(zeros, [])

    def _trace(self) -> Any:
        return self._of_batch(zeros, [])

    def _diag_part(self) -> Any:
        return self._of_batch(zeros, [self._least()])

    def _to_dense(self) -> Any:
        return self._of_batch(zeros, self._two_sizes())

    def _two_sizes(self) -> list[Any]:
        held = self._held
        if held.rows is not None and held.columns is not None:
            return [held.rows, held.columns]
        return [held.rows_tensor, held.columns_tensor]

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Any:
        """mat, in as many as there are of the operator."""
        with self._scope(name):
            return self._held.stretched(self._of_type(mat))
