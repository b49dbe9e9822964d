"""The order that many swaps make at once is that of the swaps one by one."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.ops._kernels import swapping


def one_by_one(targets: np.ndarray) -> list[int]:
    order = list(range(len(targets) + 1))
    for at, target in enumerate(targets.tolist()):
        order[at], order[target] = order[target], order[at]
    return order


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000, 1024, 5000])
@pytest.mark.parametrize("reach", [1, 2, 30, 10**9])
def test_orders_are_those_of_the_swaps_one_by_one(
    count: int, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(count)
    steps = np.arange(count)
    targets = steps + rng.integers(0, np.minimum(count - steps + 1, reach), count)
    wanted = one_by_one(targets)
    assert swapping.order_of_swaps(targets).tolist() == wanted
    monkeypatch.setattr(swapping, "_MANY", 1)
    assert swapping.order_of_swaps(targets).tolist() == wanted


def test_swaps_that_all_go_to_one_place() -> None:
    targets = np.full(3000, 3000)
    assert swapping.order_of_swaps(targets).tolist() == one_by_one(targets)
