"""Every function that takes ragged tensors is called with one in the programs beside TensorFlow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace as tf
from headrace.base.traits import OF_RAGGED, OF_TWO_RAGGED
from headrace.graph.ragged import TAKING_RAGGED
from headrace.graph.registry import OpSpec, specs

PROGRAMS = Path(__file__).parents[1] / "oracle" / "programs" / "ragged_calls.txt"


@pytest.mark.parametrize("name", sorted(TAKING_RAGGED))
def test_every_function_that_takes_ragged_tensors_is_compared(name: str) -> None:
    short = name.removeprefix("string_")
    assert re.search(rf"\btf\.(\w+\.)?({name}|{short})\(", PROGRAMS.read_text())


def test_every_op_that_takes_ragged_tensors_is_compared() -> None:
    called = set()
    for path in re.findall(r"\btf\.([\w.]+)\(", PROGRAMS.read_text()):
        found = tf
        for part in path.split("."):
            found = getattr(found, part)
        if isinstance(found, OpSpec):
            called.add(found.name)
    takes = {
        spec.name for spec in specs() if not spec.traits.isdisjoint({OF_RAGGED, OF_TWO_RAGGED})
    }
    assert takes
    assert called >= takes


def test_what_cannot_be_joined_is_refused() -> None:
    with tf.Graph().as_default():
        flat, deep = tf.ragged.constant([[1], []]), tf.ragged.constant([[[1]], []])
        with pytest.raises(ValueError, match="all operands must have one rank"):
            tf.concat([flat, deep], 0)
        with pytest.raises(tf.errors.UnimplementedError, match="three ragged tensors"):
            tf.where(tf.ragged.constant([[True], []]), 1, 2)
        with pytest.raises(ValueError, match="axis 4 is out of bounds"):
            tf.reduce_sum(flat, 4)
        with pytest.raises(tf.errors.UnimplementedError, match="takes a vector of indices"):
            tf.gather(flat, [[0]], axis=1)
        with pytest.raises(
            tf.errors.UnimplementedError, match="the indices of gather_nd are dense"
        ):
            tf.gather_nd([1, 2], flat)
        with pytest.raises(tf.errors.UnimplementedError, match="innermost rows of ragged strings"):
            tf.strings.reduce_join(tf.ragged.constant([["a"], []]), 0)
        with pytest.raises(ValueError, match="Cannot split a ragged dimension"):
            tf.split(flat, 1, axis=1)
