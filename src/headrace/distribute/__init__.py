"""`tf.distribute`: where a program learns its cluster from."""

from __future__ import annotations

from headrace.distribute import cluster_resolver

__all__ = ["cluster_resolver"]
