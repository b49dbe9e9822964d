"""Which operators adjoints, inverses, products, solutions and Cholesky factors of operators are: the simplest known.

Imported with the names of `tf.linalg` that it is about, so that whoever has an operator has these.
Called by: library.linalg.algebra, which finds them.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare classes, hints and names with 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.library.linalg.algebra import (
    RegisterAdjoint,
    RegisterCholesky,
    RegisterInverse,
    RegisterMatmul,
    RegisterSolve,
)
from headrace.library.linalg.circulant import (
    LinearOperatorCirculant,
    LinearOperatorCirculant2D,
    LinearOperatorCirculant3D,
    LinearOperatorToeplitz,
)
from headrace.library.linalg.combined import (
    LinearOperatorAdjoint,
    LinearOperatorBlockDiag,
    LinearOperatorComposition,
    LinearOperatorInversion,
    LinearOperatorKronecker,
)
from headrace.library.linalg.dense import (
    LinearOperatorFullMatrix,
    LinearOperatorHouseholder,
    LinearOperatorLowerTriangular,
)
from headrace.library.linalg.diagonal import LinearOperatorDiag
from headrace.library.linalg.identity import (
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)
from headrace.library.linalg.low_rank import LinearOperatorLowRankUpdate
from headrace.library.linalg.operator import LinearOperator
from headrace.ops.array.shapes import expand_dims
from headrace.ops.linalg.solving import cholesky
from headrace.ops.math.casting import conj
from headrace.ops.tables import make

__all__ = [
    "LinearOperator",
    "LinearOperatorAdjoint",
    "LinearOperatorBlockDiag",
    "LinearOperatorCirculant",
    "LinearOperatorCirculant2D",
    "LinearOperatorCirculant3D",
    "LinearOperatorComposition",
    "LinearOperatorDiag",
    "LinearOperatorFullMatrix",
    "LinearOperatorHouseholder",
    "LinearOperatorIdentity",
    "LinearOperatorInversion",
    "LinearOperatorKronecker",
    "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular",
    "LinearOperatorScaledIdentity",
    "LinearOperatorToeplitz",
    "LinearOperatorZeros",
]

_CIRCULANTS = (LinearOperatorCirculant, LinearOperatorCirculant2D, LinearOperatorCirculant3D)


def _hints(of: Any) -> dict[str, Any]:
    """The operator's own."""
    return {
        "is_non_singular": of.is_non_singular,
        "is_self_adjoint": of.is_self_adjoint,
        "is_positive_definite": of.is_positive_definite,
        "is_square": True,
    }


def _non_singular(a: Any, b: Any) -> bool | None:
    if a.is_non_singular and b.is_non_singular:
        return True
    if a.is_square and b.is_square and False in (a.is_non_singular, b.is_non_singular):
        return False
    return None


def _commuting(a: Any, b: Any) -> dict[str, Any]:
    """Hints of the product of two that may change places."""
    both = a.is_self_adjoint and b.is_self_adjoint
    definite = both and a.is_positive_definite and b.is_positive_definite
    return {
        "is_non_singular": _non_singular(a, b),
        "is_self_adjoint": True if both else None,
        "is_positive_definite": True if definite else None,
        "is_square": True,
    }


def _is_adjoint_of(a: Any, b: Any) -> bool:
    return (
        (a is b and a.is_self_adjoint is True)
        or (isinstance(a, LinearOperatorAdjoint) and a.operator is b)
        or (isinstance(b, LinearOperatorAdjoint) and b.operator is a)
    )


# -- adjoints -----------------------------------------------------------------------------------


@RegisterAdjoint(LinearOperator)
def _(a: Any) -> Any:
    return LinearOperatorAdjoint(a, **{**_hints(a), "is_square": a.is_square})


@RegisterAdjoint(LinearOperatorAdjoint)
def _(a: Any) -> Any:
    return a.operator


@RegisterAdjoint(LinearOperatorIdentity)
@RegisterAdjoint(LinearOperatorHouseholder)
def _(a: Any) -> Any:
    return a


@RegisterAdjoint(LinearOperatorScaledIdentity)
def _(a: Any) -> Any:
    return LinearOperatorScaledIdentity(
        a.domain_dimension_tensor(), conj(a.multiplier), **_hints(a)
    )


@RegisterAdjoint(LinearOperatorDiag)
def _(a: Any) -> Any:
    return LinearOperatorDiag(conj(a.diag), **_hints(a))


def _adjoint_of_circulant(a: Any) -> Any:
    return type(a)(conj(a.spectrum), a.dtype, **_hints(a))


@RegisterAdjoint(LinearOperatorBlockDiag)
@RegisterAdjoint(LinearOperatorKronecker)
def _(a: Any) -> Any:
    hints = {**_hints(a), "is_square": a.is_square}
    return type(a)([each.adjoint() for each in a.operators], **hints)


