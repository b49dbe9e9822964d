"""tf.contrib.crf against all sequences of tags, one by one; slopes; what is decoded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

crf = tf.contrib.crf
RNG = np.random.default_rng(2)
BATCH, TIME, TAGS = 4, 4, 3
INPUTS = RNG.normal(size=(BATCH, TIME, TAGS)).astype(np.float32)
MOVES = RNG.normal(size=(TAGS, TAGS)).astype(np.float32)
WANTED = RNG.integers(0, TAGS, (BATCH, TIME))
LENGTHS = np.array([4, 1, 3, 0])


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def run(*fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches), feed)


def score(row: int, tags: Any) -> float:
    unary = sum(INPUTS[row, at, tag] for at, tag in enumerate(tags))
    return float(unary + sum(MOVES[one, other] for one, other in itertools.pairwise(tags)))


def every(row: int, allowed: Any = None) -> dict[tuple[int, ...], float]:
    """The scores of all sequences of tags of a row."""
    places = [
        [tag for tag in range(TAGS) if allowed is None or allowed[row, at, tag]]
        for at in range(LENGTHS[row])
    ]
    return {tags: score(row, tags) for tags in itertools.product(*places)}


def log_sum(scores: Any) -> float:
    return float(np.log(np.exp(list(scores)).sum()))


def test_likelihoods_are_those_of_all_sequences() -> None:
    found, norm, plain = run(
        crf.crf_log_likelihood(INPUTS, WANTED, LENGTHS, MOVES)[0],
        crf.crf_log_norm(INPUTS, LENGTHS, MOVES),
        crf.crf_sequence_score(INPUTS, WANTED, LENGTHS, MOVES),
    )
    for row in range(BATCH):
        scores = every(row)
        own = scores[tuple(WANTED[row, : LENGTHS[row]])]
        np.testing.assert_allclose(plain[row], own, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(norm[row], log_sum(scores.values()), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[row], own - log_sum(scores.values()), rtol=1e-4, atol=1e-5)


def test_several_tags_may_be_right() -> None:
    allowed = RNG.uniform(size=(BATCH, TIME, TAGS)) < 0.6
    allowed[:, :, 0] = True
    (found,) = run(crf.crf_multitag_sequence_score(INPUTS, allowed, LENGTHS, MOVES))
    for row in range(BATCH):
        wanted = log_sum(every(row, allowed).values())
        np.testing.assert_allclose(found[row], wanted, rtol=1e-4, atol=1e-5)


def test_the_best_tags_are_found_in_graphs_and_by_numpy() -> None:
    tags, best = crf.crf_decode(INPUTS, MOVES, LENGTHS)
    found, scores = run(tags, best)
    assert found.dtype == np.int32
    for row in range(BATCH - 1):
        all_scores = every(row)
        wanted = max(all_scores, key=lambda each: all_scores[each])
        length = LENGTHS[row]
        assert tuple(found[row, :length]) == wanted
        assert not found[row, length:].any()
        np.testing.assert_allclose(scores[row], all_scores[wanted], rtol=1e-5)
        decoded, value = crf.viterbi_decode(INPUTS[row, :length], MOVES)
        assert tuple(decoded) == wanted
        np.testing.assert_allclose(value, scores[row], rtol=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_sequences_of_one_step(known: bool) -> None:
    inputs = tf.placeholder(tf.float32, [BATCH, 1 if known else None, TAGS])
    likely, moves = crf.crf_log_likelihood(inputs, WANTED[:, :1], LENGTHS)
    assert [v.op.name for v in tf.global_variables()] == ["transitions"]
    tags, best = crf.crf_decode(inputs, moves, np.ones(BATCH, np.int64))
    first = INPUTS[:, :1]
    found, decoded, scores = run(likely, tags, best, feed={inputs: first})
    shares = np.exp(first[:, 0]) / np.exp(first[:, 0]).sum(1, keepdims=True)
    wanted = np.log(shares[range(BATCH), WANTED[:, 0]]) * (LENGTHS > 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert decoded[:, 0].tolist() == first[:, 0].argmax(1).tolist()
    np.testing.assert_allclose(scores, first[:, 0].max(1))


def test_training_finds_the_transitions() -> None:
    tags = np.array([[0, 1, 2, 0], [1, 2, 0, 1]])
    likely, moves = crf.crf_log_likelihood(tf.zeros([2, TIME, TAGS]), tags, [TIME, TIME])
    loss = -tf.reduce_mean(likely)
    step = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(30):
            session.run(step)
        found = session.run(moves)
    assert found.argmax(1).tolist() == [1, 2, 0]
