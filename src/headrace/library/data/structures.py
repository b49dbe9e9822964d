"""What a dataset's elements are: a structure of leaves, and their way to tensors and back.

Called by: library.data.  Threads: building as graph.
Source: TF 1.15 python/data/util/structure.py, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.leaves import (
    DatasetLeaf,
    Leaf,
    SparseLeaf,
    TensorLeaf,
    leaf_of_spec,
    leaf_of_value,
    of_tensors,
)
from headrace.library.tensor_spec import TypeSpec

__all__ = [
    "DatasetLeaf",
    "Leaf",
    "OfElements",
    "SparseLeaf",
    "TensorLeaf",
    "from_specs",
    "normalized",
    "of_tensors",
    "spec_of",
    "specs_of",
]


class OfElements:
    """What has elements of one structure: a dataset, an iterator."""

    _structure: Any

    @property
    def element_spec(self) -> Any:
        """The structure of an element, with a specification for each leaf."""
        return specs_of(self._structure)

    @property
    def output_types(self) -> Any:
        """The structure of an element, with a dtype for each leaf; for a dataset or an Optional its specification."""
        return nest.map_structure(lambda leaf: leaf.legacy[0], self._structure)

    @property
    def output_shapes(self) -> Any:
        """The structure of an element, with a TensorShape for each leaf, or a specification as `output_types`."""
        return nest.map_structure(lambda leaf: leaf.legacy[1], self._structure)

    @property
    def output_classes(self) -> Any:
        """The structure of an element, with tf.Tensor, tf.SparseTensor or a specification for each leaf."""
        return nest.map_structure(lambda leaf: leaf.legacy[2], self._structure)


# -- structures of leaves -----------------------------------------------------------------------


def normalized(element: Any) -> Any:
    """The element with tensors, and what is made of tensors, for leaves."""
    leaves = nest.flatten(element)
    made = []
    with name_scope("normalize_element"):
        for number, leaf in enumerate(leaves):
            found = of_tensors(leaf)
            made.append(convert(leaf, name=f"component_{number}") if found is None else found)
    return nest.pack_sequence_as(element, made)


def spec_of(element: Any) -> Any:
    """The structure of leaves of a normalized element."""
    return nest.map_structure(leaf_of_value, element)


def specs_of(structure: Any) -> Any:
    """The public specifications of a structure of leaves."""
    return nest.map_structure(lambda leaf: leaf.spec, structure)


def from_specs(specs: Any) -> Any:
    """The structure of leaves that specifications say.  Raises TypeError for what is none."""
    return nest.map_structure(leaf_of_spec, specs)


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
    flat = nest.flatten(types)
    if shapes is None:
        wanted: list[Any] = [None] * len(flat)
    else:
        wanted = _shapes(types, shapes)
    kinds = [Tensor] * len(flat) if classes is None else nest.flatten(classes)
    leaves = [_leaf(*each) for each in zip(flat, wanted, kinds, strict=True)]
    return nest.pack_sequence_as(types, leaves)


def _leaf(dtype: Any, shape: Any, kind: Any) -> Leaf:
    if isinstance(kind, TypeSpec):
        return leaf_of_spec(kind)
    made = SparseLeaf if kind is SparseTensor else TensorLeaf
    return made(dtypes.as_dtype(dtype), TensorShape(shape))


def _shapes(types: Any, shapes: Any) -> list[Any]:
    """Of each type; a shape may be a list, a tuple, a TensorShape or None, or a specification."""
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
