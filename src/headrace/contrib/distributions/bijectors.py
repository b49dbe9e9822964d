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
    from headrace.library.contrib.distributions.flows import (
        BatchNormalization,
        MaskedAutoregressiveFlow,
        RealNVP,
        masked_autoregressive_default_template,
        masked_dense,
        real_nvp_default_template,
    )
    from headrace.library.contrib.distributions.triangular import (
        FillTriangular,
        ScaleTriL,
        TransformDiagonal,
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
            "headrace.library.contrib.distributions.flows": (
                "BatchNormalization MaskedAutoregressiveFlow RealNVP masked_autoregressive_default_template "
                "masked_dense real_nvp_default_template"
            ),
            "headrace.library.contrib.distributions.triangular": "FillTriangular ScaleTriL TransformDiagonal",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "AbsoluteValue",
    "Affine",
    "AffineLinearOperator",
    "AffineScalar",
    "BatchNormalization",
    "Bijector",
    "Chain",
    "Exp",
    "FillTriangular",
    "Gumbel",
    "Identity",
    "Inline",
    "Invert",
    "MaskedAutoregressiveFlow",
    "Permute",
    "PowerTransform",
    "RealNVP",
    "Reciprocal",
    "ScaleTriL",
    "Sigmoid",
    "SoftmaxCentered",
    "Softplus",
    "Softsign",
    "Square",
    "TransformDiagonal",
    "Weibull",
    "masked_autoregressive_default_template",
    "masked_dense",
    "real_nvp_default_template",
]
