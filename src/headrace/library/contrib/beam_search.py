"""Decoding that keeps the likeliest beams of each sequence: tf.contrib.seq2seq's BeamSearchDecoder and tile_batch.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/seq2seq/python/ops/beam_search_decoder.py)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.contrib.attention import AttentionWrapperState
from headrace.library.contrib.decoding import Decoder
from headrace.library.contrib.decoding_helpers import embedding_function
from headrace.library.rnn.cells import check_is_cell
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.constants import constant, zeros
from headrace.ops.array.gathering import gather_nd, where
from headrace.ops.array.joining import concat
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import tile
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.array.unique import top_k
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.arithmetic import floordiv, floormod, minimum
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, logical_not, logical_or
from headrace.ops.math.elementwise import log
from headrace.ops.math.reductions import reduce_all, reduce_max, reduce_sum
from headrace.ops.nn.beams import gather_tree
from headrace.ops.nn.softmax import log_softmax

__all__ = [
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "FinalBeamSearchDecoderOutput",
    "gather_tree_from_array",
    "tile_batch",
]


class BeamSearchDecoderState(NamedTuple):
    """State of a beam search: [batch, beams, ...] each."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any


class BeamSearchDecoderOutput(NamedTuple):
    """A step's scores, symbols, and the beams that they go on from: [batch, beams] each."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """predicted_ids [batch, time, beams], the likeliest beam first; and what the steps gave."""

    predicted_ids: Any
    beam_search_decoder_output: BeamSearchDecoderOutput


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Each entry of a batch `multiplier` times, one after the other: [batch * multiplier, ...]; t may be nested.

    Raises ValueError if the number of dimensions is not known, or is 0.
    """
    flat = nest.flatten(t)
    with name_scope(name, "tile_batch", [*flat, multiplier]):
        return nest.map_structure(lambda each: _tiled(each, multiplier), t)


def _tiled(t: Any, multiplier: int) -> Any:
    t = convert(t, name="t")
    if t.shape.ndims is None or t.shape.ndims < 1:
        raise ValueError(f"t must have statically known rank, of 1 at least: {t.shape}")
    sizes, rest = shape_of(t), t.shape.ndims - 1
    many = tile(expand_dims(t, 1), [1, multiplier] + [1] * rest)
    made = reshape(many, concat([[-1], sizes[1:]], 0) if rest else [-1])
    batch = t.shape[0].value
    made.set_shape(
        TensorShape([None if batch is None else batch * multiplier]).concatenate(t.shape[1:])
    )
    return made


def _rows(gathered: Any, at: Any, beams: Any) -> Any:
    """gathered [batch, n, ...] at `at` [batch, beams], each in its own row."""
    batch = shape_of(at)[0]
    row = tile(expand_dims(range_of(batch), 1), [1, beams])
    found = gather_nd(gathered, stack([row, at], axis=-1))
    found.set_shape(TensorShape(at.shape[:2]).concatenate(gathered.shape[2:]))
    return found


def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> Any:
    """What each whole beam had at each step: t [time, batch, beams, ...], or [time, batch * beams, ...], in that order.

    parent_ids [time, batch, beams]; sequence_length [batch, beams].
    """
    steps, batch, beams = (shape_of(parent_ids)[axis] for axis in range(3))
    ids = tile(reshape(range_of(beams), [1, 1, -1]), stack([steps, batch, 1]))
    longest = cast(reduce_max(sequence_length, axis=1), dtypes.int32)
    followed = gather_tree(ids, parent_ids, longest, beams + 1)
    inside = transpose(sequence_mask(sequence_length, steps), [2, 0, 1])
    followed = where(inside, followed, ids)
    times = tile(reshape(range_of(steps), [-1, 1, 1]), stack([1, batch, beams]))
    rows = tile(reshape(range_of(batch), [1, -1, 1]), stack([steps, 1, beams]))
    whole = shape_of(t)
    parted = reshape(t, stack([steps, batch, beams, -1]))
    found = reshape(gather_nd(parted, stack([times, rows, followed], axis=-1)), whole)
    found.set_shape(t.shape)
    return found


