"""`tf.SparseTensorSpec`, `IndexedSlicesSpec`, `RaggedTensorSpec`, `TensorArraySpec`: what is known of values of parts.

Called by: programs.  Threads: any; a specification does not change.
Source: behaviour of TensorFlow, which the oracle shows
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.library.tensor_spec import TensorSpec, TypeSpec
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.flow.tensor_array import TensorArray

__all__ = ["IndexedSlicesSpec", "RaggedTensorSpec", "SparseTensorSpec", "TensorArraySpec"]


class _OfShape(TypeSpec):
    """Specifications of a shape, a dtype and what else there is, all of which are compared."""

    __slots__ = ("_dtype", "_shape")
    _dtype: Any
    _shape: TensorShape

    def _rest(self) -> tuple[Any, ...]:
        return ()

    def _serialize(self) -> tuple[Any, ...]:
        return (self._shape, self._dtype, *self._rest())

    def _fits(self, other: Any) -> bool:
        return bool(
            self._rest() == other._rest()
            and self._dtype.is_compatible_with(other._dtype)
            and self._shape.is_compatible_with(other._shape)
        )

    def _with_shape(self, shape: TensorShape) -> Any:
        kind: Any = type(self)
        return kind(shape, self._dtype, *self._rest())

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or another specification, may be one of these."""
        other = spec_or_value if isinstance(spec_or_value, TypeSpec) else self._of(spec_or_value)
        return type(other) is type(self) and self._fits(other)

    def _of(self, value: Any) -> Any:
        """The specification of a value; None for what is not of this kind."""
        return None

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The one that says most of what both say.  Raises ValueError if there is none."""
        same = type(other) is type(self) and self._serialize()[1:] == other._serialize()[1:]
        if not same:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return self._with_shape(self._shape.most_specific_compatible_shape(other._shape))


class _Told(_OfShape):
    """Those of which programs may ask shape and dtype."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of the values."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as it is known; that of ragged dimensions is not."""
        return self._shape


class SparseTensorSpec(_Told):
    """A dense shape and a dtype of a SparseTensor."""

    __slots__ = ()

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32) -> None:
        """shape: of the whole; None if the rank is unknown."""
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)

    @property
    def value_type(self) -> type:
        """SparseTensor."""
        return SparseTensor

    @property
    def _component_specs(self) -> list[TensorSpec]:
        rank = self._shape.ndims
        return [
            TensorSpec([None, rank], dtypes.int64),
            TensorSpec([None], self._dtype),
            TensorSpec([rank], dtypes.int64),
        ]

    @classmethod
    def from_value(cls, value: Any) -> SparseTensorSpec:
        """Of a SparseTensor.  Raises TypeError for anything else."""
        if isinstance(value, SparseTensorValue):
            value = SparseTensor.from_value(value)
        if not isinstance(value, SparseTensor):
            raise TypeError(f"Expected SparseTensor or SparseTensorValue, got {value!r}")
        return cls(value.shape, value.dtype)

    def _of(self, value: Any) -> Any:
        return self.from_value(value) if isinstance(value, SparseTensor) else None


class IndexedSlicesSpec(_OfShape):
    """A shape and dtypes of IndexedSlices."""

    __slots__ = ("_dense_shape_dtype", "_indices_dtype", "_indices_shape")

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        indices_dtype: Any = dtypes.int64,
        dense_shape_dtype: Any = None,
        indices_shape: Any = None,
    ) -> None:
        """shape: of the whole.  dense_shape_dtype: None if there is none."""
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)
        self._indices_dtype = dtypes.as_dtype(indices_dtype)
        known = dense_shape_dtype is not None
        self._dense_shape_dtype = dtypes.as_dtype(dense_shape_dtype) if known else None
        self._indices_shape = TensorShape([None] if indices_shape is None else indices_shape)

    @property
    def value_type(self) -> type:
        """IndexedSlices."""
        return IndexedSlices

    @property
    def _component_specs(self) -> tuple[TensorSpec, ...]:
        values = self._indices_shape.concatenate(self._shape[1:])
        parts = [
            TensorSpec(values, self._dtype),
            TensorSpec(self._indices_shape, self._indices_dtype),
        ]
        if self._dense_shape_dtype is not None:
            parts.append(TensorSpec([self._shape.ndims], self._dense_shape_dtype))
        return tuple(parts)

    def _rest(self) -> tuple[Any, ...]:
        return self._indices_dtype, self._dense_shape_dtype, self._indices_shape

    def _of(self, value: Any) -> Any:
        if not isinstance(value, IndexedSlices):
            return None
        whole = value.dense_shape
        return IndexedSlicesSpec(
            value.shape,
            value.dtype,
            value.indices.dtype,
            None if whole is None else whole.dtype,
            value.indices.shape,
        )


class RaggedTensorSpec(_Told):
    """A shape, a dtype and a ragged rank of a RaggedTensor."""

    __slots__ = ("_ragged_rank", "_row_splits_dtype")

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = dtypes.int64,
    ) -> None:
        """ragged_rank: one less than the rank if None.  Raises ValueError for one that is not below the rank."""
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)
        self._row_splits_dtype = dtypes.as_dtype(row_splits_dtype)
        rank = self._shape.ndims
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with known rank.")
            ragged_rank = rank - 1
        if not isinstance(ragged_rank, int):
            raise TypeError(f"Argument `ragged_rank` must be an int, and is {ragged_rank!r}.")
        if rank is not None and ragged_rank >= rank:
            raise ValueError(
                f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank})."
            )
        self._ragged_rank = ragged_rank

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> Any:
        """The type of row_splits."""
        return self._row_splits_dtype

    @property
    def value_type(self) -> type:
        """RaggedTensor."""
        return RaggedTensor

    @property
    def _component_specs(self) -> list[TensorSpec]:
        inner = self._shape[self._ragged_rank + 1 :]
        flat = TensorSpec(TensorShape([None]).concatenate(inner), self._dtype)
        rows = self._shape[0].value if self._shape.ndims else None
        first = TensorSpec([None if rows is None else rows + 1], self._row_splits_dtype)
        others = [TensorSpec([None], self._row_splits_dtype)] * (self._ragged_rank - 1)
        return [flat, first, *others] if self._ragged_rank > 0 else [flat]

    @classmethod
    def from_value(cls, value: Any) -> RaggedTensorSpec:
        """Of a RaggedTensor.  Raises TypeError for anything else."""
        if not isinstance(value, RaggedTensor):
            raise TypeError(f"Expected RaggedTensor, got {value!r}")
        return cls(value.shape, value.dtype, value.ragged_rank, value.row_splits.dtype)

    def _rest(self) -> tuple[Any, ...]:
        return self._ragged_rank, self._row_splits_dtype

    def _of(self, value: Any) -> Any:
        return self.from_value(value) if isinstance(value, RaggedTensor) else None


class TensorArraySpec(_OfShape):
    """What the elements of a TensorArray are, and whether it grows and knows their shape by the first."""

    __slots__ = ("_dynamic_size", "_infer_shape")

    def __init__(
        self,
        element_shape: Any = None,
        dtype: Any = dtypes.float32,
        dynamic_size: bool = False,
        infer_shape: bool = True,
    ) -> None:
        """element_shape: None if the rank is unknown."""
        self._shape, self._dtype = TensorShape(element_shape), dtypes.as_dtype(dtype)
        self._dynamic_size, self._infer_shape = dynamic_size, infer_shape

    @property
    def value_type(self) -> type:
        """TensorArray."""
        return TensorArray

    @property
    def _component_specs(self) -> list[TensorSpec]:
        return [TensorSpec([], dtypes.variant)]

    @classmethod
    def from_value(cls, value: Any) -> TensorArraySpec:
        """Of a TensorArray.  Raises TypeError for anything else."""
        if not isinstance(value, TensorArray):
            raise TypeError(f"Expected TensorArray, got {value!r}")
        return cls(value.element_shape, value.dtype, value._dynamic_size, value._infer_shape)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether an array, or another specification, may be one of these."""
        return super().is_compatible_with(other)

    def _rest(self) -> tuple[Any, ...]:
        return self._dynamic_size, self._infer_shape

    def _of(self, value: Any) -> Any:
        return self.from_value(value) if isinstance(value, TensorArray) else None
