"""What transformations of draws have in common: `Bijector`, and those that are made of others.

A transformation defines `_forward`, `_inverse` and one of the logarithms of |det J|; the rest follows.  What came out
of `forward` is remembered, so that the inverse of a draw is what was drawn and nothing is lost by rounding.
Called by: programs, library.contrib.distributions.  Threads: as graph.
Source: behaviour of TF 1.15
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, ones_like
from headrace.ops.math.reductions import reduce_sum

__all__ = ["Bijector", "Chain", "Identity", "Inline", "Invert"]


class Bijector:
    """An invertible function with a Jacobian; see the module header."""

    def __init__(
        self,
        graph_parents: Any = None,
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        dtype: Any = None,
        forward_min_event_ndims: int | None = None,
        inverse_min_event_ndims: int | None = None,
        name: str | None = None,
    ) -> None:
        """forward_min_event_ndims: the rank of the least that can be transformed; inverse_…: of the result, the same.

        Raises ValueError if neither is given, or one is negative.
        """
        if forward_min_event_ndims is None and inverse_min_event_ndims is None:
            raise ValueError(
                "Must specify at least one of `forward_min_event_ndims` and `inverse_min_event_ndims`."
            )
        first = (
            inverse_min_event_ndims if forward_min_event_ndims is None else forward_min_event_ndims
        )
        last = first if inverse_min_event_ndims is None else inverse_min_event_ndims
        if first is None or last is None or min(first, last) < 0:
            raise ValueError(f"min_event_ndims are not negative: {first}, {last}")
        self._forward_ndims, self._inverse_ndims = first, last
        self._graph_parents = list(graph_parents or ())
        self._is_constant_jacobian = is_constant_jacobian
        self._validate_args = validate_args
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._name = name or type(self).__name__.lower()
        self._made: dict[Any, Any] = {}
        self._given: dict[Any, Any] = {}

    @property
    def graph_parents(self) -> list[Any]:
        """The tensors it is made of."""
        return self._graph_parents

    @property
    def forward_min_event_ndims(self) -> int:
        """The rank of the least that `forward` takes."""
        return self._forward_ndims

    @property
    def inverse_min_event_ndims(self) -> int:
        """The rank of the least that `inverse` takes."""
        return self._inverse_ndims

    @property
    def is_constant_jacobian(self) -> bool:
        """Whether |det J| is the same everywhere."""
        return self._is_constant_jacobian

    @property
    def validate_args(self) -> bool:
        """Whether steps check arguments."""
        return self._validate_args

    @property
    def dtype(self) -> Any:
        """Of what is transformed, or None for any."""
        return self._dtype

    @property
    def name(self) -> str:
        """Begins the names of its nodes."""
        return self._name

    @contextmanager
    def _scope(self, name: str | None) -> Iterator[None]:
        with name_scope(self._name), name_scope(name):
            yield

    def _tensor(self, value: Any, name: str) -> Tensor:
        value = convert(value, name=name, preferred_dtype=self._dtype)
        if self._dtype is not None and value.dtype.base_dtype != self._dtype.base_dtype:
            raise TypeError(
                f"Input had dtype {value.dtype!r} but expected {self._dtype!r}: {name} of {self._name}"
            )
        made: Tensor = value
        return made

    # -- shapes -----------------------------------------------------------------------------------

    def forward_event_shape(self, input_shape: Any) -> TensorShape:
        """Of `forward`'s result, as far as it is known."""
        return TensorShape(self._forward_event_shape(TensorShape(input_shape)))

    def inverse_event_shape(self, output_shape: Any) -> TensorShape:
        """Of `inverse`'s result, as far as it is known."""
        return TensorShape(self._inverse_event_shape(TensorShape(output_shape)))

    def forward_event_shape_tensor(
        self, input_shape: Any, name: str = "forward_event_shape_tensor"
    ) -> Any:
        """Of `forward`'s result, [rank] int32."""
        with self._scope(name):
            return self._forward_event_shape_tensor(convert(input_shape, dtypes.int32))

    def inverse_event_shape_tensor(
        self, output_shape: Any, name: str = "inverse_event_shape_tensor"
    ) -> Any:
        """Of `inverse`'s result, [rank] int32."""
        with self._scope(name):
            return self._inverse_event_shape_tensor(convert(output_shape, dtypes.int32))

    def _forward_event_shape(self, shape: TensorShape) -> Any:
        return shape

    def _inverse_event_shape(self, shape: TensorShape) -> Any:
        return shape

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return shape

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return shape

    # -- the function -----------------------------------------------------------------------------

    def forward(self, x: Any, name: str = "forward") -> Any:
        """y."""
        with self._scope(name):
            x = self._tensor(x, "x")
            if x not in self._made:
                made = self._forward(x)
                self._made[x], self._given[made] = made, x
            return self._made[x]

    def inverse(self, y: Any, name: str = "inverse") -> Any:
        """x."""
        with self._scope(name):
            y = self._tensor(y, "y")
            if y not in self._given:
                made = self._inverse(y)
                self._given[y], self._made[made] = made, y
            return self._given[y]

    def forward_log_det_jacobian(
        self, x: Any, event_ndims: Any, name: str = "forward_log_det_jacobian"
    ) -> Any:
        """log |det dy/dx| of events of rank event_ndims.  Raises ValueError for a rank that is too small."""
        with self._scope(name):
            x = self._tensor(x, "x")
            try:
                found = self._forward_log_det_jacobian(x)
            except NotImplementedError:
                found = -self._inverse_log_det_jacobian(self.forward(x))
            return self._over_events(found, x, event_ndims, self._forward_ndims)

    def inverse_log_det_jacobian(
        self, y: Any, event_ndims: Any, name: str = "inverse_log_det_jacobian"
    ) -> Any:
        """log |det dx/dy| of events of rank event_ndims.  Raises ValueError for a rank that is too small."""
        with self._scope(name):
            y = self._tensor(y, "y")
            try:
                found = self._inverse_log_det_jacobian(y)
            except NotImplementedError:
                found = -self._forward_log_det_jacobian(self.inverse(y))
            return self._over_events(found, y, event_ndims, self._inverse_ndims)

    def _over_events(self, found: Any, x: Tensor, event_ndims: Any, least: int) -> Any:
        """Sums over the dimensions of an event that the function takes one by one."""
        wanted = (
            event_ndims if isinstance(event_ndims, int) else constant_value(convert(event_ndims))
        )
        if wanted is None:
            raise ValueError(
                f"event_ndims of {self._name} is a number that is known, not {event_ndims}"
            )
        more = int(wanted) - least
        if more < 0:
            raise ValueError(
                f"`event_ndims` must be at least {least}, the rank that {self._name} transforms, not {wanted}"
            )
        if not more:
            return found
        if self._is_constant_jacobian:
            whole = ones_like(x)
            for _ in range(least):
                whole = whole[..., 0]
            found = found * whole
        return reduce_sum(found, axis=list(range(-more, 0)))

    def _forward(self, x: Any) -> Any:
        raise NotImplementedError("forward not implemented.")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError("inverse not implemented.")

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        raise NotImplementedError("forward_log_det_jacobian not implemented.")

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        raise NotImplementedError("inverse_log_det_jacobian not implemented.")


