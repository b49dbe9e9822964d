"""Names that TF 1.x programs reach under ``tensorflow.python``."""

from __future__ import annotations

from headrace.python import client, ops

__all__ = ["client", "ops"]
