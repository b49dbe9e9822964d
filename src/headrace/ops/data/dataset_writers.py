"""Ops that write a dataset's elements to a file.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/experimental_dataset_ops.cc, core/kernels/data/experimental/to_tf_record_op.cc
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.traits import POLLS, STATEFUL
from headrace.codec import records
from headrace.graph.registry import op
from headrace.ops.data.dataset_values import dataset_of, scalar_of
from headrace.ops.data.iterator_ops import elements_at_once
from headrace.run.data.stage import Dataset
from headrace.run.exec.kernel import KernelContext
from headrace.run.readers.files import file_error

__all__: list[str] = []

_BUFFER_BYTES: Final = 1 << 18


def _check_elements(dataset: Dataset) -> None:
    if len(dataset.types) != 1:
        raise errors.invalid_argument(
            f"ToTFRecordOp currently only support datasets of 1 single column, but got {len(dataset.types)}"
        )
    if dataset.types[0] is not dtypes.string:
        raise errors.invalid_argument(
            "ToTFRecordOp currently only supports DT_STRING dataypes, but got "
            f"{dtypes.spelled(dataset.types[0])}"
        )


def _record(value: Any) -> bytes:
    if np.size(value) != 1:
        raise errors.invalid_argument(
            f"a record is made of a scalar string, and the element has shape {list(np.shape(value))}"
        )
    return bytes(np.asarray(value, object).item())


def _to_records(
    ctx: KernelContext, input_dataset: Any, filename: Any, compression_type: Any
) -> None:
    """Write the elements of a dataset of strings as records to a TFRecord file, which is made or replaced.

    filename []; compression_type []: "ZLIB" or "GZIP"; nothing is compressed for any other.
    Raises InvalidArgument (names that are no scalars, elements that are no scalar strings), NotFound,
    FailedPrecondition, PermissionDenied, and what the dataset fails with: then the records before are in the file.
    """
    path = bytes(scalar_of("filename", filename))
    kind = bytes(scalar_of("compression_type", compression_type)).decode(errors="replace")
    dataset = dataset_of(input_dataset)
    compressor = None
    if kind in (records.ZLIB, records.GZIP):
        compressor = zlib.compressobj(wbits=records.window_bits(kind))
    try:
        file = ctx.runtime.files.open(path, "wb", _BUFFER_BYTES)
    except (OSError, ValueError) as error:
        raise file_error(path, error) from None
    try:
        with file:
            _check_elements(dataset)
            with elements_at_once(ctx, dataset) as elements:
                try:
                    for (value,) in elements:
                        framed = records.framed(_record(value))
                        file.write(framed if compressor is None else compressor.compress(framed))
                finally:
                    if compressor is not None:
                        file.write(compressor.flush())
    except OSError as error:
        raise file_error(path, error) from None


for _name in ("DatasetToTFRecord", "ExperimentalDatasetToTFRecord"):
    op(
        _name,
        inputs="input_dataset: variant; filename: string; compression_type: string",
        traits={STATEFUL, POLLS},
        differentiable=False,
    )(_to_records)
