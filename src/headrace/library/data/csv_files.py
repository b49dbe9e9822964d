"""`tf.data.experimental.CsvDataset`.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/readers.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data.datasets import Dataset
from headrace.library.data.readers import _optional
from headrace.library.data.structures import TensorLeaf, flat_shapes

__all__ = ["CsvDataset"]

TYPES: Final = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.string)
_BUFFER_BYTES: Final = 4 * 1024 * 1024


def required(default: Any) -> Any:
    """Of a type that a column may have, the default of a field that may not be missing; else the same."""
    if isinstance(default, Tensor) or default not in TYPES:
        return default
    return convert([], dtypes.as_dtype(default), "Const")


class CsvDataset(Dataset):
    """The records of CSV files, a tuple of scalars each."""

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: Any = None,
        buffer_size: Any = None,
        header: Any = False,
        field_delim: Any = ",",
        use_quote_delim: Any = True,
        na_value: Any = "",
        select_cols: Any = None,
    ) -> None:
        """filenames: string, [] or [n].  compression_type: "", "ZLIB" or "GZIP".

        record_defaults: for each column what a missing field is, [] or [1], float32, float64, int32, int64 or string; a
        dtype or an empty tensor: it may not be missing.  A number that stands for a dtype in messages (1 for float32, 7
        for string) is that dtype, as in TensorFlow: a default is [7].
        buffer_size: bytes; nothing depends on it here.  header: each file begins with a record that is left out.
        field_delim: one byte.  use_quote_delim: fields may be quoted.  na_value: a field that counts as missing.
        select_cols: the columns that record_defaults are for, rising; None: all.

        Raises ValueError (shapes), TypeError (types).  Steps that take elements raise InvalidArgument for a record that
        is malformed, has more or fewer fields, or one that is missing or no value of its column, and go on behind it.
        """
        names = convert(filenames, dtypes.string, "filenames")
        compression = _optional(compression_type, "compression_type", "", dtypes.string)
        wanted = [required(each) for each in record_defaults]
        defaults = [convert(each, name=f"record_defaults_{at}") for at, each in enumerate(wanted)]
        scalars = [
            _optional(buffer_size, "buffer_size", _BUFFER_BYTES, dtypes.int64),
            convert(header, dtypes.bool, "header"),
            convert(field_delim, dtypes.string, "field_delim"),
            convert(use_quote_delim, dtypes.bool, "use_quote_delim"),
            convert(na_value, dtypes.string, "na_value"),
        ]
        select = _optional(select_cols, "select_cols", [], dtypes.int64)
        exclude = _optional(None, "exclude_cols", [], dtypes.int64)
        structure = tuple(TensorLeaf(each.dtype, TensorShape([])) for each in defaults)
        made = get("CSVDatasetV2")(
            names,
            compression,
            *scalars,
            select,
            defaults,
            exclude,
            output_shapes=flat_shapes(structure),
        )
        super().__init__(made, structure)
