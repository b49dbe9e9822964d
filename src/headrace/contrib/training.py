"""`tf.contrib.training`: how variables are spread over parameter servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.training.device_setter import GreedyLoadBalancingStrategy, byte_size_load_fn
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = ["GreedyLoadBalancingStrategy", "byte_size_load_fn"]
