"""What a dataset's elements are: a structure of specifications, one for each leaf, and their way to tensors and back.

Called by: library.data.  Threads: building as graph.
Source: TF 1.15 python/data/util/structure.py, python/framework/sparse_tensor.py, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.tensor_spec import TensorSpec

__all__ = ["DatasetSpec", "Leaf", "OfElements", "SparseLeaf", "TensorLeaf", "normalized", "spec_of"]


class Leaf:
    """One leaf of an element."""

    dtype: Any
    shape: TensorShape
    legacy_class: Any

    @property
    def flat(self) -> tuple[Any, TensorShape]:
        """(dtype, shape) of the tensor that stands for it in a dataset."""
        raise NotImplementedError

    def tensor(self, value: Any) -> Tensor:
        """The tensor that stands for a value."""
        raise NotImplementedError

    def rows(self, value: Any) -> Tensor:
        """The tensor whose rows stand for the rows of a value."""
        raise NotImplementedError

    def value(self, tensor: Tensor) -> Any:
        """The value that a tensor stands for."""
        raise NotImplementedError

    def of(self, shape: TensorShape) -> Leaf:
        """The same of another shape."""
        raise NotImplementedError

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
        return isinstance(other, Leaf) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _widest(first: TensorShape, second: TensorShape) -> TensorShape:
    if first.ndims is None or second.ndims is None or first.ndims != second.ndims:
        return TensorShape(None)
    pairs = zip(first.as_list(), second.as_list(), strict=True)
    return TensorShape([mine if mine == its else None for mine, its in pairs])


class TensorLeaf(Leaf):
    """A tensor."""

    legacy_class = Tensor

    def __init__(self, dtype: Any, shape: Any) -> None:
        self.dtype = dtypes.as_dtype(dtype)
        self.shape = TensorShape(shape)

    @property
    def flat(self) -> tuple[Any, TensorShape]:
        """See `Leaf`."""
        return self.dtype, self.shape

    def tensor(self, value: Any) -> Tensor:
        """See `Leaf`."""
        made: Tensor = value
        return made

    def rows(self, value: Any) -> Tensor:
        """See `Leaf`."""
        made: Tensor = value
        return made

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`."""
        return tensor

    def of(self, shape: TensorShape) -> Leaf:
        """See `Leaf`."""
        return TensorLeaf(self.dtype, shape)

    def __repr__(self) -> str:
        return repr(TensorSpec(self.shape, self.dtype))


class SparseLeaf(Leaf):
    """A sparse tensor, which a dataset holds as three variants: indices, values and shape."""

    legacy_class = SparseTensor

    def __init__(self, dtype: Any, shape: Any) -> None:
        self.dtype = dtypes.as_dtype(dtype)
        self.shape = TensorShape(shape)

    @property
    def flat(self) -> tuple[Any, TensorShape]:
        """See `Leaf`."""
        return dtypes.variant, TensorShape(None)

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

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self.shape}, {self.dtype!r})"


def _constant(value: Any) -> Tensor:
    return convert(value, dtypes.int64, "Const") if isinstance(value, int) else value


class DatasetSpec(Leaf):
    """A dataset, as windows are."""

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self.element_spec = element_spec
        self.shape = TensorShape(dataset_shape)
        self.dtype = dtypes.variant

    @property
    def legacy_class(self) -> Any:
        """Itself, as TensorFlow has it."""
        return self

    @property
    def flat(self) -> tuple[Any, TensorShape]:
        """See `Leaf`."""
        return dtypes.variant, self.shape

    def tensor(self, value: Any) -> Tensor:
        """See `Leaf`."""
        made: Tensor = value._variant_tensor
        return made

    def value(self, tensor: Tensor) -> Any:
        """See `Leaf`."""
        from headrace.library.data.datasets import Dataset

        return Dataset(tensor, self.element_spec)

    def of(self, shape: TensorShape) -> Leaf:
        """See `Leaf`."""
        return DatasetSpec(self.element_spec, shape)

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, {self.shape!r})"


