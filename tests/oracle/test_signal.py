"""tf.signal beside TensorFlow: values, where graphs are built otherwise.  Cases are the lines of signal_values.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(2, 37)).astype(np.float32)
C = (RANDOM.normal(size=(2, 7, 9)) + 1j * RANDOM.normal(size=(2, 7, 9))).astype(np.complex64)

CASES = Path(__file__).with_name("signal_values.txt").read_text().splitlines()
PROGRAM = """
def evaluated(tf, text):
    tf.reset_default_graph()
    x, c = tf.constant(X), tf.constant(C)
    names = {"tf": tf, "s": tf.signal, "x": x, "c": c, "p": unknown(tf), "n": number(tf)}
    with tf.Session() as session:
        return session.run(eval(text, names))

def unknown(tf):
    return lambda x: tf.placeholder_with_default(x, [None] * x.shape.ndims)

def number(tf):
    return lambda x: tf.placeholder_with_default(x, [])
"""


@pytest.fixture(scope="module")
def theirs(oracle: Any) -> Any:
    wanted = list(CASES)
    found = oracle.run(
        f"{PROGRAM}\nresult = [evaluated(tf, case) for case in cases]", cases=wanted, X=X, C=C
    )
    return dict(zip(wanted, found, strict=True))


def ours(case: str) -> Any:
    class Names:
        def __getattr__(self, name: str) -> Any:
            return (lambda: None) if name == "reset_default_graph" else getattr(hr, name)

    names: dict[str, Any] = {"X": X, "C": C}
    exec(PROGRAM, names)
    with hr.Graph().as_default():
        return names["evaluated"](Names(), case)


@pytest.mark.parametrize("case", CASES)
def test_a_signal_is_tensorflows(case: str, theirs: Any) -> None:
    mine, other = ours(case), theirs[case]
    assert mine.dtype == other.dtype
    np.testing.assert_allclose(
        mine, other, rtol=2e-4, atol=2e-5 * max(1.0, np.abs(other).max(initial=0))
    )
