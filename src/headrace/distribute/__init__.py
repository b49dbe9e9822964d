"""`tf.distribute`: where a program learns its cluster from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.distribute import cluster_resolver

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = ["cluster_resolver"]
