"""Datasets of files: `tf.data.TextLineDataset` and its kin.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/ops/readers.py, for behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.datasets import Dataset, _slices
from headrace.library.data.structures import TensorLeaf, flat_shapes, flat_types, from_legacy
from headrace.library.data.transformations import parallel_interleave

__all__ = [
    "FixedLengthRecordDataset",
    "LMDBDataset",
    "SqlDataset",
    "TFRecordDataset",
    "TextLineDataset",
]

_BUFFER_BYTES: Final = 256 * 1024


def _records(filenames: Any, num_parallel_reads: Any, make: Callable[[Any], Any]) -> Any:
    """The records of the files, which `make` gives of names: one file after the other, or several side by side.

    filenames: strings, or a dataset of scalars or vectors of them.  Raises TypeError.
    """
    if not isinstance(filenames, Dataset):
        names = convert(filenames, dtypes.string)
        filenames = _slices(get("Reshape")(names, [-1], name="flat_filenames"), is_files=True)
    (leaf,) = nest.flatten(filenames.element_spec)
    if leaf.dtype is not dtypes.string:
        raise TypeError(
            f"The `filenames` argument must contain `tf.string` elements. Got `{leaf.dtype!r}` elements."
        )

    def read_one_file(filename: Any) -> Dataset:
        return _Strings(make(filename))

    if num_parallel_reads is None:
        return filenames.flat_map(read_one_file)._variant_tensor
    several = parallel_interleave(read_one_file, cycle_length=num_parallel_reads)(filenames)
    return several._variant_tensor


def _optional(value: Any, name: str, otherwise: Any, dtype: Any) -> Tensor:
    return convert(otherwise if value is None else value, dtype, name)


class _Strings(Dataset):
    def __init__(self, variant_tensor: Any) -> None:
        super().__init__(variant_tensor, TensorLeaf(dtypes.string, []))


class _OfFiles(_Strings):
    """The records of files that may be compressed, by the op of a subclass."""

    _op = ""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        """filenames: strings, or a dataset of them.  compression_type: "", "ZLIB" or "GZIP".  buffer_size: bytes;
        nothing depends on it here.  num_parallel_reads: so many files are read side by side, a record of each in turn.
        """

        def read(names: Any) -> Any:
            compression = _optional(compression_type, "compression_type", "", dtypes.string)
            size = _optional(buffer_size, "buffer_size", _BUFFER_BYTES, dtypes.int64)
            return get(self._op)(names, compression, size)

        super().__init__(_records(filenames, num_parallel_reads, read))


class TextLineDataset(_OfFiles):
    """The lines of text files, without their ends."""

    _op = "TextLineDataset"


class TFRecordDataset(_OfFiles):
    """The records of TFRecord files."""

    _op = "TFRecordDataset"


class FixedLengthRecordDataset(_Strings):
    """Records of one length, between a header and a footer."""

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        """filenames: strings, or a dataset of them.  compression_type: "", "ZLIB" or "GZIP".  buffer_size: bytes;
        nothing depends on it here.  num_parallel_reads: so many files are read side by side, a record of each in turn.
        """

        def read(names: Any) -> Any:
            record = _optional(record_bytes, "record_bytes", 0, dtypes.int64)
            header = _optional(header_bytes, "header_bytes", 0, dtypes.int64)
            footer = _optional(footer_bytes, "footer_bytes", 0, dtypes.int64)
            size = _optional(buffer_size, "buffer_size", _BUFFER_BYTES, dtypes.int64)
            compression = _optional(compression_type, "compression_type", "", dtypes.string)
            numbers = header, record, footer, size, compression
            return get("FixedLengthRecordDatasetV2")(names, *numbers)

        super().__init__(_records(filenames, num_parallel_reads, read))


class SqlDataset(Dataset):
    """The rows of a query's result, from an SQLite database."""

    def __init__(
        self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any
    ) -> None:
        """driver_name: "sqlite".  data_source_name: a file.  output_types: a tuple, a dtype for each column."""
        shapes = nest.map_structure(lambda _: TensorShape([]), output_types)
        structure = from_legacy(output_types, shapes)
        made = get("SqlDataset")(
            convert(driver_name, dtypes.string, "driver_name"),
            convert(data_source_name, dtypes.string, "data_source_name"),
            convert(query, dtypes.string, "query"),
            output_types=nest.flatten(output_types),
            output_shapes=nest.flatten(shapes),
        )
        super().__init__(made, structure)


class LMDBDataset(Dataset):
    """Keys and values of LMDB databases, in the order of the keys; reading them needs the extra `headrace[lmdb]`."""

    def __init__(self, filenames: Any) -> None:
        """filenames: directories or files of databases."""
        names = convert(filenames, dtypes.string, "filenames")
        structure = (TensorLeaf(dtypes.string, []),) * 2
        made = get("LMDBDataset")(
            names, output_types=flat_types(structure), output_shapes=flat_shapes(structure)
        )
        super().__init__(made, structure)
