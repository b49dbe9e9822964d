"""Learning rates that fall with the global step: their formulas, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


# step -> the rates of exponential, staircase, natural, inverse time, polynomial, cycled, cosine, piecewise, restarted,
# restarted with equal periods, linear cosine, noisy linear cosine without noise
RATES = {
    0: (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0, 1.0, 1.0, 1.1, 1.1),
    5: (0.5**0.5, 1.0, np.exp(-0.25), 0.8, 0.55, 0.55, 0.5, 10.0, 0.5, 0.5, 0.35, 0.35),
    10: (0.5, 0.5, np.exp(-0.5), 1 / 1.5, 0.1, 0.1, 0.0, 10.0, 0.5, 1.0, 0.1, 0.1),
    15: (
        0.5**1.5,
        0.5,
        np.exp(-0.75),
        1 / 1.75,
        0.1,
        0.325,
        0.0,
        20.0,
        0.25 * (1 + np.cos(np.pi / 4)),
        0.5,
        0.1,
        0.1,
    ),
    25: (
        0.5**2.5,
        0.25,
        np.exp(-1.25),
        1 / 2.25,
        0.1,
        0.25,
        0.0,
        30.0,
        0.25 * (1 + np.cos(np.pi * 3 / 4)),
        0.5,
        0.1,
        0.1,
    ),
}


def test_learning_rates_fall_as_their_formulas_say() -> None:
    step = tf.placeholder(tf.int64, [])
    rates = [
        tf.train.exponential_decay(1.0, step, 10, 0.5),
        tf.train.exponential_decay(1.0, step, 10, 0.5, staircase=True),
        tf.train.natural_exp_decay(1.0, step, 10, 0.5),
        tf.train.inverse_time_decay(1.0, step, 10, 0.5),
        tf.train.polynomial_decay(1.0, step, 10, 0.1),
        tf.train.polynomial_decay(1.0, step, 10, 0.1, cycle=True),
        tf.train.cosine_decay(1.0, step, 10),
        tf.train.piecewise_constant(step, [10, 20], [10.0, 20.0, 30.0]),
        tf.train.cosine_decay_restarts(1.0, step, 10, m_mul=0.5),
        tf.train.cosine_decay_restarts(1.0, step, 10, t_mul=1.0),
        tf.train.linear_cosine_decay(1.0, step, 10, beta=0.1),
        tf.train.noisy_linear_cosine_decay(1.0, step, 10, initial_variance=0.0, beta=0.1),
    ]
    with tf.Session() as session:
        for at, want in RATES.items():
            np.testing.assert_allclose(session.run(rates, {step: at}), want, rtol=1e-5, atol=1e-6)


def test_noise_fades_with_the_steps() -> None:
    tf.set_random_seed(1)
    step = tf.placeholder(tf.int64, [])
    rate = tf.train.noisy_linear_cosine_decay(tf.constant(1.0, tf.float64), step, 10**6)
    with tf.Session() as session:
        spreads = [np.std([session.run(rate, {step: at}) for _ in range(50)]) for at in (0, 9999)]
    # The variance is 1 / (1 + step)^0.55.
    assert 0.6 < spreads[0] < 1.5
    assert 0.04 < spreads[1] < 0.13


def test_a_learning_rate_needs_its_step_and_boundaries_their_values() -> None:
    with pytest.raises(ValueError, match="global_step"):
        tf.train.exponential_decay(1.0, None, 10, 0.5)
    with pytest.raises(ValueError, match="1 and 1"):
        tf.train.piecewise_constant(tf.constant(1), [1], [1.0])
    with pytest.raises(ValueError, match="int32"):
        tf.train.piecewise_constant(tf.constant(1), [1.5], [1.0, 2.0])
