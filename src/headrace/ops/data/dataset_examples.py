"""Datasets of parsed Examples: each element, a vector of serialized ones, becomes the tensors of their features.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/experimental_dataset_ops.cc; what 2.21 added is accepted, too
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.codec import examples as codec
from headrace.codec.example_layouts import Layouts
from headrace.ops._kernels.example_specs import (
    batch_of,
    dense_specs,
    no_ragged,
    sparse_specs,
    texts,
)
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    dataset_of,
    dataset_op,
    dataset_scalar,
    made,
    scalar_of,
)
from headrace.run.data.chunks import objects
from headrace.run.data.mapping import Computed

__all__: list[str] = []

_TYPES: Final = "{float, int64, string}"


def _parsed(
    xp: Any,
    input_dataset: Any,
    num_parallel_calls: Any,
    *dense_defaults: Any,
    sparse_keys: list[bytes],
    dense_keys: list[bytes],
    sparse_types: list[DType],
    Tdense: list[DType],
    dense_shapes: list[TensorShape],
    output_types: list[DType],
    output_shapes: list[TensorShape],
    ragged_keys: list[bytes],
) -> Any:
    """The features of each vector of Examples, in the order of their keys, sparse ones as variants [3].

    Raises InvalidArgument, Unimplemented (ragged features).
    """
    calls = int(scalar_of("num_parallel_calls", num_parallel_calls))
    if calls < 1 and calls != -1:
        raise errors.invalid_argument("num_parallel_calls must be greater than zero.")
    no_ragged(np.array(ragged_keys, object))
    keys = [*sparse_keys, *dense_keys]
    if len(keys) != len(output_types):
        raise errors.invalid_argument(
            f"there are {len(keys)} features, and output_types has {len(output_types)}"
        )
    sparse = sparse_specs(texts(sparse_keys), sparse_types)
    dense = dense_specs(
        texts(dense_keys), Tdense, dense_shapes, [each.copy() for each in dense_defaults]
    )
    order = sorted(range(len(keys)), key=keys.__getitem__)
    layouts = Layouts(dense)

    def parse(serialized: Any) -> list[Any]:
        batch = batch_of(np.asarray(serialized), np.empty(0, object))
        alike = None if sparse else layouts.columns(batch.serialized)
        if alike is not None:
            return [alike[at] for at in order]
        features = codec.examples(batch)
        found: list[Any] = [objects(codec.sparse(features, spec, batch)) for spec in sparse]
        found += [codec.dense(features, spec, batch) for spec in dense]
        return [found[at] for at in order]

    return made(
        "ParseExample",
        output_types,
        output_shapes,
        lambda run, source: Computed(run, source, parse),
        dataset_of(input_dataset),
        cardinality=lambda count: count,
    )


_INPUTS: Final = "input_dataset: variant; num_parallel_calls: int64; dense_defaults: Tdense"
_FEATURES: Final = (
    "sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; "
    f"sparse_types: list({_TYPES}) >= 0; Tdense: list({_TYPES}) >= 0; dense_shapes: list(shape) >= 0; {ELEMENTS}"
)
_RAGGED: Final = (
    f"; ragged_keys: list(string) >= 0 = []; ragged_value_types: list({_TYPES}) >= 0 = []; "
    "ragged_split_types: list({int32, int64}) >= 0 = []"
)

for _name, _more in (
    ("ParseExampleDatasetV2", "; deterministic: string = 'default'"),
    ("ParseExampleDataset", "; sloppy: bool = false"),
):
    dataset_op(_name, _INPUTS, _FEATURES + _more + _RAGGED, shape=dataset_scalar)(_parsed)


@dataset_op(
    "ExperimentalParseExampleDataset",
    _INPUTS,
    _FEATURES + "; sloppy: bool = false",
    shape=dataset_scalar,
)
def experimental_parse_example_dataset_op(
    xp: Any,
    *inputs: Any,
    sparse_keys: list[bytes],
    dense_keys: list[bytes],
    sparse_types: list[DType],
    Tdense: list[DType],
    dense_shapes: list[TensorShape],
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """ParseExampleDataset without ragged features.  Raises InvalidArgument."""
    return _parsed(
        xp,
        *inputs,
        sparse_keys=sparse_keys,
        dense_keys=dense_keys,
        sparse_types=sparse_types,
        Tdense=Tdense,
        dense_shapes=dense_shapes,
        output_types=output_types,
        output_shapes=output_shapes,
        ragged_keys=[],
    )
