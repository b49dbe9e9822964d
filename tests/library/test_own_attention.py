"""Attention mechanisms of programs' own, which subclass those of contrib and use what these share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.contrib import rnn, seq2seq
from headrace.library.contrib import attention, monotonic_attention
from headrace.library.contrib.legacy_seq2seq import feeding
from headrace.library.contrib.rnn_weights import Linear, linear

MEMORY = np.random.RandomState(0).standard_normal((2, 5, 3)).astype(np.float32)
LENGTHS = [5, 2]


class LocationSensitive(seq2seq.BahdanauAttention):
    """As synthesizers of speech have it: what was attended to before counts."""

    def __init__(self, units: int, memory: Any, lengths: Any) -> None:
        super().__init__(num_units=units, memory=memory, memory_sequence_length=lengths)
        self.places = tf.layers.Conv1D(4, 3, padding="same", name="places")
        self.of_places = tf.layers.Dense(units, use_bias=False, name="of_places")

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        with tf.variable_scope(None, "Location_Sensitive_Attention", [query]):
            asked = tf.expand_dims(self.query_layer(query), 1)
            seen = self.of_places(self.places(tf.expand_dims(state, 2)))
            weights = tf.get_variable("v_a", [self._num_units])
            energy = tf.reduce_sum(weights * tf.tanh(self.keys + asked + seen), [2])
        alignments = self._probability_fn(energy, state)
        return alignments, alignments + state


def probabilities(alignments: Any) -> None:
    np.testing.assert_allclose(alignments.sum(1), [1, 1], rtol=1e-5)
    assert (alignments[1, 2:] == 0).all()
    assert (alignments[0] > 0).all()


def test_a_mechanism_that_adds_to_scores_decodes_and_trains() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        mechanism = LocationSensitive(4, MEMORY, LENGTHS)
        cell = seq2seq.AttentionWrapper(rnn.GRUCell(4), mechanism, 6, alignment_history=True)
        helper = seq2seq.TrainingHelper(tf.ones([2, 3, 4]), [3, 3])
        decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
        outputs, state, _ = seq2seq.dynamic_decode(decoder)
        gradients = tf.gradients(outputs.rnn_output, tf.trainable_variables())
        assert None not in gradients
        session.run(tf.global_variables_initializer())
        kept, summed, _ = session.run(
            [state.alignment_history.stack(), state.attention_state, gradients]
        )
    for each in kept:
        probabilities(each)
    np.testing.assert_allclose(summed, kept.sum(0), rtol=1e-5)


def test_a_mechanism_from_the_base_masks_scores_and_sees_the_state() -> None:
    seen: list[Any] = []

    def chosen(score: Any, state: Any) -> Any:
        seen.append(state)
        return tf.nn.softmax(score)

    class Own(attention.Mechanism):
        def __init__(self, memory: Any) -> None:
            super().__init__(
                query_layer=None,
                memory=memory,
                probability_fn=chosen,
                memory_sequence_length=LENGTHS,
                memory_layer=tf.layers.Dense(4, use_bias=False, name="memory_layer"),
                name="Own",
            )

        def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
            score = attention.luong_score(query, self._keys, scale=None)
            alignments = self._probability_fn(score, state)
            assert (self._batch_size, self._alignments_size) == (2, 5)
            return alignments, alignments

    with tf.Graph().as_default(), tf.Session() as session:
        mechanism, before = Own(MEMORY), tf.zeros([2, 5])
        alignments, _ = mechanism(tf.ones([2, 4]), before)
        context = attention.compute_attention(mechanism, tf.ones([2, 4]), before, None)[0]
        session.run(tf.global_variables_initializer())
        found, attended = session.run([alignments, context])
        assert seen == [before, before]
    probabilities(found)
    np.testing.assert_allclose(attended, np.einsum("bt,btd->bd", found, MEMORY), rtol=1e-5)


def test_what_mechanisms_refuse() -> None:
    with tf.Graph().as_default():
        with pytest.raises(
            TypeError, match="probability_fn must be callable, saw type: <class 'str'>"
        ):
            seq2seq.LuongAttention(3, MEMORY, probability_fn="softmax")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="query_layer is not a Layer: int"):
            attention.Mechanism(3, MEMORY, lambda score, state: score)
        with pytest.raises(ValueError, match="fully defined inner dims"):
            attention.prepare_memory(tf.placeholder(tf.float32, [2, None, None]))
        open_inside = tf.placeholder(tf.float32, [2, None, None])
        assert attention.prepare_memory(open_inside, None, False) is open_inside


def score_of(v: Any, g: Any, b: Any, keys: Any, query: Any) -> Any:
    scaled = v if g is None else g * v / np.sqrt((v * v).sum())
    inner = keys + query[:, None] + (0 if b is None else b)
    return (scaled * np.tanh(inner)).sum(2)


@pytest.mark.parametrize("normalize", [False, True])
def test_scores_by_tensors_and_by_variables_are_the_same(normalize: bool) -> None:
    query = np.random.RandomState(1).standard_normal((2, 3)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        older = attention.bahdanau_score(tf.constant(query), tf.constant(MEMORY), normalize)
        variables = tf.trainable_variables()
        names = ["attention_v", "attention_g", "attention_b"][: len(variables)]
        assert [each.op.name for each in variables] == names
        assert len(variables) == (3 if normalize else 1)
        newer = attention.bahdanau_score(tf.constant(query), tf.constant(MEMORY), *variables)
        session.run(tf.global_variables_initializer())
        values = session.run([older, newer, variables])
    v, g, b = [*values[2], None, None][:3]
    wanted = score_of(v, g, b, MEMORY, query)
    np.testing.assert_allclose(values[0], wanted, rtol=1e-4)
    np.testing.assert_allclose(values[1], wanted, rtol=1e-4)


def test_monotonic_probabilities_are_hard_where_they_are_to_be() -> None:
    scores, before = tf.constant([[-1.0, 2.0, 3.0]]), tf.constant([[1.0, 0.0, 0.0]])
    with tf.Session() as session:
        made = monotonic_attention.monotonic_probability_fn(scores, before, 0.0, "hard")
        assert session.run(made).tolist() == [[0, 1, 0]]


def test_a_product_whose_variables_every_call_uses() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.ones([2, 3]), tf.ones([2, 1])
        with tf.variable_scope("a"):
            product = Linear([x, y], 4, True, tf.ones_initializer())
        made = [product([x, y]), product([2 * x, 2 * y])]
        assert [each.op.name for each in tf.global_variables()] == ["a/kernel", "a/bias"]
        session.run(tf.global_variables_initializer())
        once, twice, kernel = session.run([*made, tf.global_variables()[0]])
        np.testing.assert_allclose(once, kernel.sum(0)[None].repeat(2, 0) + 1, rtol=1e-5)
        np.testing.assert_allclose(twice - 1, 2 * (once - 1), rtol=1e-5)
        for make in (linear, Linear):
            with pytest.raises(ValueError, match="`args` must be specified"):
                make([], 4, True)


def test_the_likeliest_symbol_is_fed_back() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        last = tf.constant([[0.1, 0.9], [0.8, 0.2]])
        swapped = (tf.constant([[0.0, 1.0], [1.0, 0.0]]), tf.zeros([2]))
        plain = feeding(table)(last, 1)
        projected = feeding(table, swapped, update_embedding=False)(last, 1)
        assert session.run(plain).tolist() == [[3, 4], [1, 2]]
        assert session.run(projected).tolist() == [[1, 2], [3, 4]]
        assert tf.gradients(plain, table) != [None]
        assert tf.gradients(projected, table) == [None]
