"""Boxes that are chosen some candidates at a time are those that are chosen one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace.ops.image import suppression
from headrace.ops.image.suppression import overlaps, selected

Array = np.ndarray[Any, Any]


def _one_by_one(
    of_each: Callable[[int], Array], scores: Array, most: int, threshold: float, least: float
) -> list[int]:
    """of_each: how much a box shares with all."""
    good = np.flatnonzero(scores > least)
    order = good[np.argsort(-scores[good], kind="stable")]
    found: list[int] = []
    while order.size and len(found) < most:
        best, rest = int(order[0]), order[1:]
        found.append(best)
        order = rest[~(of_each(best)[rest] > threshold)]
    return found


def _boxes(count: int, size: float, rng: np.random.Generator) -> Array:
    boxes = rng.uniform(0, 1, (count, 4)).astype(np.float32)
    boxes[:, 2:] = boxes[:, :2] + rng.uniform(-size / 4, size, (count, 2))
    return boxes


def _in_plain_loops(boxes: Array, at: int) -> Array:
    """Intersections over unions with one box, in single precision."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (high - low).prod(axis=1)
    sides = np.maximum(np.minimum(high, high[at]) - np.maximum(low, low[at]), np.float32(0))
    shared = sides.prod(axis=1)
    found = np.zeros(len(boxes), np.float32)
    for other in range(len(boxes)):
        if areas[other] > 0 and areas[at] > 0:
            found[other] = shared[other] / (areas[other] + areas[at] - shared[other])
    return found


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 700])
@pytest.mark.parametrize("size", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("most", [0, 1, 65, 1000])
@pytest.mark.parametrize("before", [10, 4096])
def test_boxes_are_those_chosen_one_by_one(
    count: int, size: float, most: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppression, "_BEFORE", before)
    rng = np.random.default_rng(count)
    boxes = _boxes(count, size, rng)
    scores = rng.integers(0, 50, count).astype(np.float32)  # many are alike
    found = selected(overlaps(boxes), scores, most, 0.4, 5.0)
    wanted = _one_by_one(lambda at: _in_plain_loops(boxes, at), scores, most, 0.4, 5.0)
    assert found == wanted


def test_overlaps_that_are_given_need_not_be_mutual() -> None:
    rng = np.random.default_rng(0)
    given = rng.uniform(0, 1, (300, 300)).astype(np.float32)
    given[3, 4] = np.nan
    scores = rng.uniform(0, 1, 300).astype(np.float32)
    found = selected(lambda at, others: given[others, at[:, None]], scores, 50, 0.97, -1.0)
    wanted = _one_by_one(lambda at: given[:, at], scores, 50, 0.97, -1.0)
    assert len(found) > 10
    assert found == wanted
