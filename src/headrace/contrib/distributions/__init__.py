"""`tf.contrib.distributions`: distributions of probability, and transformations of their draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.contrib.distributions import bijectors
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.distributions.bijectors import (
        softplus_inverse,
    )
    from headrace.library.contrib.distributions.counts import (
        Binomial,
        Geometric,
        NegativeBinomial,
        Poisson,
    )
    from headrace.library.contrib.distributions.normals import (
        MultivariateNormalDiag,
        MultivariateNormalDiagPlusLowRank,
        MultivariateNormalDiagWithSoftplusScale,
        MultivariateNormalFullCovariance,
        MultivariateNormalTriL,
    )
    from headrace.library.contrib.distributions.numbers import (
        BetaWithSoftplusConcentration,
        Cauchy,
        Chi2,
        Chi2WithAbsDf,
        Deterministic,
        GammaWithSoftplusConcentrationRate,
        HalfNormal,
        InverseGamma,
        LaplaceWithSoftplusScale,
        Logistic,
        NormalWithSoftplusScale,
        StudentTWithAbsDfSoftplusScale,
        VectorDeterministic,
    )
    from headrace.library.contrib.distributions.one_hot import (
        ExpRelaxedOneHotCategorical,
        OneHotCategorical,
        RelaxedBernoulli,
        RelaxedOneHotCategorical,
    )
    from headrace.library.contrib.distributions.triangular import (
        fill_triangular,
        fill_triangular_inverse,
        percentile,
    )
    from headrace.library.contrib.distributions.wrapping import (
        Independent,
        Mixture,
        MixtureSameFamily,
        TransformedDistribution,
    )
    from headrace.library.distributions.base import (
        FULLY_REPARAMETERIZED,
        NOT_REPARAMETERIZED,
        Distribution,
        ReparameterizationType,
    )
    from headrace.library.distributions.discrete import (
        Bernoulli,
        Categorical,
        DirichletMultinomial,
        Multinomial,
    )
    from headrace.library.distributions.divergence import (
        RegisterKL,
        kl_divergence,
    )
    from headrace.library.distributions.positive import (
        Beta,
        Dirichlet,
        Exponential,
        Gamma,
    )
    from headrace.library.distributions.real import (
        Laplace,
        Normal,
        StudentT,
        Uniform,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.distributions.bijectors": ("softplus_inverse"),
            "headrace.library.contrib.distributions.triangular": (
                "fill_triangular fill_triangular_inverse percentile"
            ),
            "headrace.library.contrib.distributions.counts": (
                "Binomial Geometric NegativeBinomial Poisson"
            ),
            "headrace.library.contrib.distributions.normals": (
                "MultivariateNormalDiag MultivariateNormalDiagPlusLowRank "
                "MultivariateNormalDiagWithSoftplusScale MultivariateNormalFullCovariance "
                "MultivariateNormalTriL"
            ),
            "headrace.library.contrib.distributions.numbers": (
                "BetaWithSoftplusConcentration Cauchy Chi2 Chi2WithAbsDf Deterministic "
                "GammaWithSoftplusConcentrationRate HalfNormal InverseGamma "
                "LaplaceWithSoftplusScale Logistic NormalWithSoftplusScale "
                "StudentTWithAbsDfSoftplusScale VectorDeterministic"
            ),
            "headrace.library.contrib.distributions.one_hot": (
                "ExpRelaxedOneHotCategorical OneHotCategorical RelaxedBernoulli "
                "RelaxedOneHotCategorical"
            ),
            "headrace.library.contrib.distributions.wrapping": (
                "Independent Mixture MixtureSameFamily TransformedDistribution"
            ),
            "headrace.library.distributions.base": (
                "Distribution FULLY_REPARAMETERIZED NOT_REPARAMETERIZED ReparameterizationType"
            ),
            "headrace.library.distributions.discrete": (
                "Bernoulli Categorical DirichletMultinomial Multinomial"
            ),
            "headrace.library.distributions.divergence": ("RegisterKL kl_divergence"),
            "headrace.library.distributions.positive": ("Beta Dirichlet Exponential Gamma"),
            "headrace.library.distributions.real": ("Laplace Normal StudentT Uniform"),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Bernoulli",
    "Beta",
    "BetaWithSoftplusConcentration",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "Chi2WithAbsDf",
    "Deterministic",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "ExpRelaxedOneHotCategorical",
    "Exponential",
    "Gamma",
    "GammaWithSoftplusConcentrationRate",
    "Geometric",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Laplace",
    "LaplaceWithSoftplusScale",
    "Logistic",
    "Mixture",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormalDiag",
    "MultivariateNormalDiagPlusLowRank",
    "MultivariateNormalDiagWithSoftplusScale",
    "MultivariateNormalFullCovariance",
    "MultivariateNormalTriL",
    "NegativeBinomial",
    "Normal",
    "NormalWithSoftplusScale",
    "OneHotCategorical",
    "Poisson",
    "RegisterKL",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReparameterizationType",
    "StudentT",
    "StudentTWithAbsDfSoftplusScale",
    "TransformedDistribution",
    "Uniform",
    "VectorDeterministic",
    "bijectors",
    "fill_triangular",
    "fill_triangular_inverse",
    "kl_divergence",
    "percentile",
    "softplus_inverse",
]
