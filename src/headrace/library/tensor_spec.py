"""`tf.TensorSpec`, `tf.contrib.framework.BoundedTensorSpec`, and the base of all specifications.

A specification says what is known of values that are not there yet.
Called by: programs.  Threads: any; a specification does not change.
Source: behaviour of TensorFlow, which the oracle shows
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.tensor import Tensor

__all__ = ["BoundedTensorSpec", "TensorSpec", "TypeSpec"]


class TypeSpec:
    """What is known of values that are not there yet; the base of all specifications."""

    __slots__ = ()

    @property
    def value_type(self) -> type:
        """Of what values this is the specification."""
        raise NotImplementedError(f"{type(self).__name__}.value_type")

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or another specification, may be one of these."""
        raise NotImplementedError(f"{type(self).__name__}.is_compatible_with")

    def _serialize(self) -> tuple[Any, ...]:
        raise NotImplementedError(f"{type(self).__name__}._serialize")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._serialize() == other._serialize()

    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._serialize()!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._serialize()


class TensorSpec(TypeSpec):
    """A shape, a dtype and a name; equal where all three are."""

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        """shape: anything that a TensorShape is made of; None if the rank is unknown."""
        self._shape = TensorShape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._name = name

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """As another specification, under another name if one is given."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """What is known of a tensor.  Raises ValueError for anything else."""
        if not isinstance(tensor, Tensor):
            raise ValueError(f"`tensor` should be a tf.Tensor, but got type {type(tensor)}.")
        return TensorSpec(tensor.shape, tensor.dtype, name or tensor.op.name)

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as it is known."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._dtype

    @property
    def value_type(self) -> type:
        """Tensor."""
        return Tensor

    @property
    def name(self) -> str | None:
        """The name, if it has one."""
        return self._name

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor, or another specification, has this dtype and may have this shape."""
        other = spec_or_tensor
        if not (hasattr(other, "shape") and hasattr(other, "dtype")):
            return False
        same = bool(self._dtype.is_compatible_with(other.dtype))
        return same and self._shape.is_compatible_with(other.shape)

    def _key(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._name

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self._shape, self._dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorSpec, (self._shape, self._dtype, self._name)


class BoundedTensorSpec(TensorSpec):
    """A TensorSpec whose elements lie between two numbers, or arrays that broadcast to the shape."""

    __slots__ = ("_maximum", "_minimum")

    def __init__(
        self, shape: Any, dtype: Any, minimum: Any, maximum: Any, name: str | None = None
    ) -> None:
        """Both bounds belong to the range.  Raises ValueError: None, or a shape that does not broadcast."""
        super().__init__(shape, dtype, name)
        self._minimum = self._bound("minimum", minimum)
        self._maximum = self._bound("maximum", maximum)

    def _bound(self, what: str, value: Any) -> np.ndarray[Any, Any]:
        if value is None:
            raise ValueError(f"`{what}` can not be None.")
        bound = np.array(value, dtype=self._dtype.as_numpy_dtype)
        try:
            if self._shape.is_fully_defined():
                np.broadcast_to(bound, tuple(n or 0 for n in self._shape.as_list()))
        except ValueError:
            raise ValueError(
                f"`{what}` {value} is not compatible with shape {self._shape}."
            ) from None
        bound.setflags(write=False)
        return bound

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedTensorSpec:
        """As another specification; without bounds there, all that the dtype has."""
        lowest = getattr(spec, "minimum", spec.dtype.min)
        highest = getattr(spec, "maximum", spec.dtype.max)
        return BoundedTensorSpec(spec.shape, spec.dtype, lowest, highest, name or spec.name)

    @property
    def minimum(self) -> np.ndarray[Any, Any]:
        """The smallest elements, read-only."""
        return self._minimum

    @property
    def maximum(self) -> np.ndarray[Any, Any]:
        """The largest elements, read-only."""
        return self._maximum

    def _key(self) -> tuple[Any, ...]:
        return *super()._key(), self._minimum.tolist(), self._maximum.tolist()

    __hash__ = TensorSpec.__hash__

    def __repr__(self) -> str:
        plain = super().__repr__().removesuffix(")")
        return f"Bounded{plain}, minimum={self._minimum!r}, maximum={self._maximum!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        given = self._shape, self._dtype, self._minimum, self._maximum, self._name
        return BoundedTensorSpec, given
