"""`tf.random`: random numbers."""

from __future__ import annotations

from headrace.graph.names import get_seed
from headrace.ops.random_ops import categorical, multinomial, set_random_seed, truncated_normal
from headrace.ops.random_ops import random_normal as normal
from headrace.ops.random_ops import random_poisson as poisson
from headrace.ops.random_ops import random_shuffle as shuffle
from headrace.ops.random_ops import random_uniform as uniform

__all__ = [
    "categorical",
    "get_seed",
    "multinomial",
    "normal",
    "poisson",
    "set_random_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]
