"""`tf.data.experimental.parse_example_dataset`: batches of serialized Examples become batches of their features.

Called by: programs, library.data.record_batches.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/parsing_ops.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.library.data.datasets import Dataset
from headrace.library.data.structured_functions import StructuredFunction
from headrace.library.data.structures import SparseLeaf, TensorLeaf, flat_shapes, flat_types
from headrace.library.parsing import SparseFeature, wanted_of, with_sparse_features

__all__ = ["parse_example_dataset"]


def parse_example_dataset(
    features: Mapping[str, Any] | None,
    num_parallel_calls: Any = 1,
    deterministic: bool | None = None,
) -> Callable[[Dataset], Dataset]:
    """`tf.io.parse_example` of each element, a vector of serialized Examples: a dict, as `features` says.

    num_parallel_calls, deterministic: TensorFlow's; here one element is parsed after the other.
    Raises ValueError; TypeError for a dataset of anything but vectors of strings.
    """
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")
    wanted = wanted_of(features)
    order = "default" if deterministic is None else str(bool(deterministic)).lower()

    def apply(dataset: Dataset) -> Dataset:
        vectors = dataset._structure
        if not (
            isinstance(vectors, TensorLeaf) and TensorLeaf(dtypes.string, [None]).accepts(vectors)
        ):
            raise TypeError(
                f"Input dataset should be a dataset of vectors of strings. Instead it is `{vectors!r}`."
            )
        of_batch = vectors.shape
        leaves: dict[str, Any] = {
            key: SparseLeaf(dtype, of_batch.concatenate(TensorShape([None])))
            for key, dtype in wanted.sparse.items()
        }
        for key, dtype in wanted.dense.items():
            leaves[key] = TensorLeaf(dtype, of_batch.concatenate(wanted.shapes[key]))
        structure = {key: leaves[key] for key in sorted(leaves)}
        made = get("ParseExampleDatasetV2")(
            dataset._variant_tensor,
            num_parallel_calls,
            wanted.default_tensors(),
            sparse_keys=list(wanted.sparse),
            dense_keys=list(wanted.dense),
            sparse_types=list(wanted.sparse.values()),
            dense_shapes=wanted.shape_list(),
            deterministic=order,
            output_types=flat_types(structure),
            output_shapes=flat_shapes(structure),
        )
        parsed = Dataset(made, structure, [dataset])
        if not any(isinstance(each, SparseFeature) for each in features.values()):
            return parsed
        calls = convert(num_parallel_calls, dtypes.int64, "num_parallel_calls")
        function = StructuredFunction(
            lambda each: with_sparse_features(features, each), "Dataset.map()", structure
        )
        return parsed._made(
            "ParallelMapDatasetV2", function, calls, f=function.reference, preserve_cardinality=True
        )

    return apply
