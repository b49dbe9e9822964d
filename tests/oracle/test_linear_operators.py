"""tf.linalg.LinearOperator and its kin beside TensorFlow's: values, static shapes, hints, classes and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

FOLDER = Path(__file__).with_name("linear_operators")
SAME = (FOLDER / "program.py").read_text()
"""Runs on both sides, so it knows nothing of either."""
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-9, "complex128": 1e-9}
ours: dict[str, Any] = {"tf": hr, "np": np}
exec(SAME, ours)
OTHERWISE = {
    "circulant": "2.21 forgets the dtype in what it makes of circulant operators: here it is kept",
    "batch": "2.21 refuses products of a diagonal and a batch of multiples, or of triangles, that broadcast",
    "self": "2.21 calls itself without end, asked whether an update is self-adjoint",
}
"""Where TensorFlow is not followed."""
BROADCAST = ("LinearOperatorDiag", "LinearOperatorLowerTriangular")
BATCHES = ("scaled", "diag", "turned", "triangle")
_theirs: dict[str, Any] = {}


@pytest.fixture
def theirs(oracle: Any) -> Callable[[str], Any]:
    """What an expression gives on the other side; asked for once."""

    def found(text: str) -> Any:
        if text not in _theirs:
            _theirs[text] = oracle.run(f"{SAME}\nresult = {text}")
        return _theirs[text]

    return found


@pytest.mark.parametrize(("kind", "name", "known"), ours["CASES"])
def test_an_operator_gives_tensorflows_values(
    kind: str, name: str, known: bool, theirs: Any
) -> None:
    want = theirs(f"{{case: values_of(*case) for case in CASES if case[1] == {name!r}}}")[
        kind, name, known
    ]
    found = ours["values_of"](kind, name, known)
    assert [each[0] for each in found] == [each[0] for each in want]
    for (what, value, shape), (_, their_value, their_shape) in zip(found, want, strict=True):
        if (name, known, what) == ("identities", False, "cholesky"):
            continue  # 2.21 does not believe a batch of unknown size
        if isinstance(their_value, str):
            assert value == their_value, what
            continue
        assert not isinstance(value, str), (what, value)
        if their_shape is not None and shape is not None and None not in their_shape:
            assert shape == their_shape, what
        rtol = TOLERANCE.get(str(their_value.dtype), 0)
        if name.startswith("circulant") and their_value.dtype == np.complex64:
            assert value.dtype == kind, OTHERWISE["circulant"]
        else:
            assert value.dtype == their_value.dtype, what
        np.testing.assert_allclose(value, their_value, rtol=rtol, atol=rtol, err_msg=what)


@pytest.mark.parametrize("name", ours["OPERATORS"])
def test_operators_of_operators_are_tensorflows(name: str, theirs: Any) -> None:
    found = ours["relatives_of"](name)
    for what, want in theirs(f"relatives_of({name!r})").items():
        if want == "ValueError" and found[what][0] in BROADCAST and name in BATCHES:
            continue  # OTHERWISE["batch"]
        assert found[what] == want, what


@pytest.mark.parametrize("text", ours["TRIED"])
def test_what_is_refused_is_what_tensorflow_refuses(text: str, theirs: Any) -> None:
    assert ours["tried"](text) == theirs("{text: tried(text) for text in TRIED}")[text]


def test_the_same_assertions_hold(theirs: Any) -> None:
    found = ours["checks"]()
    for what, want in theirs("checks()").items():
        if want != "RecursionError":  # OTHERWISE["self"]
            assert found[what] == want, what
