"""tf.contrib.seq2seq: decoders, helpers, attention and beam search, against NumPy and other ways to the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

s2s, rnn = tf.contrib.seq2seq, tf.contrib.rnn
BATCH, TIME, UNITS, SYMBOLS, END = 2, 4, 3, 6, 5


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with (
        tf.Graph().as_default(),
        tf.variable_scope("", initializer=tf.random_normal_initializer(seed=11)),
    ):
        yield


def drawn(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def names() -> list[str]:
    return [variable.op.name for variable in tf.global_variables()]


@pytest.mark.parametrize("major", [False, True])
@pytest.mark.parametrize("impute", [False, True])
def test_decoding_given_inputs_is_a_recurrent_network(major: bool, impute: bool) -> None:
    x = tf.constant(drawn(BATCH, TIME, UNITS))
    lengths = [TIME, 2]
    cell = rnn.GRUCell(UNITS)
    given = tf.transpose(x, [1, 0, 2]) if major else x
    decoder = s2s.BasicDecoder(
        cell,
        s2s.TrainingHelper(given, lengths, time_major=major),
        cell.zero_state(BATCH, tf.float32),
    )
    outputs, state, found_lengths = s2s.dynamic_decode(
        decoder, impute_finished=impute, output_time_major=major
    )
    assert outputs.rnn_output.shape.as_list() == (
        [None, BATCH, UNITS] if major else [BATCH, None, UNITS]
    )
    with tf.variable_scope("", reuse=True):
        wanted, last = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    slopes = [tf.gradients(tf.reduce_sum(each[0]), x)[0] for each in (outputs.rnn_output, wanted)]
    found, ids, end, ends, other, other_last, *slopes = run(
        outputs.rnn_output, outputs.sample_id, state, found_lengths, wanted, last, *slopes
    )
    if major:
        found, ids = found.swapaxes(0, 1), ids.T
    assert ends.tolist() == lengths
    np.testing.assert_allclose(found[0], other[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1, :2], other[1, :2], rtol=1e-5, atol=1e-6)
    assert (ids[0] == found[0].argmax(1)).all()
    if impute:
        np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(end, other_last, rtol=1e-5, atol=1e-6)
    if not major:
        np.testing.assert_allclose(*slopes, rtol=1e-4, atol=1e-5)
    assert names()[0] == "decoder/gru_cell/gates/kernel"


def decoder_of(helper: Any, state: Any = None, cell: Any = None) -> Any:
    cell = cell or rnn.GRUCell(UNITS)
    layer = tf.layers.Dense(SYMBOLS, use_bias=False, name="out")
    return s2s.BasicDecoder(
        cell, helper, cell.zero_state(BATCH, tf.float32) if state is None else state, layer
    )


def test_greedy_decoding_takes_what_was_likeliest() -> None:
    embedding = tf.get_variable("embedding", [SYMBOLS, UNITS])
    helper = s2s.GreedyEmbeddingHelper(embedding, [0, 1], END)
    outputs, _, lengths = s2s.dynamic_decode(decoder_of(helper), maximum_iterations=7)
    assert names()[-1] == "decoder/out/kernel"
    logits, ids, found_lengths, table, *weights = run(
        *outputs, lengths, embedding, *tf.global_variables()[1:]
    )
    gates, gates_bias, new, new_bias, out = weights
    for row, token in enumerate([0, 1]):
        h = np.zeros(UNITS)
        for step in range(int(found_lengths[row])):
            both = np.concatenate([table[token], h])
            r, u = np.split(1 / (1 + np.exp(-both @ gates - gates_bias)), 2)
            c = np.tanh(np.concatenate([table[token], r * h]) @ new + new_bias)
            h = u * h + (1 - u) * c
            np.testing.assert_allclose(logits[row, step], h @ out, rtol=1e-4, atol=1e-5)
            token = (h @ out).argmax()
            assert ids[row, step] == token
        assert token == END or found_lengths[row] == 7


def test_helpers_sample_and_feed_what_they_say() -> None:
    table = tf.constant(drawn(SYMBOLS, UNITS, seed=4))
    x = tf.constant(drawn(BATCH, TIME, UNITS, seed=5))
    cold = s2s.SampleEmbeddingHelper(table, [0, 1], END, softmax_temperature=1e-6, seed=3)
    greedy = s2s.GreedyEmbeddingHelper(lambda ids: tf.gather(table, ids), [0, 1], END)
    own = s2s.InferenceHelper(
        lambda outputs: tf.argmax(outputs, -1, output_type=tf.int32), [], tf.int32, tf.gather(table, [0, 1]),
        lambda ids: tf.equal(ids, END), lambda ids: tf.gather(table, ids),
    )  # fmt: skip
    custom = s2s.CustomHelper(
        lambda: (tf.tile([False], [BATCH]), tf.gather(table, [0, 1])),
        lambda time, outputs, state: tf.argmax(outputs, -1, output_type=tf.int32),
        lambda time, outputs, state, sample_ids: (
            tf.equal(sample_ids, END), tf.gather(table, sample_ids), state,
        ),
    )  # fmt: skip
    never = s2s.ScheduledEmbeddingTrainingHelper(x, [TIME, 3], table, 0.0)
    given = s2s.TrainingHelper(x, [TIME, 3])
    always = s2s.ScheduledEmbeddingTrainingHelper(
        x, [TIME, 3], table, tf.constant([1.0, 1.0]), seed=5
    )
    found = []
    for helper in (greedy, cold, own, custom, given, never, always):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            found.append(s2s.dynamic_decode(decoder_of(helper), maximum_iterations=5, scope="d")[0])
    values = run(*found)
    for each in values[1:4]:
        np.testing.assert_allclose(each.rnn_output, values[0].rnn_output, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values[5].rnn_output, values[4].rnn_output, rtol=1e-5, atol=1e-6)
    assert (values[5].sample_id == -1).all()
    assert (values[6].sample_id >= 0).all()
    np.testing.assert_allclose(
        values[6].rnn_output[:, 0], values[4].rnn_output[:, 0], rtol=1e-5, atol=1e-6
    )
    assert not np.allclose(values[6].rnn_output[:, 1], values[4].rnn_output[:, 1])


@pytest.mark.parametrize("more", [False, True])
def test_outputs_that_are_fed_back_take_the_place_of_inputs(more: bool) -> None:
    x = tf.constant(drawn(BATCH, TIME, UNITS))
    side = tf.constant(drawn(BATCH, TIME, 2, seed=2)) if more else None
    cell = rnn.BasicRNNCell(UNITS)
    helper = s2s.ScheduledOutputTrainingHelper(
        x, [TIME, TIME], 1.0, next_inputs_fn=lambda out: out * 2, auxiliary_inputs=side
    )
    decoder = s2s.BasicDecoder(cell, helper, cell.zero_state(BATCH, tf.float32))
    outputs, _, _ = s2s.dynamic_decode(decoder)
    found, first, kernel, *beside = run(
        outputs.rnn_output, x, tf.global_variables()[0], *([side] if more else [])
    )
    given, h = first[:, 0], np.zeros((BATCH, UNITS))
    for step in range(TIME):
        parts = [given, *(each[:, step] for each in beside), h]
        h = np.tanh(np.concatenate(parts, 1) @ kernel)
        np.testing.assert_allclose(found[:, step], h, rtol=1e-4, atol=1e-5)
        given = 2 * h


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


MECHANISMS = {
    "luong": lambda memory, **more: s2s.LuongAttention(UNITS, memory, scale=True, **more),
    "bahdanau": lambda memory, **more: s2s.BahdanauAttention(4, memory, **more),
    "bahdanau, normalized": lambda memory, **more: s2s.BahdanauAttention(
        4, memory, normalize=True, **more
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_attention_is_the_formula(name: str) -> None:
    memory, query = drawn(BATCH, TIME, 5), drawn(BATCH, UNITS, seed=2)
    mechanism = MECHANISMS[name](tf.constant(memory), memory_sequence_length=[TIME, 2])
    alignments, _ = mechanism(tf.constant(query), mechanism.initial_state(BATCH, tf.float32))
    assert mechanism.alignments_size == TIME
    found, *weights = run(alignments, *tf.global_variables())
    w = dict(zip(names(), weights, strict=True))
    keys = memory @ w["memory_layer/kernel"]
    if name == "luong":
        score = (keys * query[:, None]).sum(2) * w["luong_attention/attention_g"]
    else:
        v = w["bahdanau_attention/attention_v"]
        inner = keys + (query @ w["bahdanau_attention/query_layer/kernel"])[:, None]
        if "normalized" in name:
            v = w["bahdanau_attention/attention_g"] * v / np.sqrt((v**2).sum())
            inner = inner + w["bahdanau_attention/attention_b"]
        score = (v * np.tanh(inner)).sum(2)
    score[1, 2:] = -np.inf
    np.testing.assert_allclose(found, softmax(score), rtol=1e-4, atol=1e-6)


def test_a_cell_attends_and_keeps_what_it_attended_to() -> None:
    memory = tf.constant(drawn(BATCH, TIME, 5))
    cell = s2s.AttentionWrapper(
        rnn.BasicLSTMCell(UNITS), s2s.LuongAttention(UNITS, memory), attention_layer_size=4,
        alignment_history=True,
    )  # fmt: skip
    x = tf.constant(drawn(BATCH, TIME, 2, seed=9))
    start = cell.zero_state(BATCH, tf.float32)
    decoder = s2s.BasicDecoder(cell, s2s.TrainingHelper(x, [TIME, TIME]), start)
    outputs, state, _ = s2s.dynamic_decode(decoder)
    history = state.alignment_history.stack()
    assert names() == [
        "memory_layer/kernel",
        "decoder/attention_wrapper/basic_lstm_cell/kernel",
        "decoder/attention_wrapper/basic_lstm_cell/bias",
        "decoder/attention_wrapper/attention_layer/kernel",
    ]
    (found, last, kept, given, values, by_keys, kernel, bias, layer) = run(
        outputs.rnn_output, state.attention, history, x, memory, *tf.global_variables()
    )
    attention, c, h = np.zeros((BATCH, 4)), np.zeros((BATCH, UNITS)), np.zeros((BATCH, UNITS))
    for step in range(TIME):
        gates = np.concatenate([given[:, step], attention, h], 1) @ kernel + bias
        i, j, f, o = (np.split(gates, 4, 1)[at] for at in range(4))
        c = c / (1 + np.exp(-f - 1)) + np.tanh(j) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        aligned = softmax(((values @ by_keys) * h[:, None]).sum(2))
        context = (aligned[:, :, None] * values).sum(1)
        attention = np.concatenate([h, context], 1) @ layer
        np.testing.assert_allclose(kept[step], aligned, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[:, step], attention, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, attention, rtol=1e-4, atol=1e-5)
    cloned = start.clone(
        cell_state=rnn.LSTMStateTuple(tf.ones([BATCH, UNITS]), tf.ones([BATCH, UNITS]))
    )
    assert cloned.time is start.time
    with pytest.raises(ValueError, match="structure"):
        start.clone(cell_state=tf.ones([BATCH, UNITS]))


def test_several_memories_and_what_is_refused() -> None:
    one, other = (tf.constant(drawn(BATCH, steps, 5)) for steps in (TIME, 3))
    both = [s2s.LuongAttention(UNITS, one), s2s.BahdanauAttention(UNITS, other)]
    cell = s2s.AttentionWrapper(
        rnn.GRUCell(UNITS), both, attention_layer_size=[2, 3], output_attention=False
    )
    output, state = cell(tf.ones([BATCH, 2]), cell.zero_state(BATCH, tf.float32))
    assert (output.shape.as_list(), cell.state_size.attention) == ([BATCH, UNITS], 5)
    found = run(output, state)[1]
    assert [each.shape for each in found.alignments] == [(BATCH, TIME), (BATCH, 3)]
    assert found.attention.shape == (BATCH, 5)
    with pytest.raises(ValueError, match="exactly one entry"):
        s2s.AttentionWrapper(rnn.GRUCell(UNITS), both, attention_layer_size=[2])
    with pytest.raises(TypeError, match="AttentionWrapperState"):
        cell(tf.ones([BATCH, 2]), tf.ones([BATCH, UNITS]))
    with pytest.raises(ValueError, match="num_units"):
        both[0](tf.ones([BATCH, 7]), None)
    with pytest.raises(TypeError, match="type Decoder"):
        s2s.dynamic_decode(cell)
    with pytest.raises(tf.errors.InvalidArgumentError, match="tile_batch"):
        cell.zero_state(BATCH + 1, tf.float32)
    wrong = cell.zero_state(tf.placeholder_with_default(BATCH + 1, []), tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="tile_batch"):
        run(wrong.cell_state)


def best_sequences(table: Any, start: int, beams: int, steps: int, weight: float) -> Any:
    """The beams of a model whose log probabilities depend on the last symbol alone, kept by hand."""
    log_probs = np.log(softmax(table))
    alive = [((start,), 0.0, False)]
    for _ in range(steps):
        grown = []
        for tokens, total, ended in alive:
            for symbol in range(SYMBOLS):
                if ended:
                    if symbol == END:
                        grown.append(((*tokens, symbol), total, True, len_of(tokens)))
                    continue
                length = len_of(tokens) + (symbol != END)
                grown.append(
                    (
                        (*tokens, symbol),
                        total + log_probs[tokens[-1], symbol],
                        symbol == END,
                        length,
                    )
                )
        grown.sort(key=lambda each: -each[1] / ((5 + each[3]) / 6) ** weight)
        alive = [each[:3] for each in grown[:beams]]
    return [tokens[1:] for tokens, _, _ in alive]


def len_of(tokens: Any) -> int:
    inside = tokens[1:]
    return inside.index(END) if END in inside else len(inside)


class Markov(rnn.RNNCell):  # type: ignore[misc]
    """Logits by the last symbol alone."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self._table = tf.constant(table)

    state_size, output_size = 1, SYMBOLS

    def call(self, inputs: Any, state: Any) -> Any:
        return tf.matmul(inputs, self._table), state + 1


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("beams", [1, 3])
def test_beam_search_keeps_the_best(beams: int, weight: float) -> None:
    table = drawn(SYMBOLS, SYMBOLS, seed=21) * 1.5
    cell = Markov(table)
    decoder = s2s.BeamSearchDecoder(
        cell, tf.eye(SYMBOLS), [0, 2], END, cell.zero_state(BATCH * beams, tf.float32), beams,
        length_penalty_weight=weight,
    )  # fmt: skip
    outputs, state, lengths = s2s.dynamic_decode(decoder, maximum_iterations=4)
    assert outputs.predicted_ids.shape.as_list() == [BATCH, None, beams]
    ids, scores, ended, found_lengths = run(
        outputs.predicted_ids, outputs.beam_search_decoder_output.scores, state.finished, lengths
    )
    for row, start in enumerate([0, 2]):
        wanted = best_sequences(table, start, beams, 4, weight)
        for beam in range(beams):
            assert tuple(ids[row, :, beam]) == wanted[beam][: ids.shape[1]]
            assert ended[row, beam] == (END in wanted[beam])
    assert found_lengths.shape == (BATCH, beams)
    assert (np.diff(scores[:, -1], axis=1) <= 0).all()


