"""Distributions of choices as vectors, and what is differentiable near them.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15; C. Maddison, A. Mnih, Y. Teh, The Concrete Distribution, 2017
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.contrib.distributions.bijector import Bijector
from headrace.library.contrib.distributions.bijectors import Exp, Sigmoid
from headrace.library.contrib.distributions.given import initial
from headrace.library.contrib.distributions.numbers import Logistic, open_uniform
from headrace.library.contrib.distributions.wrapping import TransformedDistribution
from headrace.library.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
)
from headrace.library.distributions.divergence import RegisterKL
from headrace.library.distributions.support import logits_and_probs
from headrace.ops.array.joining import concat
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_positive
from headrace.ops.flow.identities import identity
from headrace.ops.linalg.diagonals import matrix_diag
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_logsumexp, reduce_sum
from headrace.ops.math.scans import argmax
from headrace.ops.nn.softmax import log_softmax, softmax
from headrace.ops.random.draws import multinomial
from headrace.ops.tables import make

__all__ = [
    "ExpRelaxedOneHotCategorical",
    "OneHotCategorical",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class _OfClasses(Distribution):
    """Of vectors, with logits [*batch, classes]."""

    _PARAMETERS = ("logits",)
    _logits: Tensor
    _probs: Tensor

    @property
    def logits(self) -> Tensor:
        """Logarithms of what the probabilities are in proportion to."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """Of the classes."""
        return self._probs

    @property
    def event_size(self) -> Any:
        """The number of classes, [] int32."""
        return sizes_of(self._logits)[-1]

    def _batch_shape(self) -> Any:
        return self._logits.shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return sizes_of(self._logits)[:-1]

    def _event_shape(self) -> Any:
        return self._logits.shape[-1:]

    def _event_shape_tensor(self) -> Any:
        return sizes_of(self._logits)[-1:]


class OneHotCategorical(_OfClasses):
    """A class of the probabilities `probs`, or softmax(logits), as a vector of zeros and a one."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "OneHotCategorical",
    ) -> None:
        """Raises ValueError unless one of both is given."""
        given = initial(locals())
        with name_scope(name, values=[logits, probs]) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args)
        super().__init__(
            dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._logits, self._probs],
            scope,
        )

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        sizes = sizes_of(self._logits)
        rows = reshape(self._logits, concat([[-1], sizes[-1:]], 0))
        drawn = make.Transpose(multinomial(rows, n, seed=seed), [1, 0])
        drawn = reshape(drawn, concat([[n], sizes[:-1]], 0))
        return one_hot(drawn, sizes[-1], dtype=self.dtype)

    def _log_prob(self, value: Tensor) -> Any:
        return reduce_sum(cast(value, self._logits.dtype) * log_softmax(self._logits), axis=-1)

    def _entropy(self) -> Any:
        logs = log_softmax(self._logits)
        return -reduce_sum(softmax(self._logits) * logs, axis=-1)

    def _mode(self) -> Any:
        return one_hot(argmax(self._logits, -1), self.event_size, dtype=self.dtype)

    def _mean(self) -> Any:
        return identity(self._probs)

    def _variance(self) -> Any:
        return self._probs * (1.0 - self._probs)

    def _covariance(self) -> Any:
        column = expand_dims(self._probs, -1)
        return matrix_diag(self._probs) - matmul(column, column, transpose_b=True)


@RegisterKL(OneHotCategorical, OneHotCategorical)
def _(a: OneHotCategorical, b: OneHotCategorical, name: str | None = None) -> Any:
    with name_scope(name, "kl_categorical_categorical", [a.logits, b.logits]):
        apart = log_softmax(a.logits) - log_softmax(b.logits)
        return reduce_sum(softmax(a.logits) * apart, axis=-1)


def _temperature(temperature: Any, kind: Any, validate: bool) -> Tensor:
    found: Tensor = convert(temperature, kind, name="temperature")
    if validate:
        with control_dependencies([assert_positive(found)]):
            found = identity(found)
    return found


class ExpRelaxedOneHotCategorical(_OfClasses):
    """Logarithms of RelaxedOneHotCategorical's draws."""

    def __init__(
        self,
        temperature: Any,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ExpRelaxedOneHotCategorical",
    ) -> None:
        """Raises ValueError unless one of logits and probs is given."""
        given = initial(locals())
        with name_scope(name, values=[logits, probs, temperature]) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args)
            self._temperature = _temperature(temperature, self._logits.dtype, validate_args)
        super().__init__(
            dtype or self._logits.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._logits, self._probs, self._temperature],
            scope,
        )

    @property
    def temperature(self) -> Tensor:
        """The colder, the nearer to one class alone."""
        return self._temperature

    def _heat(self) -> Any:
        """The temperature, which broadcasts with events."""
        return (
            self._temperature
            if self._temperature.shape.ndims == 0
            else self._temperature[..., None]
        )

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        u = open_uniform(concat([[n], sizes_of(self._logits)], 0), self._logits.dtype, seed)
        return log_softmax((self._logits - make.Log(-make.Log(u))) / self._heat())

    def _log_prob(self, value: Tensor) -> Any:
        count = cast(self.event_size, self._logits.dtype)
        constant = make.Lgamma(count) + (count - 1.0) * make.Log(self._temperature)
        heat = self._heat()
        terms = self._logits - value * heat
        return constant + reduce_sum(terms, axis=-1) - count * reduce_logsumexp(terms, axis=-1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of probabilities, near to one class each the colder it is (Gumbel-softmax)."""

    def __init__(
        self,
        temperature: Any,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RelaxedOneHotCategorical",
    ) -> None:
        """Raises ValueError unless one of logits and probs is given."""
        given = initial(locals())
        inner = ExpRelaxedOneHotCategorical(
            temperature, logits, probs, dtype, validate_args, allow_nan_stats
        )
        super().__init__(inner, Exp(), validate_args=validate_args, name=name)
        self._parameters = given

    @property
    def temperature(self) -> Any:
        """The colder, the nearer to one class alone."""
        return self.distribution.temperature

    @property
    def logits(self) -> Any:
        """Logarithms of what the probabilities are in proportion to."""
        return self.distribution.logits

    @property
    def probs(self) -> Any:
        """Of the classes."""
        return self.distribution.probs

    @property
    def event_size(self) -> Any:
        """The number of classes, [] int32."""
        return self.distribution.event_size


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, near to one of both the colder it is."""

    def __init__(
        self,
        temperature: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RelaxedBernoulli",
    ) -> None:
        """Raises ValueError unless one of logits and probs is given."""
        given = initial(locals())
        with name_scope(name, values=[logits, probs, temperature]):
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args)
            self._temperature = _temperature(temperature, self._logits.dtype, validate_args)
        width = 1.0 / self._temperature
        inner = Logistic(self._logits / self._temperature, width, validate_args, allow_nan_stats)
        squash: Bijector = Sigmoid(validate_args)
        super().__init__(inner, squash, validate_args=validate_args, name=name)
        self._parameters = given

    @property
    def temperature(self) -> Tensor:
        """The colder, the nearer to 0 or 1."""
        return self._temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds of a 1."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """The probability of a 1."""
        return self._probs
