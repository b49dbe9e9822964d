"""`tf.contrib`: what 1.x programs use of it."""

from __future__ import annotations

from headrace.contrib import staging, training

__all__ = ["staging", "training"]
