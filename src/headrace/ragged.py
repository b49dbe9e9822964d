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

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "RaggedTensorValue",
    "constant",
    "constant_value",
    "map_flat_values",
    "placeholder",
    "range",
]
