"""Distributions of classes and counts: Bernoulli, Categorical, Multinomial, DirichletMultinomial.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.distributions.base import NOT_REPARAMETERIZED, Distribution
from headrace.library.distributions.divergence import RegisterKL
from headrace.library.distributions.positive import POSITIVE
from headrace.library.distributions.support import (
    after,
    checked_classes,
    checked_counts,
    checked_truth,
    log_combinations,
    logits_and_probs,
    salted,
)
from headrace.library.functional import map_fn
from headrace.library.small_functions import lbeta
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.constants import constant, ones, ones_like, zeros_like
from headrace.ops.array.gathering import where
from headrace.ops.array.joining import concat
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal, assert_positive
from headrace.ops.flow.identities import identity
from headrace.ops.linalg.diagonals import matrix_set_diag
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.elementwise import sigmoid
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.math.scans import argmax
from headrace.ops.nn.activations import softplus
from headrace.ops.nn.basics import sigmoid_cross_entropy_with_logits
from headrace.ops.nn.softmax import (
    log_softmax,
    softmax,
    sparse_softmax_cross_entropy_with_logits,
)
from headrace.ops.random.draws import multinomial, random_uniform
from headrace.ops.random.gamma import random_gamma
from headrace.ops.tables import make

__all__ = ["Bernoulli", "Categorical", "DirichletMultinomial", "Multinomial"]


class Bernoulli(Distribution):
    """1 with probability `probs`, or the sigmoid of `logits`; else 0."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args)
        super().__init__(
            dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._logits, self._probs],
            scope,
        )

    _PARAMETERS = ("logits",)

    @property
    def logits(self) -> Tensor:
        """The log-odds of a 1."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """The probability of a 1."""
        return self._probs

    def _batch_shape(self) -> Any:
        return self._logits.shape

    def _batch_shape_tensor(self) -> Any:
        return shape_of(self._logits)

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Tensor:
        return constant([], dtypes.int32)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = concat([[n], self.batch_shape_tensor()], 0)
        drawn = random_uniform(shape, seed=seed, dtype=self._probs.dtype)
        return cast(make.Less(drawn, self._probs), self.dtype)

    def _log_prob(self, value: Tensor) -> Any:
        if self.validate_args:
            value = checked_truth(value)
        event = cast(value, self._logits.dtype)
        logits = self._logits
        static = event.shape.is_fully_defined() and logits.shape.is_fully_defined()
        if not (static and event.shape == logits.shape):
            logits, event = ones_like(event) * logits, ones_like(logits) * event
        return -sigmoid_cross_entropy_with_logits(labels=event, logits=logits)

    def _entropy(self) -> Any:
        logits = self._logits
        return -logits * (sigmoid(logits) - 1.0) + softplus(-logits)

    def _mean(self) -> Any:
        return identity(self._probs)

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self._probs)

    def _mode(self) -> Any:
        return cast(make.Greater(self._probs, 0.5), self.dtype)


class Categorical(Distribution):
    """A class from 0 on, of the probabilities `probs` [..., classes], or softmax(logits)."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name, values=[logits, probs]) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args)
            known = self._logits.shape.with_rank_at_least(1)
            if known.ndims is not None:
                self._batch_rank = constant(known.ndims - 1, dtypes.int32, name="batch_rank")
            else:
                with name_scope("batch_rank"):
                    self._batch_rank = make.Rank(self._logits) - 1
            shape = shape_of(self._logits, name="logits_shape")
            if known.ndims is not None and known[-1].value is not None:
                self._event_size = constant(known[-1].value, dtypes.int32, name="event_size")
            else:
                with name_scope("event_size"):
                    self._event_size = shape[self._batch_rank]
            if known[:-1].is_fully_defined():
                self._batch = constant(known[:-1].as_list(), dtypes.int32, name="batch_shape")
            else:
                with name_scope("batch_shape"):
                    self._batch = shape[:-1]
        super().__init__(
            dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._logits, self._probs],
            scope,
        )

    @classmethod
    def _param_shapes(cls, sample_shape: Any) -> dict[str, Tensor]:
        raise NotImplementedError("_param_shapes not implemented")

    @property
    def event_size(self) -> Tensor:
        """How many classes there are."""
        return self._event_size

    @property
    def logits(self) -> Tensor:
        """[..., classes]."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """[..., classes]."""
        return self._probs

    def _batch_shape(self) -> Any:
        return self._logits.shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return identity(self._batch)

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Tensor:
        return constant([], dtypes.int32)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        logits = self._logits
        if logits.shape.ndims != 2:
            logits = reshape(logits, [-1, self._event_size])
        kind = dtypes.int64 if self.dtype.size > 4 else dtypes.int32
        drawn = transpose(multinomial(logits, n, seed=seed, output_dtype=kind))
        drawn = reshape(drawn, concat([[n], self.batch_shape_tensor()], 0))
        return cast(drawn, self.dtype)

    def _together(self, event: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
        """Both in the same batch shape, the event as whole numbers; base [..., classes]."""
        if event.dtype.is_floating:
            event = cast(event, dtypes.int32)
        elif not event.dtype.is_integer:
            raise TypeError(
                f"`value` should have integer or floating dtype, not {event.dtype.name}"
            )
        shape = base.shape[:-1]
        if event.shape.is_fully_defined() and shape.is_fully_defined() and event.shape == shape:
            return event, base
        base = base * ones_like(event[..., None], dtype=base.dtype)
        return event * ones(shape_of(base)[:-1], dtype=event.dtype), base

    def _log_prob(self, value: Tensor) -> Any:
        event = convert(value, name="k")
        if self.validate_args:
            event = checked_classes(event)
        event, logits = self._together(event, self._logits)
        return -sparse_softmax_cross_entropy_with_logits(labels=event, logits=logits)

    def _cdf(self, value: Tensor) -> Any:
        event = convert(value, name="k")
        if self.validate_args:
            event = checked_classes(event)
        event, probs = self._together(event, self._probs)
        rows = reshape(probs, [-1, self._event_size])
        before = sequence_mask(reshape(event, [-1]), self._event_size)
        sums = reduce_sum(where(before, rows, zeros_like(rows)), -1)
        return reshape(sums, shape_of(event))

    def _entropy(self) -> Any:
        return -reduce_sum(log_softmax(self._logits) * self._probs, -1)

    def _mode(self) -> Any:
        return cast(argmax(self._logits, self._batch_rank), self.dtype)


class _Counts(Distribution):
    """How often each class came in `total_count` draws: [..., classes]."""

    _SUMMED = "counts"
    _total_count: Tensor
    _base: Tensor  # of which the batch's shape is that of all but the last dimension

    @property
    def total_count(self) -> Tensor:
        """How many are drawn together."""
        return self._total_count

    def _event_shape(self) -> Any:
        return self._base.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self) -> Any:
        return shape_of(self._base)[-1:]

    def _checked(self, counts: Tensor) -> Tensor:
        if not self.validate_args:
            return counts
        counts = checked_counts(counts)
        says = f"{self._SUMMED} must sum to `self.total_count`"
        return after(
            [assert_equal(self._total_count, reduce_sum(counts, -1), message=says)], counts
        )


class Multinomial(_Counts):
    """Counts of classes of the probabilities `probs` [..., classes], or softmax(logits)."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name, values=[total_count, logits, probs]) as scope:
            self._total_count = convert(total_count, name="total_count")
            if validate_args:
                self._total_count = checked_counts(self._total_count)
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args)
            self._base = self._total_count[..., None] * self._probs
        super().__init__(
            self._probs.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._total_count, self._logits, self._probs],
            scope,
        )

    @property
    def logits(self) -> Tensor:
        """[..., classes]."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """[..., classes]."""
        return self._probs

    def _batch_shape(self) -> Any:
        return self._base.shape.with_rank_at_least(1)[:-1]

    def _batch_shape_tensor(self) -> Any:
        return shape_of(self._base)[:-1]

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        each = cast(self._total_count, dtypes.int32)
        classes = self.event_shape_tensor()[0]
        each = ones_like(self._logits[..., 0], dtype=each.dtype) * each
        logits = ones_like(each[..., None], dtype=self._logits.dtype) * self._logits
        flat_logits = reshape(logits, [-1, classes])
        flat_each = n * reshape(each, [-1])

        def one(row: tuple[Tensor, Tensor]) -> Any:
            drawn = multinomial(row[0][None, ...], row[1], seed=seed)
            drawn = reshape(drawn, [n, -1])
            return reduce_sum(one_hot(drawn, depth=classes, dtype=self.dtype), -2)

        drawn = map_fn(one, [flat_logits, flat_each], dtype=self.dtype)
        drawn = transpose(drawn, [1, 0, 2])
        return reshape(drawn, concat([[n], self.batch_shape_tensor(), [classes]], 0))

    def _log_prob(self, value: Tensor) -> Any:
        bare = reduce_sum(self._checked(value) * log_softmax(self._logits), -1)
        return bare - (-log_combinations(self._total_count, self._checked(value)))

    def _mean(self) -> Any:
        return identity(self._base)

    def _wide(self) -> Any:
        return self._probs * ones_like(self._total_count)[..., None]

    def _variance(self) -> Any:
        p = self._wide()
        return self._base - self._base * p

    def _covariance(self) -> Any:
        p = self._wide()
        product = -matmul(self._base[..., None], p[..., None, :])
        return matrix_set_diag(product, self._variance())


class DirichletMultinomial(_Counts):
    """Counts of classes whose probabilities are drawn from a Dirichlet distribution first."""

    _SUMMED = "counts last-dimension"

    def __init__(
        self,
        total_count: Any,
        concentration: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name, values=[total_count, concentration]) as scope:
            self._total_count = convert(total_count, name="total_count")
            if validate_args:
                self._total_count = checked_counts(self._total_count)
            base = convert(concentration, name="concentration")
            checks = [assert_positive(base, message=POSITIVE)] if validate_args else []
            self._base = after(checks, base)
            self._total: Tensor = reduce_sum(self._base, -1)
        super().__init__(
            self._base.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._total_count, self._base],
            scope,
        )

    @property
    def concentration(self) -> Tensor:
        """[..., classes]."""
        return self._base

    @property
    def total_concentration(self) -> Tensor:
        """The sum over classes."""
        return self._total

    def _batch_shape(self) -> Any:
        return self._total.shape

    def _batch_shape_tensor(self) -> Any:
        return shape_of(self._total)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        each = cast(self._total_count, dtypes.int32)
        classes = self.event_shape_tensor()[0]
        drawn = random_gamma([n], self._base, dtype=self.dtype, seed=seed)
        rows = reshape(make.Log(drawn), [-1, classes])
        found = multinomial(rows, each, seed=salted(seed, "dirichlet_multinomial"))
        counts = reduce_sum(one_hot(found, depth=classes, dtype=self.dtype), -2)
        return reshape(counts, concat([[n], self.batch_shape_tensor(), [classes]], 0))

    def _log_prob(self, value: Tensor) -> Any:
        counts = self._checked(value)
        found = lbeta(self._base + counts) - lbeta(self._base)
        return found + log_combinations(self._total_count, counts)

    def _mean(self) -> Any:
        return self._total_count * (self._base / self._total[..., None])

    def _scale(self) -> Any:
        """The root of how much wider this is than the multinomial distribution."""
        total = self._total[..., None]
        return make.Sqrt((1.0 + total / self._total_count) / (1.0 + total))

    def _variance(self) -> Any:
        scale = self._scale()
        x = scale * self._mean()
        return x * (self._total_count * scale - x)

    def _covariance(self) -> Any:
        x = self._scale() * self._mean()
        product = -matmul(x[..., None], x[..., None, :])
        return matrix_set_diag(product, self._variance())


@RegisterKL(Bernoulli, Bernoulli)
def _(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Any:
    with name_scope(name, "kl_bernoulli_bernoulli", [a.logits, b.logits]):
        of_zero = softplus(-b.logits) - softplus(-a.logits)
        of_one = softplus(b.logits) - softplus(a.logits)
        return sigmoid(a.logits) * of_zero + sigmoid(-a.logits) * of_one


@RegisterKL(Categorical, Categorical)
def _(a: Categorical, b: Categorical, name: str | None = None) -> Any:
    with name_scope(name, "kl_categorical_categorical", [a.logits, b.logits]):
        apart = log_softmax(a.logits) - log_softmax(b.logits)
        return reduce_sum(softmax(a.logits) * apart, -1)
