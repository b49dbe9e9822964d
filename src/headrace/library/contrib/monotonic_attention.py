"""Attention that only moves forwards: alignments of a step begin where those of the step before were.

Called by: programs.  Threads: as graph.
Source: C. Raffel et al., Online and linear-time attention by enforcing monotonic alignments, 2017; names of variables:
behaviour of TF 1.15 (contrib/seq2seq)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.contrib.attention import BahdanauAttention, LuongAttention, Mechanism
from headrace.library.functional import scan
from headrace.library.variables.initializers import constant_initializer
from headrace.library.variables.variable_scope import get_variable
from headrace.ops.array.constants import ones, zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.elementwise import exp, log, sigmoid
from headrace.ops.math.scans import cumprod, cumsum
from headrace.ops.random.draws import random_normal

__all__ = [
    "BahdanauMonotonicAttention",
    "LuongMonotonicAttention",
    "MonotonicMechanism",
    "monotonic_attention",
    "monotonic_probability_fn",
    "safe_cumprod",
]


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """`tf.cumprod` of values in [0, 1], by sums of logarithms: its gradient is finite where they are 0."""
    with name_scope(None, "SafeCumprod", [x]):
        values = convert(x, name="x")
        tiny = float(np.finfo(values.dtype.as_numpy_dtype).tiny)
        found: Tensor = exp(cumsum(log(clip_by_value(values, tiny, 1)), *args, **kwargs))
        return found


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Tensor:
    """Probabilities [batch, entries] of stopping at an entry, when one goes on from where the step before stopped.

    p_choose_i [batch, entries]: of stopping at an entry that is reached.  mode: "recursive", exact, entry after entry;
    "parallel", by cumulative products, less exact for long memories; "hard", p_choose_i is 0 or 1 and so is the result.
    Raises ValueError for another mode.
    """
    chosen = convert(p_choose_i, name="p_choose_i")
    before = convert(previous_attention, name="previous_attention")
    if chosen.shape.ndims not in (None, 2):
        raise ValueError(
            f"monotonic_attention: p_choose_i must be [batch, entries], and has shape {chosen.shape}"
        )
    if mode == "recursive":
        batch = chosen.shape[0].value or shape_of(chosen)[0]
        first = ones(stack([batch, 1]), chosen.dtype)
        passed = concat([first, 1 - chosen[:, :-1]], 1)

        def reach(x: Any, both: Any) -> Any:
            return reshape(both[0] * x + both[1], stack([batch]))

        start = zeros(stack([batch]), chosen.dtype)
        reached = transpose(scan(reach, [transpose(passed), transpose(before)], start))
        found: Tensor = chosen * reached
    elif mode == "parallel":
        passed = safe_cumprod(1 - chosen, axis=1, exclusive=True)
        found = chosen * passed * cumsum(before / clip_by_value(passed, 1e-10, 1.0), axis=1)
    elif mode == "hard":
        chosen = chosen * cumsum(before, axis=1)
        found = chosen * cumprod(1 - chosen, axis=1, exclusive=True)
    else:
        raise ValueError(f"mode must be 'recursive', 'parallel', or 'hard', not {mode!r}")
    return found


def monotonic_probability_fn(
    score: Any, previous_alignments: Any, sigmoid_noise: float, mode: str, seed: int | None = None
) -> Tensor:
    """`monotonic_attention` by the sigmoids of scores [batch, entries]; sigmoid_noise: deviation of what is added."""
    if sigmoid_noise > 0:
        score = score + sigmoid_noise * random_normal(shape_of(score), dtype=score.dtype, seed=seed)
    chosen = cast(score > 0, score.dtype) if mode == "hard" else sigmoid(score)
    return monotonic_attention(chosen, previous_alignments, mode)


class MonotonicMechanism(Mechanism):
    """A mechanism whose alignments before the first step are at the first entry."""

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """All of it at the first entry, [batch, entries]."""
        places = zeros(stack([batch_size]), dtypes.int32)
        return one_hot(places, self.alignments_size, dtype=dtype)


class _Monotonic(MonotonicMechanism):
    """What monotonic mechanisms share: a bias of scores, and noise."""

    _noise: float
    _seed: int | None
    _bias: float
    _mode: str

    def _aligned(self, score: Any, state: Any = None) -> tuple[Any, Any]:
        start = constant_initializer(self._bias)
        score = score + get_variable("attention_score_bias", [], score.dtype, start)
        return super()._aligned(score, state)

    def _probability_of(self, given: Any) -> Callable[[Any, Any], Any]:
        return lambda score, state: monotonic_probability_fn(
            score, state, self._noise, self._mode, self._seed
        )


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """BahdanauAttention that only moves forwards."""

    _scope = "bahdanau_monotonic_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        """sigmoid_noise: deviation of what is added to scores, so that they move away from 0 in training.

        score_bias_init: first value of attention_score_bias; mode: of `monotonic_attention`.
        """
        self._noise, self._seed = sigmoid_noise, sigmoid_noise_seed
        self._bias, self._mode = score_bias_init, mode
        super().__init__(
            num_units,
            memory,
            memory_sequence_length,
            normalize,
            score_mask_value=score_mask_value,
            dtype=dtype,
            name=name,
        )


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """LuongAttention that only moves forwards."""

    _scope = "luong_monotonic_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        """See `BahdanauMonotonicAttention`; scale: as of LuongAttention."""
        self._noise, self._seed = sigmoid_noise, sigmoid_noise_seed
        self._bias, self._mode = score_bias_init, mode
        super().__init__(
            num_units,
            memory,
            memory_sequence_length,
            scale,
            score_mask_value=score_mask_value,
            dtype=dtype,
            name=name,
        )
