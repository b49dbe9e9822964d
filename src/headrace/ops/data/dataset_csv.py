"""Datasets of the records of CSV files.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/experimental_dataset_ops.cc, core/kernels/data/experimental/csv_dataset_op.cc; TF 2.21 for V2
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape, text
from headrace.codec.records import COMPRESSIONS
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.csv_columns import Columns
from headrace.ops.data.dataset_values import dataset_op, made, scalar_of
from headrace.run.data.csv_files import CsvRecords, Layout
from headrace.run.exec.kernel import KernelContext

__all__: list[str] = []

_FIXED_INPUTS: Final = 7  # the scalars and the names, before select_cols


def _shape(c: ShapeContext) -> Shape:
    c.with_rank_at_most("filenames", 1)
    for number in range(1, _FIXED_INPUTS):
        c.with_rank(number, 0)
    columns = len(c.op.attrs["output_types"])
    for number in range(_FIXED_INPUTS, len(c.op.inputs)):
        if not 0 < number - _FIXED_INPUTS <= columns:
            c.with_rank(number, 1)
            continue
        raw = c.with_rank_at_most(number, 1)
        if raw and raw[0] is not None and raw[0] > 1:
            raise ValueError(
                "Shape of a default must be a length-0 or length-1 vector, or a scalar. "
                f"{c.op.inputs[number].name} has shape {text(raw)}"
            )
    return ()


def _chosen(name: str, value: Any) -> list[int]:
    """The places of columns, rising.  Raises InvalidArgument."""
    if np.ndim(value) != 1:
        raise errors.invalid_argument(f"`{name}` must be a vector.")
    places: list[int] = value.tolist()
    if any(a >= b for a, b in itertools.pairwise(places)):
        raise errors.invalid_argument(f"{name} should be strictly increasing indices: {places}")
    if places and places[0] < 0:
        raise errors.invalid_argument(f"{name} should be non-negative indices: {places}")
    return places


def _check_defaults(defaults: Sequence[Any]) -> None:
    for at, default in enumerate(defaults):
        if np.ndim(default) > 1:
            raise errors.invalid_argument(
                f"Each record default should be at most rank 1, and that of field {at} has shape {list(default.shape)}"
            )
        if np.size(default) > 1:
            raise errors.invalid_argument(
                f"There should only be 1 default per field but field {at} has {np.size(default)}"
            )


def _csv(
    ctx: KernelContext,
    filenames: Any,
    compression_type: Any,
    buffer_size: Any,
    header: Any,
    field_delim: Any,
    use_quote_delim: Any,
    na_value: Any,
    select_cols: Any,
    *others: Any,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """The records of CSV files, a scalar for each column.

    record_defaults [] or [1] (what a missing field is) or [0] (it may not be missing), one for each of output_types;
    select_cols, exclude_cols [n].
    Raises InvalidArgument (an unknown compression, a buffer that is not positive, a delimiter of other than one byte,
    defaults, columns that are not rising or as many as output_types).
    """
    if np.ndim(filenames) > 1:
        raise errors.invalid_argument("`filenames` must be a scalar or a vector.")
    paths: list[bytes] = np.atleast_1d(filenames).tolist()
    compression = bytes(scalar_of("compression_type", compression_type)).decode(errors="replace")
    count = len(output_types)
    defaults, excluded = others[:count], others[count:]
    _check_defaults(defaults)
    select = _chosen("select_cols", select_cols)
    exclude = _chosen("exclude_cols", excluded[0]) if excluded else []
    if select and exclude:
        raise errors.invalid_argument(
            f"Either select_cols or exclude_cols should be empty, and they are {select} and {exclude}"
        )
    if scalar_of("buffer_size", buffer_size) <= 0:
        raise errors.invalid_argument("buffer_size should be positive")
    delim = bytes(scalar_of("field_delim", field_delim))
    if len(delim) != 1:
        raise errors.invalid_argument(f"field_delim should be only 1 char, and is {delim!r}")
    layout = Layout(
        delim,
        bool(scalar_of("use_quote_delim", use_quote_delim)),
        tuple(select),
        frozenset(exclude),
        bool(scalar_of("header", header)),
    )
    missing = bytes(scalar_of("na_value", na_value))
    if compression not in COMPRESSIONS:
        raise errors.invalid_argument(
            f"Unsupported compression_type: {compression}. It is '', 'ZLIB' or 'GZIP'"
        )
    if select and len(select) != count:
        raise errors.invalid_argument(
            f"select_cols should match output size: {len(select)} columns, and {count} types"
        )
    values = Columns(output_types, missing, [np.asarray(each) for each in defaults])
    return made(
        "CSV",
        output_types,
        output_shapes,
        lambda run: CsvRecords(run, paths, compression, layout, values),
    )


_INPUTS: Final = (
    "filenames: string; compression_type: string; buffer_size: int64; header: bool; field_delim: string; "
    "use_quote_delim: bool; na_value: string; select_cols: int64; record_defaults: output_types"
)
_ATTRS: Final = "output_types: list({float, double, int32, int64, string}) >= 1; output_shapes: list(shape) >= 1"
dataset_op("CSVDataset", _INPUTS, _ATTRS, stateful=True, shape=_shape)(_csv)
dataset_op("ExperimentalCSVDataset", _INPUTS, _ATTRS, stateful=True, shape=_shape)(_csv)
dataset_op("CSVDatasetV2", _INPUTS + "; exclude_cols: int64", _ATTRS, stateful=True, shape=_shape)(
    _csv
)
