"""What vectors are multiplied with, as a linear operator, of what programs give of it.

Called by: library.contrib.distributions.  Threads: as graph.
Source: behaviour of TF 1.15
"""

from __future__ import annotations

from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.library.linalg.registrations import (
    LinearOperatorDiag,
    LinearOperatorIdentity,
    LinearOperatorLowerTriangular,
    LinearOperatorLowRankUpdate,
    LinearOperatorScaledIdentity,
)
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_none_equal
from headrace.ops.flow.identities import identity
from headrace.ops.linalg.diagonals import matrix_diag_part, matrix_set_diag

__all__: list[str] = []


def _checked(x: Any, validate: bool) -> Any:
    if not validate:
        return x
    says = "diagonal part must be non-zero"
    with control_dependencies([assert_none_equal(x, 0.0 * x, message=says)]):
        return identity(x)


def scale_operator(
    shift: Any,
    multiplier: Any,
    diag: Any,
    tril: Any,
    factor: Any = None,
    factor_diag: Any = None,
    validate: bool = False,
    size: Any = None,
) -> Any:
    """multiplier · I + diag + tril + factor · factor_diag · factorᵀ; None if nothing is given.

    size: of vectors, where only a multiplier is given and `shift` does not say it.
    Raises ValueError where nothing says the size, or a factor has nothing to be added to.
    """
    multiplier, diag, tril, factor, factor_diag = (
        None if each is None else convert(each, name=name)
        for each, name in (
            (multiplier, "scale_identity_multiplier"),
            (diag, "scale_diag"),
            (tril, "scale_tril"),
            (factor, "scale_perturb_factor"),
            (factor_diag, "scale_perturb_diag"),
        )
    )
    base = _base(shift, multiplier, diag, tril, validate, size)
    if factor is None:
        return base
    if base is None:
        base = LinearOperatorIdentity(sizes_of(factor)[-2], dtype=factor.dtype)
    return LinearOperatorLowRankUpdate(
        base,
        u=factor,
        diag_update=factor_diag,
        is_diag_update_positive=factor_diag is None,
        is_non_singular=True,
        is_self_adjoint=True if base.is_self_adjoint else None,
        is_positive_definite=True if base.is_positive_definite else None,
        is_square=True,
    )


def _base(shift: Any, multiplier: Any, diag: Any, tril: Any, validate: bool, size: Any) -> Any:
    if tril is not None:
        if diag is not None:
            tril = matrix_set_diag(tril, matrix_diag_part(tril) + diag)
        if multiplier is not None:
            tril = matrix_set_diag(tril, matrix_diag_part(tril) + expand_dims(multiplier, -1))
        return LinearOperatorLowerTriangular(_checked(tril, False), is_non_singular=True)
    if diag is not None:
        if multiplier is not None:
            diag = diag + expand_dims(multiplier, -1)
        return LinearOperatorDiag(_checked(diag, validate), is_non_singular=True)
    if multiplier is None:
        return None
    if size is None:
        if shift is None:
            raise ValueError(
                "Cannot infer `event_shape` unless `loc` or `shape_hint` is specified: give scale_diag"
            )
        shift = convert(shift, multiplier.dtype)
        known = shift.shape[-1].value if shift.shape.ndims else None
        size = sizes_of(shift)[-1] if known is None else known
    return LinearOperatorScaledIdentity(
        size, _checked(multiplier, validate), is_non_singular=True, is_self_adjoint=True
    )