# -- inverses -----------------------------------------------------------------------------------


@RegisterInverse(LinearOperator)
def _(a: Any) -> Any:
    return LinearOperatorInversion(a, **_hints(a))


@RegisterInverse(LinearOperatorInversion)
def _(a: Any) -> Any:
    return a.operator


@RegisterInverse(LinearOperatorIdentity)
@RegisterInverse(LinearOperatorHouseholder)
def _(a: Any) -> Any:
    return a


@RegisterInverse(LinearOperatorScaledIdentity)
def _(a: Any) -> Any:
    return LinearOperatorScaledIdentity(
        a.domain_dimension_tensor(), 1.0 / a.multiplier, **_hints(a)
    )


@RegisterInverse(LinearOperatorDiag)
def _(a: Any) -> Any:
    return LinearOperatorDiag(1.0 / a.diag, **_hints(a))


def _inverse_of_circulant(a: Any) -> Any:
    return type(a)(1.0 / a.spectrum, a.dtype, **_hints(a))


@RegisterInverse(LinearOperatorBlockDiag)
@RegisterInverse(LinearOperatorKronecker)
def _(a: Any) -> Any:
    return type(a)([each.inverse() for each in a.operators], **_hints(a))


# -- Cholesky's factors -------------------------------------------------------------------------


@RegisterCholesky(LinearOperator)
def _(a: Any) -> Any:
    return LinearOperatorLowerTriangular(
        cholesky(a.to_dense()), is_non_singular=True, is_self_adjoint=False, is_square=True
    )


@RegisterCholesky(LinearOperatorIdentity)
def _(a: Any) -> Any:
    return a


_OF_ROOTS: Any = dict.fromkeys(
    ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square"), True
)


@RegisterCholesky(LinearOperatorScaledIdentity)
def _(a: Any) -> Any:
    rows = a.domain_dimension_tensor()
    return LinearOperatorScaledIdentity(rows, make.Sqrt(a.multiplier), **_OF_ROOTS)


@RegisterCholesky(LinearOperatorDiag)
def _(a: Any) -> Any:
    return LinearOperatorDiag(make.Sqrt(a.diag), **_OF_ROOTS)


@RegisterCholesky(LinearOperatorBlockDiag)
@RegisterCholesky(LinearOperatorKronecker)
def _(a: Any) -> Any:
    # What is known of all factors is no hint of the product: they need not be self-adjoint.
    return type(a)([each.cholesky() for each in a.operators], is_non_singular=True, is_square=True)


# -- products -----------------------------------------------------------------------------------


def _is_flat(a: Any, b: Any) -> bool:
    """Whether the product is known to be no square."""
    rows, columns = a.range_dimension.value, b.domain_dimension.value
    return rows is not None and columns is not None and rows != columns


@RegisterMatmul(LinearOperator, LinearOperator)
def _(a: Any, b: Any) -> Any:
    if _is_flat(a, b):
        return LinearOperatorComposition([a, b], False, False, False, False)
    non_singular = _non_singular(a, b)
    symmetric = True if _is_adjoint_of(a, b) else None
    return LinearOperatorComposition(
        [a, b],
        is_non_singular=non_singular,
        is_self_adjoint=symmetric,
        is_positive_definite=True if symmetric and non_singular else None,
        is_square=True if a.is_square and b.is_square else None,
    )


@RegisterMatmul(LinearOperator, LinearOperatorIdentity)
def _(a: Any, _: Any) -> Any:
    return a


@RegisterMatmul(LinearOperatorIdentity, LinearOperatorIdentity)
@RegisterMatmul(LinearOperatorIdentity, LinearOperator)
def _(_: Any, b: Any) -> Any:
    return b


@RegisterMatmul(LinearOperatorIdentity, LinearOperatorZeros)
@RegisterMatmul(LinearOperatorZeros, LinearOperatorIdentity)
@RegisterMatmul(LinearOperatorZeros, LinearOperatorZeros)
@RegisterMatmul(LinearOperatorZeros, LinearOperator)
@RegisterMatmul(LinearOperator, LinearOperatorZeros)
def _(a: Any, b: Any) -> Any:
    if not (a.is_square and b.is_square):
        raise ValueError(
            "Matmul with non-square `LinearOperator`s or non-square `LinearOperatorZeros` not supported at this time."
        )
    return a if isinstance(a, LinearOperatorZeros) else b


