"""`tf.random`: random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.graph.names import get_seed
from headrace.ops.random.draws import categorical, multinomial, set_random_seed, truncated_normal
from headrace.ops.random.draws import random_normal as normal
from headrace.ops.random.draws import random_poisson as poisson
from headrace.ops.random.draws import random_shuffle as shuffle
from headrace.ops.random.draws import random_uniform as uniform

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

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
