"""tf.contrib.legacy_seq2seq and losses of sequences: against NumPy, and each other; names of variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

legacy, rnn = tf.contrib.legacy_seq2seq, tf.contrib.rnn
RNG = np.random.default_rng(8)
BATCH, UNITS, SYMBOLS = 2, 4, 5


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with (
        tf.Graph().as_default(),
        tf.variable_scope("", initializer=tf.random_normal_initializer(seed=3)),
    ):
        yield


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def names() -> list[str]:
    return [variable.op.name for variable in tf.global_variables()]


def steps(count: int) -> list[Any]:
    return [
        tf.constant(RNG.normal(size=(BATCH, 3)).astype(np.float32), name="step")
        for _ in range(count)
    ]


def ids(count: int) -> list[Any]:
    return [tf.constant(RNG.integers(0, SYMBOLS, BATCH), tf.int32) for _ in range(count)]


LOGITS = RNG.normal(size=(BATCH, 3, SYMBOLS)).astype(np.float32)
TARGETS = RNG.integers(0, SYMBOLS, (BATCH, 3))
WEIGHTS = np.array([[1, 0.5, 0], [2, 1, 0]], np.float32)
CROSS = -np.log(
    np.take_along_axis(
        np.exp(LOGITS) / np.exp(LOGITS).sum(2, keepdims=True), TARGETS[:, :, None], 2
    )[:, :, 0]
)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, (CROSS * WEIGHTS).sum() / WEIGHTS.sum()),
        ({"average_across_batch": False}, (CROSS * WEIGHTS).sum(1) / WEIGHTS.sum(1)),
        ({"average_across_timesteps": False}, (CROSS * WEIGHTS).sum(0) / (WEIGHTS.sum(0) + 1e-12)),
        ({"average_across_timesteps": False, "average_across_batch": False}, CROSS * WEIGHTS),
        (
            {
                "average_across_timesteps": False,
                "average_across_batch": False,
                "sum_over_timesteps": True,
            },
            (CROSS * WEIGHTS).sum(1) / 2,
        ),
        (
            {
                "average_across_timesteps": False,
                "average_across_batch": False,
                "sum_over_batch": True,
            },
            (CROSS * WEIGHTS).sum(0) / np.array([2, 2, 1]),
        ),
        (
            {
                "average_across_timesteps": False,
                "average_across_batch": False,
                "sum_over_timesteps": True,
                "sum_over_batch": True,
            },
            (CROSS * WEIGHTS).sum() / 4,
        ),
    ],
    ids=str,
)
def test_the_loss_of_sequences(arguments: dict[str, bool], wanted: Any) -> None:
    found = tf.contrib.seq2seq.sequence_loss(LOGITS, TARGETS, WEIGHTS, **arguments)
    np.testing.assert_allclose(run(found)[0], wanted, rtol=1e-5, atol=1e-6)


def test_losses_of_steps() -> None:
    given: Any = [list(each) for each in (LOGITS.swapaxes(0, 1), TARGETS.T, WEIGHTS.T)]
    by_example = (CROSS * WEIGHTS).sum(1)
    found = run(
        legacy.sequence_loss_by_example(*given),
        legacy.sequence_loss_by_example(*given, average_across_timesteps=False),
        legacy.sequence_loss(*given),
        legacy.sequence_loss(*given, average_across_batch=False),
        legacy.sequence_loss(
            *given, softmax_loss_function=lambda labels, logits: tf.reduce_sum(logits, 1)
        ),
    )
    averaged = by_example / WEIGHTS.sum(1)
    wanted = [
        averaged,
        by_example,
        averaged.mean(),
        averaged.sum(),
        ((LOGITS.sum(2) * WEIGHTS).sum(1) / WEIGHTS.sum(1)).mean(),
    ]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    with pytest.raises(ValueError, match="must be the same 3, 2, 3"):
        legacy.sequence_loss_by_example(given[0], given[1], given[2][:2])
    with pytest.raises(ValueError, match="same time"):
        tf.contrib.seq2seq.sequence_loss(LOGITS, TARGETS, WEIGHTS, sum_over_batch=True)


def test_a_decoder_goes_on_where_the_encoder_ends() -> None:
    read, written = steps(3), steps(2)
    outputs, _ = legacy.basic_rnn_seq2seq(read, written, rnn.GRUCell(UNITS))
    assert names()[0] == "basic_rnn_seq2seq/rnn/gru_cell/gates/kernel"
    assert names()[4] == "basic_rnn_seq2seq/rnn_decoder/gru_cell/gates/kernel"
    tied, _ = legacy.tied_rnn_seq2seq(read, written, rnn.GRUCell(UNITS))
    assert names()[8:] == [
        f"combined_tied_rnn_seq2seq/tied_rnn_seq2seq/gru_cell/{each}"
        for each in ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")
    ]
    with tf.variable_scope("combined_tied_rnn_seq2seq", reuse=True):
        plain, _ = tf.nn.static_rnn(
            rnn.GRUCell(UNITS), read + written, dtype=tf.float32, scope="tied_rnn_seq2seq"
        )
    found = run(outputs, tied, plain)
    assert np.shape(found[0]) == (2, BATCH, UNITS)
    np.testing.assert_allclose(found[1], found[2][3:], rtol=1e-5, atol=1e-6)


def test_what_is_fed_back_is_the_last_output() -> None:
    cell = rnn.GRUCell(UNITS)
    outputs, _ = legacy.rnn_decoder(
        steps(3), tf.zeros([BATCH, UNITS]), cell, lambda last, step: last[:, :3] * step
    )
    state = outputs[0]
    for step, wanted in enumerate(outputs[1:], 1):
        found, state = cell(outputs[step - 1][:, :3] * step, state)
        np.testing.assert_allclose(*run(found, wanted), rtol=1e-5, atol=1e-6)


MODELS = {
    "rnn": lambda read, written, fed, **more: legacy.embedding_rnn_seq2seq(
        read, written, rnn.BasicLSTMCell(UNITS), SYMBOLS, SYMBOLS, 3, feed_previous=fed, **more
    ),
    "tied": lambda read, written, fed, **more: legacy.embedding_tied_rnn_seq2seq(
        read, written, rnn.BasicLSTMCell(UNITS), SYMBOLS, 3, feed_previous=fed, **more
    ),
    "attention": lambda read, written, fed, **more: legacy.embedding_attention_seq2seq(
        read, written, rnn.BasicLSTMCell(UNITS), SYMBOLS, SYMBOLS, 3, num_heads=2, feed_previous=fed, **more
    ),
    "attention from the first step": lambda read, written, fed, **more: (
        legacy.embedding_attention_seq2seq(
            read, written, rnn.GRUCell(UNITS), SYMBOLS, SYMBOLS, 3, feed_previous=fed,
            initial_state_attention=True, **more,
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_feeding_back_is_decoding_what_was_decoded(name: str, projected: bool) -> None:
    more: dict[str, Any] = {}
    if projected:
        more["output_projection"] = (
            tf.constant(RNG.normal(size=(UNITS, SYMBOLS)).astype(np.float32)),
            tf.zeros([SYMBOLS]),
        )
    read, written = ids(3), ids(4)
    fed = tf.placeholder(tf.bool, [])
    either, _ = MODELS[name](read, written, fed, **more)
    made = names()

    def logits(outputs: Any) -> Any:
        return [
            tf.nn.xw_plus_b(each, *more["output_projection"]) if projected else each
            for each in outputs
        ]

    with tf.variable_scope("", reuse=True):
        always, _ = MODELS[name](read, written, True, **more)
        never, _ = MODELS[name](read, written, False, **more)
        chosen = [tf.cast(tf.argmax(each, 1), tf.int32) for each in logits(always)]
        again, state = MODELS[name](read, [written[0], *chosen[:-1]], False, **more)
    assert names() == made
    assert tf.gradients(state[0], tf.trainable_variables())[0] is not None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, other, same = session.run([always, either, again], {fed: True})
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(one, same, rtol=1e-5, atol=1e-6)
        one, other = session.run([never, either], {fed: False})
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_attention_is_the_formula() -> None:
    states = tf.constant(RNG.normal(size=(BATCH, 3, 2)).astype(np.float32))
    given, state = steps(1), tf.constant(RNG.normal(size=(BATCH, UNITS)).astype(np.float32))
    outputs, last = legacy.attention_decoder(
        given, state, states, rnn.GRUCell(UNITS), output_size=6, initial_state_attention=True
    )
    assert names() == [
        f"attention_decoder/{each}"
        for each in (
            "AttnW_0", "AttnV_0", "Attention_0/kernel", "Attention_0/bias", "kernel", "bias", "gru_cell/gates/kernel",
            "gru_cell/gates/bias", "gru_cell/candidate/kernel", "gru_cell/candidate/bias",
            "AttnOutputProjection/kernel", "AttnOutputProjection/bias",
        )
    ]  # fmt: skip
    found, after, memory, x, first, *weights = run(
        outputs[0], last, states, given[0], state, *tf.global_variables()
    )
    w = dict(zip((name.split("/", 1)[1] for name in names()), weights, strict=True))

    def attended(query: Any) -> Any:
        asked = query @ w["Attention_0/kernel"] + w["Attention_0/bias"]
        score = (w["AttnV_0"] * np.tanh(memory @ w["AttnW_0"][0, 0] + asked[:, None])).sum(2)
        share = np.exp(score) / np.exp(score).sum(1, keepdims=True)
        return (share[:, :, None] * memory).sum(1)

    inputs = np.concatenate([x, attended(first)], 1) @ w["kernel"] + w["bias"]
    gates = np.concatenate([inputs, first], 1) @ w["gru_cell/gates/kernel"]
    r, u = np.split(1 / (1 + np.exp(-gates - w["gru_cell/gates/bias"])), 2, 1)
    new = np.concatenate([inputs, r * first], 1) @ w["gru_cell/candidate/kernel"]
    h = u * first + (1 - u) * np.tanh(new + w["gru_cell/candidate/bias"])
    np.testing.assert_allclose(after, h, rtol=1e-4, atol=1e-5)
    both = np.concatenate([h, attended(h)], 1)
    wanted = both @ w["AttnOutputProjection/kernel"] + w["AttnOutputProjection/bias"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_buckets_share_their_variables_and_have_losses_of_their_own() -> None:
    read, written, targets = ids(4), ids(4), ids(4)
    weights = [tf.ones([BATCH])] * 4
    buckets = [(2, 2), (4, 4)]
    model = lambda x, y: MODELS["rnn"](x, y, False)  # noqa: E731
    outputs, losses = legacy.model_with_buckets(read, written, targets, weights, buckets, model)
    made = names()
    with tf.variable_scope("", reuse=True):
        _, by_example = legacy.model_with_buckets(
            read, written, targets, weights, buckets, model, per_example_loss=True
        )
    assert names() == made
    assert [len(each) for each in outputs] == [2, 4]
    found, wanted = run(losses, by_example)
    np.testing.assert_allclose(found, [each.mean() for each in wanted], rtol=1e-5)
    with pytest.raises(ValueError, match="last bucket"):
        legacy.model_with_buckets(read[:3], written, targets, weights, buckets, model)


def test_several_decoders_of_one_encoder() -> None:
    outputs, states = legacy.one2many_rnn_seq2seq(
        ids(3), {"a": ids(2), "b": ids(4)}, rnn.GRUCell(UNITS), {"a": rnn.GRUCell(UNITS), "b": rnn.GRUCell(UNITS)},
        SYMBOLS, {"a": SYMBOLS, "b": 7}, 3,
    )  # fmt: skip
    found, _ = run(outputs, states)
    assert (np.shape(found["a"]), np.shape(found["b"])) == ((2, BATCH, SYMBOLS), (4, BATCH, 7))
    scope = "one2many_rnn_seq2seq/one2many_decoder_b/embedding_rnn_decoder"
    assert f"{scope}/embedding" in names()
    assert f"{scope}/rnn_decoder/output_projection_wrapper/kernel" in names()
