"""`tf.data.Iterator`: where a graph takes a dataset's elements from.

Called by: programs, library.data.datasets.  Threads: building as graph.
Source: TF 1.15 python/data/ops/iterator_ops.py, for behaviour; nodes and their names compared with the oracle
"""

from __future__ import annotations

import warnings
from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.names import colocate_with
from headrace.graph.operation import Operation
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.structures import (
    OfElements,
    element_of,
    flat_shapes,
    flat_types,
    from_legacy,
)

__all__ = ["Iterator"]

ITERATORS = "iterators"
"""The collection of all iterators' handles."""

_MANY_CALLS = 32


class Iterator(OfElements):
    """Gives the elements of the dataset that it was initialized with, one a step."""

    def __init__(self, iterator_resource: Any, initializer: Any, structure: Any) -> None:
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._structure = structure
        self._string_handle = get("IteratorToStringHandle")(iterator_resource)
        self._calls = 0
        scopes.get_default_graph().add_to_collection(ITERATORS, iterator_resource)

    @staticmethod
    def from_structure(
        output_types: Any,
        output_shapes: Any = None,
        shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:
        """One without a dataset: `make_initializer` says later which.  Raises TypeError."""
        structure = from_legacy(output_types, output_shapes, output_classes)
        handle = get("IteratorV2")(shared_name=shared_name or "", container="", **_attrs(structure))
        return Iterator(handle, None, structure)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """The one whose `string_handle()` gave that, which may be fed."""
        structure = from_legacy(output_types, output_shapes, output_classes)
        text = convert(string_handle, dtypes.string)
        handle = get("IteratorFromStringHandleV2")(text, **_attrs(structure))
        return Iterator(handle, None, structure)

    @property
    def initializer(self) -> Operation:
        """What begins an iteration.  Raises ValueError if it is made by `make_initializer`."""
        if self._initializer is None:
            raise ValueError(
                "The iterator does not have an initializer. This means it was likely created using "
                "`tf.data.Dataset.make_one_shot_iterator()`. For an initializable iterator, use "
                "`tf.data.Dataset.make_initializable_iterator()` instead."
            )
        made: Operation = self._initializer
        return made

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """What begins an iteration of `dataset`.  Raises TypeError, ValueError if its elements are others."""
        nest.assert_same_structure(self.output_types, dataset.output_types)
        pairs = zip(nest.flatten(self._structure), nest.flatten(dataset._structure), strict=True)
        for mine, its in pairs:
            if mine.legacy[2] is not its.legacy[2] and mine.legacy[2] != its.legacy[2]:
                raise TypeError(
                    f"Expected output classes {self.output_classes!r} but got dataset with output classes "
                    f"{dataset.output_classes!r}."
                )
            if mine.dtype != its.dtype:
                raise TypeError(
                    f"Expected output types {self.output_types!r} but got dataset with output types "
                    f"{dataset.output_types!r}."
                )
            if not mine.shape.is_compatible_with(its.shape):
                raise TypeError(
                    f"Expected output shapes compatible with {self.output_shapes!r} but got dataset with output "
                    f"shapes {dataset.output_shapes!r}."
                )
        with colocate_with(self._iterator_resource):
            made: Operation = get("MakeIterator")(
                dataset._iterated(), self._iterator_resource, name=name or "make_initializer"
            )
        return made

    def get_next(self, name: str | None = None) -> Any:
        """The next element: a step that runs it takes one.  At the end it raises OutOfRangeError."""
        self._calls += 1
        if self._calls == _MANY_CALLS:
            warnings.warn(
                "An unusually high number of `Iterator.get_next()` calls was detected. Each adds nodes to the graph: "
                "call it once, and run what it gives again and again",
                stacklevel=2,
            )
        with colocate_with(self._iterator_resource):
            flat = get("IteratorGetNext")(
                self._iterator_resource, **_attrs(self._structure), name=name
            )
            return element_of(self._structure, flat)

    def string_handle(self, name: str | None = None) -> Tensor:
        """A string that stands for the iterator, for `from_string_handle` on the same task."""
        if name is None:
            known: Tensor = self._string_handle
            return known
        made: Tensor = get("IteratorToStringHandle")(self._iterator_resource, name=name)
        return made


def _attrs(structure: Any) -> dict[str, Any]:
    return {"output_types": flat_types(structure), "output_shapes": flat_shapes(structure)}
