"""`tf.random`: random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.graph.names import get_seed
from headrace.ops.random.draws import categorical, multinomial, set_random_seed, truncated_normal
from headrace.ops.random.draws import random_normal as normal
from headrace.ops.random.draws import random_poisson as poisson
from headrace.ops.random.draws import random_shuffle as shuffle
from headrace.ops.random.draws import random_uniform as uniform

if TYPE_CHECKING:
    from headrace.ops.nn.candidates import (
        learned_unigram_candidate_sampler,
        log_uniform_candidate_sampler,
        uniform_candidate_sampler,
    )
    from headrace.ops.nn.unigrams import all_candidate_sampler, fixed_unigram_candidate_sampler
    from headrace.ops.random.gamma import random_gamma as gamma
    from headrace.ops.random.stateless import (
        stateless_categorical,
        stateless_multinomial,
        stateless_normal,
        stateless_truncated_normal,
        stateless_uniform,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.nn.unigrams": "all_candidate_sampler fixed_unigram_candidate_sampler",
            "headrace.ops.nn.candidates": (
                "learned_unigram_candidate_sampler log_uniform_candidate_sampler "
                "uniform_candidate_sampler"
            ),
            "headrace.ops.random.gamma": "gamma=random_gamma",
            "headrace.ops.random.stateless": (
                "stateless_categorical stateless_multinomial stateless_normal "
                "stateless_truncated_normal stateless_uniform"
            ),
        },
    )

__all__ = [
    "all_candidate_sampler",
    "categorical",
    "fixed_unigram_candidate_sampler",
    "gamma",
    "get_seed",
    "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler",
    "multinomial",
    "normal",
    "poisson",
    "set_random_seed",
    "shuffle",
    "stateless_categorical",
    "stateless_multinomial",
    "stateless_normal",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
    "uniform_candidate_sampler",
]
