"""`tf.ragged`: ragged tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.graph.ragged import RaggedTensorValue
from headrace.ops.array.ragged_calls import map_flat_values
from headrace.ops.array.ragged_calls import ragged_constant as constant
from headrace.ops.array.ragged_calls import ragged_constant_value as constant_value
from headrace.ops.array.ragged_calls import ragged_placeholder as placeholder
from headrace.ops.array.ragged_calls import ragged_range as range
from headrace.ops.array.ragged_joining import ragged_stack as stack
from headrace.ops.array.ragged_segments import (
    row_splits_to_segment_ids,
    segment_ids_to_row_splits,
    stack_dynamic_partitions,
)
from headrace.ops.array.ragged_taking import ragged_boolean_mask as boolean_mask

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "RaggedTensorValue",
    "boolean_mask",
    "constant",
    "constant_value",
    "map_flat_values",
    "placeholder",
    "range",
    "row_splits_to_segment_ids",
    "segment_ids_to_row_splits",
    "stack",
    "stack_dynamic_partitions",
]
