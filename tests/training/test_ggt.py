"""GGTOptimizer beside the rule of its paper in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

RATE, BETA1, WINDOW = 0.1, 0.8, 3
START = {"b": np.array([3.0, 4.0]), "a": np.array([[1.0, 2.0]]), "c": np.array(0.5)}


def moved(
    var: Any,
    grad: Any,
    mean: Any,
    buffer: Any,
    t: int,
    eps: float,
    svd_eps: float,
    sigma_eps: float,
) -> tuple[Any, Any]:
    """The variables side by side after a step, and the mean of gradients; `buffer` is changed."""
    mean = BETA1 * mean + (1 - BETA1) * grad
    buffer[(t - 1) % WINDOW] = mean
    g = buffer.T / np.sqrt(min(t, WINDOW))
    u, sigma, _ = np.linalg.svd(g.T @ g + svd_eps * np.eye(WINDOW))
    step = g @ u @ np.diag((np.sqrt(sigma) + sigma_eps) ** -3) @ u.T @ g.T @ mean
    least = np.sqrt(sigma).min()
    if least > eps:
        step = step + (mean - g @ u @ np.diag(1 / sigma) @ u.T @ g.T @ mean) / least
    return var - RATE * step, mean


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("eps", [1e-4, 10.0])
def test_steps_are_those_of_the_paper(resource: bool, eps: float) -> None:
    drawn = np.random.RandomState(3)
    grads = [
        {name: drawn.standard_normal(np.shape(value)) for name, value in START.items()}
        for _ in range(5)
    ]
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {
            name: tf.get_variable(name, initializer=value, use_resource=resource)
            for name, value in START.items()
        }
        fed = {name: tf.placeholder(tf.float64, np.shape(value)) for name, value in START.items()}
        made = tf.contrib.opt.GGTOptimizer(
            RATE, BETA1, window=WINDOW, eps=eps, svd_eps=1e-2, sigma_eps=1e-1
        )
        step = made.apply_gradients([(fed[name], variables[name]) for name in START])
        session.run(tf.global_variables_initializer())
        whole = np.hstack([START[name].reshape(-1) for name in "abc"])
        mean, buffer = np.zeros(5), np.zeros((WINDOW, 5))
        for t, grad in enumerate(grads, 1):
            session.run(step, {fed[name]: value for name, value in grad.items()})
            flat = np.hstack([grad[name].reshape(-1) for name in "abc"])
            whole, mean = moved(whole, flat, mean, buffer, t, eps, 1e-2, 1e-1)
            found = session.run([variables[name] for name in "abc"])
            np.testing.assert_allclose(
                np.hstack([np.reshape(each, -1) for each in found]), whole, rtol=1e-6
            )


def test_rows_of_a_gradient_are_those_of_the_variable() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        found = []
        for name, sparse in (("dense", False), ("sparse", True)):
            with tf.variable_scope(name):
                var = tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
            loss = tf.reduce_sum(
                tf.square(
                    tf.gather(var, [2, 0, 2]) if sparse else tf.stack([var[2], var[0], var[2]])
                )
            )
            step = tf.contrib.opt.GGTOptimizer(window=2, name=name).minimize(loss)
            found.append((var, step))
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run([step for _, step in found])
        dense, sparse_rows = session.run([var for var, _ in found])
    np.testing.assert_allclose(dense, sparse_rows, rtol=1e-5)
    assert dense[1].tolist() == [3.0, 4.0]
    assert not np.allclose(dense[0], [1.0, 2.0])


def test_variables_of_two_dtypes_are_refused() -> None:
    with tf.Graph().as_default():
        one, other = (
            tf.get_variable("a", initializer=1.0),
            tf.get_variable("b", initializer=np.float64(1)),
        )
        loss = one + tf.cast(other, tf.float32)
        with pytest.raises(ValueError, match="of one dtype"):
            tf.contrib.opt.GGTOptimizer().minimize(loss)
