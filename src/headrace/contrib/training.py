"""`tf.contrib.training`: how variables are spread over parameter servers."""

from __future__ import annotations

from headrace.training.device_setter import GreedyLoadBalancingStrategy, byte_size_load_fn

__all__ = ["GreedyLoadBalancingStrategy", "byte_size_load_fn"]
