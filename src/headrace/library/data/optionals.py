"""`tf.data.experimental.Optional`: an element that may be missing, and an iterator's next one as such.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/{optional,iterator}_ops.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import colocate_with, name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data.iterators import Iterator
from headrace.library.data.structures import (
    element_of,
    flat_shapes,
    flat_types,
    from_specs,
    normalized,
    spec_of,
    specs_of,
    tensors_of,
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
        with (
            name_scope(name, "OptionalGetValue", [self._variant_tensor]) as scope,
            colocate_with(self._variant_tensor.op),
        ):
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
                element = normalized(value)
                structure = spec_of(element)
            made = get("OptionalFromValue")(tensors_of(structure, element), name=scope)
            return Optional(made, structure)

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """One without an element, of the structure that `value_structure` of another says, or specifications.

        Raises TypeError for what is no structure of specifications.
        """
        return Optional(get("OptionalNone")(), from_specs(value_structure))

    empty = none_from_structure
    """The same, as TensorFlow 2 calls it."""


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
