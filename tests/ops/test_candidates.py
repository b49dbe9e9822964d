"""Candidate samplers: how often classes come, what is to be expected, and the losses that are made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops.nn import candidates

TRUE = np.array([[1, 2], [3, 0]])
COUNT = 10
SHARES = {
    "uniform": np.full(COUNT, 0.1),
    "log_uniform": np.log((np.arange(COUNT) + 2) / (np.arange(COUNT) + 1)) / np.log(COUNT + 1),
    "learned_unigram": np.full(COUNT, 0.1),
}


def sampler(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(tf.nn, f"{name}_candidate_sampler")
    return found


@pytest.mark.parametrize("name", SHARES)
def test_classes_come_as_often_as_they_should(name: str) -> None:
    drawn = 20000
    with tf.Graph().as_default(), tf.Session() as session:
        sampled, true, counts = session.run(sampler(name)(TRUE, 2, drawn, False, COUNT, seed=5))
    found = np.bincount(sampled, minlength=COUNT) / drawn
    np.testing.assert_allclose(found, SHARES[name], atol=0.02)
    np.testing.assert_allclose(true, SHARES[name][TRUE] * drawn, rtol=1e-6)
    np.testing.assert_allclose(counts, SHARES[name][sampled] * drawn, rtol=1e-6)


@pytest.mark.parametrize("name", SHARES)
def test_unique_classes_are_different_and_their_counts_are_those_of_one_number_of_tries(
    name: str,
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        sampled, true, counts = session.run(sampler(name)(TRUE, 2, 6, True, COUNT, seed=5))
    assert len(set(sampled.tolist())) == 6
    shares = SHARES[name]
    if (counts > 1 - 1e-6).any() or counts[0] == np.float32(6 * shares[sampled[0]]):
        tries = np.full(6, 6.0)  # none came twice
    else:
        tries = np.log1p(-counts) / np.log1p(-shares[sampled])
        np.testing.assert_allclose(tries, tries.round(), rtol=1e-4)
        assert tries[0] > 6
        wanted = 1 - (1 - shares[TRUE]) ** tries[0].round()
        np.testing.assert_allclose(true, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["uniform", "log_uniform", "learned_unigram"])
@pytest.mark.parametrize(
    ("unique", "classes"), [(True, 64), (True, 90), (True, 500), (True, 50_000), (False, 500)]
)
def test_draws_of_many_steps_are_those_of_a_sampler_that_makes_each_by_itself(
    name: str, unique: bool, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made for the next steps, and what is kept after some, to the bit."""
    found = []
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(candidates, "_MOST_KEPT", 0)
            monkeypatch.setattr(
                candidates.Sampler,
                "draw_first",
                lambda self, words, size, _: self.draw(words, size),
            )
        with tf.Graph().as_default(), tf.Session() as session:
            fetches = sampler(name)(TRUE, 2, 64, unique, classes, seed=5)
            found.append([session.run(fetches) for _ in range(40)])
    for one, other in zip(*found, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            assert mine.tobytes() == theirs.tobytes()


def test_a_learned_sampler_learns_the_true_classes() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        _, true, _ = tf.nn.learned_unigram_candidate_sampler(TRUE, 2, 4, False, COUNT, seed=5)
        for run in range(3):  # each true class has been seen `run` times, of 10 + 4 run
            wanted = np.full((2, 2), 4 * (1 + run) / (COUNT + 4 * run))
            np.testing.assert_allclose(session.run(true), wanted, rtol=1e-6)


def test_all_classes_can_be_drawn() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        for name in SHARES:
            sampled = session.run(sampler(name)(TRUE, 2, COUNT, True, COUNT)[0])
            assert sorted(sampled.tolist()) == list(range(COUNT))


@pytest.mark.parametrize(
    ("true", "num_true", "count", "text"),
    [
        (TRUE, 3, 4, r"\[batch, 3\]"), (TRUE, 2, 11, "11 different"), (TRUE + 8, 2, 4, "out of range"),
        (TRUE - 1, 2, 4, "`true_candidate` out of range .*, received -1"), (TRUE[0], 2, 4, r"\[batch, 2\]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(true: Any, num_true: int, count: int, text: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder_with_default(true, None)
        sampled = tf.nn.uniform_candidate_sampler(given, num_true, count, True, COUNT)
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            session.run(sampled)


def test_hits_are_rows_and_last_places() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        rows, places, low = session.run(tf.nn.compute_accidental_hits(TRUE, [1, 0, 7, 2, 1], 2))
    assert (rows.tolist(), places.tolist()) == ([0, 0, 1], [4, 3, 1])
    assert (low == np.finfo(np.float32).min).all()


RNG = np.random.default_rng(2)
WEIGHTS, BIASES, INPUTS = (RNG.normal(size=s).astype(np.float32) for s in ((COUNT, 4), COUNT, (2, 4)))  # fmt: skip
SAMPLED = np.array([1, 5, 7])
TRUE_COUNT, SAMPLED_COUNT = np.float32([[0.4, 0.3], [0.2, 0.5]]), np.float32([0.4, 0.1, 0.2])


def logits(remove: bool) -> tuple[Any, Any]:
    every = INPUTS @ WEIGHTS.T + BIASES
    true = np.take_along_axis(every, TRUE, 1) - np.log(TRUE_COUNT)
    sampled = every[:, SAMPLED] - np.log(SAMPLED_COUNT)
    if remove:
        sampled[(TRUE[:, :, None] == SAMPLED).any(1)] = -np.inf
    return true, sampled


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
def test_losses_by_their_formulas(remove: bool, parts: int) -> None:
    true, sampled = logits(remove)
    nce = np.log1p(np.exp(-true)).sum(1) + np.log1p(np.exp(sampled)).sum(1)
    nce += (0.5 * true).sum(1)  # a true class counts a half each, and is a half not one
    every = np.concatenate([true, sampled], 1)
    softmax = np.log(np.exp(every).sum(1)) - true.mean(1)
    with tf.Graph().as_default(), tf.Session() as session:
        weights: Any = [tf.constant(WEIGHTS[at::parts]) for at in range(parts)]
        more: dict[str, Any] = {
            "num_sampled": 3, "num_classes": COUNT, "num_true": 2, "remove_accidental_hits": remove,
            "sampled_values": (tf.constant(SAMPLED), tf.constant(TRUE_COUNT), tf.constant(SAMPLED_COUNT)),
        }  # fmt: skip
        found = session.run(
            [loss(weights, BIASES, TRUE, INPUTS, **more) for loss in (tf.nn.nce_loss, tf.nn.sampled_softmax_loss)]
        )  # fmt: skip
    np.testing.assert_allclose(found[0], nce, rtol=1e-5)
    np.testing.assert_allclose(found[1], softmax, rtol=1e-5)


def test_only_rows_that_were_looked_up_have_gradients() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.Variable(WEIGHTS)
        loss = tf.nn.nce_loss(weights, BIASES, TRUE, INPUTS, 3, COUNT, 2)
        (slope,) = tf.gradients(loss, weights)
        assert isinstance(slope, tf.IndexedSlices)
        session.run(tf.global_variables_initializer())
        assert len(session.run(slope).indices) == TRUE.size + 3
