"""The kinds of leaves of datasets' elements: what each is, and its way to the tensor that stands for it and back.

A kind of its own is one class and a line in `_KINDS`.
Called by: library.data.structures.  Threads: building as graph.
Source: TF 1.15 python/data/util/structure.py and the specifications of each type, for behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import RaggedTensorValue
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.specs import DatasetSpec, OptionalSpec
from headrace.library.tensor_spec import TensorSpec, TypeSpec
from headrace.library.type_specs import RaggedTensorSpec, SparseTensorSpec, TensorArraySpec
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_dispatch import as_ragged
from headrace.ops.data.tensor_list_calls import tensor_list_from_tensor
from headrace.ops.flow.tensor_array import TensorArray

__all__ = [
    "DatasetLeaf",
    "Leaf",
    "OptionalLeaf",
    "RaggedLeaf",
    "SparseLeaf",
    "TensorArrayLeaf",
    "TensorLeaf",
    "leaf_of_spec",
    "leaf_of_value",
    "of_tensors",
]


class Leaf:
    """One leaf of an element."""

    dtype: Any
    shape: TensorShape

    @property
    def spec(self) -> TypeSpec:
        """What programs see of it."""
        raise NotImplementedError

    @property
    def legacy(self) -> tuple[Any, Any, Any]:
        """What `output_types`, `output_shapes` and `output_classes` say."""
        return self.dtype, self.shape, self.spec.value_type

    @property
    def flat(self) -> tuple[Any, TensorShape]:
        """(dtype, shape) of the tensor that stands for it in a dataset."""
        return dtypes.variant, TensorShape(None)

    def tensor(self, value: Any) -> Tensor:
        """The tensor that stands for a value."""
        raise NotImplementedError

    def rows(self, value: Any) -> Tensor:
        """The tensor whose rows stand for the rows of a value.  Raises TypeError: it has none."""
        raise TypeError(
            f"from_tensor_slices, unbatch and rows of a batch are not for {self.spec!r}: it has no rows"
        )

    def value(self, tensor: Tensor) -> Any:
        """The value that a tensor stands for."""
        raise NotImplementedError

    def of(self, shape: TensorShape) -> Leaf:
        """The same of another shape.  Raises TypeError: it has none."""
        raise TypeError(
            f"{self.spec!r} cannot be an element of a batch, or be divided: take it apart in a map() before"
        )

    def batched(self, size: int | None) -> Leaf:
        """Of a batch of such leaves."""
        return self.of(TensorShape([size]).concatenate(self.shape))

    def unbatched(self) -> Leaf:
        """Of a row of such a leaf.  Raises ValueError: it has none."""
        if self.shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return self.of(TensorShape(None) if self.shape.ndims is None else self.shape[1:])

    def widest(self, other: Leaf) -> Leaf | None:
        """What both are; None if there is nothing."""
        if type(other) is not type(self) or other.dtype != self.dtype:
            return None
        return self.of(_widest(self.shape, other.shape))

    def accepts(self, other: Leaf) -> bool:
        """Whether a leaf like that may be one like this."""
        same = type(other) is type(self) and other.dtype == self.dtype
        return same and self.shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __repr__(self) -> str:
        return repr(self.spec)


def _widest(first: TensorShape, second: TensorShape) -> TensorShape:
    if first.ndims is None or second.ndims is None or first.ndims != second.ndims:
        return TensorShape(None)
    pairs = zip(first.as_list(), second.as_list(), strict=True)
    return TensorShape([mine if mine == its else None for mine, its in pairs])


class TensorLeaf(Leaf):
    """A tensor."""

    def __init__(self, dtype: Any, shape: Any) -> None:
        self.dtype = dtypes.as_dtype(dtype)
        self.shape = TensorShape(shape)

    @property
    def spec(self) -> TypeSpec:
        """See `Leaf`."""
        return TensorSpec(self.shape, self.dtype)

    @property
    def flat(self) -> tuple[Any, TensorShape]:
        """See `Leaf`."""
        return self.dtype, self.shape

    def tensor(self, value: Any) -> Tensor:
        """See `Leaf`."""
        made: Tensor = value
        return made

    rows = tensor

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`."""
        return tensor

    def of(self, shape: TensorShape) -> Leaf:
        """See `Leaf`."""
        return TensorLeaf(self.dtype, shape)