def test_beam_search_with_attention_keeps_the_history_of_whole_beams() -> None:
    beams = 3
    memory = s2s.tile_batch(tf.constant(drawn(BATCH, TIME, 5)), beams)
    lengths = s2s.tile_batch(tf.constant([TIME, 2]), beams)
    assert memory.shape.as_list() == [BATCH * beams, TIME, 5]
    cell = s2s.AttentionWrapper(
        rnn.MultiRNNCell([rnn.LSTMBlockCell(UNITS), rnn.GRUCell(UNITS)]),
        s2s.BahdanauAttention(UNITS, memory, memory_sequence_length=lengths),
        attention_layer_size=UNITS,
        alignment_history=True,
    )
    embedding = tf.get_variable("embedding", [SYMBOLS, UNITS])
    results = []
    for penalty in (0.0, 0.5):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            decoder = s2s.BeamSearchDecoder(
                cell, embedding, tf.fill([BATCH], 0), END, cell.zero_state(BATCH * beams, tf.float32), beams,
                output_layer=tf.layers.Dense(SYMBOLS, name="out"), coverage_penalty_weight=penalty,
            )  # fmt: skip
            outputs, state, _ = s2s.dynamic_decode(decoder, maximum_iterations=5, scope="decoder")
            results += [outputs.predicted_ids, state.cell_state.alignment_history]
    found = run(*results)
    assert found[0].shape[::2] == (BATCH, beams)
    assert found[1].shape == (found[0].shape[1], BATCH * beams, TIME)
    np.testing.assert_allclose(found[1].sum(2), 1, rtol=1e-5)
    assert not found[1].reshape(-1, BATCH, beams, TIME)[:, 1, :, 2:].any()


def test_what_beams_had_is_ordered_by_their_parents() -> None:
    values = np.arange(3 * 1 * 2 * 2, dtype=np.float32).reshape(3, 1, 2, 2)
    parents = np.array([[[0, 0]], [[0, 1]], [[1, 0]]], np.int32)
    found = s2s.gather_tree_from_array(values, parents, np.array([[3, 3]]))
    assert run(found)[0][:, 0, :, 0].tolist() == [[2, 0], [6, 4], [8, 10]]
    tiled = s2s.tile_batch((tf.constant([1, 2]), tf.constant([[3], [4]])), 2)
    assert [each.tolist() for each in run(*tiled)] == [[1, 1, 2, 2], [[3], [3], [4], [4]]]
    assert run(s2s.hardmax(tf.constant([[1.0, 3.0, 2.0]])))[0].tolist() == [[0, 1, 0]]
