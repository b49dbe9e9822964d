"""`tf.data.experimental.TFRecordWriter`.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/writers.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.operation import Operation
from headrace.graph.registry import get
from headrace.library.data.datasets import Dataset
from headrace.library.data.readers import _optional
from headrace.library.data.structures import TensorLeaf

__all__ = ["TFRecordWriter"]


class TFRecordWriter:
    """Writes datasets to a TFRecord file, by operations of the graph."""

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        """filename: string [].  compression_type: "", "ZLIB" or "GZIP"; string []."""
        self._filename = convert(filename, dtypes.string, "filename")
        self._compression = _optional(compression_type, "compression_type", "", dtypes.string)

    def write(self, dataset: Dataset) -> Operation:
        """An operation that writes the elements of the dataset, scalar strings, to the file; it makes or replaces it.

        Raises TypeError for anything but a dataset of scalar strings.  Steps raise as files do (NotFound,
        FailedPrecondition, PermissionDenied), and as the dataset: then the records before are in the file.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"Invalid `dataset.` Expected a `tf.data.Dataset` object but got {type(dataset)}."
            )
        structure = dataset._structure
        wanted = TensorLeaf(dtypes.string, [])
        if not isinstance(structure, TensorLeaf) or not wanted.accepts(structure):
            raise TypeError(
                "Invalid `dataset`. Expected a`dataset` that produces scalar `tf.string` elements, but got a dataset "
                f"which produces elements with shapes {dataset.output_shapes} and types {dataset.output_types}."
            )
        made: Operation = get("DatasetToTFRecord")(
            dataset._variant_tensor, self._filename, self._compression
        )
        return made
