"""Names that TF 1.x programs reach under ``tensorflow.python``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.python import client, ops
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = ["client", "ops"]
