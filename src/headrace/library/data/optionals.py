"""`tf.data.experimental.Optional`: an element that may be missing, and an iterator's next one as such.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/{optional,iterator}_ops.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base.nest import parts_of
from headrace.graph.convert import convert
from headrace.graph.names import colocate_with, name_scope
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.iterators import Iterator
from headrace.library.data.structures import (
    Leaf,
    SparseLeaf,
    TensorLeaf,
    element_of,
    flat_shapes,
    flat_types,
    from_specs,
    of_tensors,
    spec_of,
    specs_of,
)

__all__ = ["Optional", "get_next_as_optional"]


class Optional:
    """An element of one structure, or nothing."""

    def __init__(self, variant: Any, structure: Any) -> None:
        """variant: the tensor that holds it."""
        self._variant_tensor = convert(variant)
        self._structure = structure

    @property
    def value_structure(self) -> Any:
        """The structure of an element, with a specification for each leaf."""
        return specs_of(self._structure)

    element_spec = value_structure
    """The same, as TensorFlow 2 calls it."""

    def has_value(self, name: str | None = None) -> Tensor:
        """Whether there is an element, bool []."""
        with colocate_with(self._variant_tensor.op):
            made: Tensor = get("OptionalHasValue")(self._variant_tensor, name=name)
            return made

    def get_value(self, name: str | None = None) -> Any:
        """The element.  A step that runs it raises InvalidArgumentError if there is none."""
        with name_scope(name, "OptionalGetValue", [self._variant_tensor]) as scope:
            with colocate_with(self._variant_tensor.op):
                flat = get("OptionalGetValue")(
                    self._variant_tensor,
                    output_types=flat_types(self._structure),
                    output_shapes=flat_shapes(self._structure),
                    name=scope,
                )
            return element_of(self._structure, flat)

    @staticmethod
    def from_value(value: Any) -> Optional:
        """One that has this element, a nest of what tensors can be made of."""
        with name_scope("optional") as scope:
            with name_scope("value"):
                structure = _structure_of(value)
                leaves = zip(nest.flatten(structure), nest.flatten(value), strict=True)
                tensors = [leaf.tensor(_leaf_value(each, leaf)) for leaf, each in leaves]
            made = get("OptionalFromValue")(tensors, name=scope)
            return Optional(made, structure)

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """One without an element, of the structure that `value_structure` of another says, or specifications.

        Raises TypeError for what is no structure of specifications.
        """
        return Optional(get("OptionalNone")(), from_specs(value_structure))

    empty = none_from_structure
    """The same, as TensorFlow 2 calls it."""


def _structure_of(value: Any) -> Any:
    """What `value` is; Python's values are made constants only to see that.  Raises TypeError."""
    if isinstance(value, dict):  # in its own order
        found = {key: _structure_of(each) for key, each in value.items()}
        return nest.pack_sequence_as(value, nest.flatten(found))
    if nest.is_nested(value):
        parts = [_structure_of(each) for _, each in parts_of(value)]
        return nest.pack_sequence_as(value, [leaf for part in parts for leaf in nest.flatten(part)])
    if isinstance(value, np.ndarray):
        return TensorLeaf(value.dtype, value.shape)
    if isinstance(value, SparseTensorValue) and isinstance(value.values, np.ndarray):
        return SparseLeaf(value.values.dtype, value.dense_shape)
    if (
        isinstance(value, list)
        and value
        and all(isinstance(v, (Tensor, np.ndarray)) for v in value)
    ):
        widest: Leaf | None = TensorLeaf(value[0].dtype, value[0].shape)
        for one in value[1:]:
            widest = None if widest is None else widest.widest(TensorLeaf(one.dtype, one.shape))
        if widest is not None:
            return widest.batched(len(value))
    try:
        return spec_of(_leaf_value(value))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Could not build a `TypeSpec` for {value!r:.100} with type {type(value).__name__}: {error}"
        ) from error


def _leaf_value(value: Any, leaf: Any = None) -> Any:
    """A tensor, or what else can be an element's leaf.  leaf: what it is known to be."""
    found = of_tensors(value)
    if found is not None:
        return found
    if leaf is None:
        return convert(value)
    try:
        return convert(value, leaf.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Value {value!r:.100} is not convertible to a tensor with dtype {leaf.dtype!r} and shape {leaf.shape}"
        ) from error


def get_next_as_optional(iterator: Iterator) -> Optional:
    """The iterator's next element, or nothing at its end, where `get_next` would raise OutOfRangeError."""
    structure = iterator._structure
    with colocate_with(iterator._iterator_resource):
        made = get("IteratorGetNextAsOptional")(
            iterator._iterator_resource,
            output_types=flat_types(structure),
            output_shapes=flat_shapes(structure),
        )
        return Optional(made, structure)