class BeamSearchDecoder(Decoder):
    """Beams of each sequence that go on with their likeliest symbols."""

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        """initial_state: of [batch * beam_width, ...], by `tile_batch`; so are the memories of an AttentionWrapper.

        embedding: a function of ids, or what embedding_lookup takes.  start_tokens [batch]; end_token a scalar.
        length_penalty_weight: scores are divided by ((5 + length) / 6) to it.  coverage_penalty_weight: scores are less
        where attention left memory out.  reorder_tensor_arrays: alignment histories are those of whole beams.
        Raises TypeError, ValueError.
        """
        check_is_cell(cell, "cell")
        if output_layer is not None and not callable(output_layer):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        self._cell, self._output_layer, self._beams = cell, output_layer, beam_width
        self._length_weight, self._coverage_weight = length_penalty_weight, coverage_penalty_weight
        self._reorder = reorder_tensor_arrays
        self._embedding_fn = embedding_function(embedding)
        start = cast(convert(start_tokens, name="start_tokens"), dtypes.int32)
        self._end_token = cast(convert(end_token, name="end_token"), dtypes.int32)
        if start.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._static_batch = start.shape[0].value
        self._batch_size = size_of(start)
        self._state = self._split_all(initial_state)
        self._start_inputs = self._embedding_fn(tile(expand_dims(start, 1), [1, beam_width]))
        self._finished = one_hot(
            zeros([self._batch_size], dtypes.int32),
            depth=beam_width,
            on_value=False,
            off_value=True,
            dtype=dtypes.bool,
        )

    @property
    def batch_size(self) -> Any:
        """How many sequences."""
        return self._batch_size

    @property
    def tracks_own_finished(self) -> bool:
        """Beams are shuffled, and what is finished with them."""
        return True

    @property
    def output_size(self) -> Any:
        """See `Decoder`."""
        return BeamSearchDecoderOutput(*[TensorShape([self._beams])] * 3)

    @property
    def output_dtype(self) -> Any:
        """See `Decoder`."""
        return BeamSearchDecoderOutput(self._kind(), dtypes.int32, dtypes.int32)

    def _kind(self) -> Any:
        return nest.flatten(self._state)[0].dtype

    def _split(self, t: Any) -> Any:
        """[batch * beams, ...] as [batch, beams, ...]."""
        if isinstance(t, TensorArray) or t.shape.ndims == 0:
            return t
        made = reshape(t, concat([stack([self._batch_size, self._beams]), shape_of(t)[1:]], 0))
        made.set_shape(TensorShape([self._static_batch, self._beams]).concatenate(t.shape[1:]))
        return made

    def _merged(self, t: Any) -> Any:
        """[batch, beams, ...] as [batch * beams, ...]."""
        if isinstance(t, TensorArray) or t.shape.ndims < 2:
            return t
        made = reshape(t, concat([[-1], shape_of(t)[2:]], 0))
        batch = None if self._static_batch is None else self._static_batch * self._beams
        made.set_shape(TensorShape([batch]).concatenate(t.shape[2:]))
        return made

    def _split_all(self, state: Any) -> Any:
        for each in nest.flatten(state):
            if not isinstance(each, TensorArray) and not hasattr(each, "get_shape"):
                raise TypeError(
                    f"BeamSearchDecoder: initial_state must be of tensors, as tile_batch gives them, and has {each!r}"
                )
            if not isinstance(each, TensorArray) and each.shape.ndims is None:
                raise ValueError(
                    f"Expected tensor ({each}) to have known rank, but ndims == None: it is of the initial state"
                )
        return nest.map_structure(self._split, state)

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """See `Decoder`: one beam begins, and the others join it at the first step."""
        kind = self._kind()
        log_probs = one_hot(
            zeros([self._batch_size], dtypes.int32),
            depth=self._beams,
            on_value=cast(0.0, kind),
            off_value=cast(float("-inf"), kind),
            dtype=kind,
        )
        state = BeamSearchDecoderState(
            cell_state=self._state,
            log_probs=log_probs,
            finished=self._finished,
            lengths=zeros(stack([self._batch_size, self._beams]), dtypes.int64),
            accumulated_attention_probs=self._attention_of(self._state),
        )
        state.lengths.set_shape([self._static_batch, self._beams])
        return self._finished, self._start_inputs, state

    def _attention_of(self, state: Any) -> Any:
        """Alignments [batch, beams, entries], averaged over several memories; () where coverage does not count."""
        if self._coverage_weight == 0.0:
            return ()
        parts = [state, *(state if isinstance(state, (list, tuple)) else ())]
        for part in parts:
            if isinstance(part, AttentionWrapperState):
                found = part.alignments
                if not isinstance(found, tuple):
                    return found
                if len(found) == 1:
                    return found[0]
                raise ValueError("coverage_penalty_weight is for one attention mechanism")
        raise ValueError(
            "coverage_penalty_weight must be 0.0 when no cell is attentional: it is "
            f"{self._coverage_weight}, and the state has no AttentionWrapperState"
        )

    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """See `Decoder`."""
        with name_scope(name, "BeamSearchDecoderStep", [time]):
            given = nest.map_structure(self._merged, inputs)
            cell_state = nest.map_structure(self._merged, state.cell_state)
            outputs, cell_state = self._cell(given, cell_state)
            cell_state = nest.map_structure(self._split, cell_state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            logits = nest.map_structure(self._split, outputs)
            found, new_state = self._searched(logits, cell_state, state)
            following = cond(
                reduce_all(new_state.finished),
                lambda: self._start_inputs,
                lambda: self._embedding_fn(found.predicted_ids),
            )
            following.set_shape(self._start_inputs.shape)
        return found, new_state, following, new_state.finished

    def _searched(self, logits: Any, cell_state: Any, state: Any) -> Any:
        """The best beams of all continuations: (output, next state)."""
        open_beams = logical_not(state.finished)
        symbols = logits.shape[-1].value or shape_of(logits)[-1]
        log_probs = _only_ending(log_softmax(logits), self._end_token, state.finished, symbols)
        total = expand_dims(state.log_probs, 2) + log_probs
        added = one_hot(self._end_token, symbols, on_value=0, off_value=1, dtype=dtypes.int64)
        lengths = expand_dims(state.lengths, 2) + added * expand_dims(
            cast(open_beams, dtypes.int64), 2
        )
        seen: Any = ()
        scores = total
        if self._length_weight != 0.0:
            scores = scores / ((5.0 + cast(lengths, total.dtype)) / 6.0) ** self._length_weight
        if self._coverage_weight != 0.0:
            attended = self._attention_of(cell_state) * expand_dims(
                cast(open_beams, total.dtype), 2
            )
            seen = state.accumulated_attention_probs + attended
            covered = reduce_sum(log(minimum(seen, 1.0)), 2)
            scores = scores + expand_dims(covered * self._coverage_weight, 2)
        flat = reshape(scores, stack([self._batch_size, -1]))
        best, at = top_k(flat, k=self._beams)
        for each in (best, at):
            each.set_shape([self._static_batch, self._beams])
        ids, beams = floormod(at, symbols), floordiv(at, symbols)

        def moved(t: Any) -> Any:
            if isinstance(t, TensorArray) or t.shape.ndims is None or t.shape.ndims < 2:
                return t
            return _rows(t, beams, self._beams)

        ended = moved(state.finished)
        new = BeamSearchDecoderState(
            cell_state=nest.map_structure(moved, cell_state),
            log_probs=_rows(reshape(total, stack([self._batch_size, -1])), at, self._beams),
            finished=logical_or(ended, equal(ids, self._end_token)),
            lengths=moved(state.lengths) + cast(logical_not(ended), dtypes.int64),
            accumulated_attention_probs=nest.map_structure(moved, seen),
        )
        return BeamSearchDecoderOutput(best, ids, beams), new

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """See `Decoder`: whole beams."""
        longest = cast(reduce_max(final_state.lengths, axis=1), dtypes.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)

        def sorted_beams(t: Any) -> Any:
            if not isinstance(t, TensorArray):
                return t
            return gather_tree_from_array(t.stack(), outputs.parent_ids, final_state.lengths)

        if self._reorder:
            cell_state = nest.map_structure(sorted_beams, final_state.cell_state)
            final_state = final_state._replace(cell_state=cell_state)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state


def _only_ending(log_probs: Any, end_token: Any, finished: Any, symbols: Any) -> Any:
    """log_probs [batch, beams, symbols]; of beams that are finished, 0 for end_token and hardly anything else."""
    kind = log_probs.dtype
    row = one_hot(
        end_token, symbols, dtype=kind, on_value=cast(0.0, kind), off_value=constant(kind.min, kind)
    )
    many = tile(reshape(row, [1, 1, -1]), concat([shape_of(finished), [1]], 0))
    where_ended = tile(expand_dims(finished, 2), stack([1, 1, symbols]))
    return where(where_ended, many, log_probs)
