"""What distributions have in common: `Distribution`, whose public methods open scopes and call the private ones.

A distribution defines some of `_log_prob`, `_prob`, `_cdf`, …; what follows from another is said here.  Batch shape:
of the distributions that one object holds; event shape: of one draw.
Called by: library.distributions, programs, which derive classes of their own.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.reductions import reduce_prod
from headrace.ops.tables import make

__all__ = [
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Distribution",
    "ReparameterizationType",
]


class ReparameterizationType:
    """Whether a draw is a differentiable function of the parameters.  Compared by identity."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


FULLY_REPARAMETERIZED: Final = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED: Final = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """A batch of distributions of probability; see the module header.  Raises NotImplementedError for what has no
    formula.
    """

    _PARAMETERS: ClassVar[tuple[str, ...]] = ()
    """Those whose shapes `param_shapes` gives: all have the shape of the batch."""

    def __init__(
        self,
        dtype: Any,
        reparameterization_type: ReparameterizationType,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters: Mapping[str, Any] | None = None,
        graph_parents: Any = None,
        name: str | None = None,
    ) -> None:
        """dtype: of draws.  parameters: what `copy` calls the class with.  graph_parents: the tensors it is made of.

        Raises ValueError for parents that are no tensors.
        """
        for at, each in enumerate(graph_parents or ()):
            if not isinstance(each, Tensor):
                raise ValueError(f"Graph parent item {at} is not a Tensor; {each}.")
        if not name or not name.endswith("/"):
            with name_scope(name or type(self).__name__) as scope:
                name = scope
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._reparameterization_type = reparameterization_type
        self._allow_nan_stats = allow_nan_stats
        self._validate_args = validate_args
        self._parameters = dict(parameters or {})
        self._graph_parents = list(graph_parents or ())
        self._name = name

    # -- what it is -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The scope of its nodes, with the slash."""
        return self._name

    @property
    def dtype(self) -> Any:
        """Of draws."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """What it was made with, by name."""
        return {
            key: value
            for key, value in self._parameters.items()
            if not key.startswith("__") and key != "self"
        }

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """Whether gradients pass through draws."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """Whether a statistic that is not defined is NaN and not an error of the step."""
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        """Whether steps check parameters and arguments."""
        return self._validate_args

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """Another one, with other parameters where they are given."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    @classmethod
    def param_shapes(cls, sample_shape: Any, name: str = "DistributionParamShapes") -> Any:
        """Name -> int32 shape of each parameter for which `sample()` has shape `sample_shape`."""
        with name_scope(name, values=[sample_shape]):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, TensorShape]:
        """As `param_shapes`, as TensorShapes.  Raises ValueError if the shape is not known."""
        if isinstance(sample_shape, TensorShape):
            if not sample_shape.is_fully_defined():
                raise ValueError("TensorShape sample_shape must be fully defined")
            sample_shape = sample_shape.as_list()
        found = {}
        for key, shape in cls.param_shapes(sample_shape).items():
            value = constant_value(shape)
            if value is None:
                raise ValueError("sample_shape must be a fully-defined TensorShape or list/tuple")
            found[key] = TensorShape(value)
        return found

    @classmethod
    def _param_shapes(cls, sample_shape: Any) -> dict[str, Tensor]:
        if not cls._PARAMETERS:
            raise NotImplementedError("_param_shapes not implemented")
        return dict.fromkeys(cls._PARAMETERS, convert(sample_shape, dtypes.int32))

    @contextmanager
    def _scope(self, name: str | None, values: Any = ()) -> Iterator[str]:
        with (
            name_scope(self.name),
            name_scope(name, values=[*values, *self._graph_parents]) as scope,
        ):
            yield scope

    # -- shapes -----------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> TensorShape:
        """As far as it is known while the graph is built."""
        return TensorShape(self._batch_shape())

    @property
    def event_shape(self) -> TensorShape:
        """As far as it is known while the graph is built."""
        return TensorShape(self._event_shape())

    def _batch_shape(self) -> Any:
        return TensorShape(None)

    def _event_shape(self) -> Any:
        return TensorShape(None)

    def _batch_shape_tensor(self) -> Any:
        raise self._lacks("batch_shape_tensor")

    def _event_shape_tensor(self) -> Any:
        raise self._lacks("event_shape_tensor")

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """[rank of the batch] int32."""
        with self._scope(name):
            known = self.batch_shape
            if known.is_fully_defined():
                return constant(known.as_list(), dtypes.int32, name="batch_shape")
            return self._batch_shape_tensor()

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Any:
        """[rank of an event] int32."""
        with self._scope(name):
            known = self.event_shape
            if known.is_fully_defined():
                return constant(known.as_list(), dtypes.int32, name="event_shape")
            return self._event_shape_tensor()

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """[] bool."""
        with self._scope(name):
            return _is_scalar(self.event_shape, self.event_shape_tensor, "is_scalar_event")

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """[] bool."""
        with self._scope(name):
            return _is_scalar(self.batch_shape, self.batch_shape_tensor, "is_scalar_batch")

    # -- draws ------------------------------------------------------------------------------------

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Draws: [*sample_shape, *batch, *event]."""
        with self._scope(name, [sample_shape]):
            shape = convert(sample_shape, dtypes.int32, name="sample_shape")
            vector, count = _as_vector(shape)
            drawn = self._sample_n(count, seed)
            rest = shape_of(drawn)[1:]
            made = reshape(drawn, concat([vector, rest], 0))
            known = constant_value(vector)
            before = TensorShape(None if known is None else known)
            made.set_shape(before.concatenate(self.batch_shape).concatenate(self.event_shape))
            return made

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        raise self._lacks("sample_n")

    # -- of a value -------------------------------------------------------------------------------

    def _given(self, value: Any) -> Tensor:
        return convert(value, name="value", preferred_dtype=self.dtype)

    def prob(self, value: Any, name: str = "prob") -> Any:
        """Density or mass at `value`, which broadcasts with [*batch, *event]."""
        with self._scope(name, [value]):
            given = self._given(value)
            return self._first(lambda: self._prob(given), lambda: make.Exp(self._log_prob(given)))

    def log_prob(self, value: Any, name: str = "log_prob") -> Any:
        """The logarithm of `prob`."""
        with self._scope(name, [value]):
            given = self._given(value)
            return self._first(lambda: self._log_prob(given), lambda: make.Log(self._prob(given)))

    def cdf(self, value: Any, name: str = "cdf") -> Any:
        """The probability of a draw that is not above `value`."""
        with self._scope(name, [value]):
            given = self._given(value)
            return self._first(lambda: self._cdf(given), lambda: make.Exp(self._log_cdf(given)))

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Any:
        """The logarithm of `cdf`."""
        with self._scope(name, [value]):
            given = self._given(value)
            return self._first(lambda: self._log_cdf(given), lambda: make.Log(self._cdf(given)))

    def survival_function(self, value: Any, name: str = "survival_function") -> Any:
        """The probability of a draw above `value`."""
        with self._scope(name, [value]):
            given = self._given(value)
            return self._first(
                lambda: self._survival_function(given), lambda: 1.0 - self.cdf(given)
            )

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Any:
        """The logarithm of `survival_function`."""
        with self._scope(name, [value]):
            given = self._given(value)
            return self._first(
                lambda: self._log_survival_function(given),
                lambda: make.Log1p(-self.cdf(given)),
            )

    def quantile(self, value: Any, name: str = "quantile") -> Any:
        """The inverse of `cdf`."""
        with self._scope(name, [value]):
            return self._quantile(self._given(value))

    # -- statistics -------------------------------------------------------------------------------

    def entropy(self, name: str = "entropy") -> Any:
        """In nats, [*batch]."""
        with self._scope(name):
            return self._entropy()

    def mean(self, name: str = "mean") -> Any:
        """[*batch, *event]."""
        with self._scope(name):
            return self._mean()

    def mode(self, name: str = "mode") -> Any:
        """The likeliest event, [*batch, *event]."""
        with self._scope(name):
            return self._mode()

    def variance(self, name: str = "variance") -> Any:
        """[*batch, *event]."""
        with self._scope(name):
            return self._first(self._variance, lambda: make.Square(self._stddev()))

    def stddev(self, name: str = "stddev") -> Any:
        """The root of the variance."""
        with self._scope(name):
            return self._first(self._stddev, lambda: make.Sqrt(self._variance()))

    def covariance(self, name: str = "covariance") -> Any:
        """[*batch, event, event], of distributions of vectors."""
        with self._scope(name):
            return self._covariance()

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Any:
        """The Kullback-Leibler divergence from `other`; see tf.distributions.kl_divergence."""
        from headrace.library.distributions.divergence import kl_divergence

        with self._scope(name):
            return kl_divergence(self, other, self._allow_nan_stats)

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Any:
        """entropy() + kl_divergence(other)."""
        from headrace.library.distributions.divergence import cross_entropy

        with self._scope(name):
            return cross_entropy(self, other, self._allow_nan_stats)

    # -- what classes define ----------------------------------------------------------------------

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{what} is not implemented: {type(self).__name__}")

    def _first(self, direct: Any, otherwise: Any) -> Any:
        """What `direct` makes; where the class lacks it, what `otherwise` makes of what the class has."""
        try:
            return direct()
        except NotImplementedError as lacking:
            try:
                return otherwise()
            except NotImplementedError:
                raise lacking from None

    def _prob(self, value: Tensor) -> Any:
        raise self._lacks("prob")

    def _log_prob(self, value: Tensor) -> Any:
        raise self._lacks("log_prob")

    def _cdf(self, value: Tensor) -> Any:
        raise self._lacks("cdf")

    def _log_cdf(self, value: Tensor) -> Any:
        raise self._lacks("log_cdf")

    def _survival_function(self, value: Tensor) -> Any:
        raise self._lacks("survival_function")

    def _log_survival_function(self, value: Tensor) -> Any:
        raise self._lacks("log_survival_function")

    def _quantile(self, value: Tensor) -> Any:
        raise self._lacks("quantile")

    def _entropy(self) -> Any:
        raise self._lacks("entropy")

    def _mean(self) -> Any:
        raise self._lacks("mean")

    def _mode(self) -> Any:
        raise self._lacks("mode")

    def _variance(self) -> Any:
        raise self._lacks("variance")

    def _stddev(self) -> Any:
        raise self._lacks("stddev")

    def _covariance(self) -> Any:
        raise self._lacks("covariance")

    # -- as text ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        shapes = "".join(
            f", {kind}_shape={_shown(shape)}"
            for kind, shape in (("batch", self.batch_shape), ("event", self.event_shape))
            if shape.ndims is not None
        )
        kind = None if self.dtype is None else self.dtype.name
        return f'tfp.distributions.{type(self).__name__}("{self.name}"{shapes}, dtype={kind})'

    def __repr__(self) -> str:
        kind = None if self.dtype is None else self.dtype.name
        return (
            f"<tfp.distributions.{type(self).__name__} '{self.name}' "
            f"batch_shape={_shown(self.batch_shape)} event_shape={_shown(self.event_shape)} dtype={kind}>"
        )


def _shown(shape: TensorShape) -> str:
    if shape.ndims is None:
        return "<unknown>"
    listed = ["?" if size is None else str(size) for size in shape.as_list()]
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _is_scalar(known: TensorShape, dynamic: Any, name: str) -> Tensor:
    if known.ndims is not None:
        return constant(known.ndims == 0, dtypes.bool, name=name)
    made: Tensor = make.Equal(shape_of(dynamic())[0], 0)
    return made


def _as_vector(shape: Tensor) -> tuple[Tensor, Any]:
    """The shape as a vector, and the product of its sizes."""
    known = constant_value(shape)
    if known is None:
        count: Any = reduce_prod(shape)
        return (shape if shape.shape.ndims == 1 else reshape(shape, [-1])), count
    count = int(np.prod(known, dtype=np.int32))
    if np.ndim(known) == 0:
        shape = constant([int(known)], dtypes.int32, name="sample_shape")
    return shape, count
