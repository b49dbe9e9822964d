"""`tf.data.experimental`: more transformations and datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.library.data.csv_files import CsvDataset
from headrace.library.data.datasets import (
    cardinality,
    from_variant,
    get_single_element,
    get_structure,
    to_variant,
)
from headrace.library.data.experimental import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Counter,
    RandomDataset,
    choose_from_datasets,
    copy_to_device,
    dense_to_sparse_batch,
    enumerate_dataset,
    ignore_errors,
    prefetch_to_device,
    shuffle_and_repeat,
    unbatch,
    unique,
)
from headrace.library.data.grouping import (
    Reducer,
    bucket_by_sequence_length,
    group_by_reducer,
    group_by_window,
)
from headrace.library.data.optionals import Optional, get_next_as_optional
from headrace.library.data.options import (
    DistributeOptions,
    MapVectorizationOptions,
    OptimizationOptions,
    StatsOptions,
    ThreadingOptions,
)
from headrace.library.data.parsed_examples import parse_example_dataset
from headrace.library.data.readers import SqlDataset
from headrace.library.data.record_batches import make_batched_features_dataset, make_csv_dataset
from headrace.library.data.resampling import rejection_resample
from headrace.library.data.specs import DatasetSpec as DatasetStructure
from headrace.library.data.specs import OptionalSpec as OptionalStructure
from headrace.library.data.specs import (
    RaggedTensorStructure,
    SparseTensorStructure,
    TensorArrayStructure,
    TensorStructure,
)
from headrace.library.data.stats import StatsAggregator, bytes_produced_stats, latency_stats
from headrace.library.data.transformations import (
    map_and_batch,
    map_and_batch_with_legacy_function,
    parallel_interleave,
    sample_from_datasets,
    scan,
    take_while,
)
from headrace.library.data.writers import TFRecordWriter
from headrace.library.tensor_spec import TypeSpec as Structure
from headrace.training.hooks.input_pipeline import CheckpointInputPipelineHook
from headrace.training.saver.iterators import make_saveable_from_iterator

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "CheckpointInputPipelineHook",
    "Counter",
    "CsvDataset",
    "DatasetStructure",
    "DistributeOptions",
    "MapVectorizationOptions",
    "OptimizationOptions",
    "Optional",
    "OptionalStructure",
    "RaggedTensorStructure",
    "RandomDataset",
    "Reducer",
    "SparseTensorStructure",
    "SqlDataset",
    "StatsAggregator",
    "StatsOptions",
    "Structure",
    "TFRecordWriter",
    "TensorArrayStructure",
    "TensorStructure",
    "ThreadingOptions",
    "bucket_by_sequence_length",
    "bytes_produced_stats",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "from_variant",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "latency_stats",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "make_saveable_from_iterator",
    "map_and_batch",
    "map_and_batch_with_legacy_function",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "take_while",
    "to_variant",
    "unbatch",
    "unique",
]
