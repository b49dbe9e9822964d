"""Datasets of Python generators, which run in the process that made the dataset.

Called by: library.data.datasets.  Threads: building as graph; generators run in threads of the iterator's, one element
after the other.
Source: TF 1.15 python/data/ops/dataset_ops.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.library.data import nest
from headrace.library.data.structured_functions import StructuredFunction
from headrace.library.data.structures import (
    TensorLeaf,
    element_of,
    flat_shapes,
    flat_types,
    from_legacy,
)
from headrace.ops.flow.py_functions import py_func

if TYPE_CHECKING:
    from headrace.library.data.datasets import Dataset


class _Generators:
    """Those that are under way, by number."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._numbers = itertools.count()
        self._arguments: dict[int, tuple[Any, ...]] = {}
        self._iterators: dict[int, Iterator[Any]] = {}

    def begin(self, *arguments: Any) -> Any:
        number = next(self._numbers)
        self._arguments[number] = arguments
        return np.int64(number)

    def following(self, number: int) -> Any:
        found = self._iterators.get(number)
        if found is None:
            found = self._iterators[number] = iter(self._make(*self._arguments.pop(number)))
        return next(found)

    def end(self, number: int) -> None:
        self._iterators.pop(number, None)
        self._arguments.pop(number, None)


def from_generator(
    generator: Any, output_types: Any = None, output_shapes: Any = None, args: Any = None
) -> Dataset:
    """See `Dataset.from_generator`."""
    from headrace.library.data.datasets import Dataset

    if not callable(generator):
        raise TypeError("`generator` must be a Python callable.")
    if output_types is None:
        raise TypeError(
            "The `output_types` argument is required: a structure of the elements' types"
        )
    structure = from_legacy(output_types, output_shapes)
    given = enumerate(() if args is None else args)
    tensors = tuple(convert(each, name=f"args_{at}") for at, each in given)
    generators = _Generators(generator)
    number = TensorLeaf(dtypes.int64, [])

    def get_iterator_id_fn(unused: Any) -> Any:
        found = py_func(generators.begin, list(tensors), dtypes.int64, stateful=True)
        found.set_shape([])
        return found

    def generator_next_fn(iterator_id: Any) -> Any:
        types = flat_types(structure)
        flat = py_func(
            lambda at: _flat(generators.following(int(at)), structure),
            [iterator_id],
            types,
            stateful=True,
        )
        for tensor, shape in zip(flat, flat_shapes(structure), strict=True):
            tensor.set_shape(shape)
        return element_of(structure, flat)

    def finalize_fn(iterator_id: Any) -> Any:
        def end(at: Any) -> Any:
            generators.end(int(at))
            return np.int64(0)

        found = py_func(end, [iterator_id], dtypes.int64, stateful=True)
        found.set_shape([])
        return found

    dummy = TensorLeaf(dtypes.int32, TensorShape([]))
    init = StructuredFunction(get_iterator_id_fn, "Dataset.from_generator()", dummy)
    following = StructuredFunction(generator_next_fn, "Dataset.from_generator()", number)
    finalize = StructuredFunction(finalize_fn, "Dataset.from_generator()", number)

    def flat_map_fn(unused: Any) -> Dataset:
        made = get("GeneratorDataset")(
            [unused, *init.captured],
            list(following.captured),
            list(finalize.captured),
            init_func=init.reference,
            next_func=following.reference,
            finalize_func=finalize.reference,
            output_types=flat_types(structure),
            output_shapes=flat_shapes(structure),
        )
        return Dataset(made, structure)

    return Dataset.from_tensors(0).flat_map(flat_map_fn)


def _flat(values: Any, structure: Any) -> list[Any]:
    """What a generator gave, an array for each leaf.  Raises TypeError, ValueError."""
    try:
        flat = _leaves(structure, values)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "`generator` yielded an element that did not match the expected structure. The expected structure was "
            f"{nest.map_structure(lambda leaf: leaf.dtype, structure)}, but the yielded element was {values}."
        ) from error
    found = []
    for value, leaf in zip(flat, nest.flatten(structure), strict=True):
        array = _array(value, leaf, leaf is structure and leaf.shape.ndims is None)
        if not leaf.shape.is_compatible_with(array.shape):
            raise TypeError(
                f"`generator` yielded an element of shape {array.shape} where an element of shape {leaf.shape} was "
                "expected."
            )
        found.append(array)
    return found


def _leaves(structure: Any, values: Any) -> list[Any]:
    """The values at the structure's leaves.  Raises TypeError, ValueError."""
    if not nest.is_nested(structure):
        return [values]
    if isinstance(structure, dict):
        if not isinstance(values, dict) or values.keys() != structure.keys():
            raise TypeError
        return [each for key in sorted(structure) for each in _leaves(structure[key], values[key])]
    if not isinstance(values, (tuple, list)) or len(values) != len(structure):
        raise TypeError
    pairs = zip(structure, values, strict=True)
    return [each for part, value in pairs for each in _leaves(part, value)]


def _array(value: Any, leaf: Any, exactly: bool) -> Any:
    """As an array of the leaf's dtype.

    exactly: Python's values are not cast where something would be lost, nor to bools; TensorFlow asks so where elements
    are one tensor of which no shape is known, and takes what NumPy makes of them elsewhere.
    Raises TypeError.
    """
    try:
        return (
            _as_string(value) if leaf.dtype is dtypes.string else _as_number(value, leaf, exactly)
        )
    except (TypeError, ValueError) as error:
        what = (
            f"did not match the expected structure. The expected structure was {leaf}"
            if exactly
            else f"could not be converted to the expected type. The expected type was {leaf.dtype.name}"
        )
        raise TypeError(
            f"`generator` yielded an element that {what}, but the yielded element was {value}."
        ) from error


def _as_string(value: Any) -> Any:
    """Raises TypeError."""
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "SUO":
        raise TypeError
    return array if array.size else np.empty(array.shape, object)


def _as_number(value: Any, leaf: Any, exactly: bool) -> Any:
    """Raises TypeError; ValueError for rows of different lengths."""
    dtype = leaf.dtype
    array = np.asarray(value)
    kind = array.dtype.kind
    if exactly and array.size:
        lost = (dtype.is_integer and kind == "f") or (dtype is dtypes.bool and kind != "b")
        if kind in "SUO" or (lost and not isinstance(value, (np.ndarray, np.generic))):
            raise TypeError
    if kind == "c" and not dtype.is_complex:
        array = array.real
    return array.astype(dtype.np)
