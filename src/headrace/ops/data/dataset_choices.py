"""Datasets of elements as they are, chosen among several, or only some of them.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc; what 2.21 added is accepted, too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    dataset_of,
    dataset_op,
    dataset_scalar,
    made,
    raw_shapes,
    value_of,
)
from headrace.run.data.mixing import Directed, Unique, WithoutFailures
from headrace.run.data.stage import Made

__all__: list[str] = []

_SOURCE: Final = "input_dataset: variant"
Types = list[DType]
Shapes = list[TensorShape]


def _as_is(kind: str) -> Callable[..., Any]:
    def kernel(
        xp: Any, input_dataset: Any, *rest: Any, output_types: Types, output_shapes: Shapes
    ) -> Any:
        source = dataset_of(input_dataset)
        return value_of(
            Made(
                kind,
                output_types,
                raw_shapes(output_shapes),
                lambda run, stage: stage,
                [source],
                lambda count: count,
            )
        )

    kernel.__doc__ = (
        "The elements as they are: it says how TensorFlow computes them.  Raises InvalidArgument."
    )
    return kernel


dataset_op("OptionsDataset", _SOURCE, "serialized_options: string; " + ELEMENTS + METADATA)(
    _as_is("Options")
)
dataset_op(
    "ModelDataset",
    _SOURCE,
    "algorithm: int = 0; cpu_budget: int = 0; ram_budget: int = 0; " + ELEMENTS,
)(_as_is("Model"))
dataset_op(
    "OptimizeDataset",
    _SOURCE + "; optimizations: string",
    ELEMENTS + "; optimization_configs: list(string) = []",
    shape=dataset_scalar,
)(_as_is("Optimize"))
dataset_op(
    "OptimizeDatasetV2",
    _SOURCE
    + "; optimizations_enabled: string; optimizations_disabled: string; optimizations_default: string",
    ELEMENTS + "; optimization_configs: list(string) = []",
    shape=dataset_scalar,
)(_as_is("Optimize"))
dataset_op("FinalizeDataset", _SOURCE, "has_captured_ref: bool = false; " + ELEMENTS)(
    _as_is("Finalize")
)
dataset_op("RewriteDataset", _SOURCE + "; rewrite_name: string", ELEMENTS)(_as_is("Rewrite"))
for _name in ("MaxIntraOpParallelism", "PrivateThreadPool"):
    _input = "max_intra_op_parallelism" if _name[0] == "M" else "num_threads"
    for _prefix in ("", "Experimental"):
        dataset_op(f"{_prefix}{_name}Dataset", f"{_SOURCE}; {_input}: int64", ELEMENTS)(
            _as_is(_name)
        )
for _prefix in ("", "Experimental"):
    dataset_op(f"{_prefix}NonSerializableDataset", _SOURCE, ELEMENTS)(_as_is("NonSerializable"))


def _directed(
    xp: Any,
    selector_input_dataset: Any,
    *data_input_datasets: Any,
    output_types: Types,
    output_shapes: Shapes,
    stop_on_empty_dataset: bool = False,
) -> Any:
    """The next element of the dataset that the selector numbers.  Raises InvalidArgument (the selector's type)."""
    selector = dataset_of(selector_input_dataset)
    if selector.types != (dtypes.int64,):
        raise errors.invalid_argument(
            "The selector input must be a dataset of scalar int64 elements."
        )
    return made(
        "DirectedInterleave",
        output_types,
        output_shapes,
        lambda run, *stages: Directed(run, *stages, stop_on_empty=stop_on_empty_dataset),
        selector,
        *map(dataset_of, data_input_datasets),
    )


_CHOSEN: Final = "selector_input_dataset: variant; data_input_datasets: N * variant"
dataset_op(
    "DirectedInterleaveDataset",
    _CHOSEN,
    ELEMENTS + "; N: int >= 1; stop_on_empty_dataset: bool = false",
)(_directed)


@dataset_op("ExperimentalDirectedInterleaveDataset", _CHOSEN, ELEMENTS + "; N: int >= 1")
def experimental_directed_interleave_dataset_op(
    xp: Any, *datasets: Any, output_types: Types, output_shapes: Shapes
) -> Any:
    """As DirectedInterleaveDataset.  Raises InvalidArgument."""
    return _directed(xp, *datasets, output_types=output_types, output_shapes=output_shapes)


def _unique(xp: Any, input_dataset: Any, *, output_types: Types, output_shapes: Shapes) -> Any:
    """Each value of scalars when it comes for the first time.  Raises InvalidArgument (other elements)."""
    source = dataset_of(input_dataset)
    if len(source.types) != 1:
        raise errors.invalid_argument("UniqueDataset only supports inputs with a single component.")
    if source.types[0] not in (dtypes.int32, dtypes.int64, dtypes.string):
        raise errors.invalid_argument(
            "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component."
        )
    return made("Unique", output_types, output_shapes, Unique, source)


dataset_op("UniqueDataset", _SOURCE, ELEMENTS + METADATA)(_unique)
dataset_op("ExperimentalUniqueDataset", _SOURCE, ELEMENTS)(_unique)


def _ignore_errors(
    xp: Any,
    input_dataset: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
    log_warning: bool,
) -> Any:
    """The elements that do not fail.  Raises InvalidArgument."""
    return made(
        "IgnoreErrors",
        output_types,
        output_shapes,
        lambda run, source: WithoutFailures(run, source, log_warning),
        dataset_of(input_dataset),
    )


for _prefix in ("", "Experimental"):
    dataset_op(f"{_prefix}IgnoreErrorsDataset", _SOURCE, ELEMENTS + "; log_warning: bool = false")(
        _ignore_errors
    )
