"""`tf.python.client`: the trace of a step."""

from __future__ import annotations

from headrace.python.client import timeline

__all__ = ["timeline"]
