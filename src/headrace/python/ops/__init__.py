"""`tf.python.ops`: what 1.x programs take from below the public names."""

from __future__ import annotations

from headrace.python.ops import data_flow_ops

__all__ = ["data_flow_ops"]
