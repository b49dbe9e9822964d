"""`Dataset.padded_batch`: which shapes and values are padded to and with.

Called by: library.data.datasets.  Threads: building as graph.
Source: TF 1.15 python/data/ops/dataset_ops.py, for behaviour
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import as_shape
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.datasets import Dataset, _batch_dimension
from headrace.library.data.structures import TensorLeaf

__all__: list[str] = []


def padded_batch(
    source: Dataset, batch_size: Any, padded_shapes: Any, padding_values: Any, drop_remainder: Any
) -> Dataset:
    """See `Dataset.padded_batch`."""
    leaves = nest.flatten(source._structure)
    for leaf in leaves:
        if not isinstance(leaf, TensorLeaf):
            raise TypeError(
                f"`padded_batch` is only supported for datasets that produce tensor elements: {leaf}"
            )
    if padded_shapes is None:
        padded_shapes = source.output_shapes
        for shape in nest.flatten(padded_shapes):
            if shape.ndims is None:
                raise ValueError(
                    f"You must provide `padded_shapes` argument because component {shape} has unknown rank."
                )
    size = convert(batch_size, dtypes.int64, "batch_size")
    given = shapes_of(source._structure, padded_shapes)
    shapes = [_shape_tensor(each, leaf.shape) for each, leaf in zip(given, leaves, strict=True)]
    values = _values(source._structure, padding_values, [leaf.dtype for leaf in leaves])
    drop = convert(drop_remainder, dtypes.bool, "drop_remainder")
    known = _batch_dimension(size, drop)
    batched = [
        TensorLeaf(leaf.dtype, TensorShape([known]).concatenate(TensorShape(as_shape(shape))))
        for leaf, shape in zip(leaves, shapes, strict=True)
    ]
    structure = nest.pack_sequence_as(source._structure, batched)
    made = get("PaddedBatchDatasetV2")(
        source._variant_tensor,
        size,
        shapes,
        values,
        drop,
        output_shapes=[leaf.shape for leaf in batched],
    )
    return Dataset(made, structure, [source])


def shapes_of(structure: Any, shapes: Any) -> list[Any]:
    """A shape for each leaf; a shape may itself be a tuple."""
    if not nest.is_nested(structure):
        return [shapes]
    if isinstance(structure, dict):
        if not isinstance(shapes, dict) or structure.keys() != shapes.keys():
            raise ValueError(
                f"The two dictionaries don't have the same set of keys. First structure has keys {sorted(structure)}, "
                f"while second structure is {shapes!r:.100}: padded_shapes has a shape for each component"
            )
        return [
            each for key in sorted(structure) for each in shapes_of(structure[key], shapes[key])
        ]
    if not isinstance(shapes, (tuple, list)) or len(structure) != len(shapes):
        raise ValueError(
            f"The two structures don't have the same number of elements: {structure!r:.100} and {shapes!r:.100}"
        )
    pairs = zip(structure, shapes, strict=True)
    return [each for part, shape in pairs for each in shapes_of(part, shape)]


def _shape_tensor(shape: Any, of_input: TensorShape) -> Tensor:
    """A vector, -1 for what is not known.  Raises ValueError, TypeError."""
    if isinstance(shape, Tensor):
        if shape.shape.ndims not in (None, 1):
            raise ValueError(
                f"Padded shape {shape} must be a 1-D tensor of `tf.int64` values, but its shape was {shape.shape}."
            )
        if shape.dtype.base_dtype is not dtypes.int64:
            raise TypeError(
                f"Padded shape {shape} must be a `tf.int64` vector tensor, but its element type was {shape.dtype.name}."
            )
        return shape
    known = TensorShape(
        [None if each == -1 else each for each in shape]
        if isinstance(shape, (list, tuple, np.ndarray))
        else shape
    )
    sizes = [-1 if each is None else each for each in known.as_list()]
    if of_input.ndims is not None and of_input.ndims != len(sizes):
        raise ValueError(
            f"The padded shape {tuple(sizes)} is not compatible with the shape {tuple(of_input.as_list())} of the "
            "corresponding input component."
        )
    for wanted, has in zip(
        sizes, of_input.as_list() if of_input.ndims is not None else sizes, strict=True
    ):
        if has is not None and 0 <= wanted < has:
            raise ValueError(
                f"The padded shape {tuple(sizes)} is not compatible with the shape {tuple(of_input.as_list())} of the "
                "corresponding input component."
            )
    return convert(np.array(sizes, np.int64), dtypes.int64, "Const")


def _values(structure: Any, given: Any, types: list[Any]) -> list[Tensor]:
    """A scalar for each leaf: 0, "" or False where none is given.  Raises ValueError, TypeError."""
    if given is None:
        flat: list[Any] = [None] * len(types)
    elif nest.is_nested(structure) and not nest.is_nested(given):
        flat = [given] * len(types)
    else:
        nest.assert_same_structure(structure, given)
        flat = nest.flatten(given)
    made = []
    for value, dtype in zip(flat, types, strict=True):
        if value is None:
            value = "" if dtype is dtypes.string else np.zeros((), dtype.np)
        tensor = (
            convert(value, name="padding_value")
            if isinstance(value, Tensor)
            else convert(value, dtype, "padding_value")
        )
        if tensor.shape.ndims not in (None, 0):
            raise ValueError(f"Padding value should be a scalar, but is not: {tensor}.")
        if tensor.dtype.base_dtype is not dtype:
            raise TypeError(
                f"Padding value tensor {tensor} does not match output type: {dtype.name}."
            )
        made.append(tensor)
    return made
