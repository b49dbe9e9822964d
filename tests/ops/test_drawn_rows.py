"""Numbers that are drawn with seeds for many elements at once are, to the bit, those of one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS
from headrace.ops._kernels import random_streams
from headrace.ops._kernels.random_streams import Stream
from headrace.ops.random import drawn_rows

FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
FILLERS: dict[str, Callable[..., Any]] = {
    "RandomStandardNormal": random_streams.normal,
    "RandomUniform": random_streams.uniform,
    "TruncatedNormal": random_streams.truncated_normal,
}
SHAPES: list[list[int]] = [[], [1], [2, 3], [5], [0], [40, 10]]
SEEDS = 7, -9
COUNT = 21


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def drawn(op: Any, rows: list[bool], shape: list[int], *limits: Any) -> tuple[Any, int]:
    """For `COUNT` elements; and which block comes next."""
    make = drawn_rows.draw_rows(op, rows)
    assert make is not None
    stream = Stream(*SEEDS)
    stream.reserve(3)
    made = make(stream, COUNT, np.array(shape, np.int32), *limits)
    return made, stream.position


@pytest.mark.parametrize("at_once", [1, 50, 1 << 14])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("name", FILLERS)
def test_floats(
    name: str, kind: Any, shape: list[int], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_rows, "_NUMBERS", at_once)
    op = OPS[name](np.array(shape, np.int32), dtype=kind).op
    found, position = drawn(op, [False], shape)
    stream, size = Stream(*SEEDS), int(np.prod(shape))
    stream.reserve(3)
    assert found.shape == (COUNT, *shape)
    for each in found:
        alone = FILLERS[name](stream, size, np.dtype(kind.as_numpy_dtype))
        assert each.dtype == alone.dtype
        assert each.tobytes() == alone.tobytes()
    assert position == stream.position


@pytest.mark.parametrize("at_once", [1, 50, 1 << 14])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", [tf.int32, tf.int64], ids=str)
@pytest.mark.parametrize("varies", [(False, False), (True, False), (False, True), (True, True)])
def test_whole_numbers(
    varies: tuple[bool, bool],
    kind: Any,
    shape: list[int],
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawn_rows, "_NUMBERS", at_once)
    limits = np.iinfo(kind.as_numpy_dtype)
    lows = np.linspace(limits.min, -4, COUNT).astype(kind.as_numpy_dtype)
    highs = np.linspace(1, float(limits.max) * 0.99, COUNT).astype(kind.as_numpy_dtype)
    low, high = (
        each if one else np.asarray(each[4])
        for each, one in zip((lows, highs), varies, strict=True)
    )
    op = OPS["RandomUniformInt"](
        np.array(shape, np.int32), kind.as_numpy_dtype(0), kind.as_numpy_dtype(1)
    ).op
    found, position = drawn(op, [False, *varies], shape, low, high)
    stream, size = Stream(*SEEDS), int(np.prod(shape))
    stream.reserve(3)
    assert found.shape == (COUNT, *shape)
    for at, each in enumerate(found):
        pair = (int(np.broadcast_to(limit, COUNT)[at]) for limit in (low, high))
        alone = random_streams.uniform_int(stream, size, *pair, np.dtype(kind.as_numpy_dtype))
        assert each.dtype == alone.dtype
        assert each.tobytes() == alone.tobytes()
    assert position == stream.position


def test_numbers_that_were_made_ahead_are_those_of_where_the_stream_is() -> None:
    """More are made than asked for; then others are asked for, or the stream has been moved."""
    kind = np.dtype(np.float32)
    stream, alone = Stream(*SEEDS), Stream(*SEEDS)
    for make, size, runs, back in (
        (random_streams.uniform, 3, 5, 0),
        (random_streams.uniform, 3, 7, 2),
        (random_streams.uniform, 3, 300, 299),
        (random_streams.normal, 3, 4, 0),
        (random_streams.uniform, 2, 4, 3),
        (random_streams.uniform, 3, 4, 0),
    ):
        before = stream.position
        ahead = stream.ahead(before)
        found = make(ahead, size, kind, runs).reshape(runs, size)
        wanted = [make(alone, size, kind) for _ in range(runs)]
        assert np.array_equal(found, wanted)
        assert ahead.position == alone.position
        after = before + (runs - back) * size * random_streams.BLOCKS_PER_NUMBER
        assert stream.move(before, after)
        assert alone.move(alone.position, after)