@RegisterMatmul(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _(a: Any, b: Any) -> Any:
    rows = a.domain_dimension_tensor()
    return LinearOperatorScaledIdentity(rows, a.multiplier * b.multiplier, **_commuting(a, b))


@RegisterMatmul(LinearOperatorDiag, LinearOperatorDiag)
def _(a: Any, b: Any) -> Any:
    return LinearOperatorDiag(a.diag * b.diag, **_commuting(a, b))


@RegisterMatmul(LinearOperatorDiag, LinearOperatorScaledIdentity)
def _(a: Any, b: Any) -> Any:
    return LinearOperatorDiag(a.diag * expand_dims(b.multiplier, -1), **_commuting(a, b))


@RegisterMatmul(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _(a: Any, b: Any) -> Any:
    return LinearOperatorDiag(expand_dims(a.multiplier, -1) * b.diag, **_commuting(a, b))


def _triangle(tril: Any, a: Any, b: Any) -> Any:
    return LinearOperatorLowerTriangular(
        tril, is_non_singular=_non_singular(a, b), is_self_adjoint=None, is_square=True
    )


@RegisterMatmul(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _(a: Any, b: Any) -> Any:
    return _triangle(expand_dims(a.diag, -1) * b.to_dense(), a, b)


@RegisterMatmul(LinearOperatorLowerTriangular, LinearOperatorDiag)
def _(a: Any, b: Any) -> Any:
    return _triangle(a.to_dense() * expand_dims(b.diag, -2), a, b)


def _product_of_circulants(a: Any, b: Any) -> Any:
    return type(a)(a.spectrum * b.spectrum, a.dtype, **_commuting(a, b))


@RegisterMatmul(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _(a: Any, b: Any) -> Any:
    if not _blocks_fit(a, b):
        return LinearOperatorComposition([a, b], is_non_singular=_non_singular(a, b))
    return LinearOperatorBlockDiag(
        [left.matmul(right) for left, right in zip(a.operators, b.operators, strict=True)],
        is_non_singular=_non_singular(a, b),
        is_square=True if a.is_square and b.is_square else None,
    )


def _blocks_fit(a: Any, b: Any) -> bool:
    """Whether each block is known to fit the other operator's at its place."""
    if len(a.operators) != len(b.operators):
        return False
    return all(
        left.domain_dimension.value is not None
        and left.domain_dimension.value == right.range_dimension.value
        for left, right in zip(a.operators, b.operators, strict=True)
    )


# -- solutions ----------------------------------------------------------------------------------


@RegisterSolve(LinearOperator, LinearOperator)
def _(a: Any, b: Any) -> Any:
    return LinearOperatorComposition(
        [LinearOperatorInversion(a), b],
        is_non_singular=_non_singular(a, b),
        is_square=True if a.is_square and b.is_square else None,
    )


@RegisterSolve(LinearOperatorInversion, LinearOperator)
def _(a: Any, b: Any) -> Any:
    return a.operator.matmul(b)


@RegisterSolve(LinearOperator, LinearOperatorIdentity)
@RegisterSolve(LinearOperatorInversion, LinearOperatorIdentity)
def _(a: Any, _: Any) -> Any:
    return a.inverse()


@RegisterSolve(LinearOperatorIdentity, LinearOperatorIdentity)
@RegisterSolve(LinearOperatorIdentity, LinearOperator)
def _(_: Any, b: Any) -> Any:
    return b


@RegisterSolve(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _(a: Any, b: Any) -> Any:
    rows = a.domain_dimension_tensor()
    return LinearOperatorScaledIdentity(rows, b.multiplier / a.multiplier, **_commuting(a, b))


@RegisterSolve(LinearOperatorDiag, LinearOperatorDiag)
def _(a: Any, b: Any) -> Any:
    return LinearOperatorDiag(b.diag / a.diag, **_commuting(a, b))


@RegisterSolve(LinearOperatorDiag, LinearOperatorScaledIdentity)
def _(a: Any, b: Any) -> Any:
    return LinearOperatorDiag(expand_dims(b.multiplier, -1) / a.diag, **_commuting(a, b))


@RegisterSolve(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _(a: Any, b: Any) -> Any:
    return LinearOperatorDiag(b.diag / expand_dims(a.multiplier, -1), **_commuting(a, b))


@RegisterSolve(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _(a: Any, b: Any) -> Any:
    return _triangle(b.to_dense() / expand_dims(a.diag, -1), a, b)


def _solution_of_circulants(a: Any, b: Any) -> Any:
    return type(a)(b.spectrum / a.spectrum, a.dtype, **_commuting(a, b))


@RegisterSolve(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _(a: Any, b: Any) -> Any:
    if not _blocks_fit(a, b):
        return LinearOperatorComposition([LinearOperatorInversion(a), b])
    return LinearOperatorBlockDiag(
        [left.solve(right) for left, right in zip(a.operators, b.operators, strict=True)],
        is_non_singular=_non_singular(a, b),
        is_square=True if a.is_square and b.is_square else None,
    )


for _kind in _CIRCULANTS:
    RegisterAdjoint(_kind)(_adjoint_of_circulant)
    RegisterInverse(_kind)(_inverse_of_circulant)
    RegisterMatmul(_kind, _kind)(_product_of_circulants)
    RegisterSolve(_kind, _kind)(_solution_of_circulants)
