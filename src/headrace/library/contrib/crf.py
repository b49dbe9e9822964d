"""Conditional random fields of sequences of tags: tf.contrib.crf.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/crf/python/ops/crf.py)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.library.rnn.cells import RNNCell
from headrace.library.rnn.loops import dynamic_rnn
from headrace.library.variables.variable_scope import get_variable
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.constants import fill, zeros_like
from headrace.ops.array.gathering import gather, gather_nd, where
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import reverse_sequence
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_logsumexp, reduce_max, reduce_sum
from headrace.ops.math.scans import argmax

__all__ = [
    "CrfDecodeBackwardRnnCell",
    "CrfDecodeForwardRnnCell",
    "CrfForwardRnnCell",
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


def _ids(x: Any) -> Any:
    return cast(convert(x), dtypes.int32)


def _of_rank(function: str, name: str, x: Any, rank: int, what: str) -> Any:
    """x as a tensor.  Raises ValueError: it is known to have another rank."""
    x = convert(x)
    if x.shape.ndims not in (None, rank):
        raise ValueError(f"{function}: {name} must be {what}, rank {rank}, and has shape {x.shape}")
    return x


def _inside(lengths: Any, steps: Any, dtype: Any) -> Any:
    return sequence_mask(lengths, steps, dtype=dtype)


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sum of the potentials of each sequence's tags: [batch].

    tag_indices [batch, time]; sequence_lengths [batch]; inputs [batch, time, tags].
    """
    inputs, tags = convert(inputs), _ids(tag_indices)
    steps, count = shape_of(inputs)[1], shape_of(inputs)[2]
    first = range_of(shape_of(inputs)[0] * steps) * count
    chosen = gather(reshape(inputs, [-1]), first + reshape(tags, [-1]))
    mask = _inside(_ids(sequence_lengths), steps, inputs.dtype)
    return reduce_sum(reshape(chosen, shape_of(tags)) * mask, 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sum of the potentials of the transitions between each sequence's tags: [batch].

    transition_params [tags, tags], from row to column.
    """
    params, tags = convert(transition_params), _ids(tag_indices)
    count = shape_of(params)[0]
    pairs = tags[:, :-1] * count + tags[:, 1:]
    mask = _inside(_ids(sequence_lengths), shape_of(tags)[1], params.dtype)[:, 1:]
    return reduce_sum(gather(reshape(params, [-1]), pairs) * mask, 1)


def crf_sequence_score(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """`crf_unary_score` and `crf_binary_score` together: [batch], not normalized."""
    name = "crf_sequence_score"
    inputs = _of_rank(name, "inputs", inputs, 3, "[batch, time, tags]")
    sequence_lengths = _of_rank(name, "sequence_lengths", sequence_lengths, 1, "[batch]")
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_multitag_sequence_score(
    inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """The logarithm of the sum over all sequences of tags that tag_bitmap [batch, time, tags] allows: [batch]."""
    inputs = convert(inputs)
    none = fill(shape_of(inputs), cast(float("-inf"), inputs.dtype))
    allowed = where(cast(tag_bitmap, dtypes.bool), inputs, none)
    return crf_log_norm(allowed, sequence_lengths, transition_params)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The logarithm of the sum over all sequences of tags: [batch]; 0 where there is no step."""
    inputs, lengths = convert(inputs), _ids(sequence_lengths)
    cell = CrfForwardRnnCell(transition_params)
    last = _run(cell, inputs, lengths, inputs.dtype)[1]
    found = reduce_logsumexp(last, [1])
    return where(lengths <= 0, zeros_like(found), found)


def _run(cell: Any, inputs: Any, lengths: Any, dtype: Any) -> tuple[Any, Any]:
    """`cell` along all steps but the first, which is its state."""
    return dynamic_rnn(
        cell,
        inputs[:, 1:],
        sequence_length=maximum(0, lengths - 1),
        initial_state=inputs[:, 0],
        dtype=dtype,
    )


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """The logarithm of the probability of each sequence's tags, [batch], and the transitions.

    transition_params: the variable `transitions` [tags, tags] by default.
    """
    name = "crf_log_likelihood"
    inputs = _of_rank(name, "inputs", inputs, 3, "[batch, time, tags]")
    sequence_lengths = _of_rank(name, "sequence_lengths", sequence_lengths, 1, "[batch]")
    if transition_params is None:
        count = None if inputs.shape.ndims is None else inputs.shape[2].value
        if count is None:
            raise ValueError(
                f"{name}: inputs must be [batch, time, tags] with a known number of tags, or transition_params be "
                f"given, and it has shape {inputs.shape}"
            )
        transition_params = get_variable("transitions", [count, count], inputs.dtype)
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    norm = crf_log_norm(inputs, sequence_lengths, transition_params)
    return score - norm, transition_params


class _Cell(RNNCell):
    """A cell over tags."""

    def __init__(self, transition_params: Any) -> None:
        super().__init__()
        params = convert(transition_params)
        self._transitions = expand_dims(params, 0)
        self._tags = params.shape[0].value

    @property
    def state_size(self) -> Any:
        """How many tags."""
        return self._tags

    @property
    def output_size(self) -> Any:
        """How many tags."""
        return self._tags

    def _stepped(self, inputs: Any, state: Any, scope: Any) -> Any:
        return self.call(inputs, state)  # it has no variables


class CrfForwardRnnCell(_Cell):
    """A step of the forward algorithm: logarithms of sums over the sequences that end with each tag."""

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`; inputs and state [batch, tags]."""
        new = inputs + reduce_logsumexp(expand_dims(state, 2) + self._transitions, [1])
        return new, new


class CrfDecodeForwardRnnCell(_Cell):
    """A step of Viterbi's algorithm: the best scores, and from which tag they come."""

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`; outputs are int32."""
        scores = expand_dims(state, 2) + self._transitions
        return cast(argmax(scores, 1), dtypes.int32), inputs + reduce_max(scores, [1])


class CrfDecodeBackwardRnnCell(_Cell):
    """A step back along the best tags; state and outputs [batch, 1]."""

    def __init__(self, num_tags: int) -> None:
        RNNCell.__init__(self)
        self._tags = num_tags

    @property
    def state_size(self) -> Any:
        """One."""
        return 1

    @property
    def output_size(self) -> Any:
        """One."""
        return 1

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`; inputs [batch, tags] say from which tag each comes."""
        at = squeeze(state, [1])
        new = expand_dims(gather_nd(inputs, stack([range_of(shape_of(inputs)[0]), at], axis=1)), -1)
        return new, new


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The best tags of each sequence, [batch, time] int32 (0 after its length), and their scores [batch].

    potentials [batch, time, tags]; transition_params [tags, tags]; sequence_length [batch].
    """
    name = "crf_decode"
    potentials = _of_rank(name, "potentials", potentials, 3, "[batch, time, tags]")
    lengths = _ids(_of_rank(name, "sequence_length", sequence_length, 1, "[batch]"))
    _of_rank(name, "transition_params", transition_params, 2, "[tags, tags]")
    best, scores = _run(
        CrfDecodeForwardRnnCell(transition_params), potentials, lengths, dtypes.int32
    )
    rest = maximum(0, lengths - 1)
    last = expand_dims(cast(argmax(scores, 1), dtypes.int32), -1)
    backwards = reverse_sequence(best, rest, seq_axis=1, batch_axis=0)
    found, _ = dynamic_rnn(
        CrfDecodeBackwardRnnCell(potentials.shape[2].value),
        backwards,
        sequence_length=rest,
        initial_state=last,
        dtype=dtypes.int32,
    )
    tags = concat([last, squeeze(found, [2])], 1)
    tags = reverse_sequence(tags, maximum(1, lengths), seq_axis=1, batch_axis=0)
    return tags, reduce_max(scores, 1)


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """The best tags of one sequence, and their score, by NumPy: score [time, tags], transition_params [tags, tags]."""
    score, transition_params = np.asarray(score), np.asarray(transition_params)
    if score.ndim != 2 or not len(score) or transition_params.shape != (score.shape[1],) * 2:
        raise ValueError(
            "viterbi_decode: score must be [time, tags] of one step at least, and transition_params [tags, tags]; they "
            f"have shapes {score.shape} and {transition_params.shape}"
        )
    best = np.array(score[0], copy=True)
    come_from = []
    for potentials in score[1:]:
        scores = best[:, None] + transition_params
        come_from.append(np.argmax(scores, 0))
        best = potentials + np.max(scores, 0)
    tags = [int(np.argmax(best))]
    for each in reversed(come_from):
        tags.append(int(each[tags[-1]]))
    return tags[::-1], np.max(best)
