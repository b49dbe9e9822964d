"""`tf.app`: run a program with flags."""

from __future__ import annotations

from headrace import flags
from headrace.training.app import run

__all__ = [
    "flags",
    "run",
]
