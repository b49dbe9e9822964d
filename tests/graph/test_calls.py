"""How ops are called: their inputs by place or by name, a name for the node behind them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf

CALLS: list[tuple[Callable[[], Any], str, list[str]]] = [
    (lambda: tf.equal(x=1, y=2), "Equal", ["Equal/x", "Equal/y"]),
    (lambda: tf.equal(1, y=2), "Equal", ["Equal/x", "Equal/y"]),
    (lambda: tf.equal(y=1, x=2, name="same"), "same", ["same/x", "same/y"]),
    (lambda: tf.exp(1.0, "power"), "power", ["power/x"]),
    (lambda: tf.exp(1.0, None), "Exp", ["Exp/x"]),
    (lambda: tf.tile([1], multiples=[2]), "Tile", ["Tile/input", "Tile/multiples"]),
    (lambda: tf.read_file(filename="f", name="file"), "file", ["file/filename"]),
]


@pytest.mark.parametrize(("call", "name", "inputs"), CALLS)
def test_inputs_by_place_and_by_name(call: Callable[[], Any], name: str, inputs: list[str]) -> None:
    with tf.Graph().as_default():
        op = call().op
    assert (op.name, [tensor.op.name for tensor in op.inputs]) == (name, inputs)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.equal(1),
        lambda: tf.equal(1, 2, 3),
        lambda: tf.equal(1, z=2),
        lambda: tf.equal(1, 2, x=3),
        lambda: tf.exp(1.0, "a", name="b"),
    ],
)
def test_what_is_missing_or_too_much_is_refused(call: Callable[[], Any]) -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError):
        call()


def test_what_inspection_shows() -> None:
    assert str(inspect.signature(tf.tile)) == "(input, multiples, name=None)"
    assert list(inspect.signature(type(tf.tile)).parameters)  # of the class, its own
