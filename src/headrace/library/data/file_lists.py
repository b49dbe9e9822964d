"""`Dataset.list_files`.

Called by: library.data.datasets.  Threads: building as graph.
Source: TF 1.15 python/data/ops/dataset_ops.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.registry import get
from headrace.library.data.datasets import Dataset, _slices, seed_tensors

__all__: list[str] = []


def list_files(file_pattern: Any, shuffle: bool | None, seed: Any) -> Dataset:
    """See `Dataset.list_files`."""
    with name_scope("list_files"):
        shuffle = True if shuffle is None else shuffle
        patterns = convert(file_pattern, dtypes.string, "file_pattern")
        names = get("MatchingFiles")(patterns)
        found = get("Greater")(get("Shape")(names)[0], 0, name="match_not_empty")
        joined = get("ReduceJoin")(
            patterns, _axes(patterns), separator=", ", name="ReduceJoin/ReduceJoin"
        )
        message = get("Add")(
            convert("No files matched pattern: ", name="message/x"), joined, name="message"
        )
        asserted = get("Assert")(found, [message], summarize=1, name="assert_not_empty/Assert")
        with control_dependencies([asserted]):
            names = get("Identity")(names)
        dataset = _slices_of(names)
        if shuffle:
            count = get("Shape")(names, out_type=dtypes.int64)[0]
            size = get("Maximum")(count, np.int64(1))
            first, second = seed_tensors(seed)
            made = get("ShuffleDataset")(
                dataset._variant_tensor,
                size,
                first,
                second,
                reshuffle_each_iteration=True,
                **dataset._elements,
            )
            dataset = Dataset(made, dataset._structure, [dataset])
        return dataset


def _axes(patterns: Any) -> Any:
    rank = patterns.shape.ndims or 0
    return convert(np.arange(rank - 1, -1, -1, dtype=np.int32), dtypes.int32, "ReduceJoin/Const")


def _slices_of(names: Any) -> Dataset:
    return _slices(names, True)
