"""Is a gradient the slope?  Shared by the tests that check gradients; test files get it as a fixture.

The function's output is weighed by random numbers; its gradient with respect to each input must be what
central differences of that weighed sum give, element by element, in both parts of complex inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import headrace as tf

STEP = 1e-6


def check(
    function: Callable[..., Any], inputs: Sequence[Any], known: bool = True, atol: float = 2e-7
) -> None:
    """Compare gradients of `function(*tensors)` with slopes at `inputs`.

    Floating and complex inputs are placeholders and are moved; others are fed as they are and must
    have no gradient.  known: whether the static shapes of the inputs are known.
    """
    values = [np.asarray(value) for value in inputs]
    rng = np.random.default_rng(7)
    with tf.Graph().as_default(), np.errstate(all="ignore"), tf.Session() as session:
        xs = [tf.placeholder(value.dtype, value.shape if known else None) for value in values]
        y = function(*xs)
        ys = list(y) if isinstance(y, (list, tuple)) else [y]
        feeds = dict(zip(xs, values, strict=True))
        outs = session.run(ys, feeds)
        moving = [value.dtype.kind in "fc" for value in outs]
        weights = [_weights(rng, out) for out in outs]
        used = [(y, w) for y, w, moves in zip(ys, weights, moving, strict=True) if moves]
        found = tf.gradients([y for y, _ in used], xs, grad_ys=[w for _, w in used])

        def loss(moved: list[Any]) -> float:
            got = session.run([y for y, _ in used], dict(zip(xs, moved, strict=True)))
            pairs = zip(got, used, strict=True)
            return float(sum(np.sum(np.conj(w) * out).real for out, (_, w) in pairs))

        for which, (value, gradient) in enumerate(zip(values, found, strict=True)):
            if value.dtype.kind not in "fc":
                assert gradient is None, f"input {which} is {value.dtype} and has a gradient"
                continue
            assert gradient is not None, f"input {which} has no gradient"
            got = _dense(session.run(gradient, feeds), value)
            assert (got.dtype, got.shape) == (value.dtype, value.shape)
            np.testing.assert_allclose(got, slope(loss, values, which), rtol=10 * atol, atol=atol)


def slope(loss: Callable[[list[Any]], float], inputs: Sequence[Any], which: int) -> Any:
    """d(loss) / d(inputs[which]) by central differences, in the convention of tf.gradients."""
    result = np.zeros(inputs[which].shape, inputs[which].dtype)
    directions: list[complex] = [1.0, 1j] if result.dtype.kind == "c" else [1.0]
    for index in np.ndindex(result.shape):
        for direction in directions:
            ends = []
            for sign in (1, -1):
                moved = [np.array(value) for value in inputs]
                moved[which][index] += sign * STEP * direction
                ends.append(loss(moved))
            result[index] += direction * (ends[0] - ends[1]) / (2 * STEP)
    return result


def _weights(rng: np.random.Generator, like: Any) -> Any:
    weights = rng.normal(size=like.shape)
    if like.dtype.kind == "c":
        weights = weights + 1j * rng.normal(size=like.shape)
    return weights.astype(like.dtype) if like.dtype.kind in "fc" else weights


def _dense(gradient: Any, like: Any) -> Any:
    if not hasattr(gradient, "indices"):
        return gradient
    whole = np.zeros(like.shape, gradient.values.dtype)
    np.add.at(whole, gradient.indices, gradient.values)
    return whole