class SparseLeaf(Leaf):
    """A sparse tensor, which a dataset holds as three variants: indices, values and shape."""

    def __init__(self, dtype: Any, shape: Any) -> None:
        self.dtype = dtypes.as_dtype(dtype)
        self.shape = TensorShape(shape)

    @property
    def spec(self) -> TypeSpec:
        """See `Leaf`."""
        return SparseTensorSpec(self.shape, self.dtype)

    def tensor(self, value: Any) -> Tensor:
        """See `Leaf`."""
        parts = value.indices, value.values, value.dense_shape
        made: Tensor = get("SerializeSparse")(*parts, out_type=dtypes.variant)
        return made

    def rows(self, value: Any) -> Tensor:
        """See `Leaf`."""
        parts = value.indices, value.values, value.dense_shape
        made: Tensor = get("SerializeManySparse")(*parts, out_type=dtypes.variant)
        return made

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`; what is known of the shape is said again, since the graph does not know it."""
        indices, values, sizes = get("DeserializeSparse")(tensor, dtype=self.dtype)
        rank = self.shape.ndims
        if rank is not None:
            indices.set_shape([None, rank])
            known = self.shape.as_list()
            if None not in known:
                sizes = convert(np.array(known, np.int64), dtypes.int64, "shape")
            elif any(size is not None for size in known):
                parts = get("Unpack")(sizes, num=rank, name="unstack")
                parts = [
                    part if size is None else size for part, size in zip(parts, known, strict=True)
                ]
                sizes = get("Pack")([_constant(part) for part in parts], name="stack")
            else:
                sizes.set_shape([rank])
        return SparseTensor(indices, values, sizes)

    def of(self, shape: TensorShape) -> Leaf:
        """See `Leaf`."""
        return SparseLeaf(self.dtype, shape)


def _constant(value: Any) -> Tensor:
    return convert(value, dtypes.int64, "Const") if isinstance(value, int) else value


class RaggedLeaf(Leaf):
    """A ragged tensor, which a dataset holds as a variant.

    ragged_rank: 0 for a row of one ragged dimension, a plain tensor of changing length; -1 for what is in that.
    """

    def __init__(self, dtype: Any, shape: Any, ragged_rank: int, splits: Any) -> None:
        """splits: the dtype of row_splits."""
        self.dtype = dtypes.as_dtype(dtype)
        self.shape = TensorShape(shape)
        self.ragged_rank = ragged_rank
        self.splits = dtypes.as_dtype(splits)

    @property
    def spec(self) -> TypeSpec:
        """See `Leaf`."""
        return RaggedTensorSpec(self.shape, self.dtype, self.ragged_rank, self.splits)

    @property
    def legacy(self) -> tuple[Any, Any, Any]:
        """See `Leaf`."""
        return self.dtype, self.shape, self.spec

    def _variant(self, value: Any, batched_input: bool) -> Tensor:
        make = get("RaggedTensorToVariant")
        made: Tensor
        if not isinstance(value, RaggedTensor):
            made = make([], value, batched_input=batched_input, Tsplits=self.splits)
            return made
        with name_scope("RaggedToVariant"):
            splits = list(value.nested_row_splits)
            made = make(splits, value.flat_values, batched_input=batched_input)
            return made

    def tensor(self, value: Any) -> Tensor:
        """See `Leaf`."""
        return self._variant(value, False)

    def rows(self, value: Any) -> Tensor:
        """See `Leaf`."""
        return self._variant(value, True)

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`."""
        with name_scope("RaggedFromVariant"):
            splits, values = get("RaggedTensorFromVariant")(
                tensor,
                input_ragged_rank=-1,
                output_ragged_rank=max(self.ragged_rank, 0),
                Tvalues=self.dtype,
                Tsplits=self.splits,
            )
        if self.shape.ndims is not None:
            if not splits:
                values.set_shape(self.shape)
                return values
            inner = self.shape[self.ragged_rank + 1 :]
            values.set_shape(TensorShape([None]).concatenate(inner))
            rows = self.shape.as_list()[0]
            if rows is not None:
                splits[0].set_shape([rows + 1])
        for each in reversed(splits):
            values = RaggedTensor(values, each)
        return values

    def _deeper(self, shape: TensorShape, by: int) -> Leaf:
        return RaggedLeaf(self.dtype, shape, self.ragged_rank + by, self.splits)

    def of(self, shape: TensorShape) -> Leaf:
        """See `Leaf`."""
        return self._deeper(shape, 0)

    def batched(self, size: int | None) -> Leaf:
        """See `Leaf`."""
        return self._deeper(TensorShape([size]).concatenate(self.shape), 1)

    def unbatched(self) -> Leaf:
        """See `Leaf`."""
        if self.shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return self._deeper(TensorShape(None) if self.shape.ndims is None else self.shape[1:], -1)

    def _alike(self, other: Leaf) -> bool:
        return isinstance(other, RaggedLeaf) and (self.ragged_rank, self.splits) == (
            other.ragged_rank,
            other.splits,
        )

    def widest(self, other: Leaf) -> Leaf | None:
        """See `Leaf`."""
        return super().widest(other) if self._alike(other) else None

    def accepts(self, other: Leaf) -> bool:
        """See `Leaf`."""
        return self._alike(other) and super().accepts(other)


class _Whole(Leaf):
    """What programs are told by its specification alone; `dtype` and `shape` are those of the variant."""

    _spec: TypeSpec

    def __init__(self, spec: TypeSpec, shape: Any = ()) -> None:
        self._spec = spec
        self.dtype, self.shape = dtypes.variant, TensorShape(shape)

    @property
    def spec(self) -> TypeSpec:
        """See `Leaf`."""
        return self._spec

    @property
    def legacy(self) -> tuple[Any, Any, Any]:
        """See `Leaf`."""
        return self._spec, self._spec, self._spec

    @property
    def flat(self) -> tuple[Any, TensorShape]:
        """See `Leaf`."""
        return dtypes.variant, self.shape

    def tensor(self, value: Any) -> Tensor:
        """See `Leaf`."""
        made: Tensor = value._variant_tensor
        return made

    def widest(self, other: Leaf) -> Leaf | None:
        """See `Leaf`."""
        return self if self.accepts(other) else None

    def accepts(self, other: Leaf) -> bool:
        """See `Leaf`."""
        return type(other) is type(self) and self._spec.is_compatible_with(other.spec)


class DatasetLeaf(_Whole):
    """A dataset, as windows are."""

    _spec: DatasetSpec

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`."""
        from headrace.library.data.datasets import Dataset

        return Dataset(tensor, self.elements)

    @property
    def elements(self) -> Any:
        """The structure of leaves of the dataset's elements."""
        return nest.map_structure(leaf_of_spec, self._spec.element_spec)

    def of(self, shape: TensorShape) -> Leaf:
        """See `Leaf`."""
        return DatasetLeaf(DatasetSpec(self._spec.element_spec, shape), shape)


