"""`tf.python.ops`: what 1.x programs take from below the public names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.python.ops import data_flow_ops
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = ["data_flow_ops"]
