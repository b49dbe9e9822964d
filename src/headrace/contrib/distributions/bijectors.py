"""`tf.contrib.distributions.bijectors`: invertible functions, with the logarithms of their Jacobians."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.distributions.bijector import (
        Bijector,
        Chain,
        Identity,
        Inline,
        Invert,
    )
    from headrace.library.contrib.distributions.bijectors import (
        AbsoluteValue,
        Affine,
        AffineLinearOperator,
        AffineScalar,
        Exp,
        Gumbel,
        Permute,
        PowerTransform,
        Reciprocal,
        Sigmoid,
        SoftmaxCentered,
        Softplus,
        Softsign,
        Square,
        Weibull,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.distributions.bijector": (
                "Bijector Chain Identity Inline Invert"
            ),
            "headrace.library.contrib.distributions.bijectors": (
                "AbsoluteValue Affine AffineLinearOperator AffineScalar Exp Gumbel Permute "
                "PowerTransform Reciprocal Sigmoid SoftmaxCentered Softplus Softsign Square "
                "Weibull"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "AbsoluteValue",
    "Affine",
    "AffineLinearOperator",
    "AffineScalar",
    "Bijector",
    "Chain",
    "Exp",
    "Gumbel",
    "Identity",
    "Inline",
    "Invert",
    "Permute",
    "PowerTransform",
    "Reciprocal",
    "Sigmoid",
    "SoftmaxCentered",
    "Softplus",
    "Softsign",
    "Square",
    "Weibull",
]