class OptionalLeaf(_Whole):
    """An element that may be missing."""

    _spec: OptionalSpec

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`."""
        from headrace.library.data.optionals import Optional

        return Optional(tensor, nest.map_structure(leaf_of_spec, self._spec._element_spec))


class TensorArrayLeaf(_Whole):
    """A TensorArray, which a dataset holds as a list of tensors."""

    _spec: TensorArraySpec

    @property
    def legacy(self) -> tuple[Any, Any, Any]:
        """See `Leaf`; the shape begins with two numbers for whether it grows and knows the shape by the first."""
        flags = [int(self._spec._dynamic_size), int(self._spec._infer_shape)]
        return self._spec._dtype, TensorShape(flags).concatenate(self._spec._shape), TensorArray

    def tensor(self, value: Any) -> Tensor:
        """See `Leaf`; what an array holds that is none yet is read."""
        made: Tensor = value.flow
        if made.dtype is not dtypes.variant:
            with name_scope("convert_tensor_array"):
                made = tensor_list_from_tensor(value.stack(), value.element_shape)
        return made

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`."""
        spec = self._spec
        made = TensorArray(
            spec._dtype,
            flow=tensor,
            dynamic_size=spec._dynamic_size,
            infer_shape=spec._infer_shape,
        )
        made._shared.element_shape = spec._shape
        return made


# -- which kind ---------------------------------------------------------------------------------

_KINDS: Final[dict[type, Callable[[Any], Leaf]]] = {
    TensorSpec: lambda spec: TensorLeaf(spec.dtype, spec.shape),
    SparseTensorSpec: lambda spec: SparseLeaf(spec.dtype, spec.shape),
    RaggedTensorSpec: lambda spec: RaggedLeaf(
        spec.dtype, spec.shape, spec.ragged_rank, spec.row_splits_dtype
    ),
    DatasetSpec: lambda spec: DatasetLeaf(spec, spec._dataset_shape),
    OptionalSpec: OptionalLeaf,
    TensorArraySpec: TensorArrayLeaf,
}


def leaf_of_spec(spec: Any) -> Leaf:
    """The leaf that a specification says.  Raises TypeError for what is none, or has no way into a dataset."""
    for kind in type(spec).__mro__:
        make = _KINDS.get(kind)
        if make is not None:
            return make(spec)
    raise TypeError(
        f"an element of a dataset is a tensor, a sparse or ragged one, a dataset or an Optional, and {spec!r} is the "
        "specification of none of them"
    )


def of_tensors(value: Any) -> Any:
    """What is a leaf already, or is what a session gives for one; None for what must be converted to a tensor."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if isinstance(value, RaggedTensorValue):
        return as_ragged(value)
    return None if leaf_of_value(value) is None else value


def leaf_of_value(value: Any) -> Leaf | None:
    """Which leaf a value is; None for what must be converted to a tensor."""
    if isinstance(value, Tensor):
        return TensorLeaf(value.dtype, value.shape)
    if isinstance(value, SparseTensor):
        return SparseLeaf(value.dtype, value.shape)
    if isinstance(value, RaggedTensor):
        return RaggedLeaf(value.dtype, value.shape, value.ragged_rank, value.row_splits.dtype)
    if isinstance(value, TensorArray):
        return TensorArrayLeaf(TensorArraySpec.from_value(value))
    if not hasattr(value, "_variant_tensor"):
        return None
    kind = DatasetSpec if DatasetSpec.is_of(value) else OptionalSpec
    return leaf_of_spec(kind.from_value(value))
