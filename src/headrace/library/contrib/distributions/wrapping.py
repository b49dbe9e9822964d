"""Distributions that are made of distributions: TransformedDistribution, Independent, Mixture, MixtureSameFamily.

Called by: programs, library.contrib.distributions.  Threads: as graph.
Source: behaviour of TF 1.15
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.contrib.distributions.bijector import Identity
from headrace.library.contrib.distributions.given import initial
from headrace.library.distributions.base import NOT_REPARAMETERIZED, Distribution
from headrace.library.distributions.divergence import RegisterKL, kl_divergence
from headrace.library.distributions.support import salted
from headrace.ops.array.constants import constant, zeros, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.math.casting import cast
from headrace.ops.math.magnitudes import square
from headrace.ops.math.reductions import reduce_logsumexp, reduce_sum
from headrace.ops.nn.softmax import log_softmax, softmax
from headrace.ops.tables import make

__all__ = ["Independent", "Mixture", "MixtureSameFamily", "TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Draws of `distribution`, transformed by `bijector`.

    Where batch_shape or event_shape is given, the distribution is of single numbers, and that many are drawn.
    """

    def __init__(
        self,
        distribution: Any,
        bijector: Any = None,
        batch_shape: Any = None,
        event_shape: Any = None,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        given = initial(locals())
        self._distribution, self._bijector = distribution, bijector or Identity()
        self._batch_override, self._event_override = (
            None if each is None else TensorShape(each) for each in (batch_shape, event_shape)
        )
        self._keep_type = distribution.reparameterization_type
        name = name or f"{self._bijector.name}{distribution.name}".strip("/")
        with name_scope(name) as scope:
            super().__init__(
                distribution.dtype,
                self._keep_type,
                validate_args,
                distribution.allow_nan_stats,
                given,
                [],
                scope,
            )

    @property
    def distribution(self) -> Any:
        """Of what is transformed."""
        return self._distribution

    @property
    def bijector(self) -> Any:
        """What transforms."""
        return self._bijector

    def _batch_shape(self) -> Any:
        if self._batch_override is not None:
            return self._batch_override
        if self._event_override is not None and self._distribution.batch_shape.ndims is None:
            return TensorShape(None)
        return self._distribution.batch_shape

    def _base_event_shape(self) -> TensorShape:
        if self._event_override is not None:
            return self._event_override
        found: TensorShape = self._distribution.event_shape
        return found

    def _event_shape(self) -> Any:
        return self._bijector.forward_event_shape(self._base_event_shape())

    def _batch_shape_tensor(self) -> Any:
        if self._batch_override is not None:
            return constant(self._batch_override.as_list(), dtypes.int32)
        return self._distribution.batch_shape_tensor()

    def _event_shape_tensor(self) -> Any:
        return self._bijector.forward_event_shape_tensor(self._base_event_shape_tensor())

    def _base_event_shape_tensor(self) -> Any:
        if self._event_override is not None:
            return constant(self._event_override.as_list(), dtypes.int32)
        return self._distribution.event_shape_tensor()

    def _more(self) -> list[int]:
        """The sizes that are drawn beyond those of the distribution."""
        return [
            size or 0
            for each in (self._batch_override, self._event_override)
            if each is not None
            for size in each.as_list()
        ]

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return self._bijector.forward(self._distribution.sample([n, *self._more()], seed=seed))

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Draws, of which `log_prob` and its kin remember what was transformed."""
        with self._scope(name, [sample_shape]):
            drawn = self._distribution.sample(
                concat([_vector(sample_shape), _vector(self._more())], 0), seed=seed
            )
            return self._bijector.forward(drawn)

    def _ndims(self) -> int:
        """The rank of an event.  Raises ValueError if it is not known."""
        found = self.event_shape.ndims
        if found is None:
            raise ValueError(f"the rank of events of {self.name} is not known: give event_shape")
        return found

    def _of_base(self, value: Any) -> Any:
        """The base's logarithm, summed over what was drawn beyond its own events."""
        found = self._distribution.log_prob(value)
        if self._event_override is not None and self._event_override.ndims:
            found = reduce_sum(found, axis=list(range(-self._event_override.ndims, 0)))
        return found

    def _log_prob(self, value: Tensor) -> Any:
        x = self._bijector.inverse(value)
        slope = self._bijector.inverse_log_det_jacobian(value, self._ndims())
        if isinstance(x, tuple):  # several numbers become one
            terms = [self._of_base(each) + one for each, one in zip(x, slope, strict=True)]
            return reduce_logsumexp(stack(terms), axis=0)
        return self._of_base(x) + slope

    def _cdf(self, value: Tensor) -> Any:
        return self._distribution.cdf(self._single(value, "cdf"))

    def _log_cdf(self, value: Tensor) -> Any:
        return self._distribution.log_cdf(self._single(value, "log_cdf"))

    def _survival_function(self, value: Tensor) -> Any:
        return self._distribution.survival_function(self._single(value, "survival_function"))

    def _single(self, value: Any, what: str) -> Any:
        """The one number that becomes `value`.  Raises NotImplementedError for events of several."""
        if self._event_override is not None or self._ndims():
            raise NotImplementedError(f"{what} is not implemented when overriding event_shape")
        x = self._bijector.inverse(value)
        if isinstance(x, tuple):
            raise NotImplementedError(f"{what} is not implemented when bijector is not injective.")
        return x

    def _quantile(self, value: Tensor) -> Any:
        if self._event_override is not None:
            raise NotImplementedError("quantile is not implemented when overriding event_shape")
        return self._bijector.forward(self._distribution.quantile(value))

    def _mean(self) -> Any:
        if not self._bijector.is_constant_jacobian:
            raise NotImplementedError("mean is not implemented for non-linear bijectors")
        found = self._distribution.mean()
        if self._more():
            found = found + zeros(self._more(), dtype=self.dtype)
        return self._bijector.forward(found)

    def _entropy(self) -> Any:
        if not self._bijector.is_constant_jacobian:
            raise NotImplementedError("entropy is not implemented")
        found = self._distribution.entropy()
        if self._event_override is not None:
            count = 1
            for size in self._event_override.as_list():
                count *= size or 0
            found = found * count
        whole = zeros(
            concat([self.batch_shape_tensor(), self._base_event_shape_tensor()], 0), self.dtype
        )
        return found + self._bijector.forward_log_det_jacobian(whole, self._ndims())


def _vector(sizes: Any) -> Any:
    """[n] int32."""
    made = convert(sizes, dtypes.int32)
    return reshape(made, [-1])


class Independent(Distribution):
    """A distribution whose last batch dimensions count as dimensions of an event."""

    def __init__(
        self,
        distribution: Any,
        reinterpreted_batch_ndims: int | None = None,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        """reinterpreted_batch_ndims: all but the first if None.  Raises ValueError for more than there are."""
        given = initial(locals())
        self._distribution = distribution
        rank = distribution.batch_shape.ndims
        if reinterpreted_batch_ndims is None:
            if rank is None:
                raise ValueError(
                    "reinterpreted_batch_ndims is needed where the batch's rank is not known"
                )
            reinterpreted_batch_ndims = max(rank - 1, 0)
        self._count = int(reinterpreted_batch_ndims)
        if rank is not None and self._count > rank:
            raise ValueError(
                f"reinterpreted_batch_ndims({self._count}) cannot exceed distribution.batch_ndims({rank})"
            )
        with name_scope(name or f"Independent{distribution.name}".rstrip("/")) as scope:
            super().__init__(
                distribution.dtype,
                distribution.reparameterization_type,
                validate_args,
                distribution.allow_nan_stats,
                given,
                [],
                scope,
            )

    @property
    def distribution(self) -> Any:
        """As it was given."""
        return self._distribution

    @property
    def reinterpreted_batch_ndims(self) -> int:
        """How many dimensions of its batch belong to an event."""
        return self._count

    def _cut(self, shape: Any) -> tuple[Any, Any]:
        return (shape[: -self._count], shape[-self._count :]) if self._count else (shape, shape[:0])

    def _batch_shape(self) -> Any:
        shape = self._distribution.batch_shape
        return shape if shape.ndims is None else self._cut(shape)[0]

    def _event_shape(self) -> Any:
        shape = self._distribution.batch_shape
        if shape.ndims is None:
            return TensorShape(None)
        return self._cut(shape)[1].concatenate(self._distribution.event_shape)

    def _batch_shape_tensor(self) -> Any:
        return self._cut(self._distribution.batch_shape_tensor())[0]

    def _event_shape_tensor(self) -> Any:
        more = self._cut(self._distribution.batch_shape_tensor())[1]
        return concat([more, self._distribution.event_shape_tensor()], 0)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return self._distribution.sample(n, seed=seed)

    def _summed(self, value: Any) -> Any:
        return reduce_sum(value, axis=list(range(-self._count, 0))) if self._count else value

    def _log_prob(self, value: Tensor) -> Any:
        return self._summed(self._distribution.log_prob(value))

    def _entropy(self) -> Any:
        return self._summed(self._distribution.entropy())

    def _mean(self) -> Any:
        return self._distribution.mean()

    def _variance(self) -> Any:
        return self._distribution.variance()

    def _stddev(self) -> Any:
        return self._distribution.stddev()

    def _mode(self) -> Any:
        return self._distribution.mode()


@RegisterKL(Independent, Independent)
def _(a: Independent, b: Independent, name: str | None = None) -> Any:
    """Raises NotImplementedError for events that differ."""
    if a.reinterpreted_batch_ndims != b.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL between Independents with different event shapes not supported."
        )
    with name_scope(name, "kl_independent"):
        return a._summed(kl_divergence(a.distribution, b.distribution))


class Mixture(Distribution):
    """Draws of one of several distributions each, which `cat` chooses."""

    def __init__(
        self,
        cat: Any,
        components: Sequence[Any],
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        use_static_graph: bool = False,
        name: str = "Mixture",
    ) -> None:
        """cat: a Categorical of as many classes as there are components.  use_static_graph: changes nothing here.

        Raises TypeError, ValueError for what does not fit.
        """
        given = initial(locals())
        if not hasattr(cat, "logits"):
            raise TypeError(f"cat must be a Categorical distribution, but saw: {cat}")
        if not components:
            raise ValueError("components must be a non-empty list or tuple")
        if not all(isinstance(each, Distribution) for each in components):
            raise TypeError(f"all components must be Distribution instances but saw: {components}")
        kind = components[0].dtype
        if not all(each.dtype == kind for each in components):
            raise TypeError(
                f"All components must have the same dtype, but saw dtypes: {[(d.name, d.dtype) for d in components]}"
            )
        classes = cat.logits.shape.ndims and cat.logits.shape[-1].value
        if classes is not None and classes != len(components):
            raise ValueError(f"cat.num_classes != len(components): {classes} vs. {len(components)}")
        self._cat, self._components = cat, list(components)
        with name_scope(name, values=[cat.logits]) as scope:
            super().__init__(
                kind, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, given, [], scope
            )

    @property
    def cat(self) -> Any:
        """What chooses."""
        return self._cat

    @property
    def components(self) -> list[Any]:
        """What is chosen from."""
        return self._components

    @property
    def num_components(self) -> int:
        """How many there are."""
        return len(self._components)

    def _batch_shape(self) -> Any:
        return self._cat.batch_shape

    def _batch_shape_tensor(self) -> Any:
        return self._cat.batch_shape_tensor()

    def _event_shape(self) -> Any:
        return self._components[0].event_shape

    def _event_shape_tensor(self) -> Any:
        return self._components[0].event_shape_tensor()

    def _shares(self) -> list[Any]:
        """Probabilities of the components, each [*batch, 1, …] that events broadcast with."""
        probs = softmax(self._cat.logits)
        found = []
        for at in range(len(self._components)):
            share = probs[..., at]
            for _ in range(self._components[0].event_shape.ndims or 0):
                share = expand_dims(share, -1)
            found.append(share)
        return found

    def _mean(self) -> Any:
        means = [each.mean() for each in self._components]
        pairs = zip(self._shares(), means, strict=True)
        return sum(share * mean for share, mean in pairs)

    def _variance(self) -> Any:
        found: Any = 0.0
        for share, each in zip(self._shares(), self._components, strict=True):
            found = found + share * (each.variance() + square(each.mean()))
        return found - square(self._mean())

    def _stddev(self) -> Any:
        return make.Sqrt(self._variance())

    def _log_prob(self, value: Tensor) -> Any:
        logs = log_softmax(self._cat.logits)
        terms = [each.log_prob(value) + logs[..., at] for at, each in enumerate(self._components)]
        return reduce_logsumexp(stack(terms, axis=0), axis=0)

    def _log_cdf(self, value: Tensor) -> Any:
        logs = log_softmax(self._cat.logits)
        terms = [each.log_cdf(value) + logs[..., at] for at, each in enumerate(self._components)]
        return reduce_logsumexp(stack(terms, axis=0), axis=0)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        chosen = self._cat.sample(n, seed=salted(seed, "mixture_cat"))
        found: Any = None
        for at, each in enumerate(self._components):
            drawn = each.sample(n, seed=salted(seed, f"mixture_{at}"))
            mine = make.Equal(chosen, at)
            for _ in range(each.event_shape.ndims or 0):
                mine = expand_dims(mine, -1)
            mine = make.LogicalAnd(mine, make.Equal(zeros_like(drawn), zeros_like(drawn)))
            found = drawn if found is None else make.Select(mine, drawn, found)
        return found

    def entropy_lower_bound(self, name: str = "entropy_lower_bound") -> Any:
        """The mean of the components' entropies, which the mixture's is not below."""
        with self._scope(name):
            pairs = zip(self._shares(), self._components, strict=True)
            ndims = self._components[0].event_shape.ndims or 0
            found: Any = 0.0
            for share, each in pairs:
                for _ in range(ndims):
                    share = share[..., 0]
                found = found + share * each.entropy()
            return found


class MixtureSameFamily(Distribution):
    """Draws of one of the distributions along the last dimension of a batch each."""

    def __init__(
        self,
        mixture_distribution: Any,
        components_distribution: Any,
        reparameterize: bool = False,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MixtureSameFamily",
    ) -> None:
        """Raises ValueError for what does not fit."""
        given = initial(locals())
        if reparameterize:
            raise NotImplementedError(
                "MixtureSameFamily(reparameterize=True) is not implemented: draws choose a component"
            )
        if not mixture_distribution.dtype.is_integer:
            raise ValueError(
                f"`mixture_distribution.dtype` ({mixture_distribution.dtype}) is not over integers"
            )
        self._mixture, self._components = mixture_distribution, components_distribution
        shape = components_distribution.batch_shape
        count = None if shape.ndims is None else shape[-1].value
        classes = mixture_distribution.logits.shape[-1].value
        if count is not None and classes is not None and count != classes:
            raise ValueError(
                f"`mixture_distribution components` ({classes}) does not equal "
                f"`components_distribution.batch_shape[-1]` ({count})"
            )
        self._event_ndims = components_distribution.event_shape.ndims or 0
        with name_scope(name) as scope:
            super().__init__(
                components_distribution.dtype,
                NOT_REPARAMETERIZED,
                validate_args,
                allow_nan_stats,
                given,
                [],
                scope,
            )

    @property
    def mixture_distribution(self) -> Any:
        """What chooses."""
        return self._mixture

    @property
    def components_distribution(self) -> Any:
        """What is chosen from."""
        return self._components

    def _batch_shape(self) -> Any:
        return self._components.batch_shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return self._components.batch_shape_tensor()[:-1]

    def _event_shape(self) -> Any:
        return self._components.event_shape

    def _event_shape_tensor(self) -> Any:
        return self._components.event_shape_tensor()

    def _padded(self, value: Any) -> Any:
        return expand_dims(value, -1 - self._event_ndims)

    def _log_prob(self, value: Tensor) -> Any:
        logs = log_softmax(self._mixture.logits)
        return reduce_logsumexp(self._components.log_prob(self._padded(value)) + logs, axis=-1)

    def _cdf(self, value: Tensor) -> Any:
        probs = softmax(self._mixture.logits)
        return reduce_sum(self._components.cdf(self._padded(value)) * probs, axis=-1)

    def _share(self) -> Any:
        probs = softmax(self._mixture.logits)
        for _ in range(self._event_ndims):
            probs = expand_dims(probs, -1)
        return probs

    def _over_components(self, value: Any) -> Any:
        return reduce_sum(self._share() * value, axis=-1 - self._event_ndims)

    def _mean(self) -> Any:
        return self._over_components(self._components.mean())

    def _variance(self) -> Any:
        mean = self._components.mean()
        apart = square(mean - self._padded(self._mean()))
        return self._over_components(self._components.variance() + apart)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = self._components.sample(n, seed=salted(seed, "components"))
        chosen = self._mixture.sample(n, seed=salted(seed, "mixture"))
        count = self._components.batch_shape_tensor()[-1]
        mask = one_hot(chosen, count, dtype=self.dtype)
        whole = concat([sizes_of(drawn)[:1], self._components.batch_shape_tensor()], 0)
        mask = mask + zeros(whole, dtype=self.dtype)
        for _ in range(self._event_ndims):
            mask = expand_dims(mask, -1)
        return reduce_sum(cast(mask, drawn.dtype) * drawn, axis=-1 - self._event_ndims)
