"""Large products of matrices: parts of them on a team's threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.graph.registry import OPS
from headrace.ops import linear
from headrace.run.team import Team

Array = np.ndarray[Any, Any]


def product(x: Array, y: Array) -> Array:
    batch = x.ndim > 2 or y.ndim > 2
    flips = ("adj_x", "adj_y") if batch else ("transpose_a", "transpose_b")
    kernel = OPS["BatchMatMulV2" if batch else "MatMul"].kernel
    assert kernel is not None
    found: Array = kernel(np, x, y, **dict.fromkeys(flips, False))
    return found


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        ((50, 784), (784, 300), True), ((784, 50), (50, 300), True), ((50, 300), (300, 100), False),
        ((1000, 9000), (9000, 1), True), ((90, 30, 60), (90, 60, 70), True), ((2, 400, 100), (2, 100, 300), True),
        ((1, 400, 100), (2, 100, 300), False), ((2, 400, 100), (100, 300), False), ((2, 4, 5), (2, 5, 3), False),
    ],
)  # fmt: skip
def test_products_do_not_depend_on_the_number_of_threads(
    left: tuple[int, ...], right: tuple[int, ...], shared: bool
) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, np.float32) for shape in (left, right))
    found = []
    for size in (1, 3):
        team = Team(size)
        try:
            with team:
                found.append(product(x, y))
            assert team.started == (size - 1 if shared else 0)
        finally:
            team.close()
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], x.astype(np.float64) @ y.astype(np.float64), atol=1e-3)


def test_parts_follow_from_the_size_alone() -> None:
    assert [linear._parts(1 << bits) for bits in (23, 24, 25, 27, 29, 40)] == [2, 2, 4, 8, 16, 16]
