"""`tf.data.DatasetSpec` and `tf.OptionalSpec`: what is known of datasets and Optionals that are not there yet.

Also `tf.data.experimental.TensorStructure` and its kin, as TensorFlow 1.14 spelled specifications.
Called by: programs, library.data.leaves.  Threads: any; a specification does not change.
Source: behaviour of TensorFlow, which the oracle shows
"""

from __future__ import annotations

from typing import Any

from headrace.base.shapes import TensorShape
from headrace.library.data import nest
from headrace.library.tensor_spec import TensorSpec, TypeSpec
from headrace.library.type_specs import RaggedTensorSpec, SparseTensorSpec, TensorArraySpec

__all__ = [
    "DatasetSpec",
    "OptionalSpec",
    "RaggedTensorStructure",
    "SparseTensorStructure",
    "TensorArrayStructure",
    "TensorStructure",
]


def _fit(mine: Any, its: Any) -> bool:
    """Whether specifications of two elements may be of the same one."""
    try:
        nest.assert_same_structure(mine, its)
    except (TypeError, ValueError):
        return False
    pairs = zip(nest.flatten(mine), nest.flatten(its), strict=True)
    return all(one.is_compatible_with(other) for one, other in pairs)


class DatasetSpec(TypeSpec):
    """The structure of a dataset's elements."""

    __slots__ = ("_dataset_shape", "_element_spec")

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        """element_spec: a structure of specifications.  dataset_shape: of an array of such datasets."""
        self._element_spec = element_spec
        self._dataset_shape = TensorShape(dataset_shape)

    @property
    def element_spec(self) -> Any:
        """The structure of an element, with a specification for each leaf."""
        return self._element_spec

    @property
    def value_type(self) -> type:
        """Dataset."""
        from headrace.library.data.datasets import Dataset

        return Dataset

    @staticmethod
    def is_of(value: Any) -> bool:
        """Whether that is a dataset."""
        from headrace.library.data.datasets import Dataset

        return isinstance(value, Dataset)

    @staticmethod
    def from_value(value: Any) -> DatasetSpec:
        """Of a dataset."""
        return DatasetSpec(value.element_spec)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a dataset, or another specification, may be one of these."""
        other = self.from_value(spec_or_value) if self.is_of(spec_or_value) else spec_or_value
        return (
            isinstance(other, DatasetSpec)
            and self._dataset_shape.is_compatible_with(other._dataset_shape)
            and _fit(self._element_spec, other._element_spec)
        )

    def _serialize(self) -> tuple[Any, ...]:
        return self._element_spec, self._dataset_shape


class OptionalSpec(TypeSpec):
    """The structure of an element that may be missing."""

    __slots__ = ("_element_spec",)

    def __init__(self, element_spec: Any) -> None:
        """element_spec: a structure of specifications."""
        self._element_spec = element_spec

    @property
    def value_type(self) -> type:
        """Optional."""
        from headrace.library.data.optionals import Optional

        return Optional

    @staticmethod
    def from_value(value: Any) -> OptionalSpec:
        """Of an Optional."""
        return OptionalSpec(value.element_spec)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether an Optional, or another specification, may be one of these."""
        given = isinstance(spec_or_value, self.value_type)
        other = self.from_value(spec_or_value) if given else spec_or_value
        return isinstance(other, OptionalSpec) and _fit(self._element_spec, other._element_spec)

    def _serialize(self) -> tuple[Any, ...]:
        return (self._element_spec,)


def TensorStructure(dtype: Any, shape: Any) -> TensorSpec:
    """`tf.TensorSpec(shape, dtype)`."""
    return TensorSpec(shape, dtype)


def SparseTensorStructure(dtype: Any, shape: Any) -> SparseTensorSpec:
    """`tf.SparseTensorSpec(shape, dtype)`."""
    return SparseTensorSpec(shape, dtype)


def RaggedTensorStructure(dtype: Any, shape: Any, ragged_rank: int) -> RaggedTensorSpec:
    """`tf.RaggedTensorSpec(shape, dtype, ragged_rank)`."""
    return RaggedTensorSpec(shape, dtype, ragged_rank)


def TensorArrayStructure(
    dtype: Any, element_shape: Any, dynamic_size: bool, infer_shape: bool
) -> TensorArraySpec:
    """`tf.TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)`."""
    return TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)
