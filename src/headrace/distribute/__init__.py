"""`tf.distribute`: where a program learns its cluster from.

Strategies are no part of headrace; whether there is one can be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.distribute import cluster_resolver
from headrace.serve.server import Server
from headrace.training.input_context import InputContext, has_strategy, in_cross_replica_context

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "InputContext",
    "Server",
    "cluster_resolver",
    "has_strategy",
    "in_cross_replica_context",
]
