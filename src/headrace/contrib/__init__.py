"""`tf.contrib`: what 1.x programs use of it."""

from __future__ import annotations

from headrace.contrib import cluster_resolver, staging, training

__all__ = ["cluster_resolver", "staging", "training"]