class OfElements:
    """What has elements of one structure: a dataset, an iterator."""

    _structure: Any

    @property
    def element_spec(self) -> Any:
        """The structure of an element, with a specification for each leaf."""
        return self._structure

    @property
    def output_types(self) -> Any:
        """The structure of an element, with a dtype for each leaf."""
        return nest.map_structure(lambda leaf: leaf.dtype, self._structure)

    @property
    def output_shapes(self) -> Any:
        """The structure of an element, with a TensorShape for each leaf."""
        return nest.map_structure(lambda leaf: leaf.shape, self._structure)

    @property
    def output_classes(self) -> Any:
        """The structure of an element, with tf.Tensor or tf.SparseTensor for each leaf."""
        return nest.map_structure(lambda leaf: leaf.legacy_class, self._structure)


# -- structures of leaves -----------------------------------------------------------------------


def normalized(element: Any) -> Any:
    """The element with tensors and sparse tensors for leaves."""
    leaves = nest.flatten(element)
    made = []
    with name_scope("normalize_element"):
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, SparseTensorValue):
                leaf = SparseTensor.from_value(leaf)
            elif not isinstance(leaf, SparseTensor) and not hasattr(leaf, "_variant_tensor"):
                leaf = convert(leaf, name=f"component_{number}")
            made.append(leaf)
    return nest.pack_sequence_as(element, made)


def spec_of(element: Any) -> Any:
    """The structure of leaves of a normalized element."""
    return nest.map_structure(_leaf_of, element)


def _leaf_of(value: Any) -> Leaf:
    if isinstance(value, SparseTensor):
        return SparseLeaf(value.dtype, value.shape)
    if isinstance(value, Tensor):
        return TensorLeaf(value.dtype, value.shape)
    return DatasetSpec(value._structure)


def flat_types(structure: Any) -> list[Any]:
    """Of the tensors that stand for an element."""
    return [leaf.flat[0] for leaf in nest.flatten(structure)]


def flat_shapes(structure: Any) -> list[TensorShape]:
    """Of the tensors that stand for an element."""
    return [leaf.flat[1] for leaf in nest.flatten(structure)]


def tensors_of(structure: Any, element: Any) -> list[Tensor]:
    """Those that stand for an element."""
    pairs = zip(nest.flatten(structure), nest.flatten(element), strict=True)
    return [leaf.tensor(value) for leaf, value in pairs]


def element_of(structure: Any, tensors: Sequence[Tensor]) -> Any:
    """The element that tensors stand for."""
    pairs = zip(nest.flatten(structure), tensors, strict=True)
    return nest.pack_sequence_as(structure, [leaf.value(tensor) for leaf, tensor in pairs])


def from_legacy(types: Any, shapes: Any = None, classes: Any = None) -> Any:
    """The structure that nests of dtypes, shapes and classes mean.  Raises TypeError, ValueError."""
    flat = [dtypes.as_dtype(each) for each in nest.flatten(types)]
    if shapes is None:
        wanted = [TensorShape(None)] * len(flat)
    else:
        wanted = [TensorShape(each) for each in _shapes(types, shapes)]
    kinds = [Tensor] * len(flat) if classes is None else nest.flatten(classes)
    leaves: list[Leaf] = []
    for dtype, shape, kind in zip(flat, wanted, kinds, strict=True):
        if kind is SparseTensor:
            leaves.append(SparseLeaf(dtype, shape))
        elif isinstance(kind, DatasetSpec):
            leaves.append(kind)
        else:
            leaves.append(TensorLeaf(dtype, shape))
    return nest.pack_sequence_as(types, leaves)


def _shapes(types: Any, shapes: Any) -> list[Any]:
    """Of each type; a shape may be a list, a tuple, a TensorShape or None."""
    if not nest.is_nested(types):
        return [shapes]
    nest_of = list(types) if isinstance(types, dict) else range(len(types))
    if isinstance(types, dict):
        return [each for key in sorted(nest_of) for each in _shapes(types[key], shapes[key])]
    if len(types) != len(shapes):
        raise ValueError(
            f"The two structures don't have the same number of elements: {types!r:.100} and {shapes!r:.100}"
        )
    return [
        each for part, shape in zip(types, shapes, strict=True) for each in _shapes(part, shape)
    ]
