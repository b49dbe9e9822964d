"""`tf.distributions`: distributions of probability."""

from __future__ import annotations

from headrace.base.missing import explaining as _explaining
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
from headrace.library.distributions.divergence import RegisterKL, kl_divergence
from headrace.library.distributions.positive import Beta, Dirichlet, Exponential, Gamma
from headrace.library.distributions.real import Laplace, Normal, StudentT, Uniform

__all__ = [
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "Exponential",
    "Gamma",
    "Laplace",
    "Multinomial",
    "Normal",
    "RegisterKL",
    "ReparameterizationType",
    "StudentT",
    "Uniform",
    "kl_divergence",
]
__getattr__ = _explaining(__name__)
