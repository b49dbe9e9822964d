"""Datasets of files: lines, TFRecords, records of one length; an SQLite or LMDB database.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.codec.records import COMPRESSIONS
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    dataset_op,
    made,
    scalar_of,
    value_of,
)
from headrace.run.data.databases import Entries
from headrace.run.data.files import FixedLength, Lines, TFRecords
from headrace.run.data.rows import Rows
from headrace.run.data.stage import Made
from headrace.run.exec.kernel import KernelContext

__all__: list[str] = []


def _of_files(c: ShapeContext) -> Shape:
    c.with_rank_at_most("filenames", 1)
    for number in range(1, len(c.op.inputs)):
        c.with_rank(number, 0)
    return ()


def _paths(filenames: Any) -> list[bytes]:
    if np.ndim(filenames) > 1:
        raise errors.invalid_argument("`filenames` must be a scalar or a vector.")
    found: list[bytes] = np.atleast_1d(filenames).tolist()
    return found


def _compression(value: Any) -> str:
    name = bytes(scalar_of("compression_type", value)).decode(errors="replace")
    if name not in COMPRESSIONS:
        raise errors.invalid_argument(
            f"Unsupported compression_type: {name}. It is '', 'ZLIB' or 'GZIP'"
        )
    return name


def _buffer(value: Any) -> None:
    if scalar_of("buffer_size", value) < 0:
        raise errors.invalid_argument("`buffer_size` must be >= 0 (0 == default)")


def _strings(kind: str, make: Callable[..., Any]) -> Any:
    return value_of(Made(kind, [dtypes.string], [()], make))


_FILES: Final = "filenames: string; compression_type: string; buffer_size: int64"


@dataset_op("TextLineDataset", _FILES, "metadata: string = ''", stateful=True, shape=_of_files)
def text_line_dataset_op(
    ctx: KernelContext, filenames: Any, compression_type: Any, buffer_size: Any
) -> Any:
    """The lines of text files.  Raises InvalidArgument (an unknown compression, a negative buffer)."""
    paths, compression = _paths(filenames), _compression(compression_type)
    _buffer(buffer_size)
    return _strings("TextLine", lambda run: Lines(run, paths, compression))


@dataset_op("TFRecordDataset", _FILES, "metadata: string = ''", stateful=True, shape=_of_files)
def tf_record_dataset_op(
    ctx: KernelContext, filenames: Any, compression_type: Any, buffer_size: Any
) -> Any:
    """The records of TFRecord files.  Raises InvalidArgument (an unknown compression, a negative buffer)."""
    paths, compression = _paths(filenames), _compression(compression_type)
    _buffer(buffer_size)
    return _strings("TFRecord", lambda run: TFRecords(run, paths, compression))


def _fixed(
    filenames: Any, header: Any, record: Any, footer: Any, buffer_size: Any, compression: str
) -> Any:
    paths = _paths(filenames)
    sizes = []
    for name, value in (("header", header), ("record", record), ("footer", footer)):
        size = int(scalar_of(f"{name}_bytes", value))
        if size < 0 or (size == 0 and name == "record"):
            raise errors.invalid_argument(
                f"{name}_bytes must be {'>' if name == 'record' else '>='} 0"
            )
        sizes.append(size)
    if scalar_of("buffer_size", buffer_size) < 0:
        raise errors.invalid_argument("buffer_size must be >= 0")
    return _strings("FixedLengthRecord", lambda run: FixedLength(run, paths, sizes, compression))


_FIXED: Final = "filenames: string; header_bytes: int64; record_bytes: int64; footer_bytes: int64; buffer_size: int64"


@dataset_op(
    "FixedLengthRecordDataset", _FIXED, "metadata: string = ''", stateful=True, shape=_of_files
)
def fixed_length_record_dataset_op(
    ctx: KernelContext,
    filenames: Any,
    header_bytes: Any,
    record_bytes: Any,
    footer_bytes: Any,
    buffer_size: Any,
) -> Any:
    """Records of record_bytes between header and footer.  Raises InvalidArgument (sizes)."""
    return _fixed(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, "")


@dataset_op(
    "FixedLengthRecordDatasetV2",
    _FIXED + "; compression_type: string",
    "metadata: string = ''",
    stateful=True,
    shape=_of_files,
)
def fixed_length_record_dataset_v2_op(
    ctx: KernelContext,
    filenames: Any,
    header_bytes: Any,
    record_bytes: Any,
    footer_bytes: Any,
    buffer_size: Any,
    compression_type: Any,
) -> Any:
    """As FixedLengthRecordDataset, of files that may be compressed.  Raises InvalidArgument."""
    compression = _compression(compression_type)
    return _fixed(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, compression)


def _sql(
    ctx: KernelContext,
    driver_name: Any,
    data_source_name: Any,
    query: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """The rows of a query's result.  Raises InvalidArgument (another driver than sqlite, shapes)."""
    driver, source, text = (
        bytes(scalar_of(name, value)).decode()
        for name, value in (
            ("driver_name", driver_name),
            ("data_source_name", data_source_name),
            ("query", query),
        )
    )
    if driver != "sqlite":
        raise errors.invalid_argument(
            f"The database type, {driver}, is not supported by SqlDataset. The set of supported databases is: "
            "{'sqlite'}."
        )
    if any(shape._raw != () for shape in output_shapes):
        raise errors.invalid_argument("Each element of `output_shapes_` must be a scalar.")
    return made(
        "Sql", output_types, output_shapes, lambda run: Rows(run, source, text, output_types)
    )


_QUERY: Final = "driver_name: string; data_source_name: string; query: string"
dataset_op("SqlDataset", _QUERY, ELEMENTS, stateful=True)(_sql)
dataset_op("ExperimentalSqlDataset", _QUERY, ELEMENTS, stateful=True)(_sql)


def _lmdb(
    ctx: KernelContext,
    filenames: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Keys and values of LMDB databases.  Raises InvalidArgument (other elements than two strings).

    An iterator over it raises Unimplemented where the package lmdb is missing.
    """
    paths = _paths(filenames)
    if [*output_types] != [dtypes.string] * 2 or any(
        s._raw not in ((), None) for s in output_shapes
    ):
        raise errors.invalid_argument(
            "an LMDB database has elements of two strings, a key and a value, and output_types and output_shapes say "
            f"{', '.join(each.name for each in output_types)} of {[str(each) for each in output_shapes]}"
        )
    return made("LMDB", output_types, output_shapes, lambda run: Entries(run, paths))


for _name in ("LMDBDataset", "ExperimentalLMDBDataset"):
    dataset_op(_name, "filenames: string", ELEMENTS, stateful=True, shape=_of_files)(_lmdb)