class Identity(Bijector):
    """y = x."""

    def __init__(self, validate_args: bool = False, name: str = "identity") -> None:
        super().__init__((), True, validate_args, forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return x

    def _inverse(self, y: Any) -> Any:
        return y

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return constant(0.0, x.dtype)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return constant(0.0, y.dtype)


class Invert(Bijector):
    """The inverse of a transformation."""

    def __init__(self, bijector: Any, validate_args: bool = False, name: str | None = None) -> None:
        self._bijector = bijector
        super().__init__(
            bijector.graph_parents,
            bijector.is_constant_jacobian,
            validate_args,
            bijector.dtype,
            bijector.inverse_min_event_ndims,
            bijector.forward_min_event_ndims,
            name or f"invert_{bijector.name}",
        )

    @property
    def bijector(self) -> Any:
        """What this is the inverse of."""
        return self._bijector

    def _forward_event_shape(self, shape: TensorShape) -> Any:
        return self._bijector.inverse_event_shape(shape)

    def _inverse_event_shape(self, shape: TensorShape) -> Any:
        return self._bijector.forward_event_shape(shape)

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return self._bijector.inverse_event_shape_tensor(shape)

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return self._bijector.forward_event_shape_tensor(shape)

    def _forward(self, x: Any) -> Any:
        return self._bijector.inverse(x)

    def _inverse(self, y: Any) -> Any:
        return self._bijector.forward(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return self._bijector.inverse_log_det_jacobian(x, self._forward_ndims)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return self._bijector.forward_log_det_jacobian(y, self._inverse_ndims)


def _least_of(bijectors: Sequence[Any], first: str, last: str) -> int:
    """The least rank that all take when the first of them is applied first."""
    least = 0
    for each in reversed(bijectors):
        change = getattr(each, last) - getattr(each, first)
        least = max(getattr(each, first), least - change)
    return least


class Chain(Bijector):
    """Transformations one after the other, the last one first."""

    def __init__(
        self,
        bijectors: Sequence[Any] | None = None,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        """Raises ValueError for other dtypes."""
        self._bijectors = tuple(bijectors or ())
        kinds = {each.dtype for each in self._bijectors if each.dtype is not None}
        if len(kinds) > 1:
            raise ValueError(f"incompatible dtypes: {[each.dtype for each in self._bijectors]}")
        names = "_of_".join(each.name for each in self._bijectors)
        super().__init__(
            [parent for each in self._bijectors for parent in each.graph_parents],
            all(each.is_constant_jacobian for each in self._bijectors),
            validate_args,
            kinds.pop() if kinds else None,
            _least_of(self._bijectors[::-1], "forward_min_event_ndims", "inverse_min_event_ndims"),
            _least_of(self._bijectors, "inverse_min_event_ndims", "forward_min_event_ndims"),
            name or (f"chain_of_{names}" if names else "identity"),
        )

    @property
    def bijectors(self) -> tuple[Any, ...]:
        """As they were given."""
        return self._bijectors

    def _through(self, value: Any, name: str, order: Iterator[Any]) -> Any:
        for each in order:
            value = getattr(each, name)(value)
        return value

    def _forward_event_shape(self, shape: TensorShape) -> Any:
        return self._through(shape, "forward_event_shape", reversed(self._bijectors))

    def _inverse_event_shape(self, shape: TensorShape) -> Any:
        return self._through(shape, "inverse_event_shape", iter(self._bijectors))

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return self._through(shape, "forward_event_shape_tensor", reversed(self._bijectors))

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return self._through(shape, "inverse_event_shape_tensor", iter(self._bijectors))

    def _forward(self, x: Any) -> Any:
        return self._through(x, "forward", reversed(self._bijectors))

    def _inverse(self, y: Any) -> Any:
        return self._through(y, "inverse", iter(self._bijectors))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        found: Any = constant(0.0, x.dtype)
        ndims = self._forward_ndims
        for each in reversed(self._bijectors):
            found = found + each.forward_log_det_jacobian(x, ndims)
            ndims += each.inverse_min_event_ndims - each.forward_min_event_ndims
            x = each.forward(x)
        return found

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        found: Any = constant(0.0, y.dtype)
        ndims = self._inverse_ndims
        for each in self._bijectors:
            found = found + each.inverse_log_det_jacobian(y, ndims)
            ndims += each.forward_min_event_ndims - each.inverse_min_event_ndims
            y = each.inverse(y)
        return found


class Inline(Bijector):
    """A transformation of functions."""

    def __init__(
        self,
        forward_fn: Callable[..., Any] | None = None,
        inverse_fn: Callable[..., Any] | None = None,
        inverse_log_det_jacobian_fn: Callable[..., Any] | None = None,
        forward_log_det_jacobian_fn: Callable[..., Any] | None = None,
        forward_event_shape_fn: Callable[..., Any] | None = None,
        forward_event_shape_tensor_fn: Callable[..., Any] | None = None,
        inverse_event_shape_fn: Callable[..., Any] | None = None,
        inverse_event_shape_tensor_fn: Callable[..., Any] | None = None,
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        forward_min_event_ndims: int | None = None,
        inverse_min_event_ndims: int | None = None,
        name: str = "inline",
    ) -> None:
        """Functions that are not given raise NotImplementedError, those of shapes change nothing."""
        super().__init__(
            (),
            is_constant_jacobian,
            validate_args,
            None,
            forward_min_event_ndims,
            inverse_min_event_ndims,
            name,
        )
        given = {
            "_forward": forward_fn,
            "_inverse": inverse_fn,
            "_inverse_log_det_jacobian": inverse_log_det_jacobian_fn,
            "_forward_log_det_jacobian": forward_log_det_jacobian_fn,
            "_forward_event_shape": forward_event_shape_fn,
            "_forward_event_shape_tensor": forward_event_shape_tensor_fn,
            "_inverse_event_shape": inverse_event_shape_fn,
            "_inverse_event_shape_tensor": inverse_event_shape_tensor_fn,
        }
        for each, function in given.items():
            if function is not None:
                setattr(self, each, function)
