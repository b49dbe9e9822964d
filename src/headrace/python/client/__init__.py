"""`tf.python.client`: the trace of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.python.client import timeline
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = ["timeline"]
